"""Check that every error message says what is wrong, what is allowed and how to fix it (`python -m tests.messages`)."""
