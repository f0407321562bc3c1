"""The commands' options, messages and exit codes. The modules of `ops` that they call do the work."""
