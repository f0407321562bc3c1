"""Read the objects and releases that a template gives to kubectl and Helm."""

import json
from typing import Any

import yaml

from tests.synth.support.synthesis import Assembly, Template

MANIFEST = "Custom::AWSCDK-EKS-KubernetesResource"
RELEASE = "Custom::AWSCDK-EKS-HelmChart"

Object = dict[str, Any]


def text(value: Any) -> str:
    """Return a string property with its intrinsic functions as JSON between `<` and `>`."""
    if isinstance(value, str):
        return value
    _, parts = value["Fn::Join"]
    return "".join(
        part if isinstance(part, str) else f"<{json.dumps(part).replace(chr(34), chr(39))}>" for part in parts
    )


def objects(template: Template) -> dict[str, list[Object]]:
    """Return the Kubernetes objects of each manifest resource, by logical id."""
    return {id: json.loads(text(r["Properties"]["Manifest"])) for id, r in template.all(MANIFEST).items()}


def released(assembly: Assembly, part: str, name: str) -> list[Object]:
    """Return the Kubernetes objects in the chart asset of one of the project's own releases."""
    [release] = [each for each in assembly.templates[part].properties(RELEASE) if each["Release"] == name]
    asset = text(release["ChartAssetURL"]).rpartition("/")[2].removesuffix(".zip")
    return list(yaml.safe_load_all((assembly.directory / f"asset.{asset}" / "files" / "objects.yaml").read_text()))


def id_of(template: Template, kind: str, name: str) -> str:
    """Return the logical id of the manifest that contains an object."""
    [found] = [
        id
        for id, items in objects(template).items()
        if any(item["kind"] == kind and item["metadata"]["name"] == name for item in items)
    ]
    return found


def release_id(template: Template, name: str) -> str:
    """Return the logical id of a Helm release."""
    [found] = [id for id, r in template.all(RELEASE).items() if r["Properties"]["Release"] == name]
    return found


def needs(template: Template, later: str, earlier: str) -> bool:
    """Return whether `later` is created after `earlier`, and therefore deleted before it."""
    resource = template.body["Resources"][later]
    direct = resource.get("DependsOn", [])
    return earlier in direct or any(needs(template, id, earlier) for id in direct)


def trust(role: Object) -> Object:
    """Return a role's trust policy, which is a text in the template; keep `${Issuer}` and `${Provider}`."""
    body, values = role["AssumeRolePolicyDocument"]["Fn::Sub"]
    for name in ("Namespace", "ServiceAccount"):
        body = body.replace(f"${{{name}}}", values[name])
    return dict(json.loads(body))
