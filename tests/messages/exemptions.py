"""What need not have the form of an error message, each with its reason."""

from typing import Final

_ACCOUNT: Final = "packages/embedded-account/embedded_account"
_ANSWERS: Final = "exceptions here become answers of the embedded account, in the words of AWS"
UNSEEN_FOLDERS: Final = {
    f"{_ACCOUNT}/{part}": _ANSWERS
    for part in (
        "admission/",
        "cloudformation/",
        "errors.py",
        "hyperpod/",
        "lambdas/",
        "permissions/",
        "request_rules/",
        "services/",
    )
}
"""Folders whose exception classes never reach a person of this project's own accord."""

UNSEEN_CLASSES: Final = {
    "ApprovalsError": "holds findings, which are checked themselves",
    "CommandError": "part of a rehearsal's verdict: the log of a command that failed",
    "ContainerConfigError": "becomes the status of a simulated pod, in the words of a kubelet",
    "InvalidEnvironmentError": "holds findings, which are checked themselves",
    "KubernetesClientError": "repeats the answer of the Kubernetes API server",
    "NodeTooSmallError": "rules catch it, and write findings of their own",
    "ProgramEndedError": "part of a rehearsal's verdict: the log of a program that ended",
    "RayApiError": "repeats the answer of Ray",
    "RehearsalError": "a rehearsal's verdict on the project: no input causes it",
    "TimedOutError": "a rehearsal's verdict on the project: no input causes it",
    "UnknownValueError": "ends a rule at a value that another finding refuses; nobody reads it",
    "UnreadableFileError": "holds findings, which are checked themselves",
}
"""Exception classes whose text reaches nobody, or is somebody else's."""

_CTRL_C: Final = "the person pressed Ctrl-C: nothing is wrong"
_SIMULATED: Final = "the simulated node names the fix itself: `make rehearse-job`"
_LOG: Final = "a program of the rehearsal ended: its log, which is named, says why"
_CALLER: Final = "the calling code is wrong, no input"

MESSAGES: Final = {
    ("k8s_charts/storage/own_directory.py", "{}: root must be able"): "a line of a pod's log",
    ("ops/commands/deploy/destroy.py", "interrupted"): _CTRL_C,
    ("ops/commands/change/image.py", "detached"): _CTRL_C,
    ("ops/commands/operate/isolation.py", "interrupted"): _CTRL_C,
    ("ops/commands/operate/job.py", "detached"): _CTRL_C,
    ("ops/commands/operate/job.py", "interrupted"): _CTRL_C,
    ("ops/commands/operate/node.py", "interrupted"): _CTRL_C,
    ("ops/commands/change/running.py", "interrupted"): _CTRL_C,
    ("ops/commands/operate/status.py", "{}"): "repeats an UnreachableError, which is checked itself",
    ("ops/clients.py", "{message}. For the kept rehearsal"): "repeats an UnreachableError, and adds a second fix",
    ("ops/guard.py", "{}"): "repeats a typer.BadParameter, which has the form",
    ("ops/jobs/direct.py", "the head {}/{} cannot run the job: "): _SIMULATED,
    (
        f"{_ACCOUNT}/server.py",
        "the embedded account could not start: {}",
    ): "the operating system's own words",
    (
        f"{_ACCOUNT}/kubernetes/control_plane.py",
        "the controller manager makes no service accounts",
    ): _LOG,
    (
        f"{_ACCOUNT}/kubernetes/control_plane.py",
        "{} ended with code {}; its log: ",
    ): _LOG,
    (f"{_ACCOUNT}/kubernetes/control_plane.py", "{} was ended by {}; its log: "): _LOG,
    (f"{_ACCOUNT}/kubernetes/building/golang.py", "{} {} ({}) failed; its log: "): _LOG,
    (f"{_ACCOUNT}/machine/processes.py", "{} ended with code {}; its log: "): _LOG,
    (f"{_ACCOUNT}/machine/processes.py", "{} was ended by {}; its log: "): _LOG,
    (f"{_ACCOUNT}/machine/processes.py", "{} was not ready in {} s; its log: "): _LOG,
    (f"{_ACCOUNT}/command_line.py", "embedded account: {}"): "repeats an error of the account",
    (f"{_ACCOUNT}/running.py", "embedded account: {}"): "a line of progress",
    (f"{_ACCOUNT}/running.py", "{} ended with code {}; its log: "): _LOG,
    (f"{_ACCOUNT}/running.py", "{} was ended by {}; its log: "): _LOG,
    (
        f"{_ACCOUNT}/kubernetes/control_plane.py",
        "the control plane {} has not been started",
    ): _CALLER,
    (
        f"{_ACCOUNT}/kubernetes/pods/sandbox/pause.py",
        "{}: {}",
    ): "a line of a simulated pod's log",
}
"""Messages by their file and how they begin."""
