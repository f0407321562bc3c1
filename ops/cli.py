"""What the commands of `ops` share: the application, its consoles, how an environment is read and a failure said."""

from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

import config
from config import Environment

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    help="Look before a deployment, watch after it. Exit codes: 0 done, 1 not ready or stale, 2 bad input, no access.",
)
charts_app = typer.Typer(no_args_is_help=True, help="The pinned Helm charts.")
app.add_typer(charts_app, name="charts")
kuberay_app = typer.Typer(no_args_is_help=True, help="KubeRay, beside what a deployment does.")
app.add_typer(kuberay_app, name="kuberay")

console = Console(emoji=False, highlight=False)
errors = Console(stderr=True, emoji=False, highlight=False)

EnvName = Annotated[str, typer.Option("--env", help="Environment: a file of environments/, without .yaml.")]
OptionalEnv = Annotated[str | None, typer.Option("--env", help="One environment only. Default: all.")]


def load(name: str) -> Environment:
    """Return the environment, or say what is wrong with its file and end with 2."""
    try:
        return config.load(name)
    except config.ConfigError as error:
        fail(str(error))


def say(line: str) -> None:
    """Print a line as it is, however wide the terminal."""
    console.print(line, soft_wrap=True, markup=False, highlight=False)


def fail(message: str, code: int = 2) -> NoReturn:
    """Say why the command ends with `code`."""
    errors.print(f"[bold red]error:[/] {escape(message)}", soft_wrap=True, highlight=False)
    raise typer.Exit(code)
