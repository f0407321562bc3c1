"""Test buckets and their policies as CloudFormation resources."""

from typing import Any

import pytest
from moto.s3.models import s3_backends

from embedded_account.context import Account
from embedded_account.testing.clients import Clients
from embedded_account.testing.resources import RefusedWith, ResourceModels

NAME = "data-111122223333"
PUBLIC_ACCESS = {
    "BlockPublicAcls": True,
    "BlockPublicPolicy": True,
    "IgnorePublicAcls": True,
    "RestrictPublicBuckets": True,
}
FULL = {
    "AccessControl": "Private",
    "BucketEncryption": {
        "ServerSideEncryptionConfiguration": [{"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]
    },
    "LifecycleConfiguration": {
        "Rules": [
            {
                "Id": "old",
                "Status": "Enabled",
                "NoncurrentVersionExpiration": {"NoncurrentDays": 30},
                "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7},
            },
            {"Id": "tmp", "Status": "Enabled", "Prefix": "tmp/", "ExpirationInDays": 3},
            {"Id": "markers", "Status": "Enabled", "Prefix": "ray/", "ExpiredObjectDeleteMarker": True},
        ]
    },
    "OwnershipControls": {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]},
    "PublicAccessBlockConfiguration": PUBLIC_ACCESS,
    "Tags": [{"Key": "team", "Value": "ml"}],
    "VersioningConfiguration": {"Status": "Enabled"},
}


@pytest.fixture
def resources(account: Account) -> ResourceModels:
    return ResourceModels(account)


@pytest.fixture
def s3(clients: Clients) -> Any:
    return clients("s3")


def test_bucket_has_what_its_template_says(resources: ResourceModels, s3: Any) -> None:
    bucket = resources.create("AWS::S3::Bucket", FULL, name=NAME)
    assert bucket.physical_resource_id == NAME
    assert s3.get_bucket_versioning(Bucket=NAME)["Status"] == "Enabled"
    assert s3.get_public_access_block(Bucket=NAME)["PublicAccessBlockConfiguration"] == PUBLIC_ACCESS
    rules = s3.get_bucket_lifecycle_configuration(Bucket=NAME)["Rules"]
    prefixes = {rule["ID"]: rule["Filter"]["Prefix"] for rule in rules}
    assert prefixes == {"old": "", "tmp": "tmp/", "markers": "ray/"}
    assert [rule.get("Expiration") for rule in rules] == [None, {"Days": 3}, {"ExpiredObjectDeleteMarker": True}]
    encryption = s3.get_bucket_encryption(Bucket=NAME)["ServerSideEncryptionConfiguration"]["Rules"][0]
    assert encryption["ApplyServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}
    assert s3.get_bucket_tagging(Bucket=NAME)["TagSet"] == [{"Key": "team", "Value": "ml"}]
    assert bucket.attributes()["RegionalDomainName"] == f"{NAME}.s3.us-west-2.amazonaws.com"
    assert bucket.attributes()["Arn"] == f"arn:aws:s3:::{NAME}"


def test_bucket_changes_in_place(resources: ResourceModels, s3: Any) -> None:
    bucket = resources.create("AWS::S3::Bucket", FULL, name=NAME)
    resources.update(bucket, {"AccessControl": "Private", "VersioningConfiguration": {"Status": "Suspended"}})
    assert s3.get_bucket_versioning(Bucket=NAME)["Status"] == "Suspended"
    with RefusedWith("NoSuchTagSet", ""):
        s3.get_bucket_tagging(Bucket=NAME)
    with RefusedWith("NoSuchLifecycleConfiguration", ""):
        s3.get_bucket_lifecycle_configuration(Bucket=NAME)
    with RefusedWith("NoSuchPublicAccessBlockConfiguration", ""):
        s3.get_public_access_block(Bucket=NAME)


def test_bucket_with_an_object_cannot_be_deleted(resources: ResourceModels, s3: Any) -> None:
    bucket = resources.create("AWS::S3::Bucket", {}, name=NAME)
    s3.put_object(Bucket=NAME, Key="a", Body=b"1")
    with RefusedWith("BucketNotEmpty", "The bucket you tried to delete is not empty"):
        resources.delete(bucket)
    s3.delete_object(Bucket=NAME, Key="a")
    resources.delete(bucket)
    assert s3.list_buckets()["Buckets"] == []


def test_bucket_with_an_old_version_cannot_be_deleted(resources: ResourceModels, s3: Any) -> None:
    bucket = resources.create("AWS::S3::Bucket", FULL, name=NAME)
    s3.put_object(Bucket=NAME, Key="a", Body=b"1")
    s3.delete_object(Bucket=NAME, Key="a")
    with RefusedWith("BucketNotEmpty", "The bucket you tried to delete is not empty"):
        resources.delete(bucket)
    listed = s3.list_object_versions(Bucket=NAME)
    for each in [*listed["Versions"], *listed["DeleteMarkers"]]:
        s3.delete_object(Bucket=NAME, Key=each["Key"], VersionId=each["VersionId"])
    resources.delete(bucket)


def test_second_bucket_of_a_name_is_refused(resources: ResourceModels) -> None:
    resources.create("AWS::S3::Bucket", {}, name=NAME)
    with RefusedWith("BucketAlreadyOwnedByYou", ""):
        resources.create("AWS::S3::Bucket", {}, name=NAME)


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"AccessControl": "PublicRead"}, "private buckets only"),
        ({"WebsiteConfiguration": {}}, "does not implement WebsiteConfiguration"),
        (
            {"LifecycleConfiguration": {"Rules": [{"Status": "Enabled", "TagFilters": []}]}},
            "does not implement TagFilters of a lifecycle rule",
        ),
        ({"NotificationConfiguration": {"Pigeons": []}}, "does not implement Pigeons"),
    ],
)
def test_what_the_account_does_not_implement_is_refused(
    resources: ResourceModels, s3: Any, properties: dict[str, Any], text: str
) -> None:
    with RefusedWith(None, text):
        resources.create("AWS::S3::Bucket", properties, name=NAME)
    assert s3.list_buckets()["Buckets"] == []


def test_bucket_sends_its_events_to_eventbridge(account: Account, resources: ResourceModels) -> None:
    configuration = {"EventBridgeConfiguration": {"EventBridgeEnabled": True}}
    resources.create("AWS::S3::Bucket", {"NotificationConfiguration": configuration}, name=NAME)
    # Read moto's model: its GetBucketNotificationConfiguration omits EventBridge.
    bucket = s3_backends[account.account_id]["aws"].get_bucket(NAME)
    assert bucket.notification_configuration.event_bridge is not None


def test_bucket_sends_its_events_to_a_topic(resources: ResourceModels, clients: Clients) -> None:
    topic = clients("sns").create_topic(Name="t")["TopicArn"]
    rules = [{"Name": "prefix", "Value": "data/"}]
    configuration = {
        "TopicConfigurations": [{"Event": "s3:ObjectCreated:*", "Topic": topic, "Filter": {"S3Key": {"Rules": rules}}}]
    }
    resources.create("AWS::S3::Bucket", {"NotificationConfiguration": configuration}, name=NAME)
    shown = clients("s3").get_bucket_notification_configuration(Bucket=NAME)["TopicConfigurations"][0]
    assert (shown["TopicArn"], shown["Events"]) == (topic, ["s3:ObjectCreated:*"])


def test_policy_is_put_changed_and_deleted(resources: ResourceModels, s3: Any) -> None:
    resources.create("AWS::S3::Bucket", {}, name=NAME)
    document = {"Version": "2012-10-17", "Statement": []}
    policy = resources.create("AWS::S3::BucketPolicy", {"Bucket": NAME, "PolicyDocument": document})
    resources.update(policy, {"Bucket": NAME, "PolicyDocument": {**document, "Id": "second"}})
    assert '"Id": "second"' in s3.get_bucket_policy(Bucket=NAME)["Policy"]
    resources.delete(policy)
    with RefusedWith("NoSuchBucketPolicy", ""):
        s3.get_bucket_policy(Bucket=NAME)


def test_policy_of_a_missing_bucket_is_refused(resources: ResourceModels) -> None:
    with RefusedWith("NoSuchBucket", "does not exist"):
        resources.create("AWS::S3::BucketPolicy", {"Bucket": "no-such", "PolicyDocument": {}})
