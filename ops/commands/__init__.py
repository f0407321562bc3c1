"""The commands: options, messages, exit codes. What they do stands in the modules of `ops` that they call."""
