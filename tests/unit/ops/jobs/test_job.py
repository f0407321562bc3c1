"""`ops job`: the package, the objects that it creates in the cluster, and one message for each error."""

import base64
import json
import os
import secrets
import shlex
import subprocess
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType
from typer.testing import CliRunner, Result

import config
from config import naming
from ops import cli
from ops.commands.whole import app
from ops.jobs import direct, follow
from ops.jobs.bucket import WorkingDirUpload
from ops.jobs.package import entry
from ops.jobs.packing import FETCHER, LARGEST_BYTES, EntryError, Package
from ops.jobs.run import RunRequest
from ops.watch import live
from tests.support.waiting import PATIENCE_SECONDS
from tests.unit.support.documented_data import assert_same_shape, documented
from tests.unit.support.fake_apis import Apis

RAY_CLUSTERS = "/apis/ray.io/v1/namespaces/ray/rayclusters"
JOBS = "/apis/batch/v1/namespaces/ray/jobs"
TEMPLATE = "/apis/batch/v1/namespaces/ray/cronjobs/job-supervisor"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/ray/leases"
PODS = "/api/v1/namespaces/ray/pods"
CONFIG_MAPS = "/api/v1/namespaces/ray/configmaps"
POD = {
    "containers": [{"name": "job-supervisor", "args": ["--namespace=ray"], "volumeMounts": []}],
    "volumes": [{"name": "code", "configMap": {"name": "job-supervisor"}}],
}


def ops(*arguments: str) -> Result:
    return CliRunner(env={"OPS_ENV": "dev"}).invoke(app, ["job", *arguments])


def refused(*arguments: str, code: int) -> str:
    """Return the one message of a command that must fail."""
    result = ops(*arguments)
    assert result.exit_code == code, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    [line] = result.stderr.splitlines()
    return line.removeprefix("error: ")


REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def a_run(name: str, *, condition: str | None = None) -> dict[str, Any]:
    """Return the Job of a run."""
    labels = {"ray-on-hyperpod/run": name, "ray-on-hyperpod/cluster": "rayml"}
    metadata = {"name": name, "uid": "u-1", "labels": labels, "creationTimestamp": "2026-11-01T10:00:00Z"}
    conditions = [{"type": condition, "status": "True"}] if condition else []
    container = {"name": "job-supervisor", "args": [f"--run={name}", "--storage=/fsx/ray/runs", "--first-attempt=1"]}
    spec = {"template": {"spec": {"containers": [container]}}}
    return {"metadata": metadata, "spec": spec, "status": {"conditions": conditions}}


def a_lease(name: str, **state: Any) -> dict[str, Any]:
    annotations = {"ray-on-hyperpod/state": json.dumps(state)}
    return {"metadata": {"name": name, "annotations": annotations}, "spec": {}}


@pytest.fixture
def cluster(apis: Apis) -> Apis:
    """Serve `dev` with its RayCluster and the supervisor's template."""
    spec = {"jobTemplate": {"spec": {"template": {"spec": POD}}}, "schedule": "0 0 31 2 *"}
    apis.kubernetes |= {
        RAY_CLUSTERS: {"items": [{"metadata": {"name": "rayml"}}]},
        TEMPLATE: {"metadata": {"name": "job-supervisor"}, "spec": spec},
        f"POST {JOBS}": a_run("train"),
        f"POST {REVIEWS}": {"spec": {}, "status": {"allowed": True}},
        JOBS: {"items": []},
        LEASES: {"items": []},
        PODS: {"items": []},
    }
    return apis


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """Write a user's script and a module beside it; return the script's path."""
    (tmp_path / "train.py").write_text("import helper")
    (tmp_path / "helper.py").write_text("")
    return tmp_path / "train.py"


class TestEntry:
    def test_script_runs_in_its_own_folder_with_its_arguments(self, script: Path) -> None:
        made = entry(str(script), ["--name", "a b"], None, ())
        assert (made.command, made.title) == ("python train.py --name 'a b'", "train")
        assert made.package is not None

    def test_script_can_lie_deeper_in_the_working_directory(self, script: Path) -> None:
        folder = script.parent / "inside"
        folder.mkdir()
        script.rename(folder / "train.py")
        assert entry(str(folder / "train.py"), [], script.parent, ()).command == "python inside/train.py"

    def test_projects_own_jobs_are_known_by_name(self) -> None:
        made = entry("smoke", [], None, ())
        assert made.command == "python smoke.py"

    def test_command_packs_nothing_unless_told(self, script: Path) -> None:
        assert entry(None, ["python", "/fsx/ray/train.py"], None, ()).package is None
        assert entry(None, ["python", "train.py"], script.parent, ()).package is not None

    def test_command_that_runs_the_training_library_brings_it(self) -> None:
        """In the image it is not: each package carries the checkout's."""
        made = entry(None, ["python", "-m", "ray_resume", "goodput", "/fsx/ray/runs/digits"], None, ())
        assert isinstance(made.package, Package)
        assert "ray_resume/__main__.py" in zipfile.ZipFile(BytesIO(made.package.content)).namelist()

    @pytest.mark.parametrize(
        ("job", "words", "message"),
        [
            (
                "nothing.py",
                [],
                "job 'nothing.py' is invalid: there is no such Python file, here or in ray_jobs",
            ),
            ("trian", [], "job 'trian' is invalid"),
            (None, [], "nothing to submit"),
            (None, ["python", "train.py"], "train.py: there is no such file in a job without --working-dir"),
        ],
    )
    def test_wrong_entry_point_is_reported(self, job: str | None, words: list[str], message: str) -> None:
        with pytest.raises(EntryError, match=message):
            entry(job, words, None, ())

    def test_script_outside_of_the_working_directory_is_reported(self, script: Path, tmp_path: Path) -> None:
        other = tmp_path / "other"
        other.mkdir()
        with pytest.raises(EntryError, match="is not in --working-dir"):
            entry(str(script), [], other, ())

    def test_script_that_is_excluded_is_reported(self, script: Path) -> None:
        with pytest.raises(EntryError, match=r"--exclude matches train\.py itself"):
            entry(str(script), [], None, ["*.py"])


def test_run_is_a_job_from_the_clusters_own_template_with_its_package_beside_it(cluster: Apis, script: Path) -> None:
    result = ops("submit", str(script), "--name", "train", "--detach", "--", "--epochs", "3")
    assert result.exit_code == 0, result.output
    changes = dict(cluster.changes)
    job = changes[f"POST {JOBS}"]
    assert job["metadata"]["name"] == "train"
    arguments = job["spec"]["template"]["spec"]["containers"][0]["args"]
    assert {"--run=train", "--cluster=rayml", "--entrypoint=python train.py --epochs 3"} <= set(arguments)
    assert "--storage=/fsx/ray/runs" in arguments
    config_map = changes[f"POST {CONFIG_MAPS}"]
    assert config_map["metadata"]["ownerReferences"][0]["uid"] == "u-1", "the owner reference deletes it with the Job"
    [(name, content)] = config_map["binaryData"].items()
    assert f"--package=/opt/ray-on-hyperpod-package/{name}" in arguments
    assert "train.py" in zipfile.ZipFile(BytesIO(base64.b64decode(content))).namelist()


@pytest.fixture
def uploads(cluster: Apis, monkeypatch: pytest.MonkeyPatch) -> None:
    """List uploads among the changes, and make none."""

    def recorded(upload: WorkingDirUpload, *_: object) -> None:
        cluster.changes.append(("upload", upload.fetch("")))

    monkeypatch.setattr(WorkingDirUpload, "run", recorded)


@pytest.mark.usefixtures("uploads")
def test_large_working_directory_is_uploaded_before_the_run_and_fetched_by_its_job(cluster: Apis, script: Path) -> None:
    (script.parent / "weights.bin").write_bytes(secrets.token_bytes(LARGEST_BYTES))
    result = ops("submit", str(script), "--name", "train", "--detach", "--", "--text", "it's")
    assert result.exit_code == 0, result.output
    assert "train: python train.py --text 'it'\"'\"'s' on RayCluster rayml of dev" in result.stdout
    assert [name for name, _ in cluster.changes] == ["upload", f"POST {JOBS}", f"POST {CONFIG_MAPS}"]
    job = dict(cluster.changes)[f"POST {JOBS}"]
    assert job["metadata"]["annotations"]["ray-on-hyperpod/entrypoint"].startswith("python train.py")
    arguments = job["spec"]["template"]["spec"]["containers"][0]["args"]
    [entry_point] = [one.partition("=")[2] for one in arguments if one.startswith("--entrypoint=")]
    bucket = naming.data_bucket(config.load("dev"))
    python, program, address, digest, folder, *command = shlex.split(entry_point)
    assert (python, program, folder) == ("python", FETCHER.name, "/fsx/ray/runs/.packages")
    assert address == f"s3://{bucket}/ray/packages/{digest}.zip"
    assert command == ["python", "train.py", "--text", "it's"]
    [content] = dict(cluster.changes)[f"POST {CONFIG_MAPS}"]["binaryData"].values()
    names = zipfile.ZipFile(BytesIO(base64.b64decode(content))).namelist()
    assert FETCHER.name in names
    assert "weights.bin" not in names


@pytest.mark.usefixtures("uploads")
@pytest.mark.parametrize(
    ("change", "code"), [({f"{JOBS}/train": a_run("train")}, 1), ({RAY_CLUSTERS: {"items": []}}, 1)]
)
def test_nothing_is_uploaded_for_a_run_that_is_refused(
    cluster: Apis, script: Path, change: dict[str, Any], code: int
) -> None:
    (script.parent / "weights.bin").write_bytes(secrets.token_bytes(LARGEST_BYTES))
    cluster.kubernetes |= change
    refused("submit", str(script), "--name", "train", code=code)
    assert cluster.changes == []


@pytest.mark.usefixtures("uploads")
def test_dry_run_of_a_large_working_directory_uploads_nothing(cluster: Apis, script: Path) -> None:
    (script.parent / "weights.bin").write_bytes(secrets.token_bytes(LARGEST_BYTES))
    result = ops("submit", str(script), "--name", "train", "--dry-run")
    assert result.exit_code == 0, result.output
    assert FETCHER.name in result.stdout
    assert "upload" not in dict(cluster.changes)


@pytest.mark.parametrize("where", ["ops.jobs.packing._add", "ops.jobs.bucket.WorkingDirUpload.run"])
def test_ctrl_c_before_the_run_exists_says_that_nothing_was_submitted(
    cluster: Apis, script: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    (script.parent / "weights.bin").write_bytes(secrets.token_bytes(LARGEST_BYTES))

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(where, interrupted)
    message = refused("submit", str(script), "--name", "train", code=130)
    assert message == "interrupted: nothing was submitted. Fix: run the command again"
    assert cluster.changes == []


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        ({RAY_CLUSTERS: {"items": []}}, (), "there is no RayCluster in namespace ray. Fix: deploy the ray stack"),
        (
            {RAY_CLUSTERS: {"items": [{"metadata": {"name": name}} for name in ("b", "a")]}},
            (),
            "there are several RayClusters. Allowed: a, b. Fix: --cluster NAME",
        ),
        ({}, ("--cluster", "other"), "there is no RayCluster other in namespace ray. Allowed: rayml"),
        (
            {TEMPLATE: (404, {})},
            (),
            "the environment has no job supervisor. Fix: deploy the ray stack, or use --direct",
        ),
        (
            {f"{JOBS}/train": a_run("train")},
            (),
            "the run train is in use (starting). Fix: choose another --name, or follow it with `ops job logs train`",
        ),
        (
            {f"{JOBS}/train": a_run("train", condition="Failed")},
            (),
            "the run train has ended (failed). Fix: --again resumes it, or choose another --name",
        ),
        ({f"POST {JOBS}": (409, {})}, (), "the run name train is in use. Fix: choose another with --name"),
        ({}, ("--in-head",), "RayCluster rayml has no running head. Fix: see `ops status` for the reason"),
        ({}, ("--direct",), "RayCluster rayml has no running head. Fix: see `ops status` for the reason"),
    ],
)
def test_each_obstacle_to_a_submission_is_one_message_and_nothing_is_created(
    cluster: Apis, script: Path, change: dict[str, Any], arguments: tuple[str, ...], message: str
) -> None:
    cluster.kubernetes |= change
    assert refused("submit", str(script), "--name", "train", *arguments, code=1) == message
    assert [name for name, _ in cluster.changes if name != f"POST {JOBS}"] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("nothing.py",),
            "job 'nothing.py' is invalid: there is no such Python file, here or in ray_jobs",
        ),
        (("--name", "Train", "--", "true"), "--name: 'Train' is invalid. Allowed: a letter, then small letters"),
        (("--direct", "--in-head", "--", "true"), "--direct and --in-head exclude each other. Fix: give one of them"),
        (("--working-dir", "/nowhere", "--", "true"), "--working-dir: '/nowhere' is invalid: there is no such folder"),
        (("--env", "nowhere", "--", "true"), "nowhere"),
        (("--min-workers", "2", "--", "true"), "belong together. Fix: give the first two"),
        (("--wait-for-workers", "5m", "--", "true"), "belong together. Fix: give the first two"),
        (("--min-workers", "5", "--max-workers", "4", "--", "true"), "--min-workers 5 is invalid. Allowed: 1 to 4"),
    ],
)
def test_bad_input_is_one_message_and_nobody_is_asked(cluster: Apis, arguments: tuple[str, ...], message: str) -> None:
    result = ops("submit", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert cluster.tokens == []


def test_range_of_workers_reaches_the_job_in_its_command(cluster: Apis, script: Path) -> None:
    words = ("--min-workers", "2", "--max-workers", "4", "--wait-for-workers", "5m", "--detach", "--", "--text", "it's")
    assert ops("submit", str(script), "--name", "train", *words).exit_code == 0
    [job] = [body for name, body in cluster.changes if name == f"POST {JOBS}"]
    arguments = job["spec"]["template"]["spec"]["containers"][0]["args"]
    [entry_point] = [one.partition("=")[2] for one in arguments if one.startswith("--entrypoint=")]
    (script.parent / "python").write_text(
        '#!/bin/sh\nenv | grep RUN_ | sort\nfor word in "$@"; do echo "<$word>"; done\n'
    )
    (script.parent / "python").chmod(0o755)
    path = f"{script.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "-c", entry_point], env={"PATH": path}, capture_output=True, check=True, text=True
    )
    assert done.stdout.splitlines() == [
        "RUN_MAX_WORKERS=4",
        "RUN_MIN_WORKERS=2",
        "RUN_WAIT_FOR_WORKERS=300",
        "<train.py>",
        "<--text>",
        "<it's>",
    ]


def test_role_that_may_not_submit_is_told_the_key_that_must_list_it(cluster: Apis, script: Path) -> None:
    cluster.refuse(403, "rayclusters is forbidden")
    assert "list your IAM role under access.submitters" in refused("submit", str(script), code=2)


def test_ctrl_c_detaches_and_says_how_to_return(cluster: Apis, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(follow, "follow", interrupted)
    message = refused("submit", str(script), "--name", "train", code=130)
    assert "the job keeps running" in message
    assert "`ops job logs train --env dev`" in message
    assert not [change for change, _ in cluster.changes if change.startswith(("DELETE", "PATCH"))]


def test_in_the_head_the_package_is_unpacked_and_submitted_by_rays_own_command(script: Path, tmp_path: Path) -> None:
    """Run the command line for the head in a real shell, with a fake `ray` that records its call."""
    bin = tmp_path / "bin"
    bin.mkdir()
    (bin / "ray").write_text('#!/bin/sh\nls\nfor word in "$@"; do echo "<$word>"; done\nexit 7\n')
    (bin / "ray").chmod(0o755)
    made = entry(str(script), ["--text", "it's"], None, ["bin"])
    assert isinstance(made.package, Package)
    request = RunRequest("train", "rayml", made.command, "/fsx/ray/runs", made.package, 1, 1, 0)
    done = subprocess.run(
        ["/bin/bash", "-c", direct.script(request)],
        input=base64.b64encode(made.package.content),
        env={"PATH": f"{bin}:{os.environ['PATH']}"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 7, done.stderr
    words = done.stdout.decode().splitlines()
    assert words[:3] == ["helper.py", "ray_resume", "train.py"]
    assert words[-4:] == ["<python>", "<train.py>", "<--text>", "<it's>"]
    assert "<--submission-id>" in words


def test_runs_are_listed_with_what_their_supervisors_say(cluster: Apis) -> None:
    cluster.kubernetes[JOBS] = {"items": [a_run("train"), a_run("done", condition="Complete")]}
    lease = a_lease("train", phase="waiting for the head", attempt=3, progress=30, reason="no head")
    cluster.kubernetes[LEASES] = {"items": [lease]}
    shown = ops("list").stdout
    [line] = [line for line in shown.splitlines() if line.startswith("train")]
    for word in ("rayml", "waiting for the head", "3", "30"):
        assert word in line
    data = json.loads(ops("list", "-o", "json").stdout)
    assert_same_shape(data, documented("job", "list"))
    assert [(run["run"], run["attempt"], run["progress"]) for run in data] == [("train", 3, 30), ("done", None, None)]


def test_run_whose_supervisor_has_no_place_is_listed_with_the_schedulers_words(cluster: Apis) -> None:
    cluster.kubernetes[JOBS] = {"items": [a_run("train")]}
    told = "0/3 nodes are available: 3 Too many pods."
    metadata = {"name": "train-x", "labels": {"batch.kubernetes.io/job-name": "train"}}
    conditions = [{"type": "PodScheduled", "status": "False", "message": told}]
    pod = {"metadata": metadata, "spec": {"containers": []}, "status": {"phase": "Pending", "conditions": conditions}}
    cluster.kubernetes[PODS] = {"items": [pod]}
    [run] = json.loads(ops("list", "-o", "json").stdout)
    assert (run["state"], run["reason"]) == ("starting", told)


def test_top_shows_what_each_run_printed_last(cluster: Apis) -> None:
    names = ("train", "waits", "silent", "starts", "elsewhere")
    cluster.kubernetes[JOBS] = {"items": [*map(a_run, names), a_run("done", condition="Complete")]}
    cluster.kubernetes[JOBS]["items"][4]["metadata"]["labels"]["ray-on-hyperpod/cluster"] = "other"
    figures = {"step": 120.0, "loss": 0.4321, "steps_per_second": 2.31, "goodput": 93.1}
    saved = (datetime.now(UTC) - timedelta(minutes=2)).isoformat(timespec="seconds")
    waits = {"phase": "waiting to retry", "progress": 30, "figures": {**figures, "loss": float("nan")}}
    cluster.kubernetes[LEASES] = {
        "items": [
            a_lease("train", phase="running", progress=100, progress_at=saved, figures=figures),
            a_lease("waits", **waits),
            a_lease("silent", phase="running", progress=130, figures=figures),
            a_lease("starts", phase="running", reason="starts 4 workers"),
        ]
    }
    data = json.loads(ops("top", "--cluster", "rayml", "-o", "json").stdout)
    assert_same_shape(data[:1], documented("job", "top"))
    assert 120 <= data[0].pop("checkpoint_age_seconds") < 120 + PATIENCE_SECONDS
    expected = {"cluster": "rayml", "state": "running", "reason": ""}
    assert data == [
        {"run": "train", **expected, "step": 120, "steps_per_second": 2.31, "loss": 0.4321, "goodput": 0.931},
        {
            **{"run": "waits", "cluster": "rayml", "state": "waiting to retry", "reason": "", "step": 120},
            **{"steps_per_second": None, "loss": "nan", "checkpoint_age_seconds": None, "goodput": 0.931},
        },
        {
            # Its last checkpoint is newer than its last figures.
            **{"run": "silent", **expected, "step": 130, "steps_per_second": 2.31},
            **{"loss": 0.4321, "checkpoint_age_seconds": None, "goodput": 0.931},
        },
        {
            **{"run": "starts", **expected, "reason": "starts 4 workers", "step": None, "steps_per_second": None},
            **{"loss": None, "checkpoint_age_seconds": None, "goodput": None},
        },
    ]
    header, *lines = ops("top").stdout.splitlines()
    assert header.split() == ["run", "state", "step", "steps/s", "loss", "last", "checkpoint", "goodput"]
    assert lines[0].split()[:5] == ["train", "running", "120", "2.31", "0.4321"]
    assert lines[0].endswith(" s ago    93.1%")
    assert lines[1].split() == ["waits", "waiting", "to", "retry", "120", "nan", "93.1%"]
    assert lines[3].split() == ["starts", "running:", "starts", "4", "workers"]
    assert [line.split()[0] for line in lines] == list(names)


def test_top_is_redrawn_on_a_terminal_only(cluster: Apis, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused("top", "--watch", code=2) == (
        "--watch is refused: it redraws a table. Allowed: a terminal, without -o. Fix: use `-o json` in a loop"
    )
    cluster.kubernetes[JOBS] = {"items": [a_run("train")]}
    drawn: list[str] = []

    def once(draw: Callable[[str], RenderableType], console: Console) -> None:
        drawn.append(draw_text(draw(", watching for 0 s")))
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.console, "_force_terminal", True)
    monkeypatch.setattr(live, "watch", once)
    assert ops("top", "--watch").exit_code == 130
    assert "train" in drawn[0]
    assert drawn[0].rstrip().endswith("UTC, watching for 0 s")


def draw_text(drawn: RenderableType) -> str:
    console = Console(width=100)
    with console.capture() as captured:
        console.print(drawn)
    return captured.get()


def test_stop_is_a_request_that_the_supervisor_reads(cluster: Apis) -> None:
    cluster.kubernetes |= {f"{JOBS}/train": a_run("train"), f"{LEASES}/train": a_lease("train")}
    assert ops("stop", "train").exit_code == 0
    [(change, body)] = cluster.changes
    assert change == f"PATCH {JOBS}/train"
    assert body == {"metadata": {"annotations": {"ray-on-hyperpod/stop": "requested"}}}


def test_requested_stop_is_shown_before_the_supervisor_has_acted(cluster: Apis) -> None:
    requested = {"annotations": {"ray-on-hyperpod/stop": "requested"}}
    jobs = [a_run("train"), a_run("ended", condition="Failed")]
    cluster.kubernetes[JOBS] = {"items": [{**job, "metadata": {**job["metadata"], **requested}} for job in jobs]}
    cluster.kubernetes[LEASES] = {"items": [a_lease(name, phase="running", reason="") for name in ("train", "ended")]}
    listed = {run["run"]: run["reason"] for run in json.loads(ops("list", "-o", "json").stdout)}
    assert listed == {"train": "stop requested: it saves, then ends", "ended": ""}


@pytest.mark.parametrize("command", ["logs", "stop"])
def test_unknown_run_is_reported(cluster: Apis, command: str) -> None:
    assert "there is no run nothing in namespace ray" in refused(command, "nothing", code=1)


def test_run_that_is_over_cannot_be_stopped(cluster: Apis) -> None:
    cluster.kubernetes |= {f"{JOBS}/train": a_run("train", condition="Failed"), f"{LEASES}/train": a_lease("train")}
    said = "the run train has ended. Allowed: runs that have not ended. Fix: see `ops job list`"
    assert refused("stop", "train", code=1) == said


def test_a_misspelt_job_gets_a_suggestion_among_the_jobs_only() -> None:
    """Modules that jobs import are no jobs, so they are not suggested."""
    said = refused("submit", "fsdp_finetun", code=2)
    jobs = (
        "batch_inference, fsdp_finetune, lightning_finetune, llm_export, llm_finetune, pytorch_ddp, serve_finetuned, "
        "smoke, sweep"
    )
    assert f"Allowed: {jobs}. Fix: did you mean 'fsdp_finetune'?" in said


@pytest.mark.parametrize("terminal", [False, True])
def test_the_name_of_a_run_is_never_cut(cluster: Apis, monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    name = "a-run-with-a-name-of-fifty-characters-20261101-1000"
    cluster.kubernetes[JOBS] = {"items": [a_run(name)]}
    cluster.kubernetes[LEASES] = {"items": [a_lease(name, phase="running", reason="no reason " * 20)]}
    monkeypatch.setattr(cli.console, "_width", 40)
    monkeypatch.setattr(cli.console, "_force_terminal", terminal)
    lines = ops("list").stdout.splitlines()
    assert [line for line in lines if name in line]
    assert len(lines) == 2 or terminal
