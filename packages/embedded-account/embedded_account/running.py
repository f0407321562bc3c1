"""Run the embedded account as a process of its own, for programs and tests that deploy to it."""

import fcntl
import json
import os
import shutil
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from embedded_account.kubernetes.building import archive, binaries, golang
from embedded_account.machine.isolation import child_environment
from embedded_account.machine.processes import Child, ProcessError, ProcessSupervisor, end_living, free_port
from embedded_account.paths import CDK_PRELOAD, nearest_node_modules
from embedded_account.run_keys import RunKeys

if TYPE_CHECKING:
    from embedded_account.existing_description import ExistingResources
    from embedded_account.kubernetes.pods.programs import RealRay

ACCOUNT_ID: Final = "111122223333"
REGION: Final = "us-west-2"
CLOCK_SCALE: Final = 300.0
"""Simulated seconds in a real second, so a simulated minute takes 0.2 s.

In real time, a node group's minutes and a file system's ten minutes would dominate a rehearsal.
"""

# Long, because a single request can start a whole control plane.
_PATIENCE_SECONDS: Final = 300
# The time in which the account must stop its control planes.
_END_SECONDS: Final = 30


class EmbeddedAccount:
    """An AWS account on localhost, for its clients. `serve` creates, starts and stops one.

    `endpoint` contains the name `localhost` and no address, because the CDK CLI needs the name.
    """

    def __init__(
        self,
        directory: Path,
        programs: Path,
        *,
        account_id: str,
        region: str,
        node_modules: Path,
        extensions: Sequence[str] = (),
        cwd: Path | None = None,
        quotas: Path | None = None,
    ) -> None:
        """Choose a free port and issue keys; start nothing yet.

        Args:
            directory: Folder for the account's files.
            programs: Folder of the control plane's programs.
            account_id: Twelve digits.
            region: The account's only region.
            node_modules: Folder in which npm installed the CDK CLI.
            extensions: Modules whose `install(account)` the account calls.
            cwd: Working directory of the account, which is on the import path of the extensions.
            quotas: File of quotas (embedded_account/quotas_file.py); without one, those of a new account.
        """
        self.directory = directory
        self.account_id = account_id
        self.region = region
        self.port = free_port()
        self.endpoint = f"http://localhost:{self.port}"
        self.keys = RunKeys.issue()
        self._process: Child | None = None
        self._programs = programs
        self._node_modules = node_modules
        self._extensions = extensions
        self._cwd = cwd
        self._quotas = quotas
        # Before the caller isolates its process: the account may have to build Kubernetes.
        given = {name: value for name, value in os.environ.items() if name == archive.VARIABLE}
        self._build = {**golang.settings(), **given}

    def start(
        self,
        supervisor: ProcessSupervisor,
        *,
        clock_scale: float = CLOCK_SCALE,
        survives_parent: bool = False,
        real_rays: "Sequence[RealRay]" = (),
    ) -> Child:
        """Start the account and return its process, which ends with this process unless `survives_parent`.

        The pods of the images of `real_rays` really run.
        """
        argv = [sys.executable, "-m", "embedded_account", "serve"]
        for option, value in {
            "--port": self.port,
            "--account-id": self.account_id,
            "--region": self.region,
            "--directory": self.directory,
            "--binaries": self._programs,
            "--node-modules": self._node_modules,
            "--clock-scale": clock_scale,
        }.items():
            argv += [option, str(value)]
        if self._quotas:
            argv.append(f"--quotas={self._quotas}")
        argv += [f"--ray={ray}" for ray in real_rays]
        argv += [f"--extension={name}" for name in self._extensions]
        env = child_environment(
            self.directory,
            region=self.region,
            account_id=self.account_id,
            extra={**self._build, **self.keys.in_environment},
        )
        self._process = supervisor.start(
            "account",
            argv,
            env,
            ready=self._answers,
            timeout=_PATIENCE_SECONDS,
            survives_parent=survives_parent,
            cwd=self._cwd,
        )
        return self._process

    @property
    def has_ended(self) -> bool:
        """Return whether the account's process has ended."""
        return self._process is not None and self._process.has_ended

    @property
    def environment(self) -> dict[str, str]:
        """The complete environment of a command that deploys to the account.

        It takes only PATH and the language from the caller. PATH begins with npm's programs, including the CDK CLI.
        The same kubectl and Helm that the account's functions use come next.
        """
        variables = child_environment(
            self.directory,
            endpoint=self.endpoint,
            region=self.region,
            account_id=self.account_id,
            extra=self.keys.aws | {"NODE_OPTIONS": f"--require={json.dumps(str(CDK_PRELOAD))}"},
        )
        return variables | {
            "PATH": os.pathsep.join([str(self._node_modules / ".bin"), str(self._programs), variables["PATH"]]),
            # In each run's new home, jsii would unpack aws-cdk-lib and the layers again: ten seconds of a core. Its
            # folders are named after digests, and it removes those that nobody used for a month.
            "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(self._programs.parent / binaries.JSII_PACKAGES),
        }

    def client(self, service: str, credentials: Mapping[str, str] | None = None) -> Any:
        """Return a boto3 client of the account, by default with its root keys."""
        import boto3  # noqa: PLC0415 - a third of a second, and many callers need no client

        own = {"AccessKeyId": self.keys.access_key_id, "SecretAccessKey": self.keys.secret_access_key}
        keys = credentials or own
        session: Any = boto3.Session(
            aws_access_key_id=keys["AccessKeyId"],
            aws_secret_access_key=keys["SecretAccessKey"],
            aws_session_token=keys.get("SessionToken"),
            region_name=self.region,
        )
        return session.client(service, endpoint_url=self.endpoint)

    def admin_kubeconfig(self, cluster: str) -> Path:
        """Return the administrator's kubeconfig of an EKS cluster: for inspection, not for deployments."""
        return self.directory / "clusters" / cluster / "admin.kubeconfig"

    def inventory(self) -> list[dict[str, Any]]:
        """Return every resource that exists, with its `owner` (embedded_account/inventory.py: Item)."""
        items: list[dict[str, Any]] = self._call("/_rehearsal/inventory")
        return items

    def journal(self) -> list[dict[str, Any]]:
        """Return the journal of the account, in order."""
        entries: list[dict[str, Any]] = self._call("/_rehearsal/journal")
        return entries

    def set_hyperpod_faults(self, faults: Mapping[str, Any]) -> None:
        """Inject faults into HyperPod; embedded_account/hyperpod/fault_requests.py describes them."""
        self._call("/_rehearsal/hyperpod/faults", json.dumps(faults).encode())

    def make_existing(self, resources: "ExistingResources") -> None:
        """Create the infrastructure that a deployment reuses (embedded_account/existing.py)."""
        self._call("/_rehearsal/existing", resources.model_dump_json().encode())

    def prepare_cluster(self, name: str, version: str) -> None:
        """Begin to start the control plane of an EKS cluster that a deployment creates later."""
        self._call("/_rehearsal/eks/prepare", json.dumps({"name": name, "version": version}).encode())

    def _call(self, path: str, body: bytes | None = None, timeout: float = _PATIENCE_SECONDS) -> Any:
        """GET one of the account's own routes, or POST a body to it; return the parsed JSON response."""
        request = urllib.request.Request(self.endpoint + path, body, self.keys.control_headers)
        with urllib.request.urlopen(request, timeout=timeout) as response:
            return json.load(response)

    def _answers(self) -> bool:
        try:
            self._call("/_rehearsal/health", timeout=2)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False
        return True


def default_cache() -> Path:
    """Return the folder of the built programs, which all accounts of this user share."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "embedded-account")


def _say(line: str) -> None:
    print(f"embedded account: {line}", file=sys.stderr, flush=True)


@contextmanager
def serve(
    directory: str | os.PathLike[str],
    *,
    region: str = REGION,
    account_id: str = ACCOUNT_ID,
    clock_scale: float = CLOCK_SCALE,
    cache: Path | None = None,
    node_modules: Path | None = None,
    extensions: Sequence[str] = (),
    quotas: Path | None = None,
    progress: Callable[[str], None] = _say,
) -> Iterator[EmbeddedAccount]:
    """Serve a new, empty account until the block ends; logs and journal stay in `directory`.

    Everything that the block started with the account's environment ends with the account.

    Args:
        directory: Folder for all files of the run; files of an earlier account there are removed.
        region: The account's only region.
        account_id: Twelve digits.
        clock_scale: Simulated seconds in each real second that a simulated service waits.
        cache: Folder of the control plane's programs, by default `default_cache()`. The first EKS cluster builds them,
            in about five minutes.
        node_modules: Folder in which npm installed the CDK CLI, by default the nearest one, as Node finds it.
        extensions: Your modules whose `install(account)` is called; the working directory is on their import path.
        quotas: File of quotas (embedded_account/quotas_file.py); without one, those of a new account.
        progress: Called with a line if they are not built yet.

    Raises:
        ProcessError: The account did not start, or ended before the block did; or another account uses `directory`.
    """
    root = Path(directory).resolve()
    root.mkdir(parents=True, exist_ok=True)
    with _held(root):
        shutil.rmtree(root / "account", ignore_errors=True)
        built = binaries.reserve(cache or default_cache())
        if not binaries.are_built(built):
            progress(
                f"the first EKS cluster builds Kubernetes, in about five minutes; see {root}/account/logs/account.log"
            )
        account = EmbeddedAccount(
            root / "account",
            built.directory,
            account_id=account_id,
            region=region,
            node_modules=node_modules or nearest_node_modules(),
            extensions=extensions,
            quotas=quotas.resolve() if quotas else None,
        )
        supervisor = ProcessSupervisor(root)
        try:
            process = account.start(supervisor, clock_scale=clock_scale)
            try:
                yield account
            except Exception as error:
                # A command fails once the account has ended: its failure says nothing of the cause.
                if account.has_ended:
                    raise ProcessError(process.account_of_end()) from error
                raise
            if account.has_ended:
                raise ProcessError(process.account_of_end())
        finally:
            supervisor.stop_all(grace=_END_SECONDS)
            end_living(root)


@contextmanager
def _held(directory: Path) -> Iterator[None]:
    """Lock a run's folder until the context ends; the kernel releases the lock if the process ends before."""
    with (directory / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ProcessError(
                f"another account is served in {directory}. Fix: end it, or name another directory"
            ) from None
        yield
