"""List the resources in moto's backends, service by service, in every region.

A source takes one backend (one service, account and region) and yields its resources. The type is CloudFormation's and
the id what `Ref` returns, so that the engine's records can be matched. Parts of a resource (routes, rules,
associations, versions) are not listed on their own. What AWS itself provides (managed policies, managed keys, prefix
lists, public images and parameters) is left out.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from moto.core.base_backend import BackendDict


class InventoryResource(NamedTuple):
    """One resource. `part_of` is the ARN of the resource that it was created with, or empty."""

    type: str
    id: str
    arn: str
    note: str = ""
    part_of: str = ""


Source = Callable[[Any], Iterator[InventoryResource]]


def found_in_account() -> Iterator[InventoryResource]:
    """Yield every resource of every service, account and region of this process."""
    seen: set[str] = set()
    for backends in list(BackendDict._instances):
        for of_account in list(backends.values()):
            for backend in list(of_account.values()):
                source = SOURCES.get(backends.service_name, _tagged)
                for found in source(backend):
                    if found.arn not in seen:
                        seen.add(found.arn)
                        yield found


def _arn(backend: Any, service: str, resource: str) -> str:
    return f"arn:{backend.partition}:{service}:{backend.region_name}:{backend.account_id}:{resource}"


def _ec2(backend: Any) -> Iterator[InventoryResource]:
    def found(kind: str, arn_kind: str, identifier: str, note: str = "", vpc: str | None = None) -> InventoryResource:
        part_of = _arn(backend, "ec2", f"vpc/{vpc}") if vpc else ""
        arn = _arn(backend, "ec2", f"{arn_kind}/{identifier}")
        return InventoryResource(f"AWS::EC2::{kind}", identifier, arn, note, part_of)

    for kind, arn_kind, resources in (
        ("VPC", "vpc", backend.vpcs.values()),
        ("Subnet", "subnet", backend.describe_subnets()),
        ("InternetGateway", "internet-gateway", backend.internet_gateways.values()),
        ("NatGateway", "natgateway", (each for each in backend.nat_gateways.values() if each.state != "deleted")),
        ("FlowLog", "vpc-flow-log", backend.flow_logs.values()),
        ("LaunchTemplate", "launch-template", backend.launch_templates.values()),
    ):
        yield from (found(kind, arn_kind, each.id) for each in resources)
    for table in backend.route_tables.values():
        yield found("RouteTable", "route-table", table.id, vpc=table.vpc_id if table.main_association_id else None)
    for acl in backend.network_acls.values():
        yield found("NetworkAcl", "network-acl", acl.id, vpc=acl.vpc_id if acl.default else None)
    for group in backend.describe_security_groups():
        vpc = group.vpc_id if group.is_default else None
        yield found("SecurityGroup", "security-group", group.id, group.name, vpc)
    for address in backend.addresses:
        arn = _arn(backend, "ec2", f"elastic-ip/{address.allocation_id}")
        yield InventoryResource("AWS::EC2::EIP", address.public_ip, arn)
    for endpoint in backend.vpc_end_points.values():
        yield found("VPCEndpoint", "vpc-endpoint", endpoint.id, endpoint.service_name)
    for one in backend.managed_prefix_lists.values():
        if one.owner_id != "AWS" and one.state != "delete-complete":
            yield found("PrefixList", "prefix-list", one.id, one.prefix_list_name)
    for interface in backend.enis.values():
        yield found("NetworkInterface", "network-interface", interface.id, interface.description)
    yield from _other_ec2(backend)


def _other_ec2(backend: Any) -> Iterator[InventoryResource]:
    """Yield the kinds of EC2 resources that the stacks do not use, from moto's own list."""
    listed = {
        "flow-logs",
        "image",
        "internet-gateway",
        "managed-prefix-lists",
        "natgateway",
        "network-interface",
        "route-table",
        "security-group",
        "snapshot",
        "subnet",
        "vpc",
    }
    for tagged in _tagged(backend):
        kind, identifier = tagged.arn.rsplit(":", 1)[1].split("/", 1)
        if kind not in listed:
            yield tagged._replace(id=identifier)


def _s3(backend: Any) -> Iterator[InventoryResource]:
    for bucket in backend.buckets.values():
        versions = sum(len(bucket.keys.getlist(key)) for key in bucket.keys)
        note = f"{versions} object versions" if versions else "empty"
        yield InventoryResource("AWS::S3::Bucket", bucket.name, f"arn:{backend.partition}:s3:::{bucket.name}", note)


def _ecr(backend: Any) -> Iterator[InventoryResource]:
    for repository in backend.repositories.values():
        note = f"{len(repository.images)} images"
        yield InventoryResource("AWS::ECR::Repository", repository.name, repository.arn, note)


def _iam(backend: Any) -> Iterator[InventoryResource]:
    for role in backend.roles.values():
        yield InventoryResource("AWS::IAM::Role", role.name, role.arn)
    for policy in backend.managed_policies.values():
        if policy.arn.split(":")[4] != "aws":
            yield InventoryResource("AWS::IAM::ManagedPolicy", policy.arn, policy.arn)
    for profile in backend.instance_profiles.values():
        yield InventoryResource("AWS::IAM::InstanceProfile", profile.name, profile.arn)
    for provider in backend.open_id_providers.values():
        yield InventoryResource("AWS::IAM::OIDCProvider", provider.arn, provider.arn)
    for user in backend.users.values():
        yield InventoryResource("AWS::IAM::User", user.name, user.arn)
    for group in backend.groups.values():
        yield InventoryResource("AWS::IAM::Group", group.name, group.arn)


def _lambda(backend: Any) -> Iterator[InventoryResource]:
    for function in backend.list_functions():
        yield InventoryResource("AWS::Lambda::Function", function.function_name, function.function_arn)
    for layer in backend._layers.list_layers():
        for version in backend._layers.get_layer_versions(layer["LayerName"]):
            yield InventoryResource("AWS::Lambda::LayerVersion", version.arn, version.arn)


def _stepfunctions(backend: Any) -> Iterator[InventoryResource]:
    for machine in backend.state_machines:
        yield InventoryResource("AWS::StepFunctions::StateMachine", machine.arn, machine.arn)


def _logs(backend: Any) -> Iterator[InventoryResource]:
    for group in backend.groups.values():
        yield InventoryResource("AWS::Logs::LogGroup", group.name, group.arn)


def _kms(backend: Any) -> Iterator[InventoryResource]:
    for key in backend.keys.values():
        if key.key_manager == "CUSTOMER":
            pending = key.key_state == "PendingDeletion"
            yield InventoryResource("AWS::KMS::Key", key.id, key.arn, PENDING_DELETION if pending else "")
            for alias in key.aliases:
                yield InventoryResource("AWS::KMS::Alias", alias, _arn(backend, "kms", alias))


def _ssm(backend: Any) -> Iterator[InventoryResource]:
    for name, versions in list(backend._parameters.items()):
        if versions and not name.startswith("/aws/service/"):
            yield InventoryResource("AWS::SSM::Parameter", name, _arn(backend, "ssm", f"parameter/{name.lstrip('/')}"))


def _sns(backend: Any) -> Iterator[InventoryResource]:
    for topic in backend.topics.values():
        yield InventoryResource("AWS::SNS::Topic", topic.arn, topic.arn)
    for subscription in backend.subscriptions.values():
        yield InventoryResource("AWS::SNS::Subscription", subscription.arn, subscription.arn, subscription.endpoint)


def _events(backend: Any) -> Iterator[InventoryResource]:
    for bus in backend.event_buses.values():
        if bus.name != "default":
            yield InventoryResource("AWS::Events::EventBus", bus.name, bus.arn)
        for rule in bus.rules.values():
            yield InventoryResource("AWS::Events::Rule", rule.name, rule.arn)


def _budgets(backend: Any) -> Iterator[InventoryResource]:
    for account_id, budgets in backend.budgets.items():
        for name in budgets:
            yield InventoryResource(
                "AWS::Budgets::Budget", name, f"arn:{backend.partition}:budgets::{account_id}:budget/{name}"
            )


def _cloudwatch(backend: Any) -> Iterator[InventoryResource]:
    for alarm in backend.alarms.values():
        yield InventoryResource("AWS::CloudWatch::Alarm", alarm.name, alarm.alarm_arn)
    for dashboard in backend.dashboards.values():
        yield InventoryResource("AWS::CloudWatch::Dashboard", dashboard.name, dashboard.arn)


def _aps(backend: Any) -> Iterator[InventoryResource]:
    for workspace in backend.workspaces.values():
        yield InventoryResource("AWS::APS::Workspace", workspace.arn, workspace.arn)


def _grafana(backend: Any) -> Iterator[InventoryResource]:
    for identifier, workspace in backend.workspaces.items():
        note = "DELETING" if workspace["deleting"] else ""
        yield InventoryResource("AWS::Grafana::Workspace", identifier, workspace["arn"], note)


def _fsx(backend: Any) -> Iterator[InventoryResource]:
    for identifier, system in backend.file_systems.items():
        yield InventoryResource(
            "AWS::FSx::FileSystem", identifier, system.resource_arn, "DELETING" if system.deleting else ""
        )
    for identifier, one in backend.__dict__.get("associations", {}).items():
        yield InventoryResource("AWS::FSx::DataRepositoryAssociation", identifier, one.resource_arn)


def _eks(backend: Any) -> Iterator[InventoryResource]:
    for cluster in backend.clusters.values():
        yield InventoryResource("AWS::EKS::Cluster", cluster.name, cluster.arn)
        for group in cluster.nodegroups.values():
            yield InventoryResource("AWS::EKS::Nodegroup", f"{cluster.name}/{group.nodegroup_name}", group.arn)


def _sagemaker(backend: Any) -> Iterator[InventoryResource]:
    for cluster in backend.clusters.values():
        yield InventoryResource("AWS::SageMaker::Cluster", cluster.name, cluster.arn)
    for name, plan in backend.__dict__.get("training_plans", {}).items():
        yield InventoryResource("AWS::SageMaker::TrainingPlan", name, plan["TrainingPlanArn"])
    for name, server in backend.__dict__.get("tracking_servers", {}).items():
        yield InventoryResource(
            "AWS::SageMaker::MlflowTrackingServer", name, server["arn"], "DELETING" if server["deleting"] else ""
        )
    yield from (found for found in _tagged(backend) if ":cluster/" not in found.arn)


def _tagged(backend: Any) -> Iterator[InventoryResource]:
    """Yield the resources of any other service, from moto's list for the tagging API."""
    listing = getattr(backend, "iter_tagged_resources", None)
    for tagged in listing() if listing else ():
        yield InventoryResource(tagged.resource_type, tagged.arn, tagged.arn)


def _nothing(_backend: Any) -> Iterator[InventoryResource]:
    yield from ()


PENDING_DELETION = "pending deletion"

SOURCES: dict[str, Source] = {
    "amp": _aps,
    "budgets": _budgets,
    "cloudformation": _nothing,  # the engine stores its stacks
    "cloudwatch": _cloudwatch,
    "ec2": _ec2,
    "ecr": _ecr,
    "eks": _eks,
    "events": _events,
    "fsx": _fsx,
    "grafana": _grafana,
    "iam": _iam,
    "kms": _kms,
    "lambda": _lambda,
    "logs": _logs,
    "s3": _s3,
    "sagemaker": _sagemaker,
    "sns": _sns,
    "ssm": _ssm,
    "stepfunctions": _stepfunctions,
}
