"""Synthesise an environment in this process, and read the cloud assembly."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import cdk_nag

import app
from config import EksEnvironment, Environment, naming
from config.facts import versions

REPOSITORY = Path(__file__).parents[3]
STACKS = ("network", "storage", "eks", "hyperpod", "platform", "ray")
CHARTS = ("HyperPodHelmChart", "aws-fsx-csi-driver", "kuberay-operator")

Resource = dict[str, Any]


@dataclass(frozen=True)
class Template:
    """A stack's template."""

    body: Mapping[str, Any]

    def all(self, resource_type: str) -> dict[str, Resource]:
        """Return the resources of the type by logical id."""
        return {id: r for id, r in self.body["Resources"].items() if r["Type"] == resource_type}

    def properties(self, resource_type: str) -> list[Resource]:
        """Return the properties of each resource of the type."""
        return [resource.get("Properties", {}) for resource in self.all(resource_type).values()]

    def only(self, resource_type: str) -> Resource:
        """Return the properties of the only resource of the type."""
        [properties] = self.properties(resource_type)
        return properties


@dataclass(frozen=True)
class Assembly:
    """A cloud assembly: `templates` by part (network, storage, …)."""

    environment: Environment
    directory: Path
    manifest: Mapping[str, Any]
    templates: Mapping[str, Template]

    @property
    def of_eks(self) -> EksEnvironment:
        """The environment, whose cluster EKS orchestrates."""
        assert isinstance(self.environment, EksEnvironment)
        return self.environment

    def imported(self, value: Mapping[str, str]) -> tuple[str, Resource]:
        """Return the part and the resource to which an `Fn::ImportValue` refers."""
        for part, template in self.templates.items():
            for output in template.body.get("Outputs", {}).values():
                if output.get("Export", {}).get("Name") == value["Fn::ImportValue"]:
                    target = output["Value"]
                    id = target["Ref"] if "Ref" in target else target["Fn::GetAtt"][0]
                    return part, template.body["Resources"][id]
        raise AssertionError(f"nothing exports {value}")


Assemblies = Callable[[str], Assembly]
"""Returns an environment's cloud assembly by the environment's name."""


def context() -> dict[str, Any]:
    """Return the context of cdk.json."""
    return dict(json.loads((REPOSITORY / "cdk.json").read_text())["context"])


def write_empty_charts(directory: Path, kuberay: str = versions.KUBERAY) -> None:
    """Write charts with the files that synthesis reads and nothing to install; `kuberay` is that chart's version."""
    for chart in CHARTS:
        version = kuberay if chart == "kuberay-operator" else "0.0.0"
        (directory / chart).mkdir(parents=True)
        (directory / chart / "Chart.yaml").write_text(f"apiVersion: v2\nname: {chart}\nversion: {version}\n")
    (directory / "kuberay-operator" / "crds").mkdir()
    (directory / "kuberay-operator" / "crds" / "rayclusters.yaml").write_text(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: rayclusters.ray.io}\n"
    )


def synthesise(environment: Environment, directory: Path, *, validated: bool = False) -> Assembly:
    """Synthesise with empty charts; with `validated`, findings of CDK's template rules and cdk-nag raise."""
    charts = directory / "charts"
    write_empty_charts(
        charts, environment.kuberay_version if isinstance(environment, EksEnvironment) else versions.KUBERAY
    )
    root = cdk.App(
        analytics_reporting=False,
        builtin_cloud_formation_validation=validated,
        context=context() | {"charts": "stand-in", "stand-in-charts": str(charts)},
        outdir=str(directory / "cdk.out"),
    )
    app.build(root, environment)
    if validated:
        cdk.Validations.of(root).add_plugins(cdk_nag.AwsSolutionsChecks(root))
    return read(environment, Path(root.synth().directory))


def read(environment: Environment, out: Path) -> Assembly:
    """Read an assembly that `synthesise` wrote."""
    return Assembly(
        environment=environment,
        directory=out,
        manifest=json.loads((out / "manifest.json").read_text()),
        templates={part: Template(_body(out, environment, part)) for part in environment.stacks},
    )


def _body(out: Path, environment: Environment, part: str) -> Mapping[str, Any]:
    body: Mapping[str, Any] = json.loads((out / f"{naming.stack(environment, part)}.template.json").read_text())
    return body
