"""Promises of the bench: each one is a new account, although the process creates its prerequisites once."""

import boto3
import pytest
from botocore.exceptions import ClientError

from embedded_account import moto_internals
from embedded_account.hyperpod.bench import HyperPodBench, mock_aws_for_boto3

SCRIPT = {"Bucket": "sagemaker-scripts", "Key": "eks/on_create.sh"}


def test_what_one_bench_changes_and_adds_is_not_in_the_next() -> None:
    with HyperPodBench() as first:
        first.client("s3").put_object(**SCRIPT, Body=b"changed")
        first.client("ec2").revoke_security_group_egress(
            GroupId=first.security_group_id,
            IpPermissions=[{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": first.security_group_id}]}],
        )
        first.role("another")
        first.client("sagemaker").create_cluster(**first.request())
    with HyperPodBench() as second:
        assert second.client("s3").get_object(**SCRIPT)["Body"].read() == b"#!/bin/bash\n"
        [group] = second.client("ec2").describe_security_groups(GroupIds=[second.security_group_id])["SecurityGroups"]
        assert [each["UserIdGroupPairs"] for each in group["IpPermissionsEgress"]][-1] != []
        with pytest.raises(ClientError, match="NoSuchEntity"):
            second.client("iam").get_role(RoleName="another")
        assert second.client("sagemaker").list_clusters()["ClusterSummaries"] == []
        second.client("sagemaker").create_cluster(**second.request())
        second.advance(60)
        assert second.client("sagemaker").describe_cluster(ClusterName="ml-cluster")["ClusterStatus"] == "InService"


def test_nothing_is_left_after_a_bench() -> None:
    with HyperPodBench():
        assert not moto_internals.is_empty()
    assert moto_internals.is_empty()


def test_a_bench_leaves_what_another_mock_of_moto_holds() -> None:
    with HyperPodBench():
        pass
    with mock_aws_for_boto3():
        theirs = boto3.client("s3", region_name="us-east-1")
        theirs.create_bucket(Bucket="theirs")
        with HyperPodBench() as bench:
            assert bench.client("s3").get_object(**SCRIPT)["Body"].read() == b"#!/bin/bash\n"
        assert "theirs" in {each["Name"] for each in theirs.list_buckets()["Buckets"]}
