# shellcheck shell=bash
# In a pipe, pip, uv and npm say nothing for up to minutes. The end of the sourcing shell closes the pipe and ends the loop.
exec 3> >(until read -r -t 9; [ $? -le 128 ]; do printf 'setup: still installing, %s s so far\n' "$SECONDS"; done >&2)
