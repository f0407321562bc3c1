"""What CloudFormation's schemas say about replacements."""

from pathlib import Path

import pytest

from ops.review.checkouts.cdk import ReviewError
from ops.review.cloudformation.schema import Schema, Update, schema


@pytest.mark.parametrize(
    ("kind", "path", "expected"),
    [
        ("AWS::FSx::FileSystem", "SubnetIds", Update.REPLACES),
        ("AWS::FSx::FileSystem", "SecurityGroupIds", Update.REPLACES),
        ("AWS::FSx::FileSystem", "FileSystemTypeVersion", Update.REPLACES),
        ("AWS::FSx::FileSystem", "LustreConfiguration.DeploymentType", Update.REPLACES),
        ("AWS::FSx::FileSystem", "LustreConfiguration.PerUnitStorageThroughput", Update.REPLACES),
        ("AWS::FSx::FileSystem", "LustreConfiguration.DataCompressionType", Update.IN_PLACE),
        ("AWS::EKS::Cluster", "RoleArn", Update.REPLACES),
        ("AWS::FSx::FileSystem", "LustreConfiguration.Invented", Update.UNKNOWN),
        ("AWS::Invented::Thing", "Name", Update.UNKNOWN),
    ],
)
def test_a_nested_property_decides_about_replacement(kind: str, path: str, expected: Update) -> None:
    assert schema().update(kind, path.split(".")) is expected


def test_an_object_that_becomes_an_expression_may_change_in_everything() -> None:
    path = ("LustreConfiguration",)
    assert schema().update("AWS::FSx::FileSystem", path, ({}, "<{'Fn::If': []}>")) is Update.REPLACES


def test_a_missing_database_is_a_review_error(tmp_path: Path) -> None:
    with pytest.raises(ReviewError, match="Fix: run"):
        Schema(tmp_path / "db.json.gz")
