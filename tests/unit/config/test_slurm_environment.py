"""An environment has EKS or Slurm; one with Slurm lacks the parts of the other, and says so."""

from pathlib import Path

import pytest

import config
from config import ConfigError, naming
from config.estimates import costs
from config.estimates.addresses import subnet_uses
from config.load import EXAMPLES
from config.model import PARTS_OF_EKS, SlurmEnvironment
from config.rules import rules_of

TEXT = (EXAMPLES / "slurm.yaml").read_text()


@pytest.fixture(scope="module")
def slurm() -> SlurmEnvironment:
    return config.load_as(SlurmEnvironment, "slurm")


@pytest.mark.parametrize("part", PARTS_OF_EKS)
def test_a_part_of_eks_is_refused_beside_slurm_whatever_its_value(tmp_path: Path, part: str) -> None:
    (tmp_path / "mine.yaml").write_text(f"{TEXT}{part}: {{unknown: key}}\n")
    [said] = config.examine("mine", tmp_path).errors
    assert (said.rule, said.key, said.value) == ("V87", part, "a mapping")
    assert f"nothing would read {part}" in said.reason


@pytest.mark.parametrize("part", [part for part in PARTS_OF_EKS if part not in {"access", "image_registry"}])
def test_it_has_no_part_of_eks(slurm: SlurmEnvironment, part: str) -> None:
    assert not hasattr(slurm, part)


def test_who_wants_an_environment_of_the_other_type_gets_one_message() -> None:
    wanted = "environment 'slurm' is invalid here: it has no `eks`. Allowed: environments with eks. Fix: name such an"
    with pytest.raises(ConfigError, match=wanted):
        config.load("slurm")
    with pytest.raises(ConfigError, match="it has no `slurm`"):
        config.load_as(SlurmEnvironment, "dev")


def test_its_stacks_are_network_storage_and_hyperpod(slurm: SlurmEnvironment) -> None:
    assert slurm.stacks == ("network", "storage", "hyperpod")
    assert config.load("dev").stacks == naming.STACKS


def test_its_nodes_run_the_scripts_of_slurm(slurm: SlurmEnvironment) -> None:
    assert {group.lifecycle_scripts for group in slurm.hyperpod.instance_groups} == {"lifecycle_scripts/slurm"}
    assert {group.lifecycle_scripts for group in config.load("dev").hyperpod.instance_groups} == {
        "lifecycle_scripts/eks"
    }


def test_it_pays_for_no_eks_cluster_and_its_subnets_have_no_system_nodes(slurm: SlurmEnvironment) -> None:
    assert not [line.item for line in costs.estimate(slurm) if "EKS" in line.item or line.item == costs.SYSTEM_NODES]
    nodes = sum(group.count * group.type.ips_per_node for group in slurm.hyperpod.instance_groups)
    assert [use.used - nodes for use in subnet_uses(slurm)] == [32]


def test_a_file_without_eks_and_slurm_is_told_of_both(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(TEXT.replace("slurm:\n", "eks:\n").replace("configuration", "version"))
    assert "slurm" not in config.examine("mine", tmp_path).findings[0].key
    without = TEXT[: TEXT.index("slurm:\n")] + TEXT[TEXT.index("hyperpod:\n") :]
    (tmp_path / "mine.yaml").write_text(without)
    [said] = [finding for finding in config.examine("mine", tmp_path).findings if finding.key == "eks"]
    assert said.fix.endswith("; or add `slurm` if Slurm orchestrates the cluster")


def test_a_value_of_a_wrong_kind_is_found_beside_the_findings_of_rules(tmp_path: Path) -> None:
    text = TEXT.replace("configuration: api", "configuration: hand").replace("count: 1", "count: 2", 1)
    (tmp_path / "mine.yaml").write_text(text)
    found = {(finding.rule, finding.key) for finding in config.examine("mine", tmp_path).findings}
    assert found == {("", "slurm.configuration"), ("V88", "hyperpod.instance_groups.0.count")}


def test_no_rule_about_ray_or_eks_looks_at_it(slurm: SlurmEnvironment) -> None:
    assert {"V2", "V10", "V55", "V88"} & {rule.id for rule in rules_of(slurm)} == {"V10", "V88"}
