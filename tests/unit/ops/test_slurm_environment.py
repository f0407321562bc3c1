"""Commands on an environment with Slurm: each works or refuses with one message that says what to do."""

import pytest
from typer.testing import CliRunner

from ops.commands.whole import app

OF_KUBERNETES = (
    "dashboard",
    "events",
    "image build",
    "images",
    "isolation-check",
    "job list",
    "job top",
    "kubeconfig",
    "logs reaper",
    "pause",
    "resume",
    "rollout",
    "smoke",
    "support-bundle",
    "sweep",
)


@pytest.mark.parametrize("words", OF_KUBERNETES)
def test_a_command_about_kubernetes_or_ray_refuses_with_one_message(words: str) -> None:
    result = CliRunner().invoke(app, [*words.split(), "--env", "slurm"])
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("error: --env: 'slurm' is invalid here: Slurm orchestrates its cluster")
    assert "Allowed: environments with eks. Fix: " in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("words", ["check", "cost", "policy deployer", "policy operator", "policy admin"])
def test_a_command_that_needs_no_kubernetes_works(words: str) -> None:
    result = CliRunner().invoke(app, [*words.split(), "--env", "slurm"])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("role", ["deployer", "operator", "scientist", "viewer", "admin"])
def test_policies_name_no_eks_cluster_and_no_image(role: str) -> None:
    said = CliRunner().invoke(app, ["policy", role, "--env", "slurm", "-o", "json"]).stdout
    assert "arn:aws:eks" not in said
    assert "DescribeImages" not in said
