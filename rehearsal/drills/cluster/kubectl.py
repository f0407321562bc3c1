"""Run kubectl and Helm as the administrator of one control plane."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from embedded_account.kubernetes.api import Object
from embedded_account.kubernetes.control_plane import ControlPlane
from embedded_account.machine.isolation import search_path
from k8s_charts.helm.release import HelmRelease
from k8s_charts.shared.chart import ProjectChart
from rehearsal.run.cdk import CommandError


class StrictKubectl:
    """Applies and deletes as CDK's own functions do: strictly, with the same programs."""

    def __init__(self, plane: ControlPlane, charts: Path) -> None:
        self._plane = plane
        self._charts = charts

    def apply(self, objects: Sequence[Object]) -> None:
        """Create or change objects; a field that the API server does not know is refused."""
        self._run("kubectl", "apply", "--validate=strict", "-f", "-", stdin=_list(objects))

    def delete(self, objects: Sequence[Object], *, wait: bool = True) -> None:
        """Delete objects; with `wait`, return once they are gone."""
        self._run("kubectl", "delete", f"--wait={str(wait).lower()}", "--timeout=120s", "-f", "-", stdin=_list(objects))

    def install(self, release: HelmRelease) -> None:
        """Install or upgrade a release of the rehearsal's stand-in for its chart."""
        values = self._plane.directory / f"{release.name}.json"
        values.write_text(json.dumps(release.values))
        options = (f"--namespace={release.namespace}", f"--values={values}", "--install")
        self._run("helm", "upgrade", release.name, str(self._charts / release.chart), *options)

    def _run(self, program: str, *arguments: str, stdin: str = "") -> None:
        argv = [str(self._plane.binaries[program]), f"--kubeconfig={self._plane.admin_kubeconfig}", *arguments]
        environment = {"HOME": str(self._plane.directory), "PATH": search_path()}
        done = subprocess.run(argv, input=stdin, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CommandError(f"`{program} {' '.join(arguments)}` ended with {done.returncode}: {done.stderr}")


def rendered(*charts: ProjectChart | None) -> list[Object]:
    """Return the objects of charts, in order."""
    return [item for chart in charts if chart for item in chart.to_json()]


def _list(objects: Sequence[Object]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
