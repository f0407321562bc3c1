"""The provider of the HyperPod custom resources: two functions, CDK's provider framework, and their IAM rights."""

import importlib.resources
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from aws_cdk import Duration, Stack
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from config.facts.hyperpod_permissions import (
    HANDLER_CALLS,
    SERVICE_LINKED_ROLE,
    SERVICE_LINKED_ROLE_SERVICE,
    On,
    actions_of,
)
from stacks.shared.company_key import may_use
from stacks.shared.nag_suppressions import acknowledge, imported, wildcard
from stacks.shared.waiting_provider import RUNTIME, waiting_provider

HANDLERS: Final = Path(__file__).resolve().parents[2] / "handlers" / "hyperpod_cluster"
SERVICE_MODEL: Final = "data/sagemaker/2017-07-24/service-2.json.gz"
# The limit of CloudFormation for a custom resource, and of CDK's provider framework.
TOTAL_TIMEOUT: Final = Duration.hours(1)


class ClusterProvider(Construct):
    """The provider of Custom::HyperPodCluster and Custom::HyperPodClusterTeardown.

    Its functions have the rights that their calls need, and those that SageMaker uses on the caller's behalf:
    `config/facts/hyperpod_permissions.py` lists them by call, with sources. A cluster's ARN ends in an id that
    SageMaker chooses, so the narrowest ARN known in advance is `cluster/*` of this account and region. The handlers
    read a cluster's owner from its tags.
    """

    service_token: str

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        execution_role: iam.IRole,
        eks_cluster: eks.ICluster | None,
        training_plans: Sequence[str] = (),
        image_ids: Sequence[str] = (),
        key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, id)
        # Read once, because each read asks Node, and each of many statements needs them.
        stack = Stack.of(self)
        self._account, self._region, self._stack_id = stack.account, stack.region, stack.stack_id
        self._role_arn = execution_role.role_arn
        self._cluster_name = eks_cluster.cluster_name if eks_cluster else None
        self._cluster_arn = eks_cluster.cluster_arn if eks_cluster else None
        self._key = key
        self._training_plans = list(dict.fromkeys(training_plans))
        self._image_ids = list(dict.fromkeys(image_ids))
        with _packed_handlers() as code:
            on_event = self._function("OnEvent", code, "on_event", Duration.minutes(3))
            is_complete = self._function("IsComplete", code, "is_complete", Duration.minutes(2))
        for handler, function in (("on_event", on_event), ("is_complete", is_complete)):
            wanted = actions_of(
                HANDLER_CALLS[handler],
                training_plans=bool(training_plans),
                custom_images=bool(image_ids),
                company_key=key is not None,
                eks=eks_cluster is not None,
            )
            for on, actions in wanted.items():
                function.add_to_role_policy(self._statement(on, actions))
        provider = waiting_provider(self, on_event=on_event, is_complete=is_complete, total_timeout=TOTAL_TIMEOUT)
        self.service_token = provider.service_token
        self._acknowledge(eks_cluster)

    def _function(self, id: str, code: lambda_.Code, handler: str, timeout: Duration) -> lambda_.Function:
        return lambda_.Function(
            self,
            id,
            description=f"HyperPod cluster of this stack: {handler}",
            runtime=RUNTIME,
            code=code,
            handler=f"hyperpod_cluster.index.{handler}",
            timeout=timeout,
            memory_size=256,
        )

    def _statement(self, on: On, actions: list[str]) -> iam.PolicyStatement:
        if on in ("key", "grants-of-the-key") and self._key:
            return may_use(self._key, "sagemaker", *actions)
        path = f"aws-service-role/{SERVICE_LINKED_ROLE_SERVICE}/{SERVICE_LINKED_ROLE}"
        entries = [self._access_entries(self._cluster_name)] if self._cluster_name else []
        cluster = [self._cluster_arn] if self._cluster_arn else []
        resources: dict[On, list[str]] = {
            "access-entries": entries,
            "access-policies": entries,
            "cluster": [self._clusters()],
            "eks-cluster": cluster,
            "everything": ["*"],
            "images": [f"arn:aws:ec2:{self._region}::image/{image_id}" for image_id in self._image_ids],
            "new-access-entries": cluster,
            "roles": [self._role_arn],
            "service-linked-role": [f"arn:aws:iam::{self._account}:role/{path}"],
            "snapshots": [self._snapshots()],
            "stack": [self._stack_id],
            "training-plans": [*self._training_plans, self._reserved_capacity()],
        }
        conditions: dict[On, Mapping[str, Mapping[str, object]]] = {
            "roles": {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}},
            "service-linked-role": {"StringEquals": {"iam:AWSServiceName": SERVICE_LINKED_ROLE_SERVICE}},
        }
        return iam.PolicyStatement(actions=actions, resources=resources[on], conditions=conditions.get(on))

    def _clusters(self) -> str:
        return f"arn:aws:sagemaker:{self._region}:{self._account}:cluster/*"

    def _reserved_capacity(self) -> str:
        return f"arn:aws:sagemaker:{self._region}:{self._account}:reserved-capacity/*"

    def _snapshots(self) -> str:
        return f"arn:aws:ec2:{self._region}::snapshot/*"

    def _access_entries(self, eks_cluster: str) -> str:
        return f"arn:aws:eks:{self._region}:{self._account}:access-entry/{eks_cluster}/*"

    def _acknowledge(self, eks_cluster: eks.ICluster | None) -> None:
        acknowledge(self, "ListClusters has no resource type", wildcard("*"))
        named = [self._clusters()]
        if eks_cluster:
            named.append(self._access_entries(imported(eks_cluster.cluster_name, eks_cluster)))
        acknowledge(self, "The ARNs end in ids that the services choose", *map(wildcard, named))
        if self._training_plans:
            acknowledge(self, "A plan's ARN does not name its reserved capacity", wildcard(self._reserved_capacity()))
        if self._image_ids:
            acknowledge(self, "An AMI's id does not contain its snapshot's id", wildcard(self._snapshots()))


@contextmanager
def _packed_handlers() -> Iterator[lambda_.Code]:
    """Yield the handlers' code. Construct the functions inside the block: CDK copies the code then."""
    with TemporaryDirectory() as directory:
        pack_handlers(Path(directory))
        yield lambda_.Code.from_asset(directory)


def pack_handlers(directory: Path, source: Path = HANDLERS) -> None:
    """Fill an empty directory with the code for Lambda: the package, with the pinned botocore's SageMaker model in it.

    Lambda's own SDK can be older than a field of the request. Bytecode is left out, so that the asset's hash depends
    on the sources and the pinned botocore only.
    """
    package = directory / source.name
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    model = package / "models" / Path(SERVICE_MODEL).relative_to("data")
    model.parent.mkdir(parents=True)
    model.write_bytes(importlib.resources.files("botocore").joinpath(SERVICE_MODEL).read_bytes())
