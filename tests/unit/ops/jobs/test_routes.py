"""`ops job submit` in its five routes: what the command takes for the job, the job gets in each of them."""

import json
import secrets
import shlex
import sys
import zipfile
from base64 import b64decode
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import pytest

import config
from config import naming
from controllers import job_supervisor, rayjob_submitter
from controllers.ray_jobs_api import by_name
from ops.jobs import direct
from ops.jobs.bucket import WorkingDirUpload
from ops.jobs.head_api import HeadApi
from ops.jobs.packing import FETCHER, LARGEST_BYTES
from ops.jobs.run import RunRequest
from tests.unit.ops.jobs.test_job import (
    CONFIG_MAPS,
    JOBS,
    LEASES,
    POD,
    PODS,
    RAY_CLUSTERS,
    TEMPLATE,
    a_run,
    ops,
    refused,
)
from tests.unit.ops.jobs.test_pytorchjob import PYTORCH_JOBS, a_pytorch_job, a_ray_cluster, worker_of
from tests.unit.ops.jobs.test_rayjob import RAY_JOBS, a_ray_job, a_submitter
from tests.unit.ops.jobs.test_rayjob import TEMPLATE as SUBMITTERS_TEMPLATE
from tests.unit.support.fake_apis import Apis

ROUTES: Final = {
    "supervised": ("--detach",),
    "rayjob": ("--as", "rayjob", "--detach"),
    "pytorchjob": ("--as", "pytorchjob", "--max-attempts", "1", "--detach"),
    "direct": ("--direct", "--detach"),
    "in-head": ("--in-head",),
}


@dataclass(frozen=True)
class JobAsStarted:
    """What a job is started with: its shell command, its variables, its packages and the files beside it."""

    command: str
    variables: dict[str, str]
    pip: list[str]
    files: list[str]


Started = tuple[str, dict[str, str], list[str]]
"""Command, variables and packages."""


class Submissions:
    """Submits one job by a route, and reads what the route sent as the one who starts the job reads it."""

    def __init__(self, apis: Apis, patch: pytest.MonkeyPatch) -> None:
        self.apis = apis
        self._patch = patch
        self._sent: dict[str, Any] = {}
        self._packages: list[bytes] = []
        spec = {"schedule": "", "jobTemplate": {"spec": {"template": {"spec": POD}}}}
        submitter = {"schedule": "", "jobTemplate": {"spec": {"template": a_submitter()}}}
        apis.kubernetes |= {
            RAY_CLUSTERS: {"items": [a_ray_cluster()]},
            f"{RAY_CLUSTERS}/rayml": a_rayjobs_cluster(),
            TEMPLATE: {"metadata": {"name": "job-supervisor"}, "spec": spec},
            SUBMITTERS_TEMPLATE: {"metadata": {"name": "rayjob-submitter"}, "spec": submitter},
            f"POST {JOBS}": a_run("train"),
            f"POST {RAY_JOBS}": (201, a_ray_job("train")),
            f"POST {PYTORCH_JOBS}": (201, a_pytorch_job("train")),
            **{path: {"items": []} for path in (JOBS, LEASES, PODS, RAY_JOBS, PYTORCH_JOBS)},
        }
        patch.setattr(direct, "heads", lambda *_: ["head"])
        patch.setattr(direct, "refuse_simulated", lambda *_: None)
        patch.setattr(HeadApi, "jobs", lambda _: [])
        patch.setattr(HeadApi, "upload", lambda _, _name, content: self._packages.append(content))
        patch.setattr(HeadApi, "submit", lambda _, request: self._sent.update(request))
        patch.setattr(direct, "submit_in_head", self._in_head)
        patch.setattr(WorkingDirUpload, "run", lambda upload, *_: apis.changes.append(("upload", upload.fetch(""))))

    def submit(self, route: str, *arguments: str) -> JobAsStarted:
        """Submit a job with these arguments of `ops job submit`; return what the route starts."""
        result = ops("submit", "--name", "train", *ROUTES[route], *arguments)
        assert result.exit_code == 0, result.output
        self._packages += [
            b64decode(content)
            for name, body in self.apis.changes
            if name == f"POST {CONFIG_MAPS}"
            for content in body["binaryData"].values()
        ]
        names = [name for package in self._packages for name in zipfile.ZipFile(BytesIO(package)).namelist()]
        command, variables, pip = getattr(self, f"_of_{route.replace('-', '_')}")()
        return JobAsStarted(command, variables, pip, names)

    def _of_supervised(self) -> Started:
        return self._of_arguments(job_supervisor, dict(self.apis.changes)[f"POST {JOBS}"]["spec"]["template"])

    def _of_rayjob(self) -> Started:
        spec = dict(self.apis.changes)[f"POST {RAY_JOBS}"]["spec"]
        return self._of_arguments(rayjob_submitter, spec["submitterPodTemplate"])

    def _of_arguments(self, program: Any, template: dict[str, Any]) -> Started:
        """Return what the deployed program makes of its arguments, which the kubelet has expanded."""
        given = [word.replace("$$(", "$(") for word in template["spec"]["containers"][0]["args"]]
        of_the_template = [] if program is rayjob_submitter else ["--service-account=/"]
        self._patch.setattr(sys, "argv", ["program", "--listen=:0", *of_the_template, *given])
        arguments = program._arguments()
        return arguments.entrypoint, by_name(arguments.variable), arguments.pip

    def _of_pytorchjob(self) -> Started:
        [container] = worker_of(dict(self.apis.changes)[f"POST {PYTORCH_JOBS}"])["template"]["spec"]["containers"]
        variables = {each["name"]: each.get("value", "").replace("$$(", "$(") for each in container["env"]}
        return container["command"][-1].replace("$$(", "$("), variables, []

    def _of_direct(self) -> Started:
        return self._sent["entrypoint"], *_of_environment(self._sent["runtime_env"])

    def _of_in_head(self) -> Started:
        words = shlex.split(self._sent["script"].rpartition(" && ")[2])
        environment = json.loads(words[words.index("--runtime-env-json") + 1])
        return shlex.join(words[words.index("--") + 1 :]), *_of_environment(environment)

    def _in_head(self, _core: object, _namespace: str, _pod: str, request: RunRequest) -> int:
        self._sent["script"] = direct.script(request)
        if request.package:
            self._packages.append(request.package.content)
        return 0


def _of_environment(environment: dict[str, Any]) -> tuple[dict[str, str], list[str]]:
    return environment["env_vars"], environment.get("pip", {}).get("packages", [])


def a_rayjobs_cluster() -> dict[str, Any]:
    """Return a RayCluster that a RayJob can copy, too."""
    made = a_ray_cluster()
    made["spec"]["headGroupSpec"] = {"template": {"spec": {"containers": []}}}
    return made


@pytest.fixture
def submissions(apis: Apis, monkeypatch: pytest.MonkeyPatch) -> Submissions:
    return Submissions(apis, monkeypatch)


GIVEN: Final = ("--variable", "NCCL_DEBUG=INFO", "--variable", "EMPTY=", "--variable", "TEXT=it's $(one) = 'a b'\n--")


@pytest.mark.parametrize("route", ROUTES)
def test_variables_reach_the_job_unchanged(submissions: Submissions, route: str) -> None:
    job = submissions.submit(route, *GIVEN, "--", "true")
    expected = {"NCCL_DEBUG": "INFO", "EMPTY": "", "TEXT": "it's $(one) = 'a b'\n--"}
    assert expected.items() <= job.variables.items()
    assert job.command == "true"


@pytest.mark.parametrize("route", ROUTES)
def test_large_working_directory_is_uploaded_first_and_fetched_by_the_job(
    submissions: Submissions, route: str, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("")
    (tmp_path / "weights.bin").write_bytes(secrets.token_bytes(LARGEST_BYTES))
    job = submissions.submit(route, str(tmp_path / "train.py"), "--", "--text", "it's")
    assert submissions.apis.changes[0][0] == "upload"
    python, program, address, digest, folder, *command = shlex.split(job.command)
    assert (python, program) == ("python", FETCHER.name)
    assert address == f"s3://{naming.data_bucket(config.load('dev'))}/ray/packages/{digest}.zip"
    assert folder == ("." if route == "pytorchjob" else "/fsx/ray/runs/.packages")
    assert command == ["torchrun" if route == "pytorchjob" else "python", "train.py", "--text", "it's"]
    assert FETCHER.name in job.files
    assert "weights.bin" not in job.files


@pytest.mark.parametrize("route", ["direct", "in-head"])
@pytest.mark.parametrize("uploads", [True, False])
def test_train_functions_stay_in_a_working_directory(
    submissions: Submissions, route: str, uploads: bool, tmp_path: Path
) -> None:
    words = ("--working-dir", str(tmp_path)) if uploads else ()
    variables = submissions.submit(route, *words, "--", "true").variables
    assert variables.get("RAY_CHDIR_TO_TRIAL_DIR") == ("0" if uploads else None)


_OWN: Final = "Ray, torchrun or this project sets it. Allowed: other names. Fix: leave it out"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("s3cret",), "--variable number 1 is invalid (its value is not shown): it has no `=`. Allowed: KEY=VALUE."),
        (("=s3cret",), "--variable number 1 is invalid (its value is not shown): its name is wrong."),
        (("A-B=s3cret",), "--variable number 1 is invalid (its value is not shown): its name is wrong."),
        (("1A=s3cret",), "--variable number 1 is invalid"),
        (("A=1", "A=s3cret"), "--variable 'A' is invalid (its value is not shown): it is given twice."),
        (
            ("HUB=hf_s3creta1b2c3d4e5f6g7h8i9j0",),
            "it has the form of a Hugging Face token, and everyone who can read Jobs",
        ),
        (("A=s3cret\udcff",), "it is not UTF-8"),
        *(
            ((f"{name}=s3cret",), f"--variable {name!r} is invalid (its value is not shown): {_OWN}")
            for name in (
                *("RUN_NAME", "RUN_STORAGE", "RUN_MIN_WORKERS", "RAY_ADDRESS", "RAY_CHDIR_TO_TRIAL_DIR"),
                *("REDIS_PASSWORD", "FQ_RAY_IP", "NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "PET_NNODES"),
                *("RANK", "WORLD_SIZE", "MASTER_ADDR", "LOCAL_RANK", "TORCHELASTIC_RUN_ID"),
            )
        ),
    ],
)
def test_each_wrong_variable_is_one_message_without_its_value(apis: Apis, given: tuple[str, ...], message: str) -> None:
    words = [word for each in given for word in ("--variable", each)]
    refusal = refused("submit", *words, "--", "true", code=2)
    assert message in refusal
    assert "s3cret" not in refusal
    assert apis.tokens == []


def test_every_variable_that_the_project_sets_for_a_job_is_refused(submissions: Submissions) -> None:
    """The name of each comes from the submissions themselves, so that a new one cannot be forgotten."""
    clusters_own = {"NCCL_SOCKET_IFNAME"}
    for route in ROUTES:
        submissions.apis.changes.clear()
        for name in submissions.submit(route, "--", "true").variables.keys() - clusters_own:
            assert "is invalid" in refused("submit", "--variable", f"{name}=x", "--", "true", code=2), name


def test_name_of_a_secret_is_warned_of_and_no_value_is_printed(submissions: Submissions) -> None:
    result = ops("submit", "--name", "train", "--detach", "--variable", "WANDB_API_KEY=s3cret", "--", "true")
    assert result.exit_code == 0, result.output
    assert "warning: --variable WANDB_API_KEY: its name suggests a secret" in result.stderr
    assert "s3cret" not in result.output
