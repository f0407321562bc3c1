"""The roles that GitHub's workflows assume, by OIDC, to deploy an environment and to look for drift."""
