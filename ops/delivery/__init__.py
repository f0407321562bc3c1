"""Bind a deployment to the plan that its reviewers approved."""
