"""What AWS's own services observe an environment with: add-ons, alarms and the topic that receives them."""
