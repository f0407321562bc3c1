"""The embedded account's process, seen from outside: started, asked, ended."""

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import boto3

from config import Environment
from embedded_account.machine.isolation import child_environment
from embedded_account.machine.processes import Child, Supervisor, free_port
from embedded_account.run_keys import RunKeys
from rehearsal.paths import REPOSITORY

# A simulated minute takes 0.2 s: FSx's ten minutes and HyperPod's deep health checks of an hour would be the whole
# rehearsal.
_CLOCK_SCALE: Final = 300
# A control plane is started in answer to one request.
_PATIENCE_SECONDS: Final = 300


class EmbeddedAccount:
    """One AWS account on localhost. `endpoint` uses the word `localhost`, which the CDK CLI needs."""

    def __init__(self, directory: Path, binaries: Path, *, account_id: str, region: str) -> None:
        self.directory = directory
        self.account_id = account_id
        self.region = region
        self.port = free_port()
        self.endpoint = f"http://localhost:{self.port}"
        self.keys = RunKeys.issue()
        self._binaries = binaries
        self._child: Child | None = None

    def start(self, supervisor: Supervisor, *, survives_parent: bool = False) -> None:
        """Start the account; it ends with this process, unless it is to be looked at later."""
        argv = [sys.executable, "-m", "embedded_account"]
        for option, value in {
            "--port": self.port,
            "--account-id": self.account_id,
            "--region": self.region,
            "--directory": self.directory,
            "--binaries": self._binaries,
            "--clock-scale": _CLOCK_SCALE,
        }.items():
            argv += [option, str(value)]
        env = child_environment(
            self.directory, region=self.region, account_id=self.account_id, extra=self.keys.in_environment
        )
        self._child = supervisor.start(
            "account",
            argv,
            env,
            ready=self._answers,
            timeout=_PATIENCE_SECONDS,
            survives_parent=survives_parent,
            cwd=REPOSITORY,
        )

    def client(self, service: str, credentials: Mapping[str, str] | None = None) -> Any:
        """A boto3 client of the account, by default as its root-like owner."""
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
        """Kubeconfig of an EKS cluster's control plane, as its administrator: for looking, not for deploying."""
        return self.directory / "clusters" / cluster / "admin.kubeconfig"

    def inventory(self) -> list[dict[str, Any]]:
        """Every resource that exists, with who made it."""
        items: list[dict[str, Any]] = self._call("/_rehearsal/inventory")
        return items

    def journal(self) -> list[dict[str, Any]]:
        """Everything that happened in the account, in order."""
        entries: list[dict[str, Any]] = self._call("/_rehearsal/journal")
        return entries

    def set_hyperpod_faults(self, faults: Mapping[str, Any]) -> None:
        """Let something go wrong in HyperPod, as embedded_account/hyperpod/fault_requests.py describes."""
        self._call("/_rehearsal/hyperpod/faults", json.dumps(faults).encode())

    def make_existing(self, environment: Environment) -> None:
        """Make what the environment says exists (embedded_account/existing.py)."""
        self._call("/_rehearsal/existing", environment.model_dump_json().encode())

    def _call(self, path: str, body: bytes | None = None, timeout: float = _PATIENCE_SECONDS) -> Any:
        """GET one of the account's own routes, or POST a body to it."""
        request = urllib.request.Request(self.endpoint + path, body, self.keys.control_headers)
        with urllib.request.urlopen(request, timeout=timeout) as response:
            return json.load(response)

    def _answers(self) -> bool:
        try:
            self._call("/_rehearsal/health", timeout=2)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False
        return True
