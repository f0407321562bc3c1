"""`ops upgrade` against fake APIs; `make test-upgrades` carries upgrades out."""

import base64
import io
import json
import re
import shutil
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import config
from config import naming
from config.labels import TEMPLATE_LABEL
from ops.commands.whole import app
from ops.jobs.packing import LIBRARY
from ops.stacks import DeployedStack
from ops.upgrade import steps
from ops.upgrade.file import with_set
from tests.unit.ops.jobs.test_job import a_run
from tests.unit.support.documented_data import assert_same_shape, documented
from tests.unit.support.fake_apis import Apis
from tests.unit.support.running_environment import PODS, RAY_CLUSTER, RAY_JOBS, RUN_JOBS, condition, stacks

KINDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OPERATOR = "/apis/apps/v1/namespaces/kuberay/deployments/kuberay-operator"
OURS = {"meta.helm.sh/release-name": "kuberay-crds", "meta.helm.sh/release-namespace": "kube-system"}
DIGEST = "a" * 64
CRON_JOBS = "/apis/ray.io/v1/raycronjobs"
RELEASES = "/api/v1/namespaces/kube-system/secrets"
BATCH = "/apis/ray.io/v1/rayjobs"


def run(*arguments: str, **how: Any) -> Result:
    return CliRunner(env={"OPS_ENV": "dev"}).invoke(app, ["upgrade", *arguments], **how)


def definition(plural: str = "rayclusters", **fields: Any) -> dict[str, Any]:
    schema = {"properties": {"spec": {"properties": fields}}}
    version = {"name": "v1", "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.ray.io", "annotations": OURS},
        "spec": {"group": "ray.io", "names": {"plural": plural}, "versions": [version]},
        "status": {"storedVersions": ["v1"]},
    }


def ray_cluster(ray: str, **more: Any) -> dict[str, Any]:
    """Return `rayml`, whose templates are named after its Ray."""
    pod = {"metadata": {"labels": {TEMPLATE_LABEL: ray}}, "spec": {"containers": [{"image": f"registry/ray:{ray}"}]}}
    group = {"groupName": "gpu-group", "template": pod, "replicas": 1, "minReplicas": 1, "maxReplicas": 1}
    spec = {"rayVersion": ray, "headGroupSpec": {"template": pod}, "workerGroupSpecs": [group]}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "rayml", "namespace": "ray"},
        "spec": spec | more,
        "status": {"state": "ready"},
    }


def pods(ray: str) -> dict[str, Any]:
    def pod(kind: str, group: str) -> dict[str, Any]:
        labels = {"ray.io/cluster": "rayml", "ray.io/group": group, "ray.io/node-type": kind, TEMPLATE_LABEL: ray}
        status = {"phase": "Running", "conditions": [condition("Ready")]}
        return {"metadata": {"name": f"{kind}-{ray}", "namespace": "ray", "labels": labels}, "status": status}

    return {"items": [pod("head", "headgroup"), pod("worker", "gpu-group")]}


def operator(version: str) -> dict[str, Any]:
    container = {"name": "kuberay-operator", "image": f"quay.io/kuberay/operator:v{version}"}
    return {"spec": {"selector": {}, "template": {"spec": {"containers": [container]}}}}


class Deployed:
    """`dev` as it is deployed, and what an assembly of its file would deploy."""

    def __init__(self, apis: Apis, environments: Path) -> None:
        self.apis = apis
        self.file = environments / "dev.yaml"
        self.stale: set[str] = set()
        self.done: list[str] = []
        self.resources: dict[str, Any] = {}
        self.crds = [definition(a={}, b={})]
        apis.aws["DescribeEksCluster"]["cluster"]["version"] = "1.35"
        self.has(kuberay="1.2.0", ray="2.42.1")
        # The plan's, then the heads that could say which jobs run: the fake ignores the selector.
        apis.kubernetes[PODS] = [pods("2.42.1"), {"items": []}]
        apis.kubernetes[KINDS] = {"items": [definition(a={})]}
        apis.kubernetes |= {BATCH: {"items": []}, RELEASES: {"items": []}}
        apis.kubernetes[f"PATCH {KINDS}/rayclusters.ray.io"] = self.crds[0]

    def has(self, *, kuberay: str, ray: str) -> None:
        self.apis.kubernetes |= {OPERATOR: operator(kuberay), RAY_CLUSTER: ray_cluster(ray)}

    def differ(self, *parts: str) -> None:
        """Make what is deployed differ from the file, in these stacks."""
        self.stale |= set(parts)

    def changed(self, key: str, value: str) -> None:
        before = self.file.read_text()
        self.file.write_text(before.replace(f"{key}: ", f"{key}: {value}  # ", 1))
        assert self.file.read_text() != before

    def synthesised(self, environment: config.EksEnvironment, _environments: Path, out: Path) -> Path:
        self.wanted = environment
        (out / f"asset.{DIGEST}" / "files").mkdir(parents=True)
        (out / f"asset.{DIGEST}" / "templates").mkdir()
        (out / f"asset.{DIGEST}" / "Chart.yaml").write_text("name: kuberay-crds\n")
        copies = (
            '{{- range $path, $content := .Files.Glob "files/*.yaml" }}\n---\n{{ $content | toString }}\n{{- end }}\n'
        )
        (out / f"asset.{DIGEST}" / "templates" / "crds.yaml").write_text(copies)
        for number, crd in enumerate(self.crds):
            (out / f"asset.{DIGEST}" / "files" / f"{number}.yaml").write_text(json.dumps(crd))
        manifest = json.dumps([ray_cluster(environment.ray_version)])
        crds = {"Release": "kuberay-crds", "Namespace": "kube-system", "ChartAssetURL": f"s3://assets/{DIGEST}.zip"}
        self.resources = {
            "platform": {"KubeRayCrds": {"Type": "Custom::AWSCDK-EKS-HelmChart", "Properties": crds}},
            "ray": {"Ray": {"Type": "Custom::AWSCDK-EKS-KubernetesResource", "Properties": {"Manifest": manifest}}},
        }
        artifacts = {}
        for part in naming.STACKS:
            name = naming.stack(environment, part)
            found = {"Resources": self.resources.get(part, {})}
            (out / f"{name}.template.json").write_text(json.dumps(found))
            artifacts[name] = {
                "type": "aws:cloudformation:stack",
                "properties": {"templateFile": f"{name}.template.json"},
            }
        (out / "manifest.json").write_text(json.dumps({"artifacts": artifacts}))
        return out

    def template(self, _cloudformation: Any, stack: DeployedStack) -> Mapping[str, Any]:
        """Return the template of a deployed stack: the file's, unless it is stale."""
        return {} if stack.part in self.stale else {"Resources": self.resources.get(stack.part, {})}

    def deploy(self, made: steps.PlannedUpgrade, part: str) -> None:
        """Deploy a stack: the cluster then has what the file says."""
        self.done.append(part)
        self.stale.discard(part)
        if part == "platform":
            self.apis.kubernetes[OPERATOR] = operator(made.plan.environment.kuberay_version)
        if part == "ray":
            new = ray_cluster(made.plan.environment.ray_version)
            suspended = new | {"spec": new["spec"] | {"suspend": True}, "status": {"state": "suspended"}}
            self.apis.kubernetes[RAY_CLUSTER] = [new, new, suspended, new]
            current = pods(made.plan.environment.ray_version)
            self.apis.kubernetes[PODS] = [pods("2.42.1"), *({"items": []} for _ in range(3)), current]


@pytest.fixture
def deployed(apis: Apis, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Deployed:
    environments = tmp_path / "environments"
    shutil.copytree(config.load.__globals__["DIRECTORY"], environments)
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr(steps, "DIRECTORY", environments)
    monkeypatch.setattr(config, "file_of", lambda name: environments / f"{name}.yaml")
    made = Deployed(apis, environments)
    monkeypatch.setattr(steps, "_synthesised", made.synthesised)
    monkeypatch.setattr(steps, "_deploy", made.deploy)
    monkeypatch.setattr("ops.stacks.template", made.template)
    return made


def test_the_plan_says_what_each_step_does_and_changes_nothing(deployed: Deployed) -> None:
    before = deployed.file.read_text()
    deployed.differ("ray")
    result = run("--to", "fixed", "--dry-run")
    assert result.exit_code == 0, result.output
    assert deployed.file.read_text() == before
    assert not deployed.done
    lines = result.stdout.splitlines()
    assert lines[0] == "dev: Ray 2.42.1 → 2.56.1"
    assert {"  -  version: 2.42.1", "  +versions: fixed"} <= set(lines)
    assert [line for line in lines if line[:2] in ("1.", "2.", "3.")] == [
        "1. the RayClusters' objects: the cluster builds registry/ray:2.56.1, and the command waits for it",
        "2. new pods for rayml: 2 are replaced",
    ]
    assert "   as by `ops rollout --env dev --checkpoint`" in lines
    assert any(line.startswith("   bill: nodes that compute nothing meanwhile: US$ ") for line in lines)
    assert lines[-1] == "dry run: nothing was changed"


def test_the_plan_as_data_has_the_documented_shape(deployed: Deployed) -> None:
    deployed.differ("ray", "hyperpod")
    result = run("--to", "fixed", "--dry-run", "-o", "json")
    shown = json.loads(result.stdout)
    assert_same_shape(shown, documented("upgrade"))
    assert [each["step"] for each in shown["steps"]] == ["ray", "pods"]
    assert shown["others"] == ["rayhp-dev-hyperpod"]


def test_the_image_comes_before_the_pods_and_the_crds_before_all(deployed: Deployed) -> None:
    deployed.changed("  version", "1.6.2")
    deployed.differ("platform", "ray")
    result = run("--yes")
    assert result.exit_code == 0, result.output
    assert deployed.done == ["platform", "ray"]
    assert "1 of 2: KubeRay 1.2.0 → 1.6.2: its CRDs, then its operator" in result.stdout


def test_a_set_is_written_deployed_and_rolled_out(deployed: Deployed) -> None:
    deployed.differ("ray")
    result = run("--to", "fixed", "--yes")
    assert result.exit_code == 0, result.output
    assert deployed.done == ["ray"]
    assert "\nversions: fixed\n" in deployed.file.read_text()
    changes = [body for what, body in deployed.apis.changes if what == f"PATCH {RAY_CLUSTER}"]
    assert changes == [{"spec": {"suspend": True}}, {"spec": {"suspend": False}}]
    assert "every pod is ready and has the current template" in result.stdout


def test_an_interrupted_upgrade_goes_on_with_what_is_left(deployed: Deployed) -> None:
    text = with_set(config.load("dev"), deployed.file.read_text(), "fixed")
    deployed.file.write_text(text)
    deployed.has(kuberay="1.2.0", ray="2.56.1")
    result = run("--to", "fixed", "--dry-run", "-o", "json")
    shown = json.loads(result.stdout)
    assert shown["file"]["changes"] == []
    assert [each["step"] for each in shown["steps"]] == ["pods"], "its stacks are deployed"


def test_a_suspended_ray_cluster_is_left_to_do(deployed: Deployed) -> None:
    deployed.apis.kubernetes[RAY_CLUSTER] = ray_cluster("2.42.1", suspend=True)
    deployed.apis.kubernetes[PODS] = {"items": []}
    shown = json.loads(run("--dry-run", "-o", "json").stdout)
    assert [each["what"] for each in shown["steps"]] == ["new pods for rayml, which is suspended"]


def test_a_finished_upgrade_has_nothing_left_to_do(deployed: Deployed) -> None:
    result = run("--yes")
    assert result.exit_code == 0, result.output
    assert "dev: nothing is left to do" in result.stdout
    assert not deployed.apis.changes


def test_an_older_kuberay_comes_after_the_ray_clusters(deployed: Deployed) -> None:
    deployed.has(kuberay="1.6.2", ray="2.42.1")
    deployed.differ("platform", "ray")
    shown = json.loads(run("--dry-run", "-o", "json").stdout)
    assert [each["step"] for each in shown["steps"]] == ["ray", "kuberay"]


def test_a_running_job_is_refused_before_anything_changes(deployed: Deployed) -> None:
    deployed.differ("ray")
    job = {"metadata": {"name": "train"}, "status": {"rayClusterName": "rayml", "jobStatus": "RUNNING"}}
    deployed.apis.kubernetes[RAY_JOBS] = {"items": [job]}
    before = deployed.file.read_text()
    result = run("--to", "fixed", "--yes")
    assert result.exit_code == 1
    assert "RayCluster ray/rayml has unfinished jobs: RayJob train" in result.stderr
    assert "`--checkpoint`" in result.stderr
    assert (deployed.file.read_text(), deployed.done) == (before, [])


OURS_NOW = (LIBRARY / "__init__.py").read_text()
EARLIER = {"before it had a version": "", "before it could": '__version__ = "0.1.0"\n'}


def submitted(deployed: Deployed, library: str | None) -> None:
    """Serve a run that was submitted with this library; None: without one."""
    package = io.BytesIO()
    with zipfile.ZipFile(package, "w") as archive:
        archive.writestr("train.py", "")
        if library is not None:
            archive.writestr("ray_resume/__init__.py", library)
    brought = {"_ray_pkg_0.zip": base64.b64encode(package.getvalue()).decode()}
    deployed.differ("platform", "ray")
    deployed.apis.kubernetes[RUN_JOBS] = {"items": [a_run("night"), a_run("done", condition="Complete")]}
    deployed.apis.kubernetes["/api/v1/namespaces/ray/configmaps/run-night"] = {"binaryData": brought}


@pytest.mark.parametrize("library", EARLIER.values(), ids=EARLIER)
def test_another_python_below_a_run_that_cannot_resume_there_is_refused(deployed: Deployed, library: str) -> None:
    submitted(deployed, library)
    before = deployed.file.read_text()
    result = run("--to", "current", "--yes", "--checkpoint")
    assert result.exit_code == 1, result.output
    assert "run night was submitted with an earlier training library" in result.stderr
    assert "CPython 3.12" in result.stderr
    assert "Fix: `ops job stop night --env dev`" in result.stderr
    assert (deployed.file.read_text(), deployed.done) == (before, [])


@pytest.mark.parametrize(
    ("to", "library"),
    [("current", OURS_NOW), ("current", None), ("fixed", "")],
    ids=["ours", "none", "the same Python"],
)
def test_another_python_below_a_run_that_can_resume_is_planned(
    deployed: Deployed, to: str, library: str | None
) -> None:
    submitted(deployed, library)
    result = run("--to", to, "--dry-run")
    assert result.exit_code == 0, result.output


def lose_values(deployed: Deployed) -> str:
    deployed.crds = [definition(a={}), definition("rayjobs", a={})]
    gone = definition("rayjobs", a={}, template={"properties": {"deep": {}}})
    deployed.apis.kubernetes[KINDS] = {"items": [definition(a={}), gone]}
    deployed.apis.kubernetes[f"PATCH {KINDS}/rayjobs.ray.io"] = deployed.crds[1]
    used = {"kind": "RayJob", "metadata": {"namespace": "ray", "name": "nightly"}, "spec": {"template": {"deep": 1}}}
    deployed.apis.kubernetes[BATCH] = {"items": [used]}
    return r"RayJob ray/nightly: v1.spec.template\. Fix: remove these fields"


def lose_a_kind(deployed: Deployed) -> str:
    deployed.apis.kubernetes[KINDS] = {"items": [definition(a={}), definition("raycronjobs")]}
    item = {"kind": "RayCronJob", "metadata": {"namespace": "ray", "name": "nightly"}}
    deployed.apis.kubernetes[CRON_JOBS] = {"items": [item]}
    return r"lacks the kind of RayCronJob ray/nightly \(raycronjobs.ray.io\).* Fix: keep a copy"


def crds_of_others(deployed: Deployed) -> str:
    theirs = definition(a={})
    theirs["metadata"]["annotations"] = {}
    deployed.apis.kubernetes[KINDS] = {"items": [theirs]}
    return r"without an owner.* Fix: `ops kuberay crds --env dev`"


def busy(deployed: Deployed) -> str:
    deployed.apis.aws["DescribeStacks"] = stacks(*naming.STACKS, state="UPDATE_IN_PROGRESS")
    return r"stacks are being changed: rayhp-dev-ray \(UPDATE_IN_PROGRESS\)"


def no_operator(deployed: Deployed) -> str:
    del deployed.apis.kubernetes[OPERATOR]
    return r"Deployment kuberay/kuberay-operator does not exist\. Fix: deploy the platform stack"


def kubernetes(version: str, message: str) -> Callable[[Deployed], str]:
    def make(deployed: Deployed) -> str:
        deployed.apis.aws["DescribeEksCluster"]["cluster"]["version"] = version
        return message

    return make


def not_deployed(deployed: Deployed) -> str:
    deployed.apis.aws["DescribeStacks"] = stacks(*(part for part in naming.STACKS if part != "platform"))
    return r"rayhp-dev-platform is not deployed.* Fix: `cdk deploy --all -c environment=dev`"


REFUSED = {
    "values of an object": lose_values,
    "objects of a kind": lose_a_kind,
    "somebody else's CRDs": crds_of_others,
    "stacks that change": busy,
    "a stack that is missing": not_deployed,
    "no operator": no_operator,
    "Kubernetes back": kubernetes("1.36", r"this command does not go back\. Fix: write eks.version: 1.36"),
    "Kubernetes by two": kubernetes("1.33", r"one minor version at a time\. Fix: write eks.version: 1.34"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_could_not_be_finished_is_refused_before_anything_changes(deployed: Deployed, what: str) -> None:
    deployed.has(kuberay="1.6.2", ray="2.42.1")
    deployed.differ("platform", "ray")
    message = REFUSED[what](deployed)
    before = deployed.file.read_text()
    result = run("--to", "fixed", "--yes", "--force")
    assert result.exit_code == 1, result.output
    assert re.search(message, result.stderr), result.stderr
    assert (deployed.file.read_text(), deployed.done) == (before, [])
    assert all("PATCH" in what for what, _ in deployed.apis.changes), "the API server's dry runs"


def test_the_next_kubernetes_is_the_first_step(deployed: Deployed) -> None:
    deployed.apis.aws["DescribeEksCluster"]["cluster"]["version"] = "1.34"
    deployed.differ("eks", "ray")
    shown = json.loads(run("--dry-run", "-o", "json").stdout)
    assert [each["step"] for each in shown["steps"]] == ["kubernetes", "ray"]
    assert shown["steps"][0]["command"] == "cdk deploy rayhp-dev-eks --exclusively -c environment=dev"
    assert shown["steps"][0]["data"].endswith("EKS can roll the control plane back")


def test_an_unknown_set_names_those_that_exist() -> None:
    result = run("--to", "newest")
    assert result.exit_code == 2
    assert "'newest' is not one of 'walkthrough', 'fixed'" in " ".join(result.stderr.replace("│", "").split())
