"""Create the resources to which the cases of updates.py refer; capture the state of a service."""

import json
from functools import cached_property
from typing import Any

from embedded_account.context import Account
from embedded_account.testing import eks_setup
from embedded_account.testing.clients import Clients
from embedded_account.testing.functions import make_function, make_role, upload, zipped
from embedded_account.testing.resources import ResourceModels
from embedded_account.testing.state import plain
from embedded_account.testing.updates import CASES
from embedded_account.testing.waiting import wait_until

LUSTRE_RULE = {"IpProtocol": "tcp", "FromPort": 988, "ToPort": 988, "CidrIp": "10.0.0.0/8"}


class Surroundings:
    """The resources to which the cases refer, each created at first use."""

    def __init__(self, account: Account, clients: Clients) -> None:
        self._account, self._clients, self._resources = account, clients, ResourceModels(account)

    def fill(self, value: Any) -> Any:
        """Return `value` with each text `$name` replaced by the attribute `name`."""
        if isinstance(value, dict):
            return {key: self.fill(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self.fill(each) for each in value]
        if isinstance(value, str) and value.startswith("$") and value != "$LATEST":
            return getattr(self, value[1:])
        return value

    def _make(self, kind: str, **properties: Any) -> Any:
        return self._resources.create(kind, properties, f"made-{len(vars(self))}").physical_resource_id

    def _role(self, name: str, service: str, *managed: str) -> str:
        return str(make_role(self._account, name, service, *managed).attributes()["Arn"])

    @cached_property
    def _network(self) -> tuple[str, list[str]]:
        return eks_setup.make_network(self._clients)

    @cached_property
    def _eks(self) -> eks_setup.EksSetup:
        return eks_setup.set_up(self._account, self._clients, self._network)

    vpc = property(lambda self: self._network[0])
    subnet = property(lambda self: self._network[1][0])
    other_subnet = property(lambda self: self._network[1][1])
    cluster_role = property(lambda self: self._eks.role_arn)
    node_role = property(lambda self: self._eks.node_role_arn)

    @cached_property
    def cluster(self) -> str:
        return str(self._eks.create()["name"])

    def _group(self, text: str, **more: Any) -> Any:
        return self._make("AWS::EC2::SecurityGroup", GroupDescription=text, VpcId=self.vpc, **more)

    lustre_group = cached_property(lambda self: self._group("c", SecurityGroupIngress=[LUSTRE_RULE]))
    group = cached_property(lambda self: self._group("a"))
    other_group = cached_property(lambda self: self._group("b"))
    route_table = cached_property(lambda self: self._make("AWS::EC2::RouteTable", VpcId=self.vpc))
    other_route_table = cached_property(lambda self: self._make("AWS::EC2::RouteTable", VpcId=self.vpc))
    nat = cached_property(lambda self: self._nat())
    other_nat = cached_property(lambda self: self._nat())
    empty_vpc = cached_property(lambda self: self._make("AWS::EC2::VPC", CidrBlock="10.8.0.0/16"))
    free_gateway = cached_property(lambda self: self._make("AWS::EC2::InternetGateway"))
    log_group = cached_property(lambda self: self._make("AWS::Logs::LogGroup"))
    log_bucket = cached_property(lambda self: self._bucket())
    other_log_bucket = cached_property(lambda self: self._bucket())
    repository = property(lambda self: f"s3://{self.log_bucket}/data/")
    topic = cached_property(lambda self: self._make("AWS::SNS::Topic"))
    other_topic = cached_property(lambda self: self._make("AWS::SNS::Topic"))
    budget_topic = cached_property(lambda self: self._budget_topic())
    key_id = cached_property(lambda self: self._key())
    other_key_id = cached_property(lambda self: self._key())
    key = property(lambda self: f"arn:aws:kms:us-west-2:{self._account.account_id}:key/{self.key_id}")
    other_key = property(lambda self: f"arn:aws:kms:us-west-2:{self._account.account_id}:key/{self.other_key_id}")
    flow_role = cached_property(lambda self: self._role("flow", "vpc-flow-logs.amazonaws.com"))
    sagemaker_role = cached_property(lambda self: self._role("sagemaker", "sagemaker.amazonaws.com"))
    grafana_role = cached_property(lambda self: self._role("grafana", "grafana.amazonaws.com"))
    other_grafana_role = cached_property(lambda self: self._role("other-grafana", "grafana.amazonaws.com"))
    prefix_list = cached_property(lambda self: self._prefix_list())
    other_prefix_list = cached_property(lambda self: self._prefix_list())
    nodes = property(lambda self: self.node_role.rsplit("/", 1)[1])
    people = property(lambda self: self.member.rsplit("/", 1)[1])
    member = cached_property(lambda self: self._role("member", "ec2.amazonaws.com"))
    pod_role = cached_property(lambda self: self._role("pod", "pods.eks.amazonaws.com"))
    other_pod_role = cached_property(lambda self: self._role("other-pod", "pods.eks.amazonaws.com"))
    function_role = cached_property(lambda self: self._role("f", "lambda.amazonaws.com", "AdministratorAccess"))
    other_function_role = cached_property(lambda self: self._role("g", "lambda.amazonaws.com", "AdministratorAccess"))
    states_role = cached_property(lambda self: self._role("states", "states.amazonaws.com"))
    other_states_role = cached_property(lambda self: self._role("other-states", "states.amazonaws.com"))
    code = cached_property(lambda self: upload(self._account, "one.zip", zipped({"main.py": "1"})))
    other_code = cached_property(lambda self: upload(self._account, "two.zip", zipped({"main.py": "2"})))
    layer = cached_property(lambda self: self._make("AWS::Lambda::LayerVersion", Content=self.code))
    function = cached_property(lambda self: make_function(self._account, {"main.py": "1"}).physical_resource_id)

    def _prefix_list(self) -> Any:
        return self._make("AWS::EC2::PrefixList", **CASES["AWS::EC2::PrefixList"].properties)

    def _budget_topic(self) -> Any:
        topic = self._make("AWS::SNS::Topic")
        statement = {"Effect": "Allow", "Principal": {"Service": "budgets.amazonaws.com"}, "Action": "sns:Publish"}
        document = {"Version": "2012-10-17", "Statement": [{**statement, "Resource": topic}]}
        self._make("AWS::SNS::TopicPolicy", Topics=[topic], PolicyDocument=document)
        return topic

    def _nat(self) -> Any:
        return self._make("AWS::EC2::NatGateway", SubnetId=self.subnet, ConnectivityType="private")

    @property
    def gateway(self) -> str:
        """Id of the VPC's internet gateway."""
        attached = {"Name": "attachment.vpc-id", "Values": [self._eks.vpc_id]}
        found = self._clients("ec2").describe_internet_gateways(Filters=[attached])["InternetGateways"]
        return str(found[0]["InternetGatewayId"])

    def _key(self) -> str:
        """Create a KMS key that CloudWatch Logs may use; return its id."""
        owner = {"AWS": f"arn:aws:iam::{self._account.account_id}:root"}
        principals = (owner, {"Service": "logs.us-west-2.amazonaws.com"})
        statements = [{"Effect": "Allow", "Principal": p, "Action": "kms:*", "Resource": "*"} for p in principals]
        return str(self._make("AWS::KMS::Key", KeyPolicy={"Version": "2012-10-17", "Statement": statements}))

    def _bucket(self) -> str:
        """Create a bucket that accepts access logs; return its name."""
        s3, name = self._clients("s3"), str(self._make("AWS::S3::Bucket"))
        statement = {"Effect": "Allow", "Principal": {"Service": "logging.s3.amazonaws.com"}, "Action": "s3:PutObject"}
        document = {"Version": "2012-10-17", "Statement": [{**statement, "Resource": f"arn:aws:s3:::{name}/*"}]}
        s3.put_bucket_policy(Bucket=name, Policy=json.dumps(document))
        return name

    @cached_property
    def launch_template(self) -> str:
        template = self._make("AWS::EC2::LaunchTemplate", LaunchTemplateData={"SecurityGroupIds": [self.group]})
        data = {"SecurityGroupIds": [self.other_group]}
        self._clients("ec2").create_launch_template_version(LaunchTemplateId=template, LaunchTemplateData=data)
        return str(template)

    other_launch_template = "lt-0"

    @cached_property
    def file_system(self) -> str:
        properties = self.fill(CASES["AWS::FSx::FileSystem"].properties)
        model = self._resources.create("AWS::FSx::FileSystem", properties)
        wait_until(model.is_created, "the file system")
        return str(model.physical_resource_id)


def state(account: Account, clients: Clients, kind: str) -> dict[str, Any]:
    """Return all state of the resource type's service by path: plain values only, without times."""
    from moto.core.base_backend import BackendDict

    from embedded_account.services.eks.service import service_of

    service = {"events": "events", "stepfunctions": "stepfunctions", "aps": "amp"}.get(
        name := kind.split("::")[1].lower(), name
    )
    kept: dict[str, Any] = {}
    if service == "fsx":
        kept["fsx"] = clients("fsx").describe_file_systems()["FileSystems"]
        kept["dra"] = clients("fsx").describe_data_repository_associations()["Associations"]
    elif service == "eks":
        kept["eks"] = service_of(account)
    for index, backends in enumerate(list(BackendDict._instances)):
        if backends.service_name.replace("-", "") == service:
            kept[f"moto{index}"] = dict(backends)
    assert kept, service
    return dict(plain(kept, "", set()))
