"""`ops import` of clusters that Slurm orchestrates: the guide's files, and a request with SlurmConfig."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import config
from ops.commands.whole import app
from ops.environment import provisioning_parameters
from tests.support.generated_environments import read_from
from tests.unit.slurm_scripts.published_forms import FORMS, Form

# The guide's cluster-config.json, with its group names and types.
GROUPS: list[dict[str, Any]] = [
    {
        "InstanceGroupName": "controller-machine",
        "InstanceType": "ml.c5.xlarge",
        "InstanceCount": 1,
        "LifeCycleConfig": {"SourceS3Uri": "s3://${BUCKET}/LifeCycleScripts/base-config/", "OnCreate": "on_create.sh"},
        "ExecutionRole": "${ROLE}",
        "ThreadsPerCore": 1,
    },
    {
        "InstanceGroupName": "compute-nodes",
        "InstanceType": "ml.g5.4xlarge",
        "InstanceCount": 1,
        "LifeCycleConfig": {"SourceS3Uri": "s3://${BUCKET}/LifeCycleScripts/base-config/", "OnCreate": "on_create.sh"},
        "ExecutionRole": "${ROLE}",
        "ThreadsPerCore": 1,
    },
]
PARAMETERS: dict[str, Any] = {
    "version": "1.0.0",
    "workload_manager": "slurm",
    "controller_group": "controller-machine",
    "worker_groups": [{"instance_group_name": "compute-nodes", "partition_name": "dev"}],
}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "environments"
    directory.mkdir()
    monkeypatch.setattr("ops.environment.new.target.__defaults__", (directory,))
    monkeypatch.setattr("ops.environment.new.copy_of.__defaults__", (directory,))
    read_from(directory, monkeypatch)
    return tmp_path


def imported(
    files: Path, groups: object, parameters: object = None, options: tuple[str, ...] = ("--account", "111122223333")
) -> Result:
    (files / "cluster-config.json").write_text(json.dumps(groups))
    argv = ["import", str(files / "cluster-config.json"), "--name", "mine", *options]
    if parameters is not None:
        (files / "provisioning_parameters.json").write_text(json.dumps(parameters))
        argv += ["--parameters", str(files / "provisioning_parameters.json")]
    return CliRunner().invoke(app, argv)


def test_the_guides_files_become_an_environment_whose_scripts_configure_slurm(files: Path) -> None:
    result = imported(files, GROUPS, PARAMETERS)
    assert result.exit_code == 0, result.output
    made = config.load_as(config.SlurmEnvironment, "mine", files / "environments")
    assert made.slurm.configuration == "provisioning_parameters"
    controller, compute = made.hyperpod.instance_groups
    assert (controller.name, controller.slurm and controller.slurm.node) == ("controller-machine", "controller")
    assert compute.slurm
    assert (compute.slurm.node, compute.slurm.partition) == ("compute", "dev")


def test_without_options_only_the_account_is_left_to_fill_in(files: Path) -> None:
    result = imported(files, GROUPS, PARAMETERS, options=())
    assert result.exit_code == 0, result.output
    assert "fill in: ${ACCOUNT_ID}\n" in result.stdout
    file = files / "environments" / "mine.yaml"
    file.write_text(file.read_text().replace("${ACCOUNT_ID}", "012345678901"))
    assert config.load_any("mine", files / "environments").account == "012345678901"


def test_a_request_with_the_apis_fields_becomes_an_environment_of_the_apis_way(files: Path) -> None:
    nodes: list[dict[str, Any]] = [{"NodeType": "Controller"}, {"NodeType": "Compute", "PartitionNames": ["dev"]}]
    groups = [group | {"SlurmConfig": node} for group, node in zip(GROUPS, nodes, strict=True)]
    assert imported(files, {"ClusterName": "ours", "InstanceGroups": groups}).exit_code == 0
    made = config.load_as(config.SlurmEnvironment, "mine", files / "environments")
    assert (made.slurm.configuration, made.hyperpod.cluster_name) == ("api", "ours")
    assert [group.slurm and group.slurm.node for group in made.hyperpod.instance_groups] == ["controller", "compute"]


def test_login_nodes_that_are_listed_as_workers_are_login_nodes(files: Path) -> None:
    login = GROUPS[0] | {"InstanceGroupName": "login-nodes"}
    workers = [*PARAMETERS["worker_groups"], {"instance_group_name": "login-nodes", "partition_name": "dev"}]
    result = imported(files, [*GROUPS, login], PARAMETERS | {"login_group": "login-nodes", "worker_groups": workers})
    assert "worker_groups: login-nodes left out: its nodes run no jobs" in result.stderr
    made = config.load_any("mine", files / "environments")
    assert made.hyperpod.instance_groups[2].slurm
    assert made.hyperpod.instance_groups[2].slurm.node == "login"


def test_what_is_left_out_of_the_parameters_is_said(files: Path) -> None:
    more = {"fsx_dns_name": "fs-0.fsx", "fsx_mountname": "abcd", "slurm_configurations": {}}
    said = imported(files, GROUPS, PARAMETERS | more).stderr
    assert "fsx_dns_name left out: the storage stack creates a file system" in said
    assert "slurm_configurations left out: not supported yet" in said


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"version": "1.0.0"}, "controller_group: Field required"),
        (PARAMETERS | {"workload_manager": "eks"}, "workload_manager: 'eks' is invalid"),
        ([], "is invalid"),
    ],
)
def test_a_file_that_is_not_such_a_file_is_refused(files: Path, parameters: object, reason: str) -> None:
    result = imported(files, GROUPS, parameters)
    assert result.exit_code == 2
    assert reason in result.stderr
    assert "Allowed: " in result.stderr
    assert not list((files / "environments").iterdir())


@pytest.mark.parametrize("form", [form for form in FORMS if form.parameters], ids=lambda form: form.name)
def test_every_published_form_is_read_as_a_nodes_script_reads_it(tmp_path: Path, form: Form) -> None:
    file = tmp_path / "provisioning_parameters.json"
    file.write_text(json.dumps(form.parameters))
    assert provisioning_parameters.read(file).nodes[form.group]["node"] == form.role
