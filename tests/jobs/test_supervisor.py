"""The job supervisor against the Jobs API of a real Ray head, with a fake Kubernetes API server."""

import hashlib
import os
import secrets
import shlex
import shutil
import signal
import site
import subprocess
import sys
import tempfile
import threading
import time
import venv
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final
from zipfile import ZipFile

import pytest
from typing_extensions import Self

from controllers.ray_jobs_api import ENDED, PORT, HeadUnavailableError, RayError, RayJobs
from embedded_account.kubernetes import pki
from embedded_account.machine.processes import free_port
from ops.isolation import probe
from ray_resume.output.kept import jobs, pieces
from ray_resume.storage import open_storage
from tests.jobs.support.embedded_s3 import VARIABLES, serving
from tests.jobs.support.version_set import SET
from tests.support.fake_kubernetes import serve
from tests.support.supervised_run import PYTHON, ROOT, Supervised
from tests.support.waiting import wait_until

JOB: Final = """
import os, pathlib, sys, time, ray_resume
assert ray_resume.keep_output()
runs = pathlib.Path(os.environ["RUN_STORAGE"], os.environ["RUN_NAME"])
runs.mkdir(parents=True, exist_ok=True)
attempt = os.environ["RUN_ATTEMPT"]
(runs / f"began-{attempt}").touch(exist_ok=False)
print("begins", flush=True)
step = 10 * int(attempt)
if "silent" not in sys.argv:
    print(f"run x attempt {attempt}: checkpoint of step {step} written in 0.1 s", flush=True)
while not (runs / "go").exists():
    time.sleep(0.1)
print("ends", flush=True)
sys.exit(int((runs / "go").read_text()))
"""


# Each attempt of a run waits for a real head, in most of them several times.
a_real_run: Final = pytest.mark.sampled(3, of="supervised runs on a real head")

TOKEN: Final = "dGhlIHRva2VuIG9mIGEgdGVzdA=="

LARGE: Final = """
import hashlib, helper, os, pathlib, ray.train, sys, tempfile
from ray.train.data_parallel_trainer import DataParallelTrainer

def seen(seeing):
    digest = hashlib.sha256(pathlib.Path("data/größe.bin").read_bytes()).hexdigest()
    return f"{seeing} has {helper.NAME} {digest} {os.environ['GREETING']}"

def train(config):
    out = pathlib.Path(config["out"], str(ray.train.get_context().get_world_rank()))
    out.write_text(seen("a worker") + "\\n" + os.getcwd())

ray.init(log_to_driver=False)
out = tempfile.mkdtemp()
scaling = ray.train.ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.5}, trainer_resources={"CPU": 0})
storage = ray.train.RunConfig(storage_path=os.environ["RUN_STORAGE"])
DataParallelTrainer(train, train_loop_config={"out": out}, scaling_config=scaling, run_config=storage).fit()
print(seen("the driver"))
print("arguments", sys.argv[1:], "attempt", os.environ["RUN_ATTEMPT"])
workers = [path.read_text().splitlines() for path in pathlib.Path(out).iterdir()]
for said, folder in workers:
    print(said)
    assert os.getcwd() != folder
"""


class Head:
    """A head on a loopback address of its own with the dashboard on Ray's port, like a pod of a RayCluster."""

    def __init__(self, python: Path, token: str = "") -> None:
        self._python = str(python)
        self._token = token
        self.address = ".".join(["127", *(str(secrets.randbelow(250) + 2) for _ in range(3))])
        # Short, because a socket's path has at most 107 characters.
        self._directory = Path(tempfile.mkdtemp(prefix="ray-"))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self._directory, ignore_errors=True)

    def start(self) -> None:
        """Start the head, and wait until it accepts jobs."""
        self._launch()
        try:
            wait_until(self._takes_jobs, "a head that takes jobs")
        except BaseException:
            self.kill()
            raise

    def _launch(self) -> None:
        words = {
            "node-ip-address": self.address,
            "dashboard-host": self.address,
            "dashboard-port": 8265,
            "num-cpus": 1,
            "object-store-memory": 100_000_000,
            "temp-dir": self._directory,
            # Ray requires these ports to be free on all addresses, and other tests' heads may use the default ports.
            **{f"{name}-port": free_port() for name in ("dashboard-agent-listen", "dashboard-agent-grpc")},
            **{f"{name}-port": free_port() for name in ("metrics-export", "ray-client-server", "runtime-env-agent")},
            "port": free_port(),
        }
        argv = [
            *(self._python, "-m", "ray.scripts.scripts", "start"),
            "--head",
            "--block",
            "--disable-usage-stats",
            *(f"--{k}={v}" for k, v in words.items()),
        ]
        # Jobs start `python`, which is the image's.
        env = {**os.environ, "PATH": f"{Path(self._python).parent}:{os.environ['PATH']}"}
        if self._token:
            env |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self._token}
        with (self._directory / "head.log").open("ab") as log:
            self._process = subprocess.Popen(argv, env=env, stdout=log, stderr=log, start_new_session=True)

    def kill(self) -> None:
        """Kill the head and all its processes at once."""
        if self._process:
            for pid in _family(self._process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def jobs(self) -> list[str]:
        """Return the submission ids that the head knows."""
        return [job.submission_id for job in RayJobs(self.address).list()]

    def forget_jobs(self) -> None:
        """Stop and delete all jobs, because another test's jobs have the same names."""
        jobs = RayJobs(self.address)
        for job in jobs.list():
            if job.status not in ENDED:
                jobs.stop(job.submission_id)
                wait_until(lambda: all(each.status in ENDED for each in jobs.list()), "the end of a job")
            connection = HTTPConnection(self.address, PORT)
            connection.request("DELETE", f"/api/jobs/{job.submission_id}", headers={"User-Agent": "test"})
            assert connection.getresponse().status == HTTPStatus.OK
            connection.close()

    def _takes_jobs(self) -> bool:
        if self._process and self._process.poll() is not None:
            # Ray gives up a start that takes half a minute, as on a busy machine; a kubelet starts it again.
            self._launch()
            return False
        try:
            return RayJobs(self.address, token=self._token).list() == []
        except (HeadUnavailableError, RayError):
            return False


def _family(root: int) -> list[int]:
    """Return a process and all its descendants, which Ray starts in sessions of their own."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            parents[int(stat.parent.name)] = int(stat.read_text().rsplit(")", 1)[1].split()[1])
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


@pytest.fixture(scope="module")
def shared_head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    """Yield one head for all tests, because it takes ten seconds to start; its pods would have a role for the S3."""
    with serving(tmp_path_factory.mktemp("s3")) as address, pytest.MonkeyPatch.context() as patched:
        for name, value in {**VARIABLES, "AWS_ENDPOINT_URL": address}.items():
            patched.setenv(name, value)
        with Head(small_environment(tmp_path_factory.mktemp("python"))) as made:
            yield made


def small_environment(directory: Path) -> Path:
    """Return the Python of an environment with all packages of this one; Ray copies the environment for `--pip`.

    This one has 5 GB. An image has no environment: there, Ray makes one that sees the image's packages.
    """
    venv.create(directory, with_pip=True, symlinks=True)
    [packages] = directory.glob("lib/python*/site-packages")
    (packages / "jobs.pth").write_text("\n".join(site.getsitepackages()))
    return directory / "bin" / "python"


@pytest.fixture
def head(shared_head: Head) -> Iterator[Head]:
    """Return a head without jobs."""
    yield shared_head
    shared_head.forget_jobs()


@pytest.fixture
def run(head: Head, tmp_path: Path) -> Iterator[Supervised]:
    certificates = pki.create(tmp_path / "pki", service_ip="10.100.0.1")
    with serve(certificates, tmp_path / "account") as kubernetes:
        made = Supervised(kubernetes, head.address, tmp_path)
        yield made
        made.end()


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return the folder to which the run writes."""
    return tmp_path / "runs" / "train"


def start(run: Supervised, directory: Path, *words: str, name: str = "train-abcde") -> None:
    """Start a supervisor of the job above, with the job's code in a package."""
    package = directory / "_ray_pkg_0123456789abcdef.zip"
    with ZipFile(package, "w") as archive:
        archive.writestr("train.py", JOB)
    arguments = (f"--package={package}", f"--storage={directory / 'runs'}")
    run.start(*arguments, name=name, entrypoint=" ".join([sys.executable, "train.py", *words]), hurried=False)


def kept(directory: Path) -> bytes:
    """Return the output of the first attempt, once the run's storage has all of it."""
    storage = open_storage(str(directory / "runs"), "train")
    found = [job for job in jobs(storage) if job.job == "train-1" and job.series.startswith("job-") and job.size]
    return b"".join(content for job in found for _, content in pieces(storage, job))


def let_end(directory: Path, *, code: int) -> None:
    """Make the job end with this exit code; write the file atomically, so that the job never reads it empty."""
    (new := directory / "go.new").write_text(str(code))
    new.replace(directory / "go")


@a_real_run
def test_job_runs_to_its_end_with_its_output_and_exit_code(run: Supervised, runs: Path, tmp_path: Path) -> None:
    start(run, tmp_path, "silent")
    wait_until((runs / "began-1").exists, "the first attempt")
    let_end(runs, code=7)
    assert run.exit_code() == 7
    lines = run.log.read_text().splitlines()
    assert [line for line in lines if line in ("begins", "ends")] == ["begins", "ends"]
    assert run.state["phase"] == "failed"
    wait_until(lambda: kept(tmp_path).endswith(b"begins\nends\n"), "all of the output, in the run's storage")


@a_real_run
def test_killed_supervisor_is_succeeded_without_a_second_submission(
    run: Supervised, runs: Path, head: Head, tmp_path: Path
) -> None:
    start(run, tmp_path)
    wait_until((runs / "began-1").exists, "the first attempt")
    run.kill()
    start(run, tmp_path, name="train-fghij")
    wait_until(
        lambda: run.logged("waiting for the lease"), "a second supervisor: the one that was killed held the lease"
    )
    run.free_lease()
    wait_until(lambda: run.logged("found"), "the job, found by the second supervisor")
    assert head.jobs() == ["train-1"]
    let_end(runs, code=0)
    assert run.exit_code() == 0
    assert not (runs / "began-2").exists()


@a_real_run
def test_lost_head_is_followed_by_the_next_attempt_after_its_return(
    run: Supervised, runs: Path, head: Head, tmp_path: Path
) -> None:
    start(run, tmp_path)
    wait_until(lambda: "checkpoint of step 10 written" in run.log.read_text(), "progress")
    head.kill()
    wait_until(lambda: run.state.get("phase") == "waiting for the head", "a supervisor that waits for the head")
    head.start()
    back = time.monotonic()
    wait_until((runs / "began-2").exists, "the second attempt")
    print(f"attempt 2 began {time.monotonic() - back:.1f} s after the head was back")
    assert head.jobs() == ["train-2"]
    let_end(runs, code=0)
    assert run.exit_code() == 0
    assert run.state["progress"] == 20


@a_real_run
def test_stopped_run_ends_in_ray(run: Supervised, runs: Path, head: Head, tmp_path: Path) -> None:
    start(run, tmp_path)
    wait_until((runs / "began-1").exists, "the first attempt")
    run.stop()
    assert run.exit_code() == 130
    [job] = RayJobs(head.address).list()
    assert job.status == "STOPPED"
    wait_until(lambda: b"begins\n" in kept(tmp_path), "the output until the stop, in the run's storage")


@a_real_run
def test_large_working_directory_and_variables_reach_driver_and_train_functions(
    run: Supervised, tmp_path: Path
) -> None:
    # Ray knows a package by its name, and the head has that of the other tests.
    folder, package, shared = tmp_path / "mine", tmp_path / "_ray_pkg_fedcba9876543210.zip", tmp_path / "runs/.packages"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "größe.bin").write_bytes(content := secrets.token_bytes(30_000_000))
    (folder / "helper.py").write_text("NAME = 'the helper'")
    (folder / "train.py").write_text(LARGE)
    fetch = fetching(folder, package, shared)
    digest = hashlib.sha256(content).hexdigest()

    words = (f"--package={package}", f"--storage={tmp_path / 'runs'}", "--variable=GREETING=it's a = b")
    run.start(*words, entrypoint=f"{fetch} python train.py --name 'a b'", hurried=False)
    assert run.exit_code() == 0, run.log.read_text()
    lines = run.log.read_text().splitlines()
    assert lines.count(f"a worker has the helper {digest} it's a = b") == 2
    assert f"the driver has the helper {digest} it's a = b" in lines
    assert "arguments ['--name', 'a b'] attempt 1" in lines
    [zipped] = shared.iterdir()
    assert f"{hashlib.sha256(zipped.read_bytes()).hexdigest()}.zip" == zipped.name


@pytest.fixture
def index(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Serve a package index with one wheel, `greeting` 1.0; yield its address and the wheel's SHA-256."""
    wheel = tmp_path / "index" / "greeting" / "greeting-1.0-py3-none-any.whl"
    wheel.parent.mkdir(parents=True)
    with ZipFile(wheel, "w") as archive:
        archive.writestr("greeting.py", "TEXT = 'hello'")
        for name, text in {
            "METADATA": "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n",
            "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            "RECORD": "",
        }.items():
            archive.writestr(f"greeting-1.0.dist-info/{name}", text)
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "index"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", hashlib.sha256(wheel.read_bytes()).hexdigest()
    server.shutdown()
    thread.join()
    server.server_close()


INSTALLED: Final = """
import greeting, ray, torch

@ray.remote
def seen():
    import greeting
    return greeting.TEXT

ray.init(log_to_driver=False)
print("the driver says", greeting.TEXT)
print("a worker says", ray.get(seen.remote()))
"""


@a_real_run
def test_locked_packages_are_installed_for_driver_and_workers_over_the_images(
    run: Supervised, index: tuple[str, str]
) -> None:
    address, digest = index
    lines = (f"--index-url {address}", "--only-binary :all:", f"greeting==1.0 --hash=sha256:{digest}")
    run.start(*(f"--pip={line}" for line in lines), entrypoint=shlex.join(["python", "-c", INSTALLED]), hurried=False)
    assert run.exit_code() == 0, run.log.read_text()
    assert {"the driver says hello", "a worker says hello"} <= set(run.log.read_text().splitlines())


@a_real_run
def test_package_with_another_hash_is_not_installed_and_the_run_says_so(
    run: Supervised, index: tuple[str, str]
) -> None:
    lines = (f"--index-url {index[0]}", f"greeting==1.0 --hash=sha256:{'0' * 64}")
    run.start(*(f"--pip={line}" for line in lines), "--max-stalled=1", entrypoint="true", hurried=False)
    assert run.exit_code() == 1
    assert run.state["reason"].startswith("the job failed: ERROR: THESE PACKAGES DO NOT MATCH THE HASHES")


def fetching(folder: Path, package: Path, shared: Path) -> str:
    """Upload a folder as `ops job submit` does; return the command that fetches it."""
    argv = [str(PYTHON), "-m", "tests.jobs.support.upload", str(folder), str(package), str(shared)]
    variables = {**os.environ, "PYTHONPATH": "packages/embedded-account"}
    done = subprocess.run(argv, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "has the working directory already" in done.stderr
    return done.stdout.strip()


def test_head_with_a_token_takes_jobs_from_the_supervisor_and_refuses_others(tmp_path: Path, runs: Path) -> None:
    """Ray before 2.52 asks for no token, and ignores one."""
    certificates = pki.create(tmp_path / "pki", service_ip="10.100.0.1")
    with (
        Head(Path(sys.executable), TOKEN) as head,
        serve(certificates, tmp_path / "account") as kubernetes,
    ):
        asks = tuple(map(int, SET.ray.split("."))) >= (2, 52)
        # As `ops isolation-check` finds out.
        assert probe.attempt(head.address, PORT, token=True) == (probe.CONNECTED if asks else probe.WITHOUT_TOKEN)
        if asks:
            for token, refusal in (("", "401: Unauthorized: Missing"), ("another", "403: Forbidden: Invalid")):
                with pytest.raises(RayError, match=refusal):
                    RayJobs(head.address, token=token).list()
                with pytest.raises(HeadUnavailableError, match=f"no WebSocket: .* {refusal[:3]} "):
                    RayJobs(head.address, token=token).tail("train-1")
        run = Supervised(kubernetes, head.address, tmp_path)
        try:
            run.takes_token(TOKEN)
            start(run, tmp_path)
            wait_until((runs / "began-1").exists, "the first attempt")
            head.kill()
            run.head(None)
            head.start()
            run.head(head.address, "head-2")
            run.takes_token(TOKEN)
            wait_until((runs / "began-2").exists, "the second attempt, on the head that was started again")
            let_end(runs, code=0)
            assert run.exit_code() == 0
            assert "ends" in run.log.read_text().splitlines()
            assert TOKEN not in run.log.read_text()
        finally:
            run.end()
