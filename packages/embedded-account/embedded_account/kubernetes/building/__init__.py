"""The control plane's programs: built once from Go modules, kept in a cache."""
