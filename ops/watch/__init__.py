"""Watch an environment: its status on one screen, its events, its logs, and Ray's dashboard."""
