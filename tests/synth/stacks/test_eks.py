"""Promises of the eks stack."""

import json
import subprocess
import sys
from importlib.util import find_spec

import pytest

from config import available, load, naming
from config.facts import versions
from config.labels import SYSTEM_NODE_LABEL
from config.model import AddOn, AddOnRole
from k8s_charts.shared.names import submitters_group, viewers_group
from tests.synth.support.synthesis import REPOSITORY, Assemblies, Assembly, synthesise

CHART = "Custom::AWSCDK-EKS-HelmChart"
POLICIES = "arn:aws:eks::aws:cluster-access-policy"
OWN_CLUSTER = [name for name in available() if not load(name).eks.existing]


def test_control_plane_lies_in_two_zones_and_in_the_shared_group_only(dev: Assembly, prod: Assembly) -> None:
    for synthesised in (dev, prod):
        network = synthesised.templates["eks"].only("AWS::EKS::Cluster")["ResourcesVpcConfig"]
        subnets = [synthesised.imported(subnet)[1]["Properties"] for subnet in network["SubnetIds"]]
        assert [subnet["AvailabilityZoneId"] for subnet in subnets] == list(synthesised.of_eks.network.zones[:2])
        assert {subnet["CidrBlock"].rpartition("/")[2] for subnet in subnets} == {"28"}
        [group] = network["SecurityGroupIds"]
        assert synthesised.imported(group)[1]["Type"] == "AWS::EC2::SecurityGroup"


@pytest.mark.parametrize("name", OWN_CLUSTER)
def test_public_endpoint_answers_the_allowed_addresses_only(assembly: Assemblies, name: str) -> None:
    synthesised = assembly(name)
    network = synthesised.templates["eks"].only("AWS::EKS::Cluster")["ResourcesVpcConfig"]
    assert network["EndpointPrivateAccess"] is True
    assert network["PublicAccessCidrs"] == [str(block) for block in synthesised.of_eks.eks.public_access_cidrs]


def test_kubernetes_secrets_are_encrypted_with_a_key_that_rotates(dev: Assembly) -> None:
    eks = dev.templates["eks"]
    [encryption] = eks.only("AWS::EKS::Cluster")["EncryptionConfig"]
    key = eks.body["Resources"][encryption["Provider"]["KeyArn"]["Fn::GetAtt"][0]]
    assert encryption["Resources"] == ["secrets"]
    assert key["Properties"]["EnableKeyRotation"] is True


def test_all_control_plane_logs_go_to_a_declared_group_that_is_there_first(dev: Assembly) -> None:
    eks = dev.templates["eks"]
    [cluster] = eks.all("AWS::EKS::Cluster").values()
    types = {entry["Type"] for entry in cluster["Properties"]["Logging"]["ClusterLogging"]["EnabledTypes"]}
    assert types == {"api", "audit", "authenticator", "controllerManager", "scheduler"}
    name = f"/aws/eks/{naming.eks_cluster(dev.of_eks)}/cluster"
    [group] = [id for id, g in eks.all("AWS::Logs::LogGroup").items() if g["Properties"].get("LogGroupName") == name]
    assert group in cluster["DependsOn"]


def test_nobody_has_access_without_an_access_entry(dev: Assembly) -> None:
    cluster = dev.templates["eks"].only("AWS::EKS::Cluster")
    assert cluster["AccessConfig"] == {
        "AuthenticationMode": "API",
        "BootstrapClusterCreatorAdminPermissions": False,
    }


def test_admins_may_do_everything_submitters_run_ray_in_its_namespace_viewers_have_no_policy(dev: Assembly) -> None:
    access, entries = dev.of_eks.access, dev.templates["eks"].properties("AWS::EKS::AccessEntry")
    policies = {
        entry["PrincipalArn"]: entry.get("AccessPolicies")
        for entry in entries
        if isinstance(entry["PrincipalArn"], str)
    }
    assert set(policies) == {*access.admins, *access.submitters, *access.viewers}
    assert access.viewers
    assert all(policies[viewer] is None for viewer in access.viewers)
    for admin in access.admins:
        assert policies[admin] == [
            {"PolicyArn": f"{POLICIES}/AmazonEKSClusterAdminPolicy", "AccessScope": {"Type": "cluster"}}
        ]
    for submitter in access.submitters:
        assert policies[submitter] == [
            {
                "PolicyArn": f"{POLICIES}/AmazonSagemakerHyperpodTrainingPolicy",
                "AccessScope": {"Type": "namespace", "Namespaces": [dev.of_eks.ray.namespace]},
            }
        ]
    groups = {entry["PrincipalArn"]: entry["KubernetesGroups"] for entry in entries if "KubernetesGroups" in entry}
    namespace = dev.of_eks.ray.namespace
    assert groups == {
        **{role: [submitters_group(namespace)] for role in access.submitters},
        **{role: [viewers_group(namespace)] for role in access.viewers},
    }


def test_only_the_deployments_own_role_is_a_further_admin(dev: Assembly) -> None:
    entries = dev.templates["eks"].properties("AWS::EKS::AccessEntry")
    [role] = [entry["PrincipalArn"] for entry in entries if not isinstance(entry["PrincipalArn"], str)]
    trust = dev.templates["eks"].body["Resources"][role["Fn::GetAtt"][0]]["Properties"]["AssumeRolePolicyDocument"]
    assert [statement["Principal"] for statement in trust["Statement"]] == [{"Service": "lambda.amazonaws.com"}]


def test_service_accounts_have_an_identity_provider_that_is_cloudformations_own(dev: Assembly) -> None:
    assert dev.templates["eks"].only("AWS::IAM::OIDCProvider")["ClientIdList"] == ["sts.amazonaws.com"]


def test_network_policies_are_enforced(dev: Assembly) -> None:
    add_ons = {add_on["AddonName"]: add_on for add_on in dev.templates["eks"].properties("AWS::EKS::Addon")}
    assert sorted(add_ons) == ["coredns", "eks-pod-identity-agent", "kube-proxy", "vpc-cni"]
    assert json.loads(add_ons["vpc-cni"]["ConfigurationValues"]) == {"enableNetworkPolicy": "true"}


def test_the_vpc_cni_is_a_version_that_works_on_hyperpods_nodes(dev: Assembly) -> None:
    add_ons = dev.templates["eks"].properties("AWS::EKS::Addon")
    pinned = {add_on["AddonName"]: add_on["AddonVersion"] for add_on in add_ons if "AddonVersion" in add_on}
    assert pinned == {"vpc-cni": versions.VPC_CNI}


@pytest.fixture(scope="module")
def changed(dev: Assembly, tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    """Return dev with the optional settings of its EKS cluster."""
    policies = ("arn:aws:iam::aws:policy/CloudWatchAgentServerPolicy",)
    add_ons = (
        AddOn(name="vpc-cni", version="v1.21.1-eksbuild.1", configuration={"env": {"WARM_IP_TARGET": "5"}}),
        AddOn(name="metrics-server"),
        AddOn(name="amazon-cloudwatch-observability", role=AddOnRole(policies=policies)),
    )
    eks = dev.of_eks.eks.model_copy(
        update={"version": "1.31", "endpoint_access": "private", "public_access_cidrs": (), "add_ons": add_ons}
    )
    return synthesise(dev.of_eks.model_copy(update={"eks": eks}), tmp_path_factory.mktemp("changed"))


def test_a_private_endpoint_answers_nobody_outside(changed: Assembly) -> None:
    network = changed.templates["eks"].only("AWS::EKS::Cluster")["ResourcesVpcConfig"]
    assert (network["EndpointPrivateAccess"], network["EndpointPublicAccess"]) == (True, False)
    assert not network.get("PublicAccessCidrs")


def test_an_add_ons_version_is_the_environments_and_further_ones_come_with_nodes(changed: Assembly) -> None:
    eks = changed.templates["eks"]
    add_ons = {a["Properties"]["AddonName"]: a for a in eks.all("AWS::EKS::Addon").values()}
    further = {"amazon-cloudwatch-observability", "metrics-server"}
    assert set(add_ons) == {"coredns", "eks-pod-identity-agent", "kube-proxy", "vpc-cni"} | further
    asked_for = {name: a["Properties"].get("AddonVersion") for name, a in add_ons.items()}
    assert {name: version for name, version in asked_for.items() if version} == {"vpc-cni": "v1.21.1-eksbuild.1"}
    [group] = eks.all("AWS::EKS::Nodegroup")
    assert all(group in add_ons[name]["DependsOn"] for name in further)


def test_an_add_ons_configuration_joins_what_the_project_relies_on(changed: Assembly) -> None:
    add_ons = {a["AddonName"]: a for a in changed.templates["eks"].properties("AWS::EKS::Addon")}
    configuration = json.loads(add_ons["vpc-cni"]["ConfigurationValues"])
    assert configuration == {"enableNetworkPolicy": "true", "env": {"WARM_IP_TARGET": "5"}}
    assert "ConfigurationValues" not in add_ons["metrics-server"]


def test_an_add_ons_role_is_for_its_service_account_only_and_has_the_policies_of_the_environment(
    changed: Assembly,
) -> None:
    eks = changed.templates["eks"]
    [add_on] = [a for a in eks.properties("AWS::EKS::Addon") if "ServiceAccountRoleArn" in a]
    assert add_on["AddonName"] == "amazon-cloudwatch-observability"
    role = eks.body["Resources"][add_on["ServiceAccountRoleArn"]["Fn::GetAtt"][0]]["Properties"]
    assert role["ManagedPolicyArns"] == ["arn:aws:iam::aws:policy/CloudWatchAgentServerPolicy"]
    assert "Policies" not in role
    text, values = role["AssumeRolePolicyDocument"]["Fn::Sub"]
    assert json.loads(text)["Statement"][0]["Condition"]["StringEquals"].keys() == {"${Issuer}:aud", "${Issuer}:sub"}
    assert (values["Namespace"], values["ServiceAccount"]) == ("amazon-cloudwatch", "cloudwatch-agent")


def test_control_plane_and_kubectl_have_the_environments_version(changed: Assembly, dev: Assembly) -> None:
    assert changed.templates["eks"].only("AWS::EKS::Cluster")["Version"] == "1.31"
    layers = [
        {layer["Content"]["S3Key"] for layer in each.templates["eks"].properties("AWS::Lambda::LayerVersion")}
        for each in (changed, dev)
    ]
    # Only kubectl's layer differs: the AWS CLI's layer is the same.
    assert len(layers[0] - layers[1]) == 1


def test_an_upgrade_includes_the_system_nodes(changed: Assembly, dev: Assembly, assembly: Assemblies) -> None:
    """A node group without a stated version keeps the version with which it was created."""
    assert changed.of_eks.eks.version != dev.of_eks.eks.version
    for synthesised in (changed, dev, assembly("existing-eks")):
        group = synthesised.templates["eks"].only("AWS::EKS::Nodegroup")
        assert group["Version"] == synthesised.of_eks.eks.version


@pytest.mark.parametrize("version", versions.KUBERNETES_VERSIONS)
def test_each_version_has_a_kubectl_at_most_one_minor_version_away(version: str) -> None:
    """Kubernetes' version skew policy requires this. The package's name states the version of its kubectl."""
    layer = versions.KUBECTL_LAYERS[version]
    assert find_spec(f"aws_cdk.lambda_layer_kubectl_{layer}")
    assert abs(int(version.split(".")[1]) - int(layer.removeprefix("v"))) <= 1


def test_only_the_layer_that_is_used_is_imported() -> None:
    """jsii loads 35 MB for each layer."""
    code = "import stacks.eks.stack, sys; print([name for name in sys.modules if 'lambda_layer_kubectl' in name])"
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_nodes_come_after_the_cni_and_coredns_after_nodes(dev: Assembly) -> None:
    eks = dev.templates["eks"]
    add_ons = {a["Properties"]["AddonName"]: (id, a) for id, a in eks.all("AWS::EKS::Addon").items()}
    [(group_id, group)] = eks.all("AWS::EKS::Nodegroup").items()
    assert {add_ons["vpc-cni"][0], add_ons["kube-proxy"][0]} <= set(group["DependsOn"])
    assert group_id in add_ons["coredns"][1]["DependsOn"]


@pytest.mark.parametrize("name", available())
def test_system_nodes_are_labelled_untainted_and_closed(assembly: Assemblies, name: str) -> None:
    synthesised = assembly(name)
    eks, settings = synthesised.templates["eks"], synthesised.of_eks.eks.system_nodes
    group = eks.only("AWS::EKS::Nodegroup")
    assert group["Labels"] == {SYSTEM_NODE_LABEL: "system"}
    assert "Taints" not in group
    assert group["AmiType"] == "AL2023_x86_64_STANDARD"
    assert set(group["ScalingConfig"].values()) == {settings.count}
    if existing := synthesised.of_eks.network.existing:
        assert group["Subnets"] == [subnet.id for subnet in existing.node_subnets]
    else:
        blocks = [synthesised.imported(subnet)[1]["Properties"]["CidrBlock"] for subnet in group["Subnets"]]
        assert {block.rpartition("/")[2] for block in blocks} == {"18"}

    template = eks.only("AWS::EC2::LaunchTemplate")["LaunchTemplateData"]
    assert template["MetadataOptions"] == {"HttpTokens": "required", "HttpPutResponseHopLimit": 1}
    [volume] = template["BlockDeviceMappings"]
    assert volume["Ebs"]["Encrypted"] is True
    assert (volume["Ebs"]["VolumeSize"], volume["Ebs"]["VolumeType"]) == (settings.volume_gib, "gp3")
    shared, own = template["SecurityGroupIds"]
    assert synthesised.imported(shared)[1]["Type"] == "AWS::EC2::SecurityGroup"
    cluster = synthesised.of_eks.eks.existing
    assert own == cluster.security_group if cluster else own["Fn::GetAtt"][1] == "ClusterSecurityGroupId"


def test_dependencies_chart_waits_for_no_pod_and_brings_no_second_csi_driver(dev: Assembly) -> None:
    chart = dev.templates["eks"].only(CHART)
    assert (chart["Release"], chart["Namespace"]) == ("hyperpod-dependencies", "kube-system")
    assert chart.get("Wait", False) is False
    values = json.loads(chart["Values"])
    assert values["health-monitoring-agent"] == {"enabled": True, "region": dev.of_eks.region}
    for sub_chart in ("storage", "inferenceOperators", "cert-manager"):
        assert values[sub_chart] == {"enabled": False}


def test_dependencies_chart_comes_from_the_assembly_not_from_the_internet(dev: Assembly) -> None:
    chart = dev.templates["eks"].only(CHART)
    assert "Repository" not in chart
    assert chart["ChartAssetURL"].startswith("s3://cdk-")


def test_kubectl_of_a_deployment_may_look_at_this_cluster_and_read_assets_only(dev: Assembly) -> None:
    eks = dev.templates["eks"]
    [role] = [
        role
        for role in eks.properties("AWS::IAM::Role")
        for policy in role.get("Policies", [])
        if policy["PolicyName"] == "cluster-and-charts"
    ]
    [document] = [policy["PolicyDocument"] for policy in role["Policies"]]
    assert [statement["Action"] for statement in document["Statement"]] == ["eks:DescribeCluster", "s3:GetObject"]
    assert not any("ContainerRegistry" in str(policy) for policy in role["ManagedPolicyArns"])
