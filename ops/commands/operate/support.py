"""The command that collects what others need to help."""

from pathlib import Path
from typing import Annotated

import typer

from ops.cli import EnvName, app, errors, fail, load, say
from ops.durations import Duration, duration
from ops.options import DryRun
from ops.output import Format, Output, emit


@app.command("support-bundle")
def support_bundle(
    env: EnvName,
    *,
    since: Annotated[
        Duration,
        typer.Option(parser=duration, metavar="DURATION", help="Events and CloudWatch logs younger than this."),
    ] = "2h",  # type: ignore[assignment]  # the parser gets the text
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Default: support-NAME-TIME.tar.gz in this folder.")
    ] = None,
    keep_account_ids: Annotated[
        bool, typer.Option("--keep-account-ids", help="Do not replace account ids by pseudonyms.")
    ] = False,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Pack versions, the environment file, status, events, objects and logs into one redacted archive.

    Keys, tokens, passwords, e-mail addresses and the queries of URLs are
    removed, account ids replaced. Secrets and ConfigMaps are never read. What
    cannot be read is listed with the reason; the rest is packed. Only you can
    read the file: read it before you send it. Of each pod's container,
    the last 2,000 lines are packed, whatever their age.

    Exit codes:
    - 0: written, or only listed (--dry-run)
    - 2: bad input, or the file cannot be written
    - 130: interrupted

    Examples:
    - `ops support-bundle --env dev --dry-run`
    - `ops support-bundle --env dev --since 1d --out bundle.tar.gz`

    With `-o json` or `-o yaml`; the archive holds the same as manifest.json:

    ```json
    {"environment": "dev", "created": "2026-11-02T10:15:00+00:00",
     "files": [{"file": "versions.json", "bytes": 512}],
     "missing": [{"part": "logs/worker", "reason": "…"}]}
    ```
    """
    from ops.support import show  # noqa: PLC0415 - the AWS SDK would double the start-up time of `ops check`
    from ops.support.bundle import collect, write  # noqa: PLC0415
    from ops.support.parts import parts  # noqa: PLC0415
    from ops.support.redaction import Redaction  # noqa: PLC0415
    from ops.support.sources import Sources  # noqa: PLC0415

    environment = load(env)
    if out is not None and out.exists():
        fail(f"--out: {out} exists. Fix: remove it, or choose another file")
    redaction = Redaction(environment.account, keep_account_ids=keep_account_ids)
    with Sources(environment, since.seconds) as sources, errors.status("", spinner="line") as shown:
        bundle = collect(environment.name, parts(sources), redaction, lambda part: shown.update(f"reading {part}"))
    emit(bundle.as_data(), lambda: show.table(bundle), output)
    if dry_run:
        return
    target = out or Path(f"{bundle.name}.tar.gz")
    write(bundle, target)
    if output is Format.TABLE:
        say(f"written: {target}")
