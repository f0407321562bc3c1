"""Run one real Kubernetes control plane: etcd, API server, controller manager, scheduler, kwok and our own kubelet.

It needs no root and no container, and uses only free ports of 127.0.0.1. Simulated are nodes and most pods (by kwok:
they run nothing), service and pod networks, and the admission by AWS's webhooks.
"""

import logging
import shutil
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import urllib3
import yaml

from embedded_account.kubernetes import audit, flags, pki
from embedded_account.kubernetes.api import KubernetesClient, KubernetesClientError
from embedded_account.kubernetes.building.binaries import Binaries, kubernetes_programs
from embedded_account.kubernetes.kubeconfig import write_kubeconfig
from embedded_account.kubernetes.pods import programs
from embedded_account.kubernetes.pods.identity import AwsAddress
from embedded_account.machine.isolation import search_path
from embedded_account.machine.processes import Child, ProcessError, ProcessSupervisor, ProgramEndedError, free_port

_STAGES: Final = Path(__file__).with_name("stages.yaml")
_DEFAULT_ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
_START_TIMEOUT_SECONDS: Final = 600.0
# With Go's own settings the API server spends a third of its time on garbage collection, mostly for the megabytes of
# KubeRay's custom resource definitions. The limit is soft: near it, collection is as frequent as before.
_GO_MEMORY: Final = {"GOGC": "400", "GOMEMLIMIT": "2GiB"}
_RESTARTED: Final = ("kwok",)
"""Programs that are restarted: they keep no state that they cannot read from the API server."""

_log = logging.getLogger(__name__)


class ControlPlane:
    """A control plane in its own directory. Stopping it wipes its data; it cannot be started again.

    `failed` is called from a thread when a program has ended on its own, because the control plane cannot work without
    it. kwok is restarted instead.
    """

    def __init__(
        self,
        directory: Path,
        binaries: Binaries,
        *,
        name: str,
        authenticator_url: str | None = None,
        played_elsewhere: Sequence[str] = (),
        issuer: str = _DEFAULT_ISSUER,
        node_monitor_grace_period: int = 8,
        real_rays: Sequence[programs.RealRay] = (),
        kubernetes: str | None = None,
        aws: AwsAddress | None = None,
    ) -> None:
        """Describe a control plane; `start` starts it.

        Nodes ignore pods with an image that matches a pattern of `played_elsewhere`: the caller reports these pods'
        status and ends them.

        `authenticator_url` is asked about every bearer token that is not a service account's (a TokenReview webhook, as
        EKS has for IAM; answers are cached for 5 s). `issuer` is the `iss` of service account tokens. After
        `node_monitor_grace_period` seconds a silent node is lost (50 on EKS, too long for a rehearsal). The
        pods of the images of `real_rays` really run. `kubernetes` is the cluster's version, such as `1.34`: its minor
        runs, or the nearest that can be built. With `aws`, pods whose service account names an IAM role have it.
        """
        self.name = name
        self.failed: Callable[[ProgramEndedError], None] = lambda failure: _log.error("%s", failure)
        self.directory = directory.resolve()
        self.binaries = binaries
        self.admin_kubeconfig = self.directory / "admin.kubeconfig"
        self._authenticator_url = authenticator_url
        self._played_elsewhere = played_elsewhere
        self._issuer = issuer
        self._grace = node_monitor_grace_period
        self._real_rays = real_rays
        self._version = kubernetes
        self._aws = aws
        self._data = self.directory / "data"
        self._port: int | None = None
        self._kubelet_port = 0
        self._pki: pki.Pki | None = None
        self._supervisor: ProcessSupervisor | None = None
        self._etcd: _Etcd | None = None
        self._api_server: Child | None = None
        self._kubernetes: Binaries | None = None
        self._controllers: tuple[Child, ...] = ()

    @property
    def endpoint(self) -> str:
        """Return `https://localhost:PORT`, once started."""
        if self._port is None:
            raise ProcessError(f"the control plane {self.name} has not been started")
        return f"https://localhost:{self._port}"

    @property
    def ca_pem(self) -> bytes:
        """Return the certificate authority of the endpoint's certificate, once started."""
        return self._files.ca.read_bytes()

    @cached_property
    def api(self) -> KubernetesClient:
        """Return a connection as cluster administrator, once started. It is kept: a new one needs a handshake."""
        return KubernetesClient(
            self.endpoint, ca=self._files.ca, certificate=self._files.admin_certificate, key=self._files.admin_key
        )

    @property
    def logs(self) -> Path:
        """Return the folder with a log per component, and those of pods with a program in `pods/`."""
        return self.directory / "logs"

    @property
    def pod_deletions(self) -> Path:
        """Return the path of the API server's audit log of requests to delete pods (`audit.requests` reads it)."""
        return self.logs / audit.POD_DELETIONS

    def start(self) -> None:
        """Start all components; return when pods can be created (4 to 6 s).

        Raises ProcessError with the component and its log, BinariesError if a program is missing; nothing is left
        running then.
        """
        self._kubernetes = kubernetes_programs(self.binaries, self._version, _log.info)
        self._data.mkdir(parents=True, exist_ok=True)
        self._pki = pki.create(self.directory / "pki", service_ip=pki.SERVICE_IP)
        self._port = free_port()
        self._kubelet_port = free_port()
        self._supervisor = ProcessSupervisor(self.directory)
        try:
            self._write_files()
            self._etcd = self._start_etcd(self._supervisor)
            self._api_server = self._start_api_server(self._supervisor, self._etcd)
            self._start_controllers(self._supervisor, self._api_server)
            self._supervisor.watch(self.failed, restarted=_RESTARTED)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Kill all components at once and wipe the data; the logs stay.

        The components get no time for an orderly end: the API server would drain its watches for up to a minute.
        """
        if self._supervisor:
            self._supervisor.stop_all(gracefully=False)
            self._supervisor = None
        shutil.rmtree(self._data, ignore_errors=True)

    def restart_api_server(self, *, down: float) -> None:
        """Kill the API server and restart it after `down` seconds; return when it answers.

        Raises ProcessError if it does not restart.
        """
        if self._supervisor is None or self._etcd is None or self._api_server is None:
            raise ProcessError(f"the control plane {self.name} has not been started")
        self._supervisor.stop(self._api_server, gracefully=False)
        time.sleep(down)
        self._api_server = self._start_api_server(self._supervisor, self._etcd)

    def upgrade(self, version: str) -> None:
        """Restart the API server and the controllers as another version; return when the API server answers.

        etcd with its data, the nodes and their pods stay. Raises BinariesError, and then nothing has changed, or
        ProcessError if a program does not start.
        """
        if self._supervisor is None or self._etcd is None or self._api_server is None:
            raise ProcessError(f"the control plane {self.name} has not been started")
        programs = kubernetes_programs(self.binaries, version, _log.info)
        if programs == self._kubernetes:
            return
        self._kubernetes = programs
        for child in (*self._controllers, self._api_server):
            self._supervisor.stop(child, gracefully=False)
        self._api_server = self._start_api_server(self._supervisor, self._etcd)
        self._controllers = self._run_controllers(self._supervisor)

    @property
    def _files(self) -> pki.Pki:
        if self._pki is None:
            raise ProcessError(f"the control plane {self.name} has not been started")
        return self._pki

    def _start_etcd(self, supervisor: ProcessSupervisor) -> "_Etcd":
        port = free_port()
        given = flags.etcd(self._data / "etcd", self._files, port=port, peer_port=free_port())
        return _Etcd(self._run(supervisor, "etcd", given), port)

    def _start_api_server(self, supervisor: ProcessSupervisor, etcd: "_Etcd") -> Child:
        context = ssl.create_default_context(cadata=self.ca_pem.decode())

        def answers() -> bool:
            _require_alive(etcd.child)
            try:
                with urllib.request.urlopen(f"{self.endpoint}/readyz", context=context, timeout=2) as response:
                    return bool(response.status == 200)
            except (urllib.error.URLError, OSError):
                return False

        return self._run(supervisor, "kube-apiserver", self._api_server_flags(etcd.port), ready=answers)

    def _start_controllers(self, supervisor: ProcessSupervisor, api_server: Child) -> None:
        """Start the programs that use the API in parallel; return when pods have a service account to run as."""
        self._controllers = self._run_controllers(supervisor)
        manager, _ = self._controllers
        started = [
            api_server,
            *self._controllers,
            self._run(supervisor, "kwok", flags.kwok(self.admin_kubeconfig, self._stages, grace=self._grace)),
            supervisor.start("kubelet", self._kubelet_argv(), self._environment()),
        ]
        api, deadline, ready = self.api, time.monotonic() + _START_TIMEOUT_SECONDS, False
        while not ready:
            # Check the programs after this request, too: the last one has had time to end by then.
            ready = _exists(api, "/api/v1/namespaces/default/serviceaccounts/default")
            for child in started:
                _require_alive(child)
            if time.monotonic() > deadline:
                raise ProcessError(f"the controller manager makes no service accounts; its log: {manager.log}")
            time.sleep(0.05)

    def _run_controllers(self, supervisor: ProcessSupervisor) -> tuple[Child, Child]:
        """Start the controller manager and the scheduler."""
        given = flags.controller_manager(self.admin_kubeconfig, self._files, grace=self._grace)
        return (
            self._run(supervisor, "kube-controller-manager", given),
            self._run(supervisor, "kube-scheduler", flags.scheduler(self.admin_kubeconfig)),
        )

    def _run(
        self, supervisor: ProcessSupervisor, program: str, given: list[str], ready: Callable[[], bool] | None = None
    ) -> Child:
        of_kubernetes = self._kubernetes if program.startswith("kube-") else None
        argv = [str((of_kubernetes or self.binaries)[program]), *given]
        return supervisor.start(program, argv, self._environment(), ready=ready, timeout=_START_TIMEOUT_SECONDS)

    def _environment(self) -> dict[str, str]:
        """Return an environment with nothing of the caller's: no proxy, no kubeconfig, no credentials."""
        return {"PATH": search_path(), "HOME": str(self._data), "PYTHONDONTWRITEBYTECODE": "1", **_GO_MEMORY}

    def _api_server_flags(self, etcd_port: int) -> list[str]:
        data, issuer = self._data, self._issuer
        asked = flags.authenticator(self._authenticator_config) if self._authenticator_url else []
        return [
            *flags.api_server(self._files, port=self._port or 0, etcd_port=etcd_port, issuer=issuer, directory=data),
            *flags.audit(self._audit_policy, self.pod_deletions),
            *asked,
        ]

    def _kubelet_argv(self) -> list[str]:
        module = [sys.executable, "-m", "embedded_account.kubernetes.pods.kubelet"]
        return [
            *module,
            f"--kubeconfig={self.admin_kubeconfig}",
            f"--directory={self.directory}",
            f"--binaries={self.binaries.directory}",
            f"--port={self._kubelet_port}",
            *self._ray_flags(),
            *([f"--aws={self._aws.region}={self._aws.endpoint}"] if self._aws else []),
        ]

    def _ray_flags(self) -> list[str]:
        return [f"--ray={ray}" for ray in self._real_rays]

    @property
    def _authenticator_config(self) -> Path:
        return self.directory / "authenticator.kubeconfig"

    @property
    def _audit_policy(self) -> Path:
        return self.directory / "audit-policy.yaml"

    @property
    def _stages(self) -> Path:
        return self.directory / "stages.yaml"

    def _write_files(self) -> None:
        cluster = {"server": self.endpoint, "certificate-authority": str(self._files.ca)}
        user = {
            "client-certificate": str(self._files.admin_certificate),
            "client-key": str(self._files.admin_key),
        }
        write_kubeconfig(self.admin_kubeconfig, self.name, cluster, user)
        if self._authenticator_url:
            write_kubeconfig(self._authenticator_config, "authenticator", {"server": self._authenticator_url}, {})
        self._audit_policy.write_text(yaml.safe_dump(audit.POLICY))
        stages = list(yaml.safe_load_all(_STAGES.read_text().replace("KUBELET_PORT", str(self._kubelet_port))))
        table = programs.table(self.binaries, self._real_rays)
        query = programs.containers_query(table, self._played_elsewhere, sandboxed=bool(self._real_rays))
        for stage in stages:
            if stage["spec"]["resourceRef"]["kind"] == "Pod":
                stage["spec"]["selector"]["matchExpressions"].append({"key": query, "operator": "DoesNotExist"})
        self._stages.write_text(yaml.safe_dump_all(stages, sort_keys=False))


@dataclass(frozen=True)
class _Etcd:
    child: Child
    port: int


def _require_alive(child: Child) -> None:
    if child.returncode is not None:
        raise ProcessError(child.account_of_end())


def _exists(api: KubernetesClient, path: str) -> bool:
    try:
        api.get(path)
    except KubernetesClientError as error:
        if error.status == 404:
            return False
        raise
    except urllib3.exceptions.HTTPError:
        # An API server that has just started may reset a connection on a busy machine.
        return False
    return True
