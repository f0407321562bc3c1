"""Commands on the data bucket and the file system: list, put, get."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.table import Table

from config import Environment
from ops import cli
from ops.cli import Application, EnvName, app, errors, fail, load, say
from ops.durations import Timeout
from ops.options import DryRun
from ops.output import Format, Output, emit

if TYPE_CHECKING:
    from ops.data.links import DataLink, LinkedPath
    from ops.data.plan import TransferItem

data_app = Application(help="Files of the data bucket and the file system.")
app.add_typer(data_app, name="data")

Replace = Annotated[bool, typer.Option("--force", help="Replace files that differ, without asking.")]
RemotePath = Annotated[
    str, typer.Argument(metavar="PATH", help="Path that Ray's pods see, such as /fsx/datasets/images.")
]


@dataclass(frozen=True)
class _Apis:
    s3: Any
    fsx: Any
    links: "list[DataLink]"


@data_app.command("ls")
def list_data(
    path: Annotated[
        str | None, typer.Argument(metavar="PATH", help="Path that Ray's pods see. Default: no files, only the links.")
    ] = None,
    *,
    env: EnvName,
    output: Output = Format.TABLE,
) -> None:
    """List the linked paths, the data repository tasks under way, and the bucket's files at PATH.

    Only a pod sees the file system itself: `automatic` says which changes FSx
    mirrors without a task.

    Exit codes:
    - 0: listed
    - 1: refused: the environment has no link
    - 2: bad input or no access

    Examples:
    - `ops data ls --env prod`
    - `ops data ls /fsx/datasets --env prod -o json`

    With `-o json` or `-o yaml`:

    ```json
    {"links": [{"path": "/fsx/datasets",
      "objects": "s3://rayhp-prod-data/datasets",
      "state": "AVAILABLE", "automatic": ["import", "export"]}],
     "tasks": [{"task": "task-0123456789abcdef0", "type": "import",
      "state": "EXECUTING",
      "paths": ["s3://rayhp-prod-data/datasets"],
      "files": 400, "done": 120, "failed": 0,
      "created": "2026-11-23T10:00:00+00:00"}],
     "files": [{"name": "train/", "bytes": null, "modified": null},
      {"name": "labels.csv", "bytes": 1200,
       "modified": "2026-11-23T09:58:00+00:00"}]}
    ```

    A folder's name ends with a slash.
    """
    from ops.data import tasks  # noqa: PLC0415 - the AWS SDK would double the start-up time of `ops check`
    from ops.data.links import locate  # noqa: PLC0415
    from ops.data.plan import folder  # noqa: PLC0415

    environment = load(env)
    with _connected(environment) as apis:
        place = locate(apis.links, path) if path else None
        found = {
            "links": [_link(link) for link in apis.links],
            "tasks": [tasks.as_data(task) for task in tasks.active(apis.fsx, apis.links[0].file_system)],
            "files": folder(apis.s3, place) if place else [],
        }
    emit(found, lambda: _tables(found), output)


@data_app.command()
def put(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="Local file, or folder with files.")],
    path: RemotePath,
    *,
    env: EnvName,
    dry_run: DryRun = False,
    force: Replace = False,
    timeout: Timeout = "1h",  # type: ignore[assignment]  # the parser gets the text
) -> None:
    """Upload SOURCE into the folder PATH: to the data bucket, then by an import task to the file system.

    Equal files (size and SHA-256) are skipped: rerun the command to resume.
    A symbolic link that leads out of SOURCE is refused. `--timeout` limits
    the wait for the import.

    Exit codes:
    - 0: Ray's pods see the files
    - 1: refused, such as a replacement without `--force`, or not imported in time
    - 2: bad input or no access
    - 3: FSx failed to import
    - 130: interrupted; rerun to resume

    Examples:
    - `ops data put ./images /fsx/datasets/images --env prod --dry-run`
    - `ops data put ./images /fsx/datasets/images --env prod`
    """
    from ops.data import local, plan, tasks, transfer  # noqa: PLC0415
    from ops.data.links import locate  # noqa: PLC0415

    environment = load(env)
    with _connected(environment) as apis:
        place = locate(apis.links, path)
        files = local.files(source)
        say(f"{source}: comparing {len(files)} with {place.address}")
        items = plan.upload(apis.s3, place, files)
        chosen = _agreed(items, place, "upload", dry_run=dry_run, force=force)
        if chosen is None:
            return
        transfer.upload(apis.s3, place.link.bucket, chosen, errors, say)
        # A task that began before the upload may have listed the bucket already.
        seconds = timeout.seconds
        tasks.run(apis.fsx, apis.s3, place, tasks.IMPORT, say, timeout=seconds, join=not chosen)
    equal = len(items) - len(chosen)
    say(f"done: {_files(chosen)} uploaded, {equal} equal; Ray's pods see them at {place.seen_at}")


@data_app.command()
def get(
    path: RemotePath,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Local folder; it is created.")],
    *,
    env: EnvName,
    dry_run: DryRun = False,
    force: Replace = False,
    timeout: Timeout = "1h",  # type: ignore[assignment]  # the parser gets the text
) -> None:
    """Download PATH into FOLDER: by an export task from the file system to the data bucket, then from there.

    If FSx exports PATH automatically, it allows no task: files that were
    written in the last minutes may be missing. Equal files are skipped: rerun
    the command to resume. `--timeout` limits the wait for the export.

    Exit codes:
    - 0: downloaded
    - 1: refused, such as a replacement without `--force`, or not exported in time
    - 2: bad input or no access
    - 3: FSx failed to export
    - 130: interrupted; rerun to resume

    Examples:
    - `ops data get /fsx/results/run-1 ./run-1 --env prod --dry-run`
    - `ops data get /fsx/results/run-1 ./run-1 --env prod`
    """
    from ops.data import plan, tasks, transfer  # noqa: PLC0415
    from ops.data.links import locate  # noqa: PLC0415

    environment = load(env)
    with _connected(environment) as apis:
        place = locate(apis.links, path)
        if place.link.exports:
            say(f"FSx exports {place.link.seen_at} automatically; files of the last minutes may be missing")
        elif dry_run:
            say(f"{path} would be exported by a task first; the list shows what the bucket has now")
        else:
            tasks.run(apis.fsx, apis.s3, place, tasks.EXPORT, say, timeout=timeout.seconds, join=True)
        items = plan.download(apis.s3, place, folder)
        chosen = _agreed(items, place, "download", dry_run=dry_run, force=force)
        if chosen is None:
            return
        transfer.download(apis.s3, place.link.bucket, chosen, errors, say)
    say(f"done: {_files(chosen)} downloaded to {folder}, {len(items) - len(chosen)} equal")


def _agreed(
    items: "list[TransferItem]", place: "LinkedPath", what: str, *, dry_run: bool, force: bool
) -> "Sequence[TransferItem] | None":
    """Show the plan; return the files to transfer, or None for a dry run. Raises RefusedError unless agreed."""
    from ops.data.plan import TransferState  # noqa: PLC0415
    from ops.errors import RefusedError  # noqa: PLC0415
    from ops.progress import size  # noqa: PLC0415

    chosen = [item for item in items if item.state is not TransferState.EQUAL]
    replaced = [item for item in chosen if item.state is TransferState.REPLACED]
    amount = size(sum(item.size for item in chosen))
    say(f"{what}: {_files(chosen)}, {amount}; {len(replaced)} replace others; {len(items) - len(chosen)} are equal")
    if dry_run:
        for item in items:
            say(f"  {item.state}: {item.local} ↔ s3://{place.link.bucket}/{item.key} ({size(item.size)})")
        say("dry run: nothing was changed")
        return None
    if replaced and not force:
        differ = f"{_files(replaced)} would be replaced"
        first = replaced[0].key if what == "upload" else str(replaced[0].local)
        if not cli.is_interactive():
            raise RefusedError(f"{differ}, such as {first}. Fix: --force replaces what differs")
        if not cli.confirmed(f"{differ}, such as {first}. Replace what differs?"):
            raise RefusedError("not confirmed: nothing was changed. Fix: answer y, or give --force")
    return chosen


def _files(items: "Sequence[TransferItem]") -> str:
    return "1 file" if len(items) == 1 else f"{len(items)} files"


@contextmanager
def _connected(environment: Environment) -> Iterator[_Apis]:
    """Yield the environment's S3 and FSx, with its links; report refusals, failures and errors of AWS."""
    from ops.clients import CallerAccount  # noqa: PLC0415
    from ops.data.errors import BadPathError, TaskFailedError  # noqa: PLC0415
    from ops.data.links import find  # noqa: PLC0415
    from ops.errors import RefusedError, UnreachableError, in_plain_words  # noqa: PLC0415

    try:
        account = CallerAccount(environment)
        with in_plain_words():
            fsx = account.client("fsx")
            yield _Apis(account.client("s3"), fsx, find(environment, account.client("cloudformation"), fsx))
    except RefusedError as error:
        fail(str(error), code=1)
    except (BadPathError, UnreachableError) as error:
        fail(str(error))
    except TaskFailedError as error:
        fail(str(error), code=3)
    except KeyboardInterrupt:
        fail("interrupted; a task that FSx has begun continues. Fix: rerun the command to resume", code=130)


def _link(link: "DataLink") -> dict[str, Any]:
    automatic = [name for name, on in (("import", link.imports), ("export", link.exports)) if on]
    return {"path": str(link.seen_at), "objects": link.objects, "state": link.state, "automatic": automatic}


def _tables(found: dict[str, list[dict[str, Any]]]) -> Group:
    drawn = []
    for title, rows in found.items():
        if rows:
            table = Table(box=None, pad_edge=False, header_style="bold", title=title, title_justify="left")
            for column in rows[0]:
                table.add_column(column, overflow="fold")
            for row in rows:
                table.add_row(*(_cell(value) for value in row.values()))
            drawn.append(table)
    return Group(*drawn)


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value) or "no"
    return "" if value is None else str(value)
