"""Pairs by a fourth author who had not seen the judges: which networks meet, and what pods may be."""

from typing import Any

from ops.review.model import Danger, Effect
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

WIDER, LOOSER, LOWER, PUBLIC, OPENED, UNKNOWN = (
    Danger.WIDER_PERMISSIONS,
    Danger.LOOSER_ISOLATION,
    Danger.LOWER_PROTECTION,
    Danger.PUBLIC_ENDPOINT,
    Danger.OPENED_PORT,
    Danger.UNKNOWN,
)
NAME = "kubernetes.io/metadata.name"
Body = dict[str, Any]


def _endpoint(edit: Edit) -> Body:
    """Return how the EKS endpoint is reached."""
    settings: Body = edit.properties("eks", "AWS::EKS::Cluster")["ResourcesVpcConfig"]
    return settings


def _subnet(edit: Edit, construct: str) -> Body:
    return {"Fn::GetAtt": [edit.find("network", "AWS::EC2::Subnet", construct)[0], "SubnetId"]}


@destructive(
    "the EKS endpoint's list of addresses is removed",
    Category.NETWORK,
    expect("AWS::EKS::Cluster Cluster", Effect.IN_PLACE, dangers=(PUBLIC, OPENED)),
)
def _(edit: Edit) -> None:
    del _endpoint(edit)["PublicAccessCidrs"]


@destructive(
    "two halves of the Internet reach the EKS endpoint",
    Category.NETWORK,
    expect("AWS::EKS::Cluster Cluster", Effect.IN_PLACE, dangers=(PUBLIC, OPENED), words=("128.0.0.0/1",)),
    environment="prod",
)
def _(edit: Edit) -> None:
    _endpoint(edit)["PublicAccessCidrs"] = ["0.0.0.0/1", "128.0.0.0/1"]


@destructive(
    "the VPC reaches interface endpoints by every protocol",
    Category.NETWORK,
    expect("AWS::EC2::SecurityGroup VpcEndpoints", Effect.IN_PLACE, dangers=OPENED),
    environment="closed",
)
def _(edit: Edit) -> None:
    [rule] = edit.properties("network", "AWS::EC2::SecurityGroup", "VpcEndpointsSecurityGroup")["SecurityGroupIngress"]
    rule["IpProtocol"] = "-1"
    del rule["FromPort"], rule["ToPort"]


@destructive(
    "the rule that lets nothing out of the endpoints is removed",
    Category.NETWORK,
    expect("AWS::EC2::SecurityGroup VpcEndpoints", Effect.IN_PLACE, dangers=(OPENED, LOOSER)),
    environment="closed",
)
def _(edit: Edit) -> None:
    del edit.properties("network", "AWS::EC2::SecurityGroup", "VpcEndpointsSecurityGroup")["SecurityGroupEgress"]


@destructive(
    "the endpoint of EKS loses its policy",
    Category.NETWORK,
    expect("AWS::EC2::VPCEndpoint VpcEndpointseks", Effect.IN_PLACE, dangers=(WIDER, LOOSER, LOWER)),
    environment="closed",
)
def _(edit: Edit) -> None:
    del edit.properties("network", "AWS::EC2::VPCEndpoint", "VpcEndpointseks")["PolicyDocument"]


@destructive(
    "the private subnets' default route leads to the internet gateway",
    Category.NETWORK,
    expect(
        "AWS::EC2::Route VpcPrivateDefaultRoute0",
        Effect.IN_PLACE,
        Effect.REPLACED,
        Effect.UNKNOWN,
        dangers=(PUBLIC, OPENED, LOOSER, UNKNOWN),
    ),
)
def _(edit: Edit) -> None:
    route = edit.properties("network", "AWS::EC2::Route", "VpcPrivateDefaultRoute0")
    del route["NatGatewayId"]
    gateway = edit.find("network", "AWS::EC2::InternetGateway")[0]
    route["GatewayId"] = {"Fn::GetAtt": [gateway, "InternetGatewayId"]}


@destructive(
    "subnets are shared with an account outside the organisation",
    Category.UNKNOWN,
    expect("AWS::RAM::ResourceShare", Effect.CREATED, Effect.UNKNOWN, dangers=(WIDER, LOOSER, PUBLIC, UNKNOWN)),
)
def _(edit: Edit) -> None:
    vpc = {"Fn::GetAtt": [edit.find("network", "AWS::EC2::Subnet", "VpcNodes1")[0], "SubnetId"]}
    arn = {"Fn::Join": ["", ["arn:aws:ec2:us-west-2:111122223333:subnet/", vpc]]}
    edit.add(
        "network",
        "Partner",
        "AWS::RAM::ResourceShare",
        Name="partner",
        AllowExternalPrincipals=True,
        Principals=["999988887777"],
        ResourceArns=[arn],
    )


@destructive(
    "people of the office open Ray's dashboards on the nodes",
    Category.NETWORK,
    expect("AWS::EC2::SecurityGroupIngress", Effect.CREATED, dangers=OPENED, words=("8265",)),
)
def _(edit: Edit) -> None:
    group = {"Fn::GetAtt": [edit.find("network", "AWS::EC2::SecurityGroup", "SharedSecurityGroup")[0], "GroupId"]}
    ports = {"IpProtocol": "tcp", "FromPort": 8265, "ToPort": 8265}
    edit.add("network", "Office", "AWS::EC2::SecurityGroupIngress", GroupId=group, CidrIp="203.0.113.0/24", **ports)


@destructive(
    "a load balancer is created without a scheme",
    Category.NETWORK,
    expect(
        "AWS::ElasticLoadBalancingV2::LoadBalancer",
        Effect.CREATED,
        Effect.UNKNOWN,
        dangers=(PUBLIC, OPENED, LOOSER, UNKNOWN),
    ),
)
def _(edit: Edit) -> None:
    subnets = [_subnet(edit, "VpcPublic0"), _subnet(edit, "VpcPublic1")]
    edit.add("network", "Dashboards", "AWS::ElasticLoadBalancingV2::LoadBalancer", Type="network", Subnets=subnets)


@destructive(
    "the function that applies manifests has a URL for everybody",
    Category.NETWORK,
    expect("AWS::Lambda::Url", Effect.CREATED, Effect.UNKNOWN, dangers=(PUBLIC, WIDER, LOOSER, UNKNOWN)),
)
def _(edit: Edit) -> None:
    function = {"Fn::GetAtt": [edit.find("eks", "AWS::Lambda::Function", "ClusterKubectlProviderHandler")[0], "Arn"]}
    edit.add("eks", "Hook", "AWS::Lambda::Url", TargetFunctionArn=function, AuthType="NONE")
    rights = {"Action": "lambda:InvokeFunctionUrl", "Principal": "*", "FunctionUrlAuthType": "NONE"}
    edit.add("eks", "HookForAll", "AWS::Lambda::Permission", FunctionName=function, **rights)


@destructive(
    "the policy of the volume's namespace no longer names egress",
    Category.ISOLATION,
    expect("NetworkPolicy ray-volume/closed", Effect.IN_PLACE, dangers=LOOSER, words=("egress",)),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "NetworkPolicy", "ray-volume/closed") as policy:
        policy["spec"]["policyTypes"] = ["Ingress"]


@destructive(
    "Alertmanager reaches the nodes' metadata service",
    Category.ISOLATION,
    expect(
        "NetworkPolicy prometheus-system/allow-alertmanager-https", Effect.IN_PLACE, dangers=LOOSER, words=("169.254",)
    ),
    environment="watched",
)
def _(edit: Edit) -> None:
    with edit.object("ray", "NetworkPolicy", "prometheus-system/allow-alertmanager-https") as policy:
        policy["spec"]["egress"][0]["to"][0]["ipBlock"]["except"] = ["169.254.0.0/24"]


@destructive(
    "Prometheus' namespace reaches a range of Ray's ports",
    Category.ISOLATION,
    expect("NetworkPolicy ray/allow-metrics", Effect.IN_PLACE, dangers=LOOSER),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "NetworkPolicy", "ray/allow-metrics") as policy:
        policy["spec"]["ingress"][0]["ports"][0]["endPort"] = 8265


@destructive(
    "the submitters' traffic enters all pods of Ray's namespace",
    Category.ISOLATION,
    expect("NetworkPolicy ray/allow-submitted-jobs", Effect.IN_PLACE, dangers=LOOSER),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "NetworkPolicy", "ray/allow-submitted-jobs") as policy:
        policy["spec"]["podSelector"] = {}


@destructive(
    "a peer of namespace and pods becomes two peers",
    Category.ISOLATION,
    expect("NetworkPolicy kuberay/allow-ray-jobs", Effect.IN_PLACE, dangers=LOOSER),
)
def _(edit: Edit) -> None:
    with edit.object("platform", "NetworkPolicy", "kuberay/allow-ray-jobs") as policy:
        [rule] = policy["spec"]["egress"]
        [peer] = rule["to"]
        rule["to"] = [{key: value} for key, value in peer.items()]


@destructive(
    "all namespaces but one read the operator's metrics",
    Category.ISOLATION,
    expect("NetworkPolicy kuberay/allow-metrics", Effect.IN_PLACE, dangers=LOOSER),
)
def _(edit: Edit) -> None:
    with edit.object("platform", "NetworkPolicy", "kuberay/allow-metrics") as policy:
        selector = {"matchExpressions": [{"key": NAME, "operator": "NotIn", "values": ["prometheus-system"]}]}
        policy["spec"]["ingress"][0]["from"][0]["namespaceSelector"] = selector


@destructive(
    "Alertmanager answers at an address outside the cluster",
    Category.NETWORK,
    expect(
        "Service prometheus-system/alertmanager",
        Effect.IN_PLACE,
        Effect.UNKNOWN,
        dangers=(PUBLIC, LOOSER, OPENED, UNKNOWN),
    ),
    environment="watched",
)
def _(edit: Edit) -> None:
    with edit.object("ray", "Service", "prometheus-system/alertmanager") as service:
        service["spec"]["externalIPs"] = ["203.0.113.10"]


@destructive(
    "everybody reaches the Grafana workspace",
    Category.NETWORK,
    expect("AWS::Grafana::Workspace", Effect.IN_PLACE, dangers=(PUBLIC, OPENED, LOOSER)),
    environment="observed",
)
def _(edit: Edit) -> None:
    del edit.properties("ray", "AWS::Grafana::Workspace")["NetworkAccessControl"]


@destructive(
    "Ray's pods are checked by the rules of an old Kubernetes version",
    Category.ISOLATION,
    expect("Namespace", Effect.IN_PLACE, Effect.UNKNOWN, dangers=(LOOSER, UNKNOWN)),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "Namespace", "ray") as namespace:
        namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce-version"] = "v1.7"


@destructive(
    "the label of a pod security level is misspelled",
    Category.ISOLATION,
    expect("Namespace", Effect.IN_PLACE, Effect.UNKNOWN, dangers=(LOOSER, UNKNOWN), words=("kuberay",)),
)
def _(edit: Edit) -> None:
    with edit.object("platform", "Namespace", "kuberay") as namespace:
        labels = namespace["metadata"]["labels"]
        labels["pod-security.kubernetes.io/enforced"] = labels.pop("pod-security.kubernetes.io/enforce")


@destructive(
    "public ACLs of the data bucket's objects count",
    Category.NETWORK,
    expect("AWS::S3::Bucket Data", Effect.IN_PLACE, dangers=(PUBLIC, LOWER, WIDER)),
    environment="slurm",
)
def _(edit: Edit) -> None:
    block = edit.properties("storage", "AWS::S3::Bucket", "Data")["PublicAccessBlockConfiguration"]
    block["IgnorePublicAcls"] = block["BlockPublicAcls"] = False


@harmless("the office's addresses are two halves of the same range", Category.NETWORK, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    _endpoint(edit)["PublicAccessCidrs"] = ["203.0.113.128/25", "203.0.113.0/25"]


@harmless(
    "the EKS endpoint is reached from the VPC only",
    Category.NETWORK,
    expect("AWS::EKS::Cluster Cluster", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment="prod",
)
def _(edit: Edit) -> None:
    _endpoint(edit)["EndpointPublicAccess"] = False


@harmless(
    "the endpoints' rule is two rules for the same addresses",
    Category.NETWORK,
    worst=Effect.IN_PLACE,
    environment="closed",
)
def _(edit: Edit) -> None:
    group = edit.properties("network", "AWS::EC2::SecurityGroup", "VpcEndpointsSecurityGroup")
    [rule] = group["SecurityGroupIngress"]
    group["SecurityGroupIngress"] = [rule | {"CidrIp": "10.240.0.0/17"}, rule | {"CidrIp": "10.240.128.0/17"}]


@harmless(
    "the description of the endpoints' rule is clearer",
    Category.NETWORK,
    worst=Effect.IN_PLACE,
    environment="closed",
)
def _(edit: Edit) -> None:
    [rule] = edit.properties("network", "AWS::EC2::SecurityGroup", "VpcEndpointsSecurityGroup")["SecurityGroupIngress"]
    rule["Description"] = "HTTPS from all addresses of the VPC"


@harmless(
    "only this account uses the endpoint of ECR",
    Category.NETWORK,
    expect("AWS::EC2::VPCEndpoint VpcEndpointsecrapi", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment="closed",
)
def _(edit: Edit) -> None:
    policy = edit.properties("network", "AWS::EC2::VPCEndpoint", "VpcEndpointseks")["PolicyDocument"]
    edit.properties("network", "AWS::EC2::VPCEndpoint", "VpcEndpointsecrapi")["PolicyDocument"] = policy


@harmless(
    "the shared group lets only HTTPS out",
    Category.NETWORK,
    expect("AWS::EC2::SecurityGroupEgress SharedSecurityGroupToAnywhere", Effect.REPLACED, Effect.IN_PLACE),
    worst=Effect.REPLACED,
)
def _(edit: Edit) -> None:
    rule = edit.properties("network", "AWS::EC2::SecurityGroupEgress", "SharedSecurityGroupToAnywhere")
    rule |= {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443}


@harmless("subnets get a tag of the owner", Category.NETWORK, worst=Effect.IN_PLACE, environment="prod")
def _(edit: Edit) -> None:
    for construct in ("VpcNodes0", "VpcNodes1", "VpcNodes2"):
        tags = edit.properties("network", "AWS::EC2::Subnet", construct)["Tags"]
        tags.append({"Key": "owner", "Value": "ml-platform"})


@harmless("a NetworkPolicy selects the same pods by an expression", Category.ISOLATION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.object("ray", "NetworkPolicy", "ray/allow-operator") as policy:
        expression = {"key": "ray.io/node-type", "operator": "In", "values": ["head"]}
        assert policy["spec"]["podSelector"] == {"matchLabels": {"ray.io/node-type": "head"}}
        policy["spec"]["podSelector"] = {"matchExpressions": [expression]}


@harmless("a NetworkPolicy leaves out the protocol that is the default", Category.ISOLATION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.object("ray", "NetworkPolicy", "ray/allow-submit-jobs") as policy:
        assert policy["spec"]["egress"][0]["ports"][0].pop("protocol") == "TCP"


@harmless(
    "only Prometheus itself reads Ray's metrics",
    Category.ISOLATION,
    expect("NetworkPolicy ray/allow-metrics", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    with edit.object("ray", "NetworkPolicy", "ray/allow-metrics") as policy:
        peer = policy["spec"]["ingress"][0]["from"][0]
        peer["podSelector"] = {"matchLabels": {"app.kubernetes.io/name": "prometheus"}}


@harmless(
    "Ray's heads reach two ports of the dashboards' sources",
    Category.ISOLATION,
    expect("NetworkPolicy ray/allow-dashboard-charts", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    with edit.object("ray", "NetworkPolicy", "ray/allow-dashboard-charts") as policy:
        [rule] = policy["spec"]["egress"]
        rule["ports"] = [each for each in rule["ports"] if each["port"] != 80]


@harmless(
    "one more policy lets nothing into the volume's namespace",
    Category.ISOLATION,
    expect("NetworkPolicy ray-volume/nothing-in", Effect.CREATED),
    worst=Effect.CREATED,
)
def _(edit: Edit) -> None:
    with edit.objects("ray", "NetworkPolicy", "ray-volume/closed") as objects:
        spec = {"podSelector": {}, "policyTypes": ["Ingress"]}
        metadata = {"name": "nothing-in", "namespace": "ray-volume", "labels": objects[0]["metadata"]["labels"]}
        kind = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy"}
        objects.append(kind | {"metadata": metadata, "spec": spec})


@harmless(
    "fewer addresses reach Grafana",
    Category.NETWORK,
    expect("AWS::EC2::PrefixList GrafanaNetworks", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment="observed",
)
def _(edit: Edit) -> None:
    [entry] = edit.properties("ray", "AWS::EC2::PrefixList")["Entries"]
    entry["Cidr"] = "203.0.113.64/26"


@harmless("pods of the image build are warned of by a stricter level", Category.ISOLATION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.object("platform", "Namespace", "image-build") as namespace:
        labels = namespace["metadata"]["labels"]
        labels["pod-security.kubernetes.io/warn"] = labels["pod-security.kubernetes.io/audit"] = "baseline"
