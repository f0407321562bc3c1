"""What the rehearsal tells: deploy, watch, change, take apart, count what is left."""
