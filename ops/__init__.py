"""The operator's command line: check environments before deploying, operate them afterwards."""
