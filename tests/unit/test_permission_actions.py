"""The embedded account's table of actions against AWS's own, which cfn-lint brings: operations have other names."""

import json
import re
from pathlib import Path
from typing import Any, Final

import botocore.session
import cfnlint.data.AdditionalSpecs
import pytest
from botocore import xform_name
from moto.ec2.responses import EC2Response
from moto.sagemaker.responses import SageMakerResponse

from embedded_account.permissions.calls import SIGNING_NAMES, AwsCall
from embedded_account.permissions.required import FREE, PREFIXES, RESOURCES, action_of
from tests.support import authorization_reference as reference

SOURCE: Final = Path(cfnlint.data.AdditionalSpecs.__file__).parent / "Policies.json"
REFERENCE: Final[dict[str, Any]] = json.loads(SOURCE.read_text())
"""Services by the prefix of their actions: `Actions`, in lower case, and `Resources` (AWS's policy generator)."""
NAMES: Final = {ours: signing for signing, ours in SIGNING_NAMES.items()}
ANSWERED: Final = {"ec2": EC2Response, "sagemaker": SageMakerResponse}
"""Services with many operations that nothing answers here."""
SERVICES: Final = (
    *("autoscaling", "budgets", "cloudformation", "cloudwatch", "ec2", "ecr", "eks", "elbv2", "events", "fsx", "iam"),
    *("kms", "lambda", "logs", "s3", "sagemaker", "service-quotas", "sns", "ssm", "stepfunctions", "sts"),
)
NOT_IN_THE_REFERENCE: Final = {
    # Two actions: kms:ReEncryptFrom and kms:ReEncryptTo.
    "kms": {"Decapsulate", "Encapsulate", "ReEncrypt"},
    # Of directory buckets and Object Lambda, which are other services for IAM; of metadata tables.
    "s3": {
        *("CreateBucketMetadataConfiguration", "CreateSession", "DeleteBucketMetadataConfiguration"),
        *("GetBucketMetadataConfiguration", "ListDirectoryBuckets", "RenameObject", "WriteGetObjectResponse"),
    },
    "cloudformation": {"RemoveAlias", "SetAlias"},
    "cloudwatch": {
        *("AssociateDatasetKmsKey", "DescribeAlarmContributors", "DisassociateDatasetKmsKey"),
        *("DeleteMetricDataQueryDefinition", "GetMetricDataQueryDefinition", "ListMetricDataQueryDefinitions"),
        "PutMetricDataQueryDefinition",
    },
    "ecr": {
        *("DescribeReplicationBackfillResults", "ListImageReferrers", "ListReplicationBackfills"),
        *("StartReplicationBackfill", "StopReplicationBackfill"),
    },
    "iam": {"AcquireRole", "UpdateDelegationRequest"},
    "lambda": {"DeleteDurableExecution", "GetLayerVersionByArn", "PauseDurableExecution", "ResumeDurableExecution"},
    "logs": {"GetLogObject"},
    "ssm": {"DeregisterDefaultHostManagementConfiguration", "RegisterDefaultHostManagementConfiguration"},
}
"""Operations without an action of their name: newer than the reference, or of a service that nothing here uses."""


@pytest.mark.parametrize("service", SERVICES)
def test_every_operation_needs_an_action_that_exists(service: str) -> None:
    model = botocore.session.Session().get_service_model(service)
    signing = NAMES.get(service, model.signing_name)
    unknown = set()
    for operation in model.operation_names:
        unanswered = service in ANSWERED and not hasattr(ANSWERED[service], xform_name(operation))
        if unanswered or operation in FREE.get(signing, ()):
            continue
        prefix, _, name = action_of(AwsCall(signing, operation, {})).partition(":")
        if name.lower() not in REFERENCE[prefix]["Actions"]:
            unknown.add(operation)
    assert unknown == NOT_IN_THE_REFERENCE.get(service, set())


@pytest.mark.parametrize(
    ("service", "action"), [(service, action) for service, rows in RESOURCES.items() for action in rows]
)
def test_action_with_named_resources_takes_their_kind(service: str, action: str) -> None:
    known = REFERENCE[PREFIXES.get(service, service)]
    kinds = known["Actions"][action.lower()]["Resources"]
    names = [form.split(":", 5)[5] for kind in kinds for form in known["Resources"][kind]["ARNFormats"]]
    for template in RESOURCES[service][action].split():
        begins = re.split("[{*]", template)[0]
        assert any(name.startswith(begins) for name in names), names


@pytest.mark.parametrize(
    ("service", "action"), [(service, action) for service, rows in RESOURCES.items() for action in rows]
)
def test_action_is_checked_on_each_kind_that_it_requires(service: str, action: str) -> None:
    named = f"{PREFIXES.get(service, service)}:{action}"
    if reference.knows(named):
        assert len(RESOURCES[service][action].split()) == (len(reference.required_types(named)) or 1)
