"""The permissions of functions that call HyperPod's API."""

from collections.abc import Iterable, Mapping, Sequence

from aws_cdk import Stack
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from config.facts.hyperpod_permissions import SERVICE_LINKED_ROLE, SERVICE_LINKED_ROLE_SERVICE, On, actions_of
from stacks.shared.company_key import may_use
from stacks.shared.nag_suppressions import acknowledge, imported, wildcard


class CallPermissions:
    """Grants the rights that calls need, and those that SageMaker uses on the caller's behalf.

    `config/facts/hyperpod_permissions.py` lists them by call, with sources. A cluster's ARN ends in an id that
    SageMaker chooses, so the narrowest ARN known in advance is `cluster/*` of this account and region.
    """

    def __init__(
        self,
        stack: Stack,
        *,
        execution_role: iam.IRole,
        eks_cluster: eks.ICluster | None,
        training_plans: Sequence[str] = (),
        image_ids: Sequence[str] = (),
        key: kms.IKey | None = None,
    ) -> None:
        # Read once, because each read asks Node, and each of many statements needs them.
        self._account, self._region, self._stack_id = stack.account, stack.region, stack.stack_id
        self._role_arn = execution_role.role_arn
        self._eks_cluster = eks_cluster
        self._cluster_name = eks_cluster.cluster_name if eks_cluster else None
        self._cluster_arn = eks_cluster.cluster_arn if eks_cluster else None
        self._key = key
        self._training_plans = list(dict.fromkeys(training_plans))
        self._image_ids = list(dict.fromkeys(image_ids))

    def grant(self, function: lambda_.Function, calls: Iterable[str]) -> None:
        """Add what the calls need to the function's role."""
        wanted = actions_of(
            calls,
            training_plans=bool(self._training_plans),
            custom_images=bool(self._image_ids),
            company_key=self._key is not None,
            eks=self._eks_cluster is not None,
        )
        for on, actions in wanted.items():
            function.add_to_role_policy(self._statement(on, actions))

    def acknowledge(self, scope: Construct) -> None:
        """Accept cdk-nag's findings about what is granted to functions below `scope`."""
        named = [self._clusters()]
        if self._eks_cluster:
            named.append(self._access_entries(imported(self._eks_cluster.cluster_name, self._eks_cluster)))
        acknowledge(scope, "The ARNs end in ids that the services choose", *map(wildcard, named))
        if self._training_plans:
            acknowledge(scope, "A plan's ARN does not name its reserved capacity", wildcard(self._reserved_capacity()))
        if self._image_ids:
            acknowledge(scope, "An AMI's id does not contain its snapshot's id", wildcard(self._snapshots()))

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
