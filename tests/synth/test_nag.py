"""cdk-nag's AwsSolutions rules and CDK's own template rules."""

import json
from pathlib import Path

import aws_cdk as cdk
import cdk_nag
import pytest
from aws_cdk import aws_s3 as s3

from config import available
from tests.synth.support import variants
from tests.synth.support.synthesis import context, synthesise


@pytest.mark.parametrize("name", [*available(), "slurm", *variants.VARIANTS])
def test_no_rule_finds_anything_that_is_not_acknowledged(name: str, tmp_path: Path) -> None:
    synthesised = synthesise(variants.environment(name), tmp_path, validated=True)
    report = json.loads((synthesised.directory / "validation-report.json").read_text())
    assert [plugin for plugin in report["pluginReports"] if plugin.get("violations")] == []


def test_a_finding_stops_the_synthesis(tmp_path: Path) -> None:
    root = cdk.App(context=context(), outdir=str(tmp_path))
    s3.Bucket(cdk.Stack(root, "stack"), "open")
    cdk.Validations.of(root).add_plugins(cdk_nag.AwsSolutionsChecks(root))
    with pytest.raises(RuntimeError, match="ValidationFailed"):
        root.synth()
