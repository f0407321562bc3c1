"""Pairs by a fifth author who had not seen the judges: what a malicious or tired colleague submits, the held half.

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
# Only the release of Prometheus and Grafana has it.
OBSERVABILITY = "name: grafana-port-forward"

Body = dict[str, Any]


def _statements(edit: Edit, part: str, kind: str, construct: str) -> list[Body]:
    """Return the statements of a resource that is a policy, or has one."""
    statements: list[Body] = edit.properties(part, kind, construct)["PolicyDocument"]["Statement"]
    return statements


@destructive(
    "the role of the file systems' driver trusts Ray's pods in place of the driver",
    Category.PERMISSIONS,
    expect("AWS::IAM::Role FsxCsiRole", Effect.IN_PLACE, dangers=WIDER),
)
def _(edit: Edit) -> None:
    trusted = edit.properties("platform", ROLE, "FsxCsiRole")["AssumeRolePolicyDocument"]["Fn::Sub"][1]
    assert trusted["ServiceAccount"] == "fsx-csi-controller-sa"
    trusted.update(Namespace="ray", ServiceAccount="ray")


@destructive(
    "the data bucket refuses plain HTTP only from outside one network",
    Category.PERMISSIONS,
    expect("AWS::S3::BucketPolicy DataPolicy", Effect.IN_PLACE, dangers=(WIDER, LOWER, LOOSER)),
)
def _(edit: Edit) -> None:
    denied = one(_statements(edit, "storage", "AWS::S3::BucketPolicy", "DataPolicy"), Effect="Deny")
    # All operators of a condition must hold, so that it denies less.
    denied["Condition"]["StringNotEquals"] = {"aws:SourceVpc": "vpc-0123456789abcdef0"}


@destructive(
    "the account is locked out of its key, which a contractor's account now holds",
    Category.PERMISSIONS,
    expect("AWS::KMS::Key ClusterSecretsKey", Effect.IN_PLACE, dangers=WIDER),
)
def _(edit: Edit) -> None:
    key = edit.properties("eks", "AWS::KMS::Key", "ClusterSecretsKey")
    [statement] = key["KeyPolicy"]["Statement"]
    statement["Principal"] = {"AWS": "arn:aws:iam::999999999999:root"}
    key["BypassPolicyLockoutSafetyCheck"] = True


def _locked(edit: Edit) -> None:
    retention = {"Mode": "GOVERNANCE", "Days": 30}
    edit.properties("storage", BUCKET, "Data").update(
        ObjectLockEnabled=True,
        ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": retention}},
    )


@destructive(
    "new objects are locked for a day in place of a month",
    Category.PROTECTION,
    expect("AWS::S3::Bucket Data", Effect.IN_PLACE, dangers=(LOWER, LOSS)),
    prepare=_locked,
)
def _(edit: Edit) -> None:
    lock = edit.properties("storage", BUCKET, "Data")["ObjectLockConfiguration"]
    lock["Rule"]["DefaultRetention"]["Days"] = 1


@destructive(
    "every account may pull the image, and push another one",
    Category.PERMISSIONS,
    expect("AWS::ECR::Repository Image", Effect.IN_PLACE, dangers=(WIDER, PUBLIC)),
)
def _(edit: Edit) -> None:
    actions = ["ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer", "ecr:PutImage", "ecr:UploadLayerPart"]
    given = {"Effect": "Allow", "Principal": "*", "Action": actions}
    repository = edit.properties("storage", "AWS::ECR::Repository")
    repository["RepositoryPolicyText"] = {"Version": "2012-10-17", "Statement": [given]}


@destructive(
    "a replacement of the file system would delete the one that it replaces",
    Category.PROTECTION,
    expect("AWS::FSx::FileSystem FileSystem", Effect.IN_PLACE, Effect.NOTHING, dangers=LOWER),
    environment="prod",
)
def _(edit: Edit) -> None:
    _, body = edit.find("storage", "AWS::FSx::FileSystem")
    assert body["UpdateReplacePolicy"] == "Retain"
    body["UpdateReplacePolicy"] = "Delete"


@destructive(
    "submitters work in each namespace whose name begins with Ray's",
    Category.PERMISSIONS,
    expect("AWS::EKS::AccessEntry AccessSubmitterRaySubmitter", Effect.IN_PLACE, dangers=WIDER),
)
def _(edit: Edit) -> None:
    entry = edit.properties("eks", "AWS::EKS::AccessEntry", "AccessSubmitterRaySubmitter")
    scope = entry["AccessPolicies"][0]["AccessScope"]
    assert scope["Namespaces"] == ["ray"]
    scope["Namespaces"] = ["ray*"]


@destructive(
    "pods reach the credentials of system nodes",
    Category.ISOLATION,
    expect(
        "AWS::EC2::LaunchTemplate SystemNodes",
        Effect.IN_PLACE,
        Effect.NODES_REPLACED,
        dangers=(LOOSER, LOWER, WIDER),
    ),
)
def _(edit: Edit) -> None:
    options = edit.properties("eks", "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]["MetadataOptions"]
    assert options["HttpPutResponseHopLimit"] == 1
    options["HttpPutResponseHopLimit"] = 2


@destructive(
    "system nodes lose the label by which all controllers choose them",
    Category.PROTECTION,
    expect("AWS::EKS::Nodegroup SystemNodes", Effect.IN_PLACE, Effect.NODES_REPLACED, dangers=LOWER),
)
def _(edit: Edit) -> None:
    labels = edit.properties("eks", "AWS::EKS::Nodegroup")["Labels"]
    del labels["ray-on-hyperpod/node-role"]
    labels["node-role"] = "system"


@destructive(
    "all private networks of class A reach the closed network's endpoints",
    Category.NETWORK,
    expect("AWS::EC2::SecurityGroup VpcEndpointsSecurityGroup", Effect.IN_PLACE, dangers=OPENED),
    environment="closed",
)
def _(edit: Edit) -> None:
    [rule] = edit.properties("network", "AWS::EC2::SecurityGroup", "VpcEndpointsSecurityGroup")["SecurityGroupIngress"]
    rule["CidrIp"] = swap("10.240.0.0/16", "10.0.0.0/8")(rule["CidrIp"])


@destructive(
    "the flow log exists only under a condition that never holds",
    Category.PROTECTION,
    expect("AWS::EC2::FlowLog", Effect.UNKNOWN),
)
def _(edit: Edit) -> None:
    edit.templates["network"]["Conditions"] = {"Audited": {"Fn::Equals": ["audited", "never"]}}
    edit.find("network", "AWS::EC2::FlowLog")[1]["Condition"] = "Audited"


@destructive(
    "the cluster's function takes its code from a contractor's bucket",
    Category.SCRIPTS,
    expect("AWS::Lambda::Function ProviderOnEvent", Effect.IN_PLACE, Effect.UNKNOWN, dangers=RUNS),
)
def _(edit: Edit) -> None:
    code = edit.properties("hyperpod", "AWS::Lambda::Function", "ProviderOnEvent")["Code"]
    assert code["S3Bucket"].startswith("cdk-")
    code.update(S3Bucket="contractor-functions", S3Key="on_event.zip")


@destructive(
    "new worker nodes skip the check of their connections",
    Category.GROUPS,
    expect("InstanceGroup worker-group-1", Effect.IN_PLACE, dangers=LOWER),
)
def _(edit: Edit) -> None:
    instance_group(edit, "worker-group-1")["OnStartDeepHealthChecks"].remove("InstanceConnectivity")


@destructive(
    "the topic is encrypted with AWS's own key, which event rules may not use",
    Category.PROTECTION,
    expect("AWS::SNS::Topic NotificationsTopic", Effect.IN_PLACE, dangers=LOWER),
)
def _(edit: Edit) -> None:
    topic = edit.properties("hyperpod", "AWS::SNS::Topic")
    assert "Fn::GetAtt" in topic["KmsMasterKeyId"]
    topic["KmsMasterKeyId"] = "alias/aws/sns"


def _two_of_six(edit: Edit) -> None:
    edit.properties("ray", ALARM, "AlarmsNodeNotReplaced")["DatapointsToAlarm"] = 2


@destructive(
    "an alarm waits for six bad periods, where two of six were enough",
    Category.PROTECTION,
    expect("AWS::CloudWatch::Alarm AlarmsNodeNotReplaced", Effect.IN_PLACE, dangers=LOWER),
    environment="watched",
    prepare=_two_of_six,
)
def _(edit: Edit) -> None:
    # Its default is the number of periods.
    del edit.properties("ray", ALARM, "AlarmsNodeNotReplaced")["DatapointsToAlarm"]


@destructive(
    "Alertmanager sends all alerts to a receiver that tells nobody",
    Category.PROTECTION,
    expect("", Effect.IN_PLACE, dangers=LOWER),
    environment="watched",
)
def _(edit: Edit) -> None:
    with edit.object("ray", "ConfigMap", "prometheus-system/alertmanager") as config:
        settings = json.loads(config["data"]["alertmanager.yaml"])
        settings["receivers"].append({"name": "later"})
        settings["route"]["receiver"] = "later"
        config["data"]["alertmanager.yaml"] = json.dumps(settings, indent=1)


@destructive(
    "the Grafana workspace is open to all networks",
    Category.NETWORK,
    expect("AWS::Grafana::Workspace", Effect.IN_PLACE, dangers=PUBLIC),
    environment="observed",
)
def _(edit: Edit) -> None:
    del edit.properties("ray", "AWS::Grafana::Workspace")["NetworkAccessControl"]


@destructive(
    "the workspace of metrics gets a key of its own, and is a new and empty one",
    Category.DATA,
    expect("AWS::APS::Workspace", Effect.DATA_LOST, Effect.REPLACED, Effect.UNKNOWN, dangers=LOSS),
    environment="observed",
)
def _(edit: Edit) -> None:
    workspace = edit.properties("ray", "AWS::APS::Workspace")
    assert "KmsKeyArn" not in workspace
    workspace["KmsKeyArn"] = "arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"


@destructive(
    "KubeRay deletes two workers, which are listed by name",
    Category.JOBS,
    expect("RayCluster ray/rayml", Effect.ENDS_JOBS, Effect.IN_PLACE, dangers=ENDED),
)
def _(edit: Edit) -> None:
    names = ["rayml-gpu-group-worker-7xk2p", "rayml-gpu-group-worker-m4qzt"]
    with edit.object("ray", "RayCluster", "ray/rayml") as cluster:
        workers = cluster["spec"]["workerGroupSpecs"][0]
        assert "scaleStrategy" not in workers
        workers["scaleStrategy"] = {"workersToDelete": names}


@destructive(
    "a hyphen more admits all pods of the operator's namespace to the heads",
    Category.ISOLATION,
    expect("NetworkPolicy", Effect.IN_PLACE, dangers=LOOSER),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "NetworkPolicy", "ray/allow-operator") as policy:
        [rule] = policy["spec"]["ingress"]
        [both] = rule["from"]
        rule["from"] = [{key: both[key]} for key in ("namespaceSelector", "podSelector")]


@destructive(
    "submitters may ask for a token of each service account of their namespace",
    Category.PERMISSIONS,
    expect("Role", Effect.IN_PLACE, dangers=WIDER),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "Role", "ray/submitters") as role:
        role["rules"].append({"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"]})


@destructive(
    "workers see the whole /proc of their nodes' kernel",
    Category.ISOLATION,
    expect("RayCluster ray/rayml", Effect.NEEDS_ROLLOUT, Effect.IN_PLACE, dangers=LOOSER),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "RayCluster", "ray/rayml") as cluster:
        [container] = cluster["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"]
        assert "procMount" not in container["securityContext"]
        container["securityContext"]["procMount"] = "Unmasked"


def _bound(edit: Edit) -> None:
    group = "admissionregistration.k8s.io/v1"
    matched = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    rule = "object.spec.containers.all(c, c.image.startsWith(params.data.registry))"
    policy = {
        "failurePolicy": "Fail",
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": {"resourceRules": [matched]},
        "validations": [{"expression": rule}],
    }
    found = {"name": "registries", "namespace": "kuberay", "parameterNotFoundAction": "Deny"}
    binding = {"policyName": "registries", "validationActions": ["Deny"], "paramRef": found}
    for kind, spec in (("ValidatingAdmissionPolicy", policy), ("ValidatingAdmissionPolicyBinding", binding)):
        edit.apply(
            "platform", kind, {"apiVersion": group, "kind": kind, "metadata": {"name": "registries"}, "spec": spec}
        )


@destructive(
    "an admission policy allows all pods when its list of registries is missing",
    Category.ISOLATION,
    expect("ValidatingAdmissionPolicyBinding", Effect.IN_PLACE, dangers=LOOSER),
    prepare=_bound,
)
def _(edit: Edit) -> None:
    with edit.object("platform", "ValidatingAdmissionPolicyBinding", "registries") as binding:
        assert binding["spec"]["paramRef"]["parameterNotFoundAction"] == "Deny"
        binding["spec"]["paramRef"]["parameterNotFoundAction"] = "Allow"


@destructive(
    "the reaper waits a day before it deletes pods of a lost node",
    Category.PROTECTION,
    expect("Deployment", Effect.IN_PLACE, dangers=LOWER),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "Deployment", "kuberay/ray-reaper") as reaper:
        [container] = reaper["spec"]["template"]["spec"]["containers"]
        container["args"][container["args"].index("--unready-seconds=30")] = "--unready-seconds=86400"


@destructive(
    "a slip of the pen lets image builds request GPUs",
    Category.ISOLATION,
    expect("ResourceQuota", Effect.IN_PLACE, dangers=LOOSER),
)
def _(edit: Edit) -> None:
    with edit.object("platform", "ResourceQuota", "image-build/project") as quota:
        hard = quota["spec"]["hard"]
        hard["requests.nvidia.com/gpus"] = hard.pop("requests.nvidia.com/gpu")


@destructive(
    "a node script makes all homes on the shared file system like an empty one",
    Category.SCRIPTS,
    expect("", Effect.IN_PLACE, Effect.UNKNOWN, dangers=RUNS),
    environment="slurm",
)
def _(edit: Edit) -> None:
    line = 'rsync --archive --delete /etc/skel/ "$root$homes/"'
    edit.rewrite("add_users.sh", after_line('mkdir -p "$root$homes"', line))


@destructive(
    "the budget warns first at eight times its amount",
    Category.PROTECTION,
    expect("AWS::Budgets::Budget", Effect.IN_PLACE, Effect.REPLACED, dangers=LOWER),
    environment="budgeted",
)
def _(edit: Edit) -> None:
    warnings = edit.properties("hyperpod", "AWS::Budgets::Budget")["NotificationsWithSubscribers"]
    assert len(warnings) == 3
    for warning in warnings:
        warning["Notification"]["Threshold"] = 800


@destructive(
    "the operator watches a namespace without RayClusters",
    Category.PROTECTION,
    expect("", Effect.IN_PLACE, Effect.UNKNOWN, dangers=LOWER),
)
def _(edit: Edit) -> None:
    with edit.values("platform", "kuberay-operator") as values:
        assert "watchNamespace" not in values
        values["watchNamespace"] = ["default"]


def _sessions(edit: Edit) -> None:
    inputs = {"cloudWatchLogGroupName": "/sessions", "cloudWatchStreamingEnabled": True}
    content = {"schemaVersion": "1.0", "sessionType": "Standard_Stream", "inputs": inputs}
    edit.add(
        "network",
        "Sessions",
        "AWS::SSM::Document",
        Name="SSM-SessionManagerRunShell",
        DocumentType="Session",
        UpdateMethod="NewVersion",
        Content=content,
    )


@destructive(
    "what people type in sessions on nodes is no longer logged",
    Category.UNKNOWN,
    expect("AWS::SSM::Document Sessions", Effect.IN_PLACE, Effect.REPLACED, Effect.UNKNOWN, dangers=Danger.UNKNOWN),
    prepare=_sessions,
)
def _(edit: Edit) -> None:
    inputs = edit.properties("network", "AWS::SSM::Document", "Sessions")["Content"]["inputs"]
    inputs.update(cloudWatchLogGroupName="", cloudWatchStreamingEnabled=False)


@destructive(
    "who reaches the cluster's endpoint is read from a parameter at deployment",
    Category.NETWORK,
    expect("AWS::EKS::Cluster", Effect.IN_PLACE, Effect.UNKNOWN, dangers=PUBLIC),
)
def _(edit: Edit) -> None:
    access = edit.properties("eks", "AWS::EKS::Cluster")["ResourcesVpcConfig"]
    assert access["PublicAccessCidrs"] == ["203.0.113.0/24"]
    access["PublicAccessCidrs"] = ["{{resolve:ssm:/office/network}}"]


@harmless("the key's policy names the account by its number", Category.PERMISSIONS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    statements = edit.properties("hyperpod", "AWS::KMS::Key", "NotificationsKey")["KeyPolicy"]["Statement"]
    own = one(statements, Principal={"AWS": "arn:aws:iam::111122223333:root"})
    own["Principal"] = {"AWS": "111122223333"}


@harmless("the driver's inline policy becomes a resource of its own", Category.PERMISSIONS, worst=Effect.CREATED)
def _(edit: Edit) -> None:
    id, body = edit.find("platform", ROLE, "FsxCsiRole")
    [policy] = body["Properties"].pop("Policies")
    edit.add("platform", "FsxCsiPolicy", POLICY, Roles=[{"Ref": id}], **policy)


@harmless("the role of the flow log gets a boundary", Category.PERMISSIONS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    role = edit.properties("network", ROLE, "FlowLogsIAMRole")
    assert "PermissionsBoundary" not in role
    role["PermissionsBoundary"] = "arn:aws:iam::111122223333:policy/Boundary"


@harmless("nobody may delete the bucket of the scripts", Category.PROTECTION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    bucket = {"Fn::GetAtt": [edit.find("storage", BUCKET, "Lifecycle")[0], "Arn"]}
    denied = {"Effect": "Deny", "Principal": "*", "Action": "s3:DeleteBucket", "Resource": bucket}
    _statements(edit, "storage", "AWS::S3::BucketPolicy", "LifecyclePolicy").append(denied)


@harmless("the rules of the data bucket have names and another order", Category.DATA, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    rules = edit.properties("storage", BUCKET, "Data")["LifecycleConfiguration"]["Rules"]
    assert len(rules) == 3
    rules.reverse()
    for rule, name in zip(rules, ("packages", "checkpoints", "everything"), strict=True):
        rule["Id"] = name


@harmless("layers without a tag stay for another two weeks", Category.DATA, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    policy = edit.properties("storage", "AWS::ECR::Repository")["LifecyclePolicy"]
    policy["LifecyclePolicyText"] = swap('"countNumber":14', '"countNumber":28')(policy["LifecyclePolicyText"])


@harmless("three small parts of the office's network reach the cluster", Category.NETWORK, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    access = edit.properties("eks", "AWS::EKS::Cluster")["ResourcesVpcConfig"]
    assert access["PublicAccessCidrs"] == ["203.0.113.0/24"]
    access["PublicAccessCidrs"] = ["203.0.113.16/28", "203.0.113.64/26", "203.0.113.200/32"]


@harmless("the cluster cannot be deleted by accident", Category.PROTECTION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    cluster = edit.properties("eks", "AWS::EKS::Cluster")
    assert "DeletionProtection" not in cluster
    cluster["DeletionProtection"] = True


@harmless("system nodes state that one at a time is updated", Category.CLUSTERS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    nodes = edit.properties("eks", "AWS::EKS::Nodegroup")
    assert "UpdateConfig" not in nodes
    nodes["UpdateConfig"] = {"MaxUnavailable": 1}


@harmless("logs of the cluster's function are kept for a year", Category.PROTECTION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    group = edit.properties("hyperpod", "AWS::Logs::LogGroup", "ProviderOnEventLog")
    assert group["RetentionInDays"] < 365
    group["RetentionInDays"] = 365


@harmless(
    "the endpoint of logs also asks for the organisation",
    Category.NETWORK,
    worst=Effect.IN_PLACE,
    environment="closed",
)
def _(edit: Edit) -> None:
    [allowed] = _statements(edit, "network", "AWS::EC2::VPCEndpoint", "VpcEndpointslogs")
    allowed["Condition"]["StringEquals"]["aws:PrincipalOrgID"] = "o-a1b2c3d4e5"


@harmless(
    "a second group of Slurm workers serves a partition of its own",
    Category.GROUPS,
    expect("InstanceGroup worker-group-2", Effect.CREATED, Effect.IN_PLACE),
    worst=Effect.CREATED,
    environment="slurm",
    # An ml.g5.4xlarge costs 2.03 USD an hour, beside its volume.
    costs=Costs((2.02, 2.2), gpus=1),
)
def _(edit: Edit) -> None:
    slurm = {"NodeType": "Compute", "PartitionNames": ["night"]}
    more = {"InstanceGroupName": "worker-group-2", "InstanceCount": 1, "SlurmConfig": slurm}
    groups = edit.properties("hyperpod", HYPERPOD)["InstanceGroups"]
    groups.append(instance_group(edit, "worker-group-1") | more)


@harmless(
    "the cluster no longer says that it recovers nodes, which is its default", Category.CLUSTERS, worst=Effect.IN_PLACE
)
def _(edit: Edit) -> None:
    cluster = edit.properties("hyperpod", HYPERPOD)
    assert cluster["NodeRecovery"] == "Automatic"
    del cluster["NodeRecovery"]


@harmless(
    "a node script fetches with new TLS only what it verifies anyway",
    Category.SCRIPTS,
    worst=Effect.IN_PLACE,
    environment="slurm",
)
def _(edit: Edit) -> None:
    change = swap("curl --fail --silent", "curl --proto =https --tlsv1.2 --fail --silent")
    edit.rewrite("mount_s3.sh", change)


@harmless(
    "the alarm of failed nodes asks for more than none in place of at least one",
    Category.PROTECTION,
    worst=Effect.IN_PLACE,
    environment="watched",
)
def _(edit: Edit) -> None:
    alarm = edit.properties("ray", ALARM, "AlarmsNodeFailed")
    assert alarm["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"
    alarm.update(ComparisonOperator="GreaterThanThreshold", Threshold=0)


@harmless(
    "Prometheus' rules state the interval that they have anyway",
    Category.PROTECTION,
    worst=Effect.IN_PLACE,
    environment="watched",
)
def _(edit: Edit) -> None:
    name = '"name": "ray-on-hyperpod",'
    edit.rewrite("files/objects.yaml", swap(name, f'{name} "interval": "30s",'), holding=OBSERVABILITY)


@harmless(
    "the list of networks that reach Grafana names two halves of the office",
    Category.NETWORK,
    worst=Effect.IN_PLACE,
    environment="observed",
)
def _(edit: Edit) -> None:
    networks = edit.properties("ray", "AWS::EC2::PrefixList")
    [entry] = networks["Entries"]
    assert entry["Cidr"] == "203.0.113.0/24"
    networks["Entries"] = [entry | {"Cidr": half} for half in ("203.0.113.0/25", "203.0.113.128/25")]


@harmless("the operator's memory is written in bytes", Category.JOBS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.values("platform", "kuberay-operator") as values:
        for kind in ("requests", "limits"):
            assert values["resources"][kind]["memory"] == "640Mi"
            values["resources"][kind]["memory"] = str(640 * 2**20)


@harmless("workers have more time to end, and to answer", Category.JOBS, worst=Effect.NEEDS_ROLLOUT)
def _(edit: Edit) -> None:
    with edit.object("ray", "RayCluster", "ray/rayml") as cluster:
        pod = cluster["spec"]["workerGroupSpecs"][0]["template"]["spec"]
        assert pod["terminationGracePeriodSeconds"] == 30
        pod["terminationGracePeriodSeconds"] = 120
        pod["containers"][0]["livenessProbe"]["failureThreshold"] *= 2


@harmless("a second worker group begins without workers", Category.JOBS, worst=Effect.CREATED)
def _(edit: Edit) -> None:
    with edit.object("ray", "RayCluster", "ray/rayml") as cluster:
        groups = cluster["spec"]["workerGroupSpecs"]
        spare = {"groupName": "spare-group", "replicas": 0, "minReplicas": 0, "maxReplicas": 2}
        groups.append(groups[0] | spare)


@harmless("pods reach the internet by its two halves", Category.ISOLATION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.object("ray", "NetworkPolicy", "ray/allow-https") as policy:
        [rule] = policy["spec"]["egress"]
        assert rule["to"] == [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["169.254.0.0/16"]}}]
        upper = {"cidr": "128.0.0.0/1", "except": ["169.254.0.0/16"]}
        rule["to"] = [{"ipBlock": {"cidr": "0.0.0.0/1"}}, {"ipBlock": upper}]


@harmless(
    "a policy with rules for what comes in does not say that it is one", Category.ISOLATION, worst=Effect.IN_PLACE
)
def _(edit: Edit) -> None:
    with edit.object("ray", "NetworkPolicy", "ray/allow-metrics") as policy:
        assert "egress" not in policy["spec"]
        assert policy["spec"].pop("policyTypes") == ["Ingress"]


@harmless("submitters read two templates in place of all", Category.PERMISSIONS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.object("ray", "Role", "ray/submitters") as role:
        one(role["rules"], resources=["cronjobs"])["resourceNames"] = ["job-supervisor", "rayjob-submitter"]


@harmless("all heads, of which there is one, must be available", Category.JOBS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.object("ray", "PodDisruptionBudget", "ray/rayml-head") as budget:
        assert budget["spec"]["minAvailable"] == 1
        budget["spec"]["minAvailable"] = "100%"


def _warned(edit: Edit) -> None:
    group = "admissionregistration.k8s.io/v1"
    matched = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    rule = "object.spec.containers.all(c, c.image.contains('@sha256:'))"
    policy = {"matchConstraints": {"resourceRules": [matched]}, "validations": [{"expression": rule}]}
    binding = {"policyName": "digests", "validationActions": ["Warn"]}
    for kind, spec in (("ValidatingAdmissionPolicy", policy), ("ValidatingAdmissionPolicyBinding", binding)):
        edit.apply("platform", kind, {"apiVersion": group, "kind": kind, "metadata": {"name": "digests"}, "spec": spec})


@harmless(
    "what an admission policy warned of is also noted in the audit log",
    Category.ISOLATION,
    worst=Effect.IN_PLACE,
    prepare=_warned,
)
def _(edit: Edit) -> None:
    with edit.object("platform", "ValidatingAdmissionPolicyBinding", "digests") as binding:
        binding["spec"]["validationActions"].append("Audit")


@harmless(
    "the template of supervisors would start on another day that never comes", Category.JOBS, worst=Effect.IN_PLACE
)
def _(edit: Edit) -> None:
    with edit.object("ray", "CronJob", "ray/job-supervisor") as template:
        assert template["spec"]["suspend"]
        template["spec"]["schedule"] = swap("31 2", "30 2")(template["spec"]["schedule"])


@harmless(
    "pods of the volume's namespace are judged by the newest rules of their level",
    Category.ISOLATION,
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    with edit.object("ray", "Namespace", "ray-volume") as namespace:
        labels = namespace["metadata"]["labels"]
        assert labels["pod-security.kubernetes.io/enforce-version"] == "v1.35"
        labels["pod-security.kubernetes.io/enforce-version"] = "latest"


@harmless("there is a class for volumes that outlive their claims", Category.DATA, worst=Effect.CREATED)
def _(edit: Edit) -> None:
    place = {"subnetId": "subnet-0a1b2c3d4e5f60718", "securityGroupIds": "sg-0a1b2c3d4e5f60718"}
    parameters = {"deploymentType": "PERSISTENT_2", **place}
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "kept"}}
    driver = {"provisioner": "fsx.csi.aws.com", "parameters": parameters}
    edit.apply("platform", "Kept", kind | driver | {"reclaimPolicy": "Retain", "allowVolumeExpansion": True})


@harmless(
    "the budget is a quarter smaller",
    Category.PROTECTION,
    worst=Effect.IN_PLACE,
    environment="budgeted",
)
def _(edit: Edit) -> None:
    limit = edit.properties("hyperpod", "AWS::Budgets::Budget")["Budget"]["BudgetLimit"]
    assert limit["Amount"] == 20000
    limit["Amount"] = 15000
