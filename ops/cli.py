"""What the commands of `ops` share: the application, its consoles, how an environment is read and a failure said."""

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.measure import Measurement

import config
from config import Environment
from config.findings import Finding, Severity

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Look before a deployment, watch after it. Exit codes: 0 done, 1 not ready or stale, 2 bad input, no access.",
)
charts_app = typer.Typer(no_args_is_help=True, help="The pinned Helm charts.")
app.add_typer(charts_app, name="charts")
kuberay_app = typer.Typer(no_args_is_help=True, help="KubeRay, beside what a deployment does.")
app.add_typer(kuberay_app, name="kuberay")

console = Console(emoji=False, highlight=False)
errors = Console(stderr=True, emoji=False, highlight=False)

_UNLIMITED = 10_000


def _name(given: str | None) -> str | None:
    return None if given is None else config.name_of(given)


def _show_version(given: bool) -> None:
    if given:
        with (Path(__file__).resolve().parents[1] / "pyproject.toml").open("rb") as file:
            typer.echo(tomllib.load(file)["project"]["version"])
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Take the options of `ops` itself."""


EnvName = Annotated[
    str, typer.Option("--env", callback=_name, help="A file of environments/, with or without .yaml, or an example.")
]
OptionalEnv = Annotated[
    str | None, typer.Option("--env", callback=_name, help="One environment only, with or without .yaml. Default: all.")
]


def load(name: str) -> Environment:
    """Return the environment, or say what is wrong with its file and end with 2."""
    return load_all([name])[0]


def load_all(names: Iterable[str]) -> list[Environment]:
    """Return the environments, or say what is wrong with all their files and end with 2."""
    examined = [config.examine(name) for name in names]
    if wrong := [finding for each in examined for finding in each.errors]:
        report(wrong)
        raise typer.Exit(2)
    return [each.environment for each in examined if each.environment]


def report(findings: Iterable[Finding]) -> None:
    """Print findings to standard error, each on a line of its own."""
    for finding in findings:
        word, style = ("error", "red") if finding.severity is Severity.ERROR else ("warning", "yellow")
        errors.print(f"[bold {style}]{word}:[/] {escape(str(finding))}", soft_wrap=True, highlight=False)


def say(line: str) -> None:
    """Print a line as it is, however wide the terminal."""
    console.print(line, soft_wrap=True, markup=False, highlight=False)


def show(drawn: RenderableType) -> None:
    """Print a table or a group whole: nothing is cut, however narrow the terminal, and in a pipe nothing is wrapped."""
    needs = Measurement.get(console, console.options.update(width=_UNLIMITED), drawn)
    before = console.width
    console.width = max(before, needs.minimum) if console.is_terminal else max(before, needs.maximum)
    try:
        console.print(drawn)
    finally:
        console.width = before


def fail(message: str, code: int = 2) -> NoReturn:
    """Say why the command ends with `code`."""
    errors.print(f"[bold red]error:[/] {escape(message)}", soft_wrap=True, highlight=False)
    raise typer.Exit(code)
