"""Refuse requests that break a service's published rules and that moto's services accept."""
