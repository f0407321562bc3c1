"""Say what each role may do on a cluster that Slurm orchestrates, and which commands it is for."""

from collections.abc import Iterator, Mapping
from typing import Final

from config import SlurmEnvironment
from ops.policy import administering, deploying, operating, reading
from ops.policy.arns import EVERYTHING, Arns
from ops.policy.role import PersonRole
from ops.policy.statement import Conditions, Statement, actions

SLURM_COMMANDS: Final[Mapping[str, tuple[PersonRole, ...]]] = {
    **dict.fromkeys(("preflight", "destroy"), (PersonRole.DEPLOYER,)),
    **dict.fromkeys(("node list", "status", "wait"), (PersonRole.DEPLOYER, PersonRole.OPERATOR, PersonRole.VIEWER)),
    "plan": (PersonRole.DEPLOYER, PersonRole.VIEWER),
    "drift": (PersonRole.OPERATOR,),
    "ssh-config": (PersonRole.OPERATOR, PersonRole.SCIENTIST, PersonRole.VIEWER),
    **dict.fromkeys(("node shell", "node reboot", "node replace"), (PersonRole.OPERATOR,)),
}
"""The roles that may run a command of `ops` on such a cluster; an administrator may run all of them."""

_DOCUMENTS_OF_ROOT: Final = (
    "AWS-StartInteractiveCommand",
    "AWS-StartNonInteractiveCommand",
    "AWS-StartPortForwardingSession",
    "AWS-StartPortForwardingSessionToRemoteHost",
    "SSM-SessionManagerRunShell",
)
"""Session Manager's other documents for sessions: a shell of root, or of an account with `sudo`, or a port."""


def commands_of(role: PersonRole) -> list[str]:
    """Return the commands that the role may run."""
    return [words for words, roles in SLURM_COMMANDS.items() if role in roles or role is PersonRole.ADMIN]


def slurm_statements(role: PersonRole, environment: SlurmEnvironment) -> list[Statement]:
    """Return what the role may do. Statements without a resource of the environment are left to the caller to drop."""
    arns = Arns(environment)
    return {
        PersonRole.DEPLOYER: _deployer,
        PersonRole.OPERATOR: _operator,
        PersonRole.SCIENTIST: _scientist,
        PersonRole.VIEWER: _viewer,
        PersonRole.ADMIN: _admin,
    }[role](arns)


def _deployer(arns: Arns) -> list[Statement]:
    return [
        deploying.assume_bootstrap_roles(arns),
        reading.read_stacks(arns),
        reading.read_hyperpod(arns),
        *deploying.preflight(arns),
    ]


def _viewer(arns: Arns) -> list[Statement]:
    return [
        reading.read_stacks(arns),
        reading.read_hyperpod(arns),
        reading.read_node_logs(arns),
        reading.read_file_systems(),
    ]


def _operator(arns: Arns) -> list[Statement]:
    return [
        *_viewer(arns),
        *operating.change_hyperpod(arns),
        *operating.open_shells(),
        *operating.detect_drift(arns),
        *_end_sessions(arns),
    ]


def _scientist(arns: Arns) -> list[Statement]:
    return [reading.find_nodes(arns), *_connect_by_ssh(arns), *_end_sessions(arns)]


def _admin(arns: Arns) -> list[Statement]:
    return [*_deployer(arns), *_operator(arns), *administering.bootstrap(arns)]


def _connect_by_ssh(arns: Arns) -> Iterator[Statement]:
    """Yield the right to reach nodes by SSH, where the person's own key opens the person's own account.

    Any other session is a shell of root. The condition makes Session Manager check the document of each session, also
    the default one (Systems Manager user guide, "Enforce a session document permission check").
    """
    checked: Conditions = {"Bool": {"ssm:SessionDocumentAccessCheck": "true"}}
    [shells, only_on_hyperpod] = operating.open_shells()
    yield Statement("ConnectBySsh", shells.actions, EVERYTHING, checked)
    yield only_on_hyperpod
    region, account = arns.environment.region, arns.environment.account
    owners = [f"arn:aws:ssm:{region}:{owner}:document" for owner in ("", account)]
    documents = tuple(f"{owner}/{name}" for name in _DOCUMENTS_OF_ROOT for owner in owners)
    yield Statement("NoShellsOfRoot", shells.actions, documents, denies=True)


def _end_sessions(arns: Arns) -> Iterator[Statement]:
    """Yield the rights to resume and end one's own sessions: their ids begin with the caller's name."""
    own = arns.of("ssm", "session/${aws:userid}-*")
    yield Statement("OwnSessions", actions("ssm", "ResumeSession TerminateSession"), own)
