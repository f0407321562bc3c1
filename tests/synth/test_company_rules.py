"""What a company demands holds for every resource of every stack, CDK's own included."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from config import Environment, load
from config.model import Company
from embedded_account.cloudformation.templates.resource_types import resource_types
from rehearsal.paths import NODE_MODULES
from tests.synth.support.synthesis import Assembly, synthesise

COMPANY = Company(
    permissions_boundary="arn:aws:iam::111122223333:policy/Boundary",
    role_path="/ml-platform/",
    tags={"CostCenter": "1234", "Owner": "ml platform"},
    bootstrap_qualifier="mlplatform",
)


@pytest.fixture(scope="module")
def assembly(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    dev = load("dev")
    fsx = dev.fsx.model_copy(update={"provisioning": "dynamic"})
    environment: Environment = dev.model_copy(update={"company": COMPANY, "fsx": fsx})
    return synthesise(environment, tmp_path_factory.mktemp("company"), validated=True)


def resources(assembly: Assembly) -> Iterator[tuple[str, dict[str, Any]]]:
    for part, template in assembly.templates.items():
        for id, resource in template.body["Resources"].items():
            yield f"{part}/{id}", resource


def test_every_role_has_boundary_and_path(assembly: Assembly) -> None:
    roles = {id: each["Properties"] for id, each in resources(assembly) if each["Type"] == "AWS::IAM::Role"}
    assert len(roles) > 10
    for id, properties in roles.items():
        found = properties.get("PermissionsBoundary"), properties.get("Path")
        assert found == (COMPANY.permissions_boundary, COMPANY.role_path), id


def test_every_resource_that_can_have_tags_has_the_companys(assembly: Assembly) -> None:
    known, tagged = resource_types(NODE_MODULES), 0
    for id, resource in resources(assembly):
        kind = known.get(resource["Type"])
        if kind and kind.tags:
            tags = resource["Properties"].get(kind.tags.name, [])
            tags = tags if isinstance(tags, dict) else {tag["Key"]: tag["Value"] for tag in tags}
            assert COMPANY.tags.items() <= tags.items(), id
            tagged += 1
    assert tagged > 30


def test_cluster_and_the_drivers_file_systems_have_the_tags(assembly: Assembly) -> None:
    cluster = assembly.templates["hyperpod"].only("Custom::HyperPodCluster")
    tags = {tag["Key"]: tag["Value"] for tag in cluster["Tags"]}
    assert tags == {**COMPANY.tags, "SageMaker": "true", "project": "rayhp", "environment": "dev"}
    releases = assembly.templates["platform"].properties("Custom::AWSCDK-EKS-HelmChart")
    [driver] = [json.loads(each["Values"]) for each in releases if each["Release"] == "aws-fsx-csi-driver"]
    assert COMPANY.tags.items() <= driver["controller"]["extraTags"].items()


def test_instances_and_volumes_of_the_system_nodes_have_the_tags(assembly: Assembly) -> None:
    data = assembly.templates["eks"].only("AWS::EC2::LaunchTemplate")["LaunchTemplateData"]
    tags = {
        each["ResourceType"]: {tag["Key"]: tag["Value"] for tag in each["Tags"]} for each in data["TagSpecifications"]
    }
    for kind in ("instance", "volume"):
        assert COMPANY.tags.items() <= tags[kind].items(), kind


def test_stacks_use_the_bootstrap_resources_of_the_qualifier(assembly: Assembly) -> None:
    files = [Path(assembly.directory, "manifest.json"), *Path(assembly.directory).glob("*.template.json")]
    texts = [file.read_text() for file in files]
    assert any("cdk-mlplatform-deploy-role" in text for text in texts)
    assert not any("hnb659fds" in text or "cdk-None" in text for text in texts)
    role = json.dumps(assembly.templates["eks"].all("AWS::IAM::Role"))
    assert "cdk-mlplatform-assets-111122223333-us-west-2/*" in role
