"""Say what each role may do, and which commands it is for."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from config import EksEnvironment, Environment, SlurmEnvironment
from ops.policy import administering, deploying, mirror, mlflow, moving, operating, reading
from ops.policy.arns import EksArns
from ops.policy.role import PersonRole
from ops.policy.slurm import commands_of, slurm_statements
from ops.policy.statement import Statement

COMMANDS: Final[Mapping[str, tuple[PersonRole, ...]]] = {
    "plan": (PersonRole.DEPLOYER, PersonRole.VIEWER),
    **dict.fromkeys(("preflight", "upgrade", "destroy"), (PersonRole.DEPLOYER,)),
    **dict.fromkeys(("cost", "events", "node list", "status"), (PersonRole.OPERATOR, PersonRole.VIEWER)),
    "wait": (PersonRole.OPERATOR, PersonRole.VIEWER, PersonRole.DEPLOYER),
    **dict.fromkeys(("drift", "isolation-check", "support-bundle"), (PersonRole.OPERATOR,)),
    **dict.fromkeys(("image build", "kuberay crds", "pause", "resume", "rollout", "scale"), (PersonRole.OPERATOR,)),
    **dict.fromkeys(("sleep", "wake"), (PersonRole.OPERATOR,)),
    **dict.fromkeys(("update-software", "node shell", "node drain", "node reboot"), (PersonRole.OPERATOR,)),
    **dict.fromkeys(("node replace", "node check"), (PersonRole.OPERATOR,)),
    **dict.fromkeys(
        ("data ls", "job list", "job top", "job logs", "kubeconfig", "logs", "ssh-config"),
        (PersonRole.SCIENTIST, PersonRole.VIEWER),
    ),
    **dict.fromkeys(("dashboard", "data get", "data put", "smoke"), (PersonRole.SCIENTIST,)),
    **dict.fromkeys(("job submit", "job checkpoint", "job exec", "job profile", "job stop"), (PersonRole.SCIENTIST,)),
    **dict.fromkeys(("mirror", "sweep"), (PersonRole.ADMIN,)),
}
"""The roles with the fewest rights that may run a command: of two, neither has all rights of the other. The other
commands call no AWS service."""

ACCESS: Final = {
    PersonRole.DEPLOYER: "admins",
    PersonRole.OPERATOR: "admins",
    PersonRole.SCIENTIST: "submitters",
    PersonRole.VIEWER: "viewers",
    PersonRole.ADMIN: "admins",
}
"""The key of `access`, in the environment file, for a role that uses the Kubernetes API."""


class Rights(NamedTuple):
    """What a role may do in an environment.

    Attributes:
        statements: Those of its policies.
        commands: The commands that it may run.
        access: The key of `access` for it, or "".
    """

    statements: list[Statement]
    commands: list[str]
    access: str


def rights(role: PersonRole, environment: Environment) -> Rights:
    """Return what the role may do in the environment. Statements without a resource of it are left out."""
    match environment:
        case EksEnvironment():
            given, access = eks_statements(role, environment), ACCESS[role]
            commands = [words for words, needed in COMMANDS.items() if role in needed]
        case SlurmEnvironment():
            given, access, commands = slurm_statements(role, environment), "", commands_of(role)
    found = {each.sid: each for each in given if each.resources and each.actions}
    return Rights(list(found.values()), commands, access)


def statements(role: PersonRole, environment: Environment) -> list[Statement]:
    """Return the statements of the role's policies in the environment."""
    return rights(role, environment).statements


def eks_statements(role: PersonRole, environment: EksEnvironment) -> list[Statement]:
    """Return what the role may do. Statements without a resource of the environment are left to the caller to drop."""
    arns = EksArns(environment)
    return {
        PersonRole.DEPLOYER: _deployer,
        PersonRole.OPERATOR: _operator,
        PersonRole.SCIENTIST: _scientist,
        PersonRole.VIEWER: _viewer,
        PersonRole.ADMIN: _admin,
    }[role](arns)


def _scientist(arns: EksArns) -> list[Statement]:
    return [
        reading.find_kubernetes(arns),
        reading.find_access_entry(arns),
        reading.find_hyperpod(arns),
        reading.read_node_logs(arns),
        *moving.move_data(arns),
        mlflow.open_pages(arns),
    ]


def _state(arns: EksArns) -> list[Statement]:
    """Return what `ops wait` and `ops status` read."""
    return [
        reading.find_kubernetes(arns),
        reading.read_stacks(arns),
        reading.read_hyperpod(arns),
        *reading.read_image(arns),
    ]


def _deployer(arns: EksArns) -> list[Statement]:
    return [deploying.assume_bootstrap_roles(arns), *_state(arns), *deploying.preflight(arns)]


def _watch(arns: EksArns) -> list[Statement]:
    """Return what the reading commands read, beside the data bucket."""
    return [
        *_state(arns),
        reading.read_node_logs(arns),
        reading.read_node_groups(arns),
        reading.read_file_systems(),
    ]


def _viewer(arns: EksArns) -> list[Statement]:
    return [*_watch(arns), *moving.list_data(arns)]


def _operator(arns: EksArns) -> list[Statement]:
    return [
        *_watch(arns),
        reading.find_access_entry(arns),
        reading.list_hyperpod(),
        *operating.change_hyperpod(arns),
        *operating.open_shells(),
        *operating.detect_drift(arns),
    ]


def _admin(arns: EksArns) -> list[Statement]:
    return [
        *_deployer(arns),
        *_operator(arns),
        *mirror.copy_images(arns),
        *administering.bootstrap(arns),
        *administering.prepare_account(arns),
        *administering.find_leftovers(arns),
        *administering.remove_leftovers(arns),
    ]
