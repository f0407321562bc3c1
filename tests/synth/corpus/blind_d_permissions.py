"""Pairs by a fourth author who had not seen the judges: what IAM, KMS and Kubernetes' roles allow."""

from typing import Any

from ops.review.model import Danger, Effect
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

WIDER, LOOSER, LOWER, PUBLIC = (
    Danger.WIDER_PERMISSIONS,
    Danger.LOOSER_ISOLATION,
    Danger.LOWER_PROTECTION,
    Danger.PUBLIC_ENDPOINT,
)
RBAC = "rbac.authorization.k8s.io"
OTHER_ACCOUNT = "999988887777"
Body = dict[str, Any]


def _statement(document: Body, action: str, effect: str = "Allow") -> Body:
    """Return the only statement of a policy that has the action and the effect."""
    [found] = [
        each
        for each in document["Statement"]
        if each["Effect"] == effect
        and action in (each["Action"] if isinstance(each["Action"], list) else [each["Action"]])
    ]
    result: Body = found
    return result


def _inline(edit: Edit, part: str, role: str) -> Body:
    """Return the document of a role's only inline policy."""
    [policy] = edit.properties(part, "AWS::IAM::Role", role)["Policies"]
    document: Body = policy["PolicyDocument"]
    return document


def _execution(edit: Edit) -> Body:
    """Return the policy of HyperPod's nodes."""
    document: Body = edit.properties("hyperpod", "AWS::IAM::Policy", "ExecutionRoleDefaultPolicy")["PolicyDocument"]
    return document


@destructive(
    "the cluster's function may pass the nodes' role to every service",
    Category.PERMISSIONS,
    expect("AWS::IAM::Policy ProviderOnEvent", Effect.IN_PLACE, dangers=WIDER, words=("passrole",)),
)
def _(edit: Edit) -> None:
    document = edit.properties("hyperpod", "AWS::IAM::Policy", "ProviderOnEventServiceRoleDefaultPolicy")
    statement = _statement(document["PolicyDocument"], "iam:PassRole")
    statement["Condition"] = {"StringLike": {"iam:PassedToService": "*"}}


@destructive(
    "Ray's packages are protected against writes of wheels only",
    Category.PERMISSIONS,
    expect("AWS::IAM::Role RayRole", Effect.IN_PLACE, dangers=(WIDER, LOWER)),
)
def _(edit: Edit) -> None:
    statement = _statement(_inline(edit, "ray", "RayRole"), "s3:PutObject", "Deny")
    statement["Resource"] += ".whl"


@destructive(
    "the FSx driver may take every FSx action that begins with D",
    Category.PERMISSIONS,
    expect("AWS::IAM::Role FsxCsiRole", Effect.IN_PLACE, dangers=WIDER, words=("fsx",)),
)
def _(edit: Edit) -> None:
    _statement(_inline(edit, "platform", "FsxCsiRole"), "fsx:DescribeFileSystems")["Action"] = "fsx:D*"


@destructive(
    "the image builder may do all but IAM, by NotAction",
    Category.PERMISSIONS,
    expect("AWS::IAM::Role ImageBuilderRole", Effect.IN_PLACE, dangers=WIDER),
    environment="prod",
)
def _(edit: Edit) -> None:
    statement = _statement(_inline(edit, "ray", "ImageBuilderRole"), "ecr:GetAuthorizationToken")
    del statement["Action"]
    statement["NotAction"] = "iam:*"


@destructive(
    "every service account of the cluster may take Ray's role",
    Category.PERMISSIONS,
    expect("AWS::IAM::Role RayRole", Effect.IN_PLACE, dangers=WIDER),
)
def _(edit: Edit) -> None:
    trust = edit.properties("ray", "AWS::IAM::Role", "RayRole")["AssumeRolePolicyDocument"]["Fn::Sub"]
    line = ',\n      "${Issuer}:sub": "system:serviceaccount:${Namespace}:${ServiceAccount}"'
    assert line in trust[0]
    trust[0] = trust[0].replace(line, "")
    del trust[1]["Namespace"], trust[1]["ServiceAccount"]


def _bounded(edit: Edit) -> None:
    properties = edit.properties("hyperpod", "AWS::IAM::Role", "ExecutionRole")
    properties["PermissionsBoundary"] = "arn:aws:iam::111122223333:policy/NodesBoundary"


@destructive(
    "the permissions boundary of the nodes' role is removed",
    Category.PERMISSIONS,
    expect("AWS::IAM::Role ExecutionRole", Effect.IN_PLACE, dangers=(WIDER, LOWER)),
    prepare=_bounded,
)
def _(edit: Edit) -> None:
    del edit.properties("hyperpod", "AWS::IAM::Role", "ExecutionRole")["PermissionsBoundary"]


@destructive(
    "everybody in the account decrypts with the key of the cluster's Secrets",
    Category.PERMISSIONS,
    expect("AWS::KMS::Key ClusterSecretsKey", Effect.IN_PLACE, dangers=WIDER, words=("decrypt",)),
)
def _(edit: Edit) -> None:
    policy = edit.properties("eks", "AWS::KMS::Key", "ClusterSecretsKey")["KeyPolicy"]
    account = {"StringEquals": {"kms:CallerAccount": "111122223333"}}
    allowed = {"Effect": "Allow", "Action": "kms:Decrypt", "Principal": {"AWS": "*"}, "Resource": "*"}
    policy["Statement"].append(allowed | {"Condition": account})


@destructive(
    "only one role must use TLS for the data bucket",
    Category.PROTECTION,
    expect("AWS::S3::BucketPolicy Data", Effect.IN_PLACE, dangers=(WIDER, LOWER, LOOSER)),
)
def _(edit: Edit) -> None:
    policy = edit.properties("storage", "AWS::S3::BucketPolicy", "DataPolicy")["PolicyDocument"]
    _statement(policy, "s3:*", "Deny")["Principal"] = {"AWS": "arn:aws:iam::111122223333:role/RaySubmitter"}


@destructive(
    "roles of the submitters' name read the data bucket, in any account",
    Category.PERMISSIONS,
    expect("AWS::S3::BucketPolicy Data", Effect.IN_PLACE, dangers=(WIDER, PUBLIC)),
    environment="prod",
)
def _(edit: Edit) -> None:
    policy = edit.properties("storage", "AWS::S3::BucketPolicy", "DataPolicy")["PolicyDocument"]
    policy["Statement"].append(
        {
            "Effect": "Allow",
            "Action": "s3:GetObject",
            "Principal": {"AWS": "*"},
            "Condition": {"StringLike": {"aws:PrincipalArn": "arn:aws:iam::*:role/RaySubmitter"}},
            "Resource": {
                "Fn::Join": ["", [{"Fn::GetAtt": [edit.find("storage", "AWS::S3::Bucket", "Data")[0], "Arn"]}, "/*"]]
            },
        }
    )


@destructive(
    "another account pushes images that Ray's pods run",
    Category.PERMISSIONS,
    expect("AWS::ECR::Repository Image", Effect.IN_PLACE, dangers=WIDER, words=(OTHER_ACCOUNT,)),
)
def _(edit: Edit) -> None:
    actions = ["ecr:InitiateLayerUpload", "ecr:UploadLayerPart", "ecr:CompleteLayerUpload", "ecr:PutImage"]
    principal = {"AWS": f"arn:aws:iam::{OTHER_ACCOUNT}:root"}
    statement = {"Sid": "Builders", "Effect": "Allow", "Principal": principal, "Action": actions}
    text = {"Version": "2012-10-17", "Statement": [statement]}
    edit.properties("storage", "AWS::ECR::Repository")["RepositoryPolicyText"] = text


@destructive(
    "nodes write the logs of all clusters whose names begin alike",
    Category.PERMISSIONS,
    expect("AWS::IAM::Policy ExecutionRole", Effect.IN_PLACE, dangers=WIDER),
)
def _(edit: Edit) -> None:
    statement = _statement(_execution(edit), "logs:PutLogEvents")
    assert statement["Resource"].endswith("/ml-cluster/*")
    statement["Resource"] = statement["Resource"].removesuffix("/*") + "*"


@destructive(
    "Session Manager's managed policy is attached to the system nodes",
    Category.PERMISSIONS,
    expect("AWS::IAM::Role SystemNodesRole", Effect.IN_PLACE, dangers=WIDER, words=("AmazonSSMManagedInstanceCore",)),
    environment="closed",
)
def _(edit: Edit) -> None:
    arns = edit.properties("eks", "AWS::IAM::Role", "SystemNodesRole")["ManagedPolicyArns"]
    arns.append("arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore")


@destructive(
    "alarms of all accounts but this one publish to the topic",
    Category.PERMISSIONS,
    expect("AWS::SNS::TopicPolicy AlertsTopic", Effect.IN_PLACE, dangers=(WIDER, LOWER)),
    environment="watched",
)
def _(edit: Edit) -> None:
    policy = edit.properties("ray", "AWS::SNS::TopicPolicy", "AlertsTopicPolicy")["PolicyDocument"]
    statement = _statement(policy, "sns:Publish")
    statement["Condition"] = {"StringNotEquals": statement["Condition"]["StringEquals"]}


@destructive(
    "supervisors of jobs create pods",
    Category.PERMISSIONS,
    expect("Role ray/job-supervisor", Effect.IN_PLACE, dangers=WIDER, words=("create",)),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "Role", "ray/job-supervisor") as role:
        [rule] = [each for each in role["rules"] if each["resources"] == ["pods"]]
        rule["verbs"].append("create")


@destructive(
    "viewers act as anybody",
    Category.PERMISSIONS,
    expect("ClusterRole", Effect.IN_PLACE, dangers=WIDER, words=("impersonate",)),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "ClusterRole", "ray-viewers") as role:
        role["rules"].append({"apiGroups": [""], "resources": ["users", "groups"], "verbs": ["impersonate"]})


@destructive(
    "all who log in are viewers of Ray's namespace",
    Category.PERMISSIONS,
    expect("RoleBinding ray/ray-viewers", Effect.IN_PLACE, dangers=WIDER, words=("system:authenticated",)),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "RoleBinding", "ray/ray-viewers") as binding:
        binding["subjects"][0]["name"] = "system:authenticated"


@destructive(
    "the reaper's right to read nodes is part of Kubernetes' role edit",
    Category.PERMISSIONS,
    expect("ClusterRole", Effect.IN_PLACE, Effect.UNKNOWN, dangers=(WIDER, Danger.UNKNOWN)),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "ClusterRole", "kuberay-ray-reaper") as role:
        role["metadata"]["labels"][f"{RBAC}/aggregate-to-edit"] = "true"


@destructive(
    "the kubelets' API is open to viewers",
    Category.PERMISSIONS,
    expect("ClusterRole", Effect.IN_PLACE, dangers=WIDER, words=("nodes/proxy",)),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "ClusterRole", "ray-viewers") as role:
        role["rules"][0]["resources"].append("nodes/proxy")


@destructive(
    "submitters issue tokens of service accounts",
    Category.PERMISSIONS,
    expect("Role ray/submitters", Effect.IN_PLACE, dangers=WIDER, words=("serviceaccounts/token",)),
    environment="prod",
)
def _(edit: Edit) -> None:
    with edit.object("ray", "Role", "ray/submitters") as role:
        role["rules"].append({"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"]})


def _named(edit: Edit) -> None:
    with edit.object("ray", "Role", "ray/submitters") as role:
        [rule] = [each for each in role["rules"] if each["resources"] == ["cronjobs"]]
        rule["resourceNames"] = ["job-supervisor", "rayjob-submitter"]


@destructive(
    "a rule loses the names that it was limited to",
    Category.PERMISSIONS,
    expect("Role ray/submitters", Effect.IN_PLACE, dangers=WIDER),
    prepare=_named,
)
def _(edit: Edit) -> None:
    with edit.object("ray", "Role", "ray/submitters") as role:
        [rule] = [each for each in role["rules"] if each["resources"] == ["cronjobs"]]
        del rule["resourceNames"]


@destructive(
    "the submitters' access policy holds in all namespaces",
    Category.PERMISSIONS,
    expect("AWS::EKS::AccessEntry AccessSubmitter", Effect.IN_PLACE, dangers=WIDER),
)
def _(edit: Edit) -> None:
    [policy] = edit.properties("eks", "AWS::EKS::AccessEntry", "AccessSubmitterRaySubmitter")["AccessPolicies"]
    policy["AccessScope"] = {"Type": "cluster"}


@destructive(
    "an auditor's role reads all objects, Secrets too",
    Category.PERMISSIONS,
    expect("AWS::EKS::AccessEntry", Effect.CREATED, dangers=WIDER, words=("AmazonEKSAdminViewPolicy",)),
    environment="small",
)
def _(edit: Edit) -> None:
    policy = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSAdminViewPolicy"
    cluster = {"Ref": edit.find("eks", "AWS::EKS::Cluster")[0]}
    role = "arn:aws:iam::111122223333:role/Auditor"
    policies = [{"PolicyArn": policy, "AccessScope": {"Type": "cluster"}}]
    edit.add(
        "eks", "AccessAuditor", "AWS::EKS::AccessEntry", ClusterName=cluster, PrincipalArn=role, AccessPolicies=policies
    )


@destructive(
    "Ray's pods get the administrators' role by EKS Pod Identity",
    Category.PERMISSIONS,
    expect(
        "AWS::EKS::PodIdentityAssociation",
        Effect.CREATED,
        Effect.UNKNOWN,
        dangers=(WIDER, Danger.UNKNOWN),
        words=("PlatformAdmin",),
    ),
)
def _(edit: Edit) -> None:
    edit.add(
        "eks",
        "RayPods",
        "AWS::EKS::PodIdentityAssociation",
        ClusterName={"Ref": edit.find("eks", "AWS::EKS::Cluster")[0]},
        Namespace="ray",
        ServiceAccount="ray",
        RoleArn="arn:aws:iam::111122223333:role/PlatformAdmin",
    )


@destructive(
    "Ray's service account names the administrators' role",
    Category.PERMISSIONS,
    expect(
        "ServiceAccount ray/ray", Effect.IN_PLACE, Effect.UNKNOWN, Effect.NEEDS_ROLLOUT, dangers=(WIDER, Danger.UNKNOWN)
    ),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "ServiceAccount", "ray/ray") as account:
        account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"] = (
            "arn:aws:iam::111122223333:role/PlatformAdmin"
        )


@harmless(
    "Ray lists the data bucket only with its prefix",
    Category.PERMISSIONS,
    expect("AWS::IAM::Role RayRole", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    statement = _statement(_inline(edit, "ray", "RayRole"), "s3:ListBucket")
    statement["Condition"] = {"StringLike": statement["Condition"]["StringLikeIfExists"]}


@harmless("a policy's actions and statements are in another order", Category.PERMISSIONS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    document = _execution(edit)
    document["Statement"].reverse()
    for statement in document["Statement"]:
        if isinstance(statement["Action"], list):
            statement["Action"].reverse()


@harmless("single values of a policy are lists of one", Category.PERMISSIONS, worst=Effect.IN_PLACE, environment="prod")
def _(edit: Edit) -> None:
    for statement in _inline(edit, "ray", "RayRole")["Statement"]:
        for key in ("Action", "Resource"):
            statement[key] = statement[key] if isinstance(statement[key], list) else [statement[key]]


@harmless("the conditions of a trust policy are in another order", Category.PERMISSIONS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    trust = edit.properties("platform", "AWS::IAM::Role", "FsxCsiRole")["AssumeRolePolicyDocument"]["Fn::Sub"]
    audience = '"${Issuer}:aud": "sts.amazonaws.com"'
    subject = '"${Issuer}:sub": "system:serviceaccount:${Namespace}:${ServiceAccount}"'
    between = ",\n      "
    assert audience + between + subject in trust[0]
    trust[0] = trust[0].replace(audience + between + subject, subject + between + audience)


@harmless(
    "the nodes' role gets a permissions boundary",
    Category.PERMISSIONS,
    expect("AWS::IAM::Role ExecutionRole", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    _bounded(edit)


@harmless(
    "Ray may no longer delete results",
    Category.PERMISSIONS,
    expect("AWS::IAM::Role RayRole", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment="prod",
)
def _(edit: Edit) -> None:
    resource = "arn:aws:s3:::rayhp-prod-data-111122223333-us-west-2/ray/results/*"
    denied = {"Effect": "Deny", "Action": "s3:DeleteObject*", "Resource": resource}
    _inline(edit, "ray", "RayRole")["Statement"].append(denied)


@harmless(
    "EventBridge uses the notifications' key for this account only",
    Category.PERMISSIONS,
    expect("AWS::KMS::Key NotificationsKey", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    policy = edit.properties("hyperpod", "AWS::KMS::Key", "NotificationsKey")["KeyPolicy"]
    _statement(policy, "kms:Decrypt")["Condition"] = {"StringEquals": {"aws:SourceAccount": "111122223333"}}


@harmless("a bucket policy denies everybody in the short form", Category.PERMISSIONS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    policy = edit.properties("storage", "AWS::S3::BucketPolicy", "LifecyclePolicy")["PolicyDocument"]
    statement = _statement(policy, "s3:*", "Deny")
    assert statement["Principal"] == {"AWS": "*"}
    statement["Principal"] = "*"


@harmless(
    "nobody may delete the image repository",
    Category.PERMISSIONS,
    expect("AWS::ECR::Repository Image", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment="small",
)
def _(edit: Edit) -> None:
    statement = {"Effect": "Deny", "Principal": "*", "Action": "ecr:DeleteRepository"}
    text = {"Version": "2012-10-17", "Statement": [statement]}
    edit.properties("storage", "AWS::ECR::Repository")["RepositoryPolicyText"] = text


@harmless(
    "nodes pull images of this region only",
    Category.PERMISSIONS,
    expect("AWS::IAM::Policy ExecutionRole", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    statement = _statement(_execution(edit), "ecr:BatchGetImage")
    assert statement["Resource"] == "arn:aws:ecr:*:*:repository/*"
    statement["Resource"] = "arn:aws:ecr:us-west-2:*:repository/*"


@harmless(
    "Ray's role states the length of a session that is the default",
    Category.PERMISSIONS,
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    edit.properties("ray", "AWS::IAM::Role", "RayRole")["MaxSessionDuration"] = 3600


@harmless(
    "submitters read two CronJobs by name",
    Category.PERMISSIONS,
    expect("Role ray/submitters", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    _named(edit)


@harmless("a rule for four resources is four rules", Category.PERMISSIONS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.object("ray", "Role", "ray/submitters") as role:
        [rule] = [each for each in role["rules"] if "pods/log" in each["resources"]]
        role["rules"].remove(rule)
        role["rules"] += [rule | {"resources": [each]} for each in rule["resources"]]


@harmless(
    "viewers no longer watch Leases",
    Category.PERMISSIONS,
    expect("Role ray/ray-viewers", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    with edit.object("ray", "Role", "ray/ray-viewers") as role:
        [rule] = [each for each in role["rules"] if each["resources"] == ["leases"]]
        rule["verbs"] = ["get", "list"]


@harmless(
    "submitters keep their group and lose the access policy",
    Category.PERMISSIONS,
    expect("AWS::EKS::AccessEntry AccessSubmitter", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment="prod",
)
def _(edit: Edit) -> None:
    edit.properties("eks", "AWS::EKS::AccessEntry", "AccessSubmitterRaySubmitter")["AccessPolicies"] = []


@harmless(
    "the data bucket refuses old versions of TLS",
    Category.PERMISSIONS,
    expect("AWS::S3::BucketPolicy Data", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
)
def _(edit: Edit) -> None:
    policy = edit.properties("storage", "AWS::S3::BucketPolicy", "DataPolicy")["PolicyDocument"]
    denied = _statement(policy, "s3:*", "Deny")
    policy["Statement"].append(denied | {"Condition": {"NumericLessThan": {"s3:TlsVersion": "1.2"}}})


@harmless("the statement of a key's policy has a name", Category.PERMISSIONS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    [statement] = edit.properties("eks", "AWS::KMS::Key", "ClusterSecretsKey")["KeyPolicy"]["Statement"]
    statement["Sid"] = "Administration"


@harmless(
    "viewers no longer see the image build",
    Category.PERMISSIONS,
    # kubectl prunes no RoleBinding (its list of kinds): it stays until somebody deletes it.
    expect("RoleBinding image-build/ray-viewers", Effect.KEPT),
    worst=Effect.DELETED,
)
def _(edit: Edit) -> None:
    edit.remove_object("ray", "RoleBinding", "image-build/ray-viewers")


@harmless(
    "a function may pass the nodes' role only for clusters",
    Category.PERMISSIONS,
    expect("AWS::IAM::Policy ProviderOnEvent", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment="existing-vpc",
)
def _(edit: Edit) -> None:
    document = edit.properties("hyperpod", "AWS::IAM::Policy", "ProviderOnEventServiceRoleDefaultPolicy")
    condition = _statement(document["PolicyDocument"], "iam:PassRole")["Condition"]
    condition["ArnLike"] = {"iam:AssociatedResourceArn": "arn:aws:sagemaker:us-west-2:111122223333:cluster/*"}


@harmless(
    "alarms publish only if they belong to this region",
    Category.PERMISSIONS,
    expect("AWS::SNS::TopicPolicy AlertsTopic", Effect.IN_PLACE),
    worst=Effect.IN_PLACE,
    environment="watched",
)
def _(edit: Edit) -> None:
    policy = edit.properties("ray", "AWS::SNS::TopicPolicy", "AlertsTopicPolicy")["PolicyDocument"]
    arn = "arn:aws:cloudwatch:us-west-2:111122223333:alarm:*"
    _statement(policy, "sns:Publish")["Condition"]["ArnLike"] = {"aws:SourceArn": arn}
