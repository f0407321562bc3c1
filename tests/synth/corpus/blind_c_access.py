"""Pairs by a third author who had not seen the judges: who enters, and which networks meet."""

from ops.review.model import Danger, Effect
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

WIDER, LOOSER, PUBLIC, OPENED = (
    Danger.WIDER_PERMISSIONS,
    Danger.LOOSER_ISOLATION,
    Danger.PUBLIC_ENDPOINT,
    Danger.OPENED_PORT,
)
ACL, ENTRY = "AWS::EC2::NetworkAcl", "AWS::EC2::NetworkAclEntry"
CLOSED = "closed"


@destructive(
    "one role may reach the data bucket without TLS",
    Category.PERMISSIONS,
    expect(
        "AWS::S3::BucketPolicy Data",
        Effect.IN_PLACE,
        dangers=(WIDER, Danger.LOWER_PROTECTION),
        words=("NotPrincipal",),
    ),
)
def _(edit: Edit) -> None:
    statement = edit.properties("storage", "AWS::S3::BucketPolicy", "DataPolicy")["PolicyDocument"]["Statement"][0]
    assert statement["Effect"] == "Deny"
    del statement["Principal"]
    statement["NotPrincipal"] = {"AWS": "arn:aws:iam::111122223333:role/Sync"}


def _guarded(edit: Edit) -> None:
    vpc = {"Ref": edit.find("network", "AWS::EC2::VPC")[0]}
    subnet = {"Ref": edit.find("network", "AWS::EC2::Subnet", "VpcNodes0")[0]}
    edit.add("network", "Guard", ACL, VpcId=vpc)
    acl = {"Ref": edit.find("network", ACL, "Guard")[0]}
    edit.add("network", "GuardNodes", "AWS::EC2::SubnetNetworkAclAssociation", NetworkAclId=acl, SubnetId=subnet)
    common = {"NetworkAclId": acl, "CidrBlock": "0.0.0.0/0", "Egress": False}
    ssh = {"Protocol": 6, "PortRange": {"From": 22, "To": 22}, "RuleAction": "deny", "RuleNumber": 90}
    edit.add("network", "GuardNoSsh", ENTRY, **common, **ssh)
    edit.add("network", "GuardIn", ENTRY, **common, Protocol=-1, RuleAction="allow", RuleNumber=100)
    edit.add("network", "GuardOut", ENTRY, **common | {"Egress": True}, Protocol=-1, RuleAction="allow", RuleNumber=100)


@destructive(
    "the network ACL of the nodes no longer denies SSH",
    Category.NETWORK,
    expect(f"{ENTRY} GuardNoSsh", Effect.DELETED, dangers=OPENED),
    prepare=_guarded,
)
def _(edit: Edit) -> None:
    edit.delete("network", ENTRY, "GuardNoSsh")


@destructive(
    "the VPC of another account is peered, with a route to it",
    Category.NETWORK,
    expect(
        "AWS::EC2::",
        Effect.CREATED,
        Effect.UNKNOWN,
        dangers=(LOOSER, OPENED, PUBLIC, WIDER, Danger.UNKNOWN),
        words=("peer",),
    ),
)
def _(edit: Edit) -> None:
    kind = "AWS::EC2::VPCPeeringConnection"
    vpc = {"Ref": edit.find("network", "AWS::EC2::VPC")[0]}
    edit.add("network", "Peer", kind, VpcId=vpc, PeerVpcId="vpc-0a1b2c3d4e5f60718", PeerOwnerId="444455556666")
    peer = {"Ref": edit.find("network", kind)[0]}
    table = {"Ref": edit.find("network", "AWS::EC2::RouteTable", "VpcPrivateRoutes0")[0]}
    destination = {"DestinationCidrBlock": "10.50.0.0/16", "VpcPeeringConnectionId": peer, "RouteTableId": table}
    edit.add("network", "ToPeer", "AWS::EC2::Route", **destination)


@destructive(
    "submitters read the Secrets of Ray's namespace",
    Category.PERMISSIONS,
    expect("Role ray/submitters", Effect.IN_PLACE, dangers=WIDER, words=("secrets",)),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "Role", "ray/submitters") as role:
        [rule] = [each for each in role["rules"] if "pods/log" in each["resources"]]
        rule["resources"].append("secrets")


@destructive(
    "submitters may edit in all namespaces",
    Category.PERMISSIONS,
    expect("ClusterRoleBinding", Effect.CREATED, dangers=WIDER, words=("ray-submitters",)),
)
def _(edit: Edit) -> None:
    group = "rbac.authorization.k8s.io"
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "helpers"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": "ray-submitters"}],
    }
    edit.apply("ray", "Helpers", binding)


@destructive(
    "identities of another account use the endpoint of EC2",
    Category.NETWORK,
    expect(
        "AWS::EC2::VPCEndpoint VpcEndpointsec2",
        Effect.IN_PLACE,
        dangers=(WIDER, LOOSER),
        words=("444455556666",),
    ),
    environment=CLOSED,
)
def _(edit: Edit) -> None:
    endpoint = edit.properties("network", "AWS::EC2::VPCEndpoint", "VpcEndpointsec2")
    accounts = endpoint["PolicyDocument"]["Statement"][0]["Condition"]["StringEquals"]
    accounts["aws:PrincipalAccount"] = ["111122223333", "444455556666"]


@harmless(
    "half of the office's addresses reach the EKS endpoint",
    Category.NETWORK,
    expect("AWS::EKS::Cluster Cluster", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    edit.properties("eks", "AWS::EKS::Cluster")["ResourcesVpcConfig"]["PublicAccessCidrs"] = ["203.0.113.0/25"]


@harmless(
    "only addresses of the nodes reach the interface endpoints",
    Category.NETWORK,
    expect("AWS::EC2::SecurityGroup VpcEndpoints", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment=CLOSED,
)
def _(edit: Edit) -> None:
    [rule] = edit.properties("network", "AWS::EC2::SecurityGroup", "VpcEndpointsSecurityGroup")["SecurityGroupIngress"]
    assert rule["CidrIp"] == "10.240.0.0/16"
    rule["CidrIp"] = "10.240.64.0/18"


@harmless(
    "Ray's pods no longer reach the company's data centre by HTTPS",
    Category.ISOLATION,
    expect("NetworkPolicy ray/allow-https", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    with edit.object("ray", "NetworkPolicy", "ray/allow-https") as policy:
        policy["spec"]["egress"][0]["to"][0]["ipBlock"]["except"].append("172.16.0.0/12")


@harmless(
    "submitters can no longer run commands in pods",
    Category.PERMISSIONS,
    expect("Role ray/submitters", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    with edit.object("ray", "Role", "ray/submitters") as role:
        [rule] = [each for each in role["rules"] if "pods/exec" in each["resources"]]
        rule["resources"].remove("pods/exec")


@harmless("the rule for outgoing traffic is described better", Category.NETWORK, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    rule = edit.properties("network", "AWS::EC2::SecurityGroupEgress", "SharedSecurityGroupToAnywhere")
    rule["Description"] = "APIs of AWS, image registries, package indexes"
