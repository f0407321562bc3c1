"""Container Insights: the add-on with its alarms, and the dashboard."""
