"""What all commands of `ops` share: the application, its consoles, reading environments, reporting failures."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.measure import Measurement
from typer.core import TyperCommand, TyperGroup
from typer.models import CommandFunctionType

import config
from config import EksEnvironment, Environment
from config.findings import Finding, Severity
from ops import completion
from ops.sign_of_life import SILENCE

PANELS: Final[Mapping[str, tuple[str, ...]]] = {
    "Environment files": ("new", "check", "explain", "import"),
    "Before, at and after a deployment": ("preflight", "review", "wait", "destroy"),
    "Every day": (
        *("status", "job", "node", "data", "dashboard", "logs", "events", "cost", "smoke", "kubeconfig", "ssh-config"),
    ),
    "Changes while it runs": (
        *("scale", "sleep", "wake", "pause", "resume", "rollout", "image", "upgrade", "update-software"),
    ),
    "CI": ("gate", "plan", "drift", "manifests"),
    "Company": ("policy", "mirror", "images", "isolation-check"),
    "Maintenance": ("charts", "scripts", "schema", "migrate", "kuberay", "sweep", "support-bundle"),
}
"""The panels of `ops --help --all`: the title and the commands, in the order of use."""
FIRST: Final = (
    *("new", "check", "preflight", "review", "wait", "status", "job", "logs", "scale", "pause", "resume", "destroy"),
)
"""The commands of `ops --help`, in the order of an environment's life."""
_EVERY: Final = "ops.help.every"


class _Parameters:
    """Parameters of a command whose help shows what to write, not Python's types: nothing beside a flag."""

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]  # a mixin of Typer's commands
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
            elif parameter.param_type_name == "argument":
                parameter.display_type_rich = lambda ctx: ""  # noqa: ARG005 (Typer's signature)
            elif parameter.metavar is None and not parameter.type_descriptor.is_choice:
                parameter.metavar = parameter.name.upper()
        return parameters


class Command(_Parameters, TyperCommand):
    """A command of `ops`."""


class _Group(_Parameters, TyperGroup):
    """Commands that share their first word."""


class _Root(_Group):
    """The group of all commands; its help shows the first ones only, unless `--all` is given."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # `--help` ends the program before what follows it is parsed.
        ctx.meta[_EVERY] = "--all" in args
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        panels = PANELS if ctx.meta[_EVERY] else {"Commands": FIRST}
        shown = copy(self)
        shown.commands = {}
        for title, names in panels.items():
            for name in names:
                shown.commands[name] = copy(self.commands[name])
                setattr(shown.commands[name], "rich_help_panel", title)  # noqa: B010 (typer adds it)
        super(_Root, shown).format_help(ctx, formatter)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 (Typer's signature)
        return list(self.commands)


class Application(typer.Typer):
    """An application, or commands below one of its words, which prints its help without arguments."""

    def __init__(self, **settings: Any) -> None:
        """Take the settings of Typer."""
        super().__init__(**{"cls": _Group, "no_args_is_help": True, **settings})

    def command(
        self, name: str | None = None, *, cls: Any = Command, **settings: Any
    ) -> Callable[[CommandFunctionType], CommandFunctionType]:
        """Decorate the function of a command, as Typer does."""
        return super().command(name, cls=cls, **settings)


app = Application(
    cls=_Root,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="`ops --help --all` lists every command.",
)
charts_app = Application(help="The pinned Helm charts.")
app.add_typer(charts_app, name="charts")
scripts_app = Application(help="The publishers' lifecycle scripts for Slurm.")
app.add_typer(scripts_app, name="scripts")
kuberay_app = Application(help="KubeRay's custom resource definitions (CRDs).")
app.add_typer(kuberay_app, name="kuberay")

console = Console(emoji=False, highlight=False)
errors = Console(stderr=True, emoji=False, highlight=False)

_UNLIMITED = 10_000


def _name(given: str | None) -> str | None:
    return None if given is None else config.name_of(given)


def _show_version(given: bool) -> None:
    if given:
        import tomllib  # noqa: PLC0415 - only here: people check files after each edit

        with (Path(__file__).resolve().parents[1] / "pyproject.toml").open("rb") as file:
            typer.echo(tomllib.load(file)["project"]["version"])
        raise typer.Exit


def _show_every_command(ctx: typer.Context, given: bool) -> None:
    if given:
        typer.echo(ctx.get_help(), nl=False)
        raise typer.Exit


def _without_color(given: bool) -> None:
    if given:
        # Consoles that are made later, also in programs that a command starts, read the variable.
        os.environ["NO_COLOR"] = "1"
        console.no_color = errors.no_color = True


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    no_color: Annotated[
        bool,
        typer.Option(
            "--no-color", callback=_without_color, is_eager=True, help="Print without colours, as with NO_COLOR=1."
        ),
    ] = False,
    every: Annotated[
        bool, typer.Option("--all", callback=_show_every_command, is_eager=True, help="List every command and exit.")
    ] = False,
) -> None:
    """Check environments before deploying; operate them afterwards.

    A command on one environment takes `--env NAME`, or the variable `OPS_ENV`.
    A duration has a unit: `90s`, `10m`, `2h`, `1d`.

    | exit code | means |
    |---|---|
    | 0 | done, ready or up to date |
    | 1 | refused, not ready or out of date |
    | 2 | bad input, or no access to AWS or to the cluster |
    | 3 | failed |
    | 130 | interrupted with Ctrl-C |

    Examples:
    - `ops check`
    - `ops wait --env dev --timeout 30m`
    - `ops explain V55 -o json`
    """


EnvName = Annotated[
    str,
    typer.Option(
        "--env",
        envvar="OPS_ENV",
        metavar="NAME",
        callback=_name,
        autocompletion=completion.environments,
        help="A file of environments/ (.yaml is optional) or an example.",
    ),
]
OptionalEnv = Annotated[
    str | None,
    typer.Option(
        "--env",
        envvar="OPS_ENV",
        metavar="NAME",
        callback=_name,
        autocompletion=completion.environments,
        help="Only this environment (.yaml is optional). Default: all.",
    ),
]


def load_any(name: str) -> Environment:
    """Return the environment; if its file is invalid, report its errors and exit with 2."""
    [environment] = load_all([name])
    return environment


def load(name: str) -> EksEnvironment:
    """Return the environment as `load_any` does; exit with 2 also if Slurm orchestrates its cluster."""
    found = of_eks(load_all([name]))
    if not found:
        fail(
            f"--env: {name!r} is invalid here: Slurm orchestrates its cluster, which has no Kubernetes and no Ray. "
            "Allowed: environments with eks. Fix: use Slurm's own commands (docs/operate/slurm.md)"
        )
    return found[0]


def of_eks(environments: Iterable[Environment]) -> list[EksEnvironment]:
    """Return those whose cluster EKS orchestrates: the others have no Kubernetes and no Ray."""
    return [each for each in environments if isinstance(each, EksEnvironment)]


def load_all(names: Iterable[str]) -> list[Environment]:
    """Return the environments; if any file is invalid, report the errors of all files and exit with 2."""
    examined = [config.examine(name) for name in names]
    if wrong := [finding for each in examined for finding in each.errors]:
        report(wrong)
        raise typer.Exit(2)
    return [each.environment for each in examined if each.environment]


def report(findings: Iterable[Finding]) -> None:
    """Print findings to standard error, one per line."""
    for finding in findings:
        word, style = ("error", "red") if finding.severity is Severity.ERROR else ("warning", "yellow")
        errors.print(f"[bold {style}]{word}:[/] {escape(str(finding))}", soft_wrap=True, highlight=False)


def say(line: str) -> None:
    """Print a line unchanged: no wrapping, no markup."""
    console.print(line, soft_wrap=True, markup=False, highlight=False)


def aside(line: str) -> None:
    """Print a line unchanged to standard error, beside the data on standard output."""
    errors.print(line, soft_wrap=True, markup=False, highlight=False)


def show(drawn: RenderableType) -> None:
    """Print a table or a group in full: never cut it in a narrow terminal, never wrap it in a pipe."""
    before = console.width
    console.width = max(before, _least_width(drawn)) if console.is_terminal else _UNLIMITED
    try:
        console.print(drawn)
    finally:
        console.width = before


def _least_width(drawn: RenderableType) -> int:
    return Measurement.get(console, console.options.update(width=_UNLIMITED), drawn).minimum


def fail(message: str, code: int = 2) -> NoReturn:
    """Print the error message and exit with `code`."""
    errors.print(f"[bold red]error:[/] {escape(message)}", soft_wrap=True, highlight=False)
    raise typer.Exit(code)


def confirmed(question: str) -> bool:
    """Ask a person and return whether the answer is yes; exit with 1 if standard input is no terminal.

    Raises KeyboardInterrupt on Ctrl-C.
    """
    if not is_interactive():
        fail("nobody can confirm the change, as standard input is no terminal. Fix: give --yes", code=1)
    try:
        with SILENCE.wanted():
            return typer.confirm(question, err=True)
    except typer.Abort:
        raise KeyboardInterrupt from None


def agreed(question: str) -> bool:
    """Ask a person, on standard output, and return whether the answer is yes. Raises typer.Abort without an answer."""
    with SILENCE.wanted():
        return typer.confirm(question)


def is_interactive() -> bool:
    """Return whether a person can answer a question."""
    return sys.stdin.isatty()
