"""One real Kubernetes control plane: etcd, API server, controller manager, scheduler, kwok, and our kubelet.

No root, no container, free ports of 127.0.0.1 only. What is simulated: nodes and most pods (kwok: nothing runs
in them), service and pod networks, and admission by AWS's webhooks.
"""

import shutil
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from rehearsal import paths
from rehearsal.isolation import search_path
from rehearsal.kubernetes import audit, pki, podserver, programs
from rehearsal.kubernetes.api import Api, ApiError
from rehearsal.kubernetes.binaries import Binaries
from rehearsal.kubernetes.kubeconfig import write_kubeconfig
from rehearsal.kubernetes.nodes import KUBELET_LABEL, KUBELET_VALUE
from rehearsal.processes import Child, ProcessFailure, Supervisor, free_port

_STAGES: Final = Path(__file__).with_name("stages.yaml")
# EKS's range for a VPC outside 10.0.0.0/8's upper half; its first address is pki.SERVICE_IP.
_SERVICES: Final = "10.100.0.0/16"
_PODS: Final = "10.244.0.1/16"
# Never used (nothing in the rehearsal has a pod network), but the API server insists on one that is not local;
# 192.0.2.0/24 is kept for documentation (RFC 5737).
_ADVERTISED: Final = "192.0.2.1"
_DEFAULT_ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
_START_TIMEOUT: Final = 180.0
# Kubernetes' defaults of 20 to 50 requests a second alone would make the start four seconds longer.
_REQUEST_RATE: Final = ("--kube-api-qps=500", "--kube-api-burst=1000")


class ControlPlane:
    """A control plane in a directory of its own. Stopping it wipes its data: it is never started twice."""

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
        real_ray: programs.RealRay | None = None,
    ) -> None:
        """Describe a control plane.

        Pods with an image that matches one of the patterns `played_elsewhere` are left alone by nodes: whoever gives
        the patterns reports these pods' status, and ends them.

        `authenticator_url` is asked about every bearer token that is no service account's (a TokenReview
        webhook, as EKS has for IAM; answers are kept for 5 s). `issuer` is the `iss` of service account
        tokens. `node_monitor_grace_period` is the time in seconds after which a silent node is lost (40 on
        EKS, which for a rehearsal is long). With `real_ray` Ray's pods really run.
        """
        self.name = name
        self.directory = directory.resolve()
        self.binaries = binaries
        self.admin_kubeconfig = self.directory / "admin.kubeconfig"
        self._authenticator_url = authenticator_url
        self._played_elsewhere = played_elsewhere
        self._issuer = issuer
        self._grace = node_monitor_grace_period
        self._real_ray = real_ray
        self._data = self.directory / "data"
        self._port: int | None = None
        self._kubelet_port = 0
        self._pki: pki.Pki | None = None
        self._supervisor: Supervisor | None = None
        self._etcd: _Etcd | None = None
        self._api_server: Child | None = None

    @property
    def endpoint(self) -> str:
        """`https://localhost:PORT`, once started."""
        if self._port is None:
            raise ProcessFailure(f"the control plane {self.name} has not been started")
        return f"https://localhost:{self._port}"

    @property
    def ca_pem(self) -> bytes:
        """The certificate authority of the endpoint's certificate, once started."""
        return self._files.ca.read_bytes()

    @property
    def api(self) -> Api:
        """A connection as cluster administrator, once started."""
        return Api(
            self.endpoint, ca=self._files.ca, certificate=self._files.admin_certificate, key=self._files.admin_key
        )

    @property
    def logs(self) -> Path:
        """Folder with a log per component, and of pods with a program in `pods/`."""
        return self.directory / "logs"

    @property
    def pod_deletions(self) -> Path:
        """The API server's audit log, of requests to delete pods (`audit.requests` reads it)."""
        return self.logs / audit.POD_DELETIONS

    def start(self) -> None:
        """Start everything; return when pods can be created (4 to 6 s).

        Raises ProcessFailure naming the component and its log; nothing is left running then.
        """
        self._data.mkdir(parents=True, exist_ok=True)
        self._pki = pki.create(self.directory / "pki", service_ip=pki.SERVICE_IP)
        self._port = free_port()
        self._kubelet_port = free_port()
        self._supervisor = Supervisor(self.directory)
        try:
            self._write_files()
            self._etcd = self._start_etcd(self._supervisor)
            self._api_server = self._start_api_server(self._supervisor, self._etcd)
            self._start_controllers(self._supervisor)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Kill everything at once and wipe the data; the logs stay.

        Nothing asks the components to end in order: the API server would drain its watches for up to a minute.
        """
        if self._supervisor:
            self._supervisor.stop_all(gracefully=False)
            self._supervisor = None
        shutil.rmtree(self._data, ignore_errors=True)

    def restart_api_server(self, *, down: float) -> None:
        """Kill the API server and start it again after `down` seconds; return when it answers.

        Raises ProcessFailure when it does not come back.
        """
        if self._supervisor is None or self._etcd is None or self._api_server is None:
            raise ProcessFailure(f"the control plane {self.name} has not been started")
        self._supervisor.stop(self._api_server, gracefully=False)
        time.sleep(down)
        self._api_server = self._start_api_server(self._supervisor, self._etcd)

    @property
    def _files(self) -> pki.Pki:
        if self._pki is None:
            raise ProcessFailure(f"the control plane {self.name} has not been started")
        return self._pki

    def _start_etcd(self, supervisor: Supervisor) -> "_Etcd":
        port = free_port()
        return _Etcd(self._run(supervisor, "etcd", self._etcd_flags(port)), port)

    def _start_api_server(self, supervisor: Supervisor, etcd: "_Etcd") -> Child:
        context = ssl.create_default_context(cadata=self.ca_pem.decode())

        def answers() -> bool:
            _require_alive(etcd.child)
            try:
                with urllib.request.urlopen(f"{self.endpoint}/readyz", context=context, timeout=2) as response:
                    return bool(response.status == 200)
            except (urllib.error.URLError, OSError):
                return False

        return self._run(supervisor, "kube-apiserver", self._api_server_flags(etcd.port), ready=answers)

    def _start_controllers(self, supervisor: Supervisor) -> None:
        """Start what works through the API side by side; ready when pods have a service account to run as."""
        started = [
            self._run(supervisor, "kube-controller-manager", self._controller_manager_flags()),
            self._run(
                supervisor,
                "kube-scheduler",
                [f"--kubeconfig={self.admin_kubeconfig}", "--leader-elect=false", "--secure-port=0", *_REQUEST_RATE],
            ),
            self._run(supervisor, "kwok", self._kwok_flags()),
            supervisor.start("kubelet", self._kubelet_argv(), self._environment(), cwd=paths.REPOSITORY),
        ]
        api, deadline, ready = self.api, time.monotonic() + _START_TIMEOUT, False
        while not ready:
            # Looked at after the last of them had time to end, too.
            ready = _exists(api, "/api/v1/namespaces/default/serviceaccounts/default")
            for child in started:
                _require_alive(child)
            if time.monotonic() > deadline:
                raise ProcessFailure(f"the controller manager makes no service accounts; its log: {started[0].log}")
            time.sleep(0.05)

    def _run(
        self, supervisor: Supervisor, program: str, flags: list[str], ready: Callable[[], bool] | None = None
    ) -> Child:
        argv = [str(self.binaries[program]), *flags]
        return supervisor.start(program, argv, self._environment(), ready=ready, timeout=_START_TIMEOUT)

    def _environment(self) -> dict[str, str]:
        """Nothing of the caller's: no proxy, no kubeconfig, no credentials."""
        return {"PATH": search_path(), "HOME": str(self._data), "PYTHONDONTWRITEBYTECODE": "1"}

    def _etcd_flags(self, port: int) -> list[str]:
        client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{free_port()}"
        return [
            f"--data-dir={self._data / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]

    def _api_server_flags(self, etcd_port: int) -> list[str]:
        flags = [
            f"--etcd-servers=http://127.0.0.1:{etcd_port}",
            f"--audit-policy-file={self._audit_policy}",
            f"--audit-log-path={self.pod_deletions}",
            f"--cert-dir={self._data}",
            f"--secure-port={self._port}",
            "--bind-address=127.0.0.1",
            f"--advertise-address={_ADVERTISED}",
            "--endpoint-reconciler-type=none",
            f"--service-cluster-ip-range={_SERVICES}",
            "--allow-privileged=true",
            "--authorization-mode=Node,RBAC",
            f"--client-ca-file={self._files.ca}",
            f"--tls-cert-file={self._files.server_certificate}",
            f"--tls-private-key-file={self._files.server_key}",
            f"--service-account-issuer={self._issuer}",
            f"--service-account-key-file={self._files.service_account_public_key}",
            f"--service-account-signing-key-file={self._files.service_account_key}",
            "--kubelet-preferred-address-types=InternalIP",
            f"--kubelet-certificate-authority={self._files.ca}",
            f"--kubelet-client-certificate={self._files.admin_certificate}",
            f"--kubelet-client-key={self._files.admin_key}",
        ]
        if self._authenticator_url:
            flags += [
                f"--authentication-token-webhook-config-file={self._authenticator_config}",
                "--authentication-token-webhook-version=v1",
                "--authentication-token-webhook-cache-ttl=5s",
            ]
        return flags

    def _controller_manager_flags(self) -> list[str]:
        return [
            f"--kubeconfig={self.admin_kubeconfig}",
            "--leader-elect=false",
            "--secure-port=0",
            *_REQUEST_RATE,
            f"--service-account-private-key-file={self._files.service_account_key}",
            f"--root-ca-file={self._files.ca}",
            "--use-service-account-credentials",
            "--node-monitor-period=1s",
            f"--node-monitor-grace-period={self._grace}s",
        ]

    def _kwok_flags(self) -> list[str]:
        return [
            f"--kubeconfig={self.admin_kubeconfig}",
            "--manage-all-nodes=false",
            f"--manage-nodes-with-label-selector={KUBELET_LABEL}={KUBELET_VALUE}",
            # kwok renews at a quarter of this: well within the grace period.
            f"--node-lease-duration-seconds={self._grace}",
            f"--cidr={_PODS}",
            f"--node-ip={podserver.ADDRESS}",
            f"--config={self._stages}",
        ]

    def _kubelet_argv(self) -> list[str]:
        module = [sys.executable, "-m", "rehearsal.kubernetes.kubelet"]
        return [
            *module,
            f"--kubeconfig={self.admin_kubeconfig}",
            f"--directory={self.directory}",
            f"--binaries={self.binaries.directory}",
            f"--port={self._kubelet_port}",
            *self._ray_flags(),
        ]

    def _ray_flags(self) -> list[str]:
        ray = self._real_ray
        return [f"--ray-image={ray.image}", f"--ray-environment={ray.environment}"] if ray else []

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
        query = programs.containers_query(programs.table(self.binaries, self._real_ray), self._played_elsewhere)
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
        raise ProcessFailure(f"{child.name} ended with code {child.returncode}; its log: {child.log}\n{child.tail()}")


def _exists(api: Api, path: str) -> bool:
    try:
        api.get(path)
    except ApiError as error:
        if error.status == 404:
            return False
        raise
    return True
