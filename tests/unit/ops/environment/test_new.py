"""`ops new` and `ops import` write files that a user completes and `ops check` accepts."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import config
from config.facts.versions import SETS
from config.load import EXAMPLES
from ops.commands.whole import app
from ops.environment import cluster_config, new
from ops.environment.new import NewError

US_WEST_2 = ("--account", "111122223333", "--region", "us-west-2", "--zone", "usw2-az2", "--zone", "usw2-az1")
# The walkthrough's file as it is printed, including the comma after the last field of the second group.
WALKTHROUGH = """{
  "ClusterName": "ml-cluster",
  "Orchestrator": {"Eks": {"ClusterArn": "${EKS_CLUSTER_ARN}"}},
  "InstanceGroups": [
    {"InstanceGroupName": "worker-group-1", "InstanceType": "ml.p5.48xlarge", "InstanceCount": 4,
     "LifeCycleConfig": {"SourceS3Uri": "s3://amzn-s3-demo-bucket", "OnCreate": "on_create.sh"},
     "ExecutionRole": "${EXECUTION_ROLE}", "ThreadsPerCore": 1,
     "OnStartDeepHealthChecks": ["InstanceStress", "InstanceConnectivity"]},
    {"InstanceGroupName": "head-group", "InstanceType": "ml.m5.2xlarge", "InstanceCount": 1,
     "LifeCycleConfig": {"SourceS3Uri": "s3://amzn-s3-demo-bucket", "OnCreate": "on_create.sh"},
     "ExecutionRole": "${EXECUTION_ROLE}", "ThreadsPerCore": 1,}
  ],
  "VpcConfig": {"SecurityGroupIds": ["${SECURITY_GROUP_ID}"], "Subnets": ["${SUBNET_ID}"]},
  "NodeRecovery": "Automatic"
}"""
# The Slurm walkthrough's list of groups, with a count that a here-document should have filled in.
SLURM = """[
  {"InstanceGroupName": "controller-machine", "InstanceType": "ml.m5.2xlarge", "InstanceCount": 1,
   "LifeCycleConfig": {"SourceS3Uri": "s3://${BUCKET}/base-config/", "OnCreate": "on_create.sh"},
   "ExecutionRole": "${ROLE}", "ThreadsPerCore": 1},
  {"InstanceGroupName": "compute-nodes", "InstanceType": "ml.g5.2xlarge", "InstanceCount": ${NODES},
   "ExecutionRole": "${ROLE}", "ThreadsPerCore": 1}
]"""


@pytest.fixture
def environments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return an empty directory that replaces environments/."""
    for function in (new.template, new.copy_of, new.target):
        defaults: Any = function.__defaults__
        monkeypatch.setattr(function, "__defaults__", (*defaults[:-1], tmp_path))
    return tmp_path


@pytest.fixture
def walkthrough(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("import") / "cluster-config.json"
    file.write_text(WALKTHROUGH)
    return file


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def fill(file: Path, **values: str) -> None:
    text = file.read_text()
    for name, value in {
        "YOUR_NETWORK": "203.0.113.0/24",
        "ADMIN_ROLE_ARN": "arn:aws:iam::111122223333:role/Admin",
        **values,
    }.items():
        text = text.replace(f"${{{name}}}", value)
    file.write_text(text)


def test_a_new_environment_is_valid_once_its_placeholders_are_filled_in(environments: Path) -> None:
    result = run("new", "trial", *US_WEST_2)
    assert result.exit_code == 0
    assert "fill in: ${ADMIN_ROLE_ARN}, ${YOUR_NETWORK}" in result.stdout
    fill(environments / "trial.yaml")
    assert config.load("trial", environments).hyperpod.cluster_name == "ml-cluster-trial"


def test_a_new_environment_has_the_fixed_versions_and_says_what_that_means(environments: Path) -> None:
    result = run("new", "trial", *US_WEST_2)
    fill(environments / "trial.yaml")
    assert config.load("trial", environments).ray_version == SETS["fixed"].ray
    fixed, walkthrough = SETS["fixed"], SETS["walkthrough"]
    assert f"chosen: versions: fixed, Ray {fixed.ray}. {fixed.gains}\n" in result.stdout
    assert f"to choose instead: versions: walkthrough, Ray {walkthrough.ray}. {walkthrough.gains}\n" in result.stdout
    current = SETS["current"]
    assert f"to choose instead: versions: current, Ray {current.ray}. {current.gains}\n" in result.stdout
    assert "versions" not in run("new", "nodes", "--like", "slurm").stdout


def test_a_missing_value_is_a_named_placeholder(environments: Path) -> None:
    result = run("new", "trial", "--region", "eu-west-1")
    assert "fill in: ${ACCOUNT_ID}, ${ADMIN_ROLE_ARN}, ${YOUR_NETWORK}, ${ZONE_ID_1}, ${ZONE_ID_2}" in result.stdout


def test_two_new_environments_share_no_name_and_no_address(environments: Path) -> None:
    assert not run("new", "one").exit_code
    assert not run("new", "two").exit_code
    texts = [(environments / f"{name}.yaml").read_text() for name in ("one", "two")]
    for key in ("vpc_cidr", "cluster_name", "repository"):
        values = [next(line for line in text.splitlines() if f"{key}:" in line) for text in texts]
        assert values[0] != values[1]


def test_an_existing_environment_is_not_overwritten(environments: Path) -> None:
    (environments / "trial.yaml").write_text("mine")
    result = run("new", "trial")
    assert result.exit_code == 2
    assert "exists already. Fix: choose another name" in result.stderr
    assert (environments / "trial.yaml").read_text() == "mine"


def test_a_name_that_no_stack_could_have_is_refused(environments: Path) -> None:
    assert run("new", "Trial 1").exit_code == 2
    assert not list(environments.iterdir())


@pytest.mark.parametrize("example", config.examples())
def test_a_copied_example_keeps_its_comments_and_values_and_has_names_of_its_own(
    environments: Path, example: str
) -> None:
    result = run("new", "trial", "--like", example)
    assert result.exit_code == 0, result.output
    first, title, *rest = (environments / "trial.yaml").read_text().splitlines()
    assert first == "# yaml-language-server: $schema=schema.json"
    assert title == f"# Environment trial, copied from the example {example}."
    copied = (EXAMPLES / f"{example}.yaml").read_text().splitlines()[1:]
    own = ("vpc_cidr:", "cluster_name:", "repository:")
    assert [line for line in copied if not line.strip().startswith(own)] == [
        line for line in rest if not line.strip().startswith(own)
    ]
    mine, theirs = config.load_any("trial", environments), config.load_any(example)
    assert mine.hyperpod.cluster_name == ("acme-trial-ml-cluster" if example == "closed" else "ml-cluster-trial")
    assert mine.repository in {"aws-ray-custom-trial", None}
    assert mine.network.existing or mine.network.vpc_cidr != theirs.network.vpc_cidr


def test_a_copy_is_put_into_the_account_region_and_zones_that_are_given(environments: Path) -> None:
    place = ("--account", "444455556666", "--region", "us-east-1", "--zone", "use1-az1", "--zone", "use1-az4")
    assert run("new", "trial", "--like", "closed", *place).exit_code == 0
    mine = config.load("trial", environments)
    assert (mine.account, mine.region, mine.network.zones) == ("444455556666", "us-east-1", ("use1-az1", "use1-az4"))
    assert mine.image_registry == "444455556666.dkr.ecr.us-east-1.amazonaws.com/mirror"
    assert mine.access.admins == ("arn:aws:iam::444455556666:role/PlatformAdmin",)


def test_a_copy_in_another_region_has_placeholders_for_its_zones(environments: Path) -> None:
    assert "fill in: ${ZONE_ID_1}, ${ZONE_ID_2}" in run("new", "a", "--like", "small", "--region", "eu-west-1").stdout


def test_an_unknown_example_names_the_existing_ones(environments: Path) -> None:
    said = run("new", "trial", "--like", "close").stderr
    allowed = "closed, existing-eks, existing-vpc, slurm, small"
    assert (
        f"--like: 'close' is invalid: there is no such example. Allowed: {allowed}. Fix: did you mean 'closed'?" in said
    )
    assert not list(environments.iterdir())


def test_zones_of_an_existing_vpc_are_edited_in_the_file(environments: Path) -> None:
    result = run("new", "trial", "--like", "existing-vpc", "--zone", "usw2-az1")
    assert result.exit_code == 2
    assert "--zone is invalid: existing-vpc has an existing VPC. Fix: edit network.existing" in result.stderr
    assert not list(environments.iterdir())


def test_the_walkthroughs_file_gives_the_groups_of_dev(environments: Path, walkthrough: Path) -> None:
    assert run("import", str(walkthrough), "--name", "mine", *US_WEST_2).exit_code == 0
    fill(environments / "mine.yaml")
    mine, dev = config.load("mine", environments), config.load("dev")
    assert {group.name: group for group in mine.hyperpod.instance_groups} == {
        group.name: group for group in dev.hyperpod.instance_groups
    }
    assert mine.hyperpod.cluster_name == dev.hyperpod.cluster_name
    assert mine.ray.clusters[0].head.instance_group == dev.ray.clusters[0].head.instance_group


def test_an_import_says_what_it_tolerates_and_leaves_out(environments: Path, walkthrough: Path) -> None:
    warnings = run("import", str(walkthrough), "--name", "mine").stderr
    assert "line 11: a comma before a closing bracket is not JSON; ignored" in warnings
    assert "VpcConfig left out: the network stack creates the VPC" in warnings
    assert "head-group: ExecutionRole left out: the hyperpod stack creates the role" in warnings


def test_a_comma_or_placeholder_within_a_text_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "file.json"
    file.write_text('{"ClusterName": "a,}${B}", "InstanceGroups": [' + json.dumps(GROUP) + "]}")
    assert cluster_config.read(file).cluster_name == "a,}${B}"


def test_the_slurm_walkthroughs_list_is_read_and_its_placeholders_stay(environments: Path, tmp_path: Path) -> None:
    file = tmp_path / "slurm.json"
    file.write_text(SLURM)
    result = run("import", str(file), "--name", "mine", *US_WEST_2)
    assert "${NODES}" in result.stdout
    fill(environments / "mine.yaml", NODES="3")
    mine = config.load("mine", environments)
    assert [(group.name, group.count) for group in mine.hyperpod.instance_groups] == [
        ("controller-machine", 1),
        ("compute-nodes", 3),
    ]


GROUP: dict[str, Any] = {"InstanceGroupName": "g", "InstanceType": "ml.g5.2xlarge", "InstanceCount": 2}


def test_a_group_without_nodes_is_taken_over_as_one_that_can_get_them(environments: Path, walkthrough: Path) -> None:
    text = walkthrough.read_text()
    assert '"InstanceCount": 4' in text
    walkthrough.write_text(text.replace('"InstanceCount": 4', '"InstanceCount": 0'))
    assert run("import", str(walkthrough), "--name", "mine", *US_WEST_2).exit_code == 0
    fill(environments / "mine.yaml")
    [workers] = config.load("mine", environments).ray.clusters[0].workers
    assert (workers.replicas, workers.min_replicas, workers.max_replicas) == (0, 0, 1)


@pytest.mark.parametrize(
    ("tier", "expected"),
    [
        ({"Mode": "Enable", "InstanceMemoryAllocationPercentage": 30}, {"memory_percent": 30}),
        ({"Mode": "Enable"}, {}),
        ({"Mode": "Disable"}, None),
    ],
)
def test_memory_tier_is_taken_over(tmp_path: Path, tier: dict[str, Any], expected: dict[str, int] | None) -> None:
    file = tmp_path / "file.json"
    file.write_text(json.dumps({"InstanceGroups": [GROUP], "TieredStorageConfig": tier}))
    imported = cluster_config.read(file)
    assert imported.tiered_storage == expected
    assert not [note for note in imported.notes if "left out" in note]
    document: dict[str, Any] = {
        "hyperpod": {"cluster_name": "a", "node_recovery": "None"},
        "ray": {"clusters": [{"head": {}}]},
    }
    cluster_config.put_into(document, imported)
    assert document["hyperpod"].get("tiered_storage") == expected


def test_volumes_labels_and_taints_are_taken_over(tmp_path: Path) -> None:
    file = tmp_path / "file.json"
    storage = [
        {"EbsVolumeConfig": {"VolumeSizeInGB": 300}},
        {"EbsVolumeConfig": {"VolumeKmsKeyId": "alias/root", "RootVolume": True}},
        {"FsxLustreConfig": {"DnsName": "x", "MountName": "y"}},
    ]
    kubernetes = {"Labels": {"team": "a"}, "Taints": [{"Key": "k", "Value": "v", "Effect": "NoSchedule"}]}
    file.write_text(json.dumps([GROUP | {"InstanceStorageConfigs": storage, "KubernetesConfig": kubernetes}]))
    imported = cluster_config.read(file)
    assert imported.groups == [
        {
            "name": "g",
            "instance_type": "ml.g5.2xlarge",
            "count": 2,
            "volume_gib": 300,
            "labels": {"team": "a"},
            "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}],
        }
    ]
    assert imported.notes == [
        "NodeRecovery added: Automatic, the default of node_recovery",
        "g: InstanceStorageConfigs.1.EbsVolumeConfig.VolumeKmsKeyId left out: one key encrypts all volumes and buckets "
        "here: name it as company.kms_key",
        "g: InstanceStorageConfigs.2.FsxLustreConfig left out: the environment's own file system is mounted (fsx)",
        "g: InstanceStorageConfigs.1.EbsVolumeConfig left out: it is the root volume, which HyperPod sizes; "
        "company.kms_key encrypts it",
        "g: ThreadsPerCore added: 1, the default of threads_per_core",
    ]


def notes_of(tmp_path: Path, **more: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the group that the import makes of `GROUP` and `more`, and the notes about what it leaves out."""
    file = tmp_path / "file.json"
    file.write_text(json.dumps([GROUP | more]))
    found = cluster_config.read(file)
    return found.groups[0], [note for note in found.notes if "left out" in note]


def test_the_key_of_a_volume_is_not_lost_without_a_word(tmp_path: Path) -> None:
    volume = {"EbsVolumeConfig": {"VolumeSizeInGB": 300, "VolumeKmsKeyId": "alias/ours"}}
    group, [note] = notes_of(tmp_path, InstanceStorageConfigs=[volume])
    assert group["volume_gib"] == 300
    assert "EbsVolumeConfig.VolumeKmsKeyId left out" in note
    assert "company.kms_key" in note


def test_of_two_volumes_the_first_is_taken_over_and_the_second_told(tmp_path: Path) -> None:
    volumes = [{"EbsVolumeConfig": {"VolumeSizeInGB": size}} for size in (300, 200)]
    group, [note] = notes_of(tmp_path, InstanceStorageConfigs=volumes)
    assert group["volume_gib"] == 300
    assert note.startswith("g: InstanceStorageConfigs.1.EbsVolumeConfig left out: a group has one secondary volume")


def test_of_several_types_the_first_is_taken_over_and_the_others_told(environments: Path, tmp_path: Path) -> None:
    types = {"InstanceTypes": ["ml.g5.4xlarge", "ml.g5.2xlarge"]}
    group = {key: value for key, value in GROUP.items() if key != "InstanceType"} | {"InstanceRequirements": types}
    file = tmp_path / "file.json"
    file.write_text(json.dumps([group, GROUP | {"InstanceGroupName": "head", "InstanceType": "ml.m5.2xlarge"}]))
    result = run("import", str(file), "--name", "mine", *US_WEST_2)
    assert result.exit_code == 0
    assert "g: InstanceRequirements left out: a group has one type here" in result.stderr
    assert "g: InstanceType added: ml.g5.4xlarge, the first of InstanceRequirements" in result.stderr
    fill(environments / "mine.yaml")
    assert config.load("mine", environments).hyperpod.instance_groups[0].instance_type == "ml.g5.4xlarge"


def test_fields_within_other_fields_are_told_too(tmp_path: Path) -> None:
    _, [note] = notes_of(tmp_path, KubernetesConfig={"Labels": {"team": "a"}, "Annotations": {"team": "a"}})
    assert note.startswith("g: KubernetesConfig.Annotations left out: ")


def test_the_memory_tier_of_a_cluster_of_slurm_is_told(environments: Path, tmp_path: Path) -> None:
    group = GROUP | {"SlurmConfig": {"NodeType": "Controller"}}
    file = tmp_path / "file.json"
    file.write_text(json.dumps({"InstanceGroups": [group], "TieredStorageConfig": {"Mode": "Enable"}}))
    said = run("import", str(file), "--name", "mine", *US_WEST_2).stderr
    assert "TieredStorageConfig left out: only a cluster that EKS orchestrates has a memory tier" in said


def test_texts_that_yaml_could_misread_are_written_in_quotes(environments: Path, tmp_path: Path) -> None:
    file = tmp_path / "file.json"
    labels = {"a": "on", "b": "0123", "c": "true", "d": "2026-11-26"}
    file.write_text(json.dumps([GROUP | {"KubernetesConfig": {"Labels": labels}}]))
    assert run("import", str(file), "--name", "mine", *US_WEST_2).exit_code == 0
    fill(environments / "mine.yaml")
    assert config.examine("mine", environments).environment.hyperpod.instance_groups[0].labels == labels  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("\x80", "not JSON"),
        ('"text"', "Allowed: a request of CreateCluster, or its list of instance groups"),
        ("[]", "InstanceGroups"),
        ('[{"InstanceCount": 1, "InstanceCount": 2}]', "InstanceCount is listed twice in one object"),
        (
            '{"TieredStorageConfig": {"Mode": "enable"}, "InstanceGroups": []}',
            "TieredStorageConfig.Mode: Input should be 'Enable' or 'Disable'",
        ),
        (
            '[{"InstanceGroupName": "g", "InstanceRequirements": {}, "InstanceCount": 1}]',
            "InstanceType: Field required",
        ),
        ('{"InstanceGroups": 3}', "InstanceGroups: Input should be a valid list"),
        ('[{"InstanceGroupName": "g"}]', "InstanceGroups.0.InstanceType: Field required"),
        ('[{"InstanceGroupName": "g", "InstanceType": "x", "InstanceCount": []}]', "InstanceGroups.0.InstanceCount"),
    ],
)
def test_an_invalid_cluster_file_is_refused_in_one_message(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "file.json"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(NewError) as refusal:
        cluster_config.read(file)
    assert message in str(refusal.value)
