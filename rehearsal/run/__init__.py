"""One rehearsal: an environment is deployed, watched, changed and destroyed, and what is left is counted."""
