"""Run one command on a node through Session Manager, the only way that HyperPod's instances accept."""

import json
import subprocess
from typing import Final

from ops.errors import RefusedError

_DONE: Final = "ops-done"
"""The last line of a command that succeeded: a session does not pass on the command's exit status."""
_PATH: Final = "/opt/slurm/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PATIENCE_SECONDS: Final = 120
_NOISE: Final = ("Starting session with SessionId:", "Exiting session with sessionId:", _DONE)


def remote(target: str, region: str, words: str) -> list[str]:
    """Return the command that runs `words` as root on the target; they must need no quotation marks."""
    script = f'bash -c "sudo -n env PATH={_PATH} {words} && echo {_DONE}"'
    document = ["--document-name", "AWS-StartNonInteractiveCommand", "--parameters", json.dumps({"command": [script]})]
    return ["aws", "ssm", "start-session", "--target", target, "--region", region, *document]


def run(command: list[str]) -> list[str]:
    """Run the command of `remote`; return its output's lines. Raises RefusedError unless it succeeded on the node."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        fix = "Fix: open a shell with `ops node shell` and run it there"
        raise RefusedError(f"the session did not answer within {_PATIENCE_SECONDS} seconds. {fix}") from error
    output = [line.strip() for line in f"{result.stdout}\n{result.stderr}".splitlines() if line.strip()]
    lines = [line for line in output if not line.startswith(_NOISE)]
    if _DONE not in output:
        reason = " ".join(lines[-3:]).rstrip(".") or f"the session ended with exit status {result.returncode}"
        raise RefusedError(f"the command failed on the node: {reason}. Fix: correct what the message names")
    return lines
