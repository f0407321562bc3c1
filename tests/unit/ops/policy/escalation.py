"""Search whom a person with a printed policy can become.

The ways are those of public lists: Rhino Security Labs, "AWS IAM Privilege Escalation"; pathfinding.cloud; the edges of
nccgroup/PMapper. To them come the ways of this project: sessions on nodes, access entries, images that pods run, and
buckets whose files nodes or CloudFormation run.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from config import EksEnvironment, Environment, naming
from embedded_account.services.iam.policies import Policy, PolicyDecision, evaluate
from ops.policy.arns import Arns, EksArns

ANYBODY: Final = "any user or role"
CLOUDFORMATION: Final = "CloudFormation's execution role"
NODES: Final = "the nodes' role"
OTHER_NODES: Final = "nodes' roles of other HyperPod clusters"
PODS: Final = "roles of the cluster's pods"
RAY: Final = "Ray's role"

_IAM: Final = (
    "AddClientIDToOpenIDConnectProvider AddUserToGroup AttachGroupPolicy AttachUserPolicy CreateAccessKey "
    "CreateLoginProfile CreateOpenIDConnectProvider CreatePolicyVersion CreateSAMLProvider "
    "CreateServiceSpecificCredential DeactivateMFADevice DeleteUserPermissionsBoundary DeleteUserPolicy "
    "DetachUserPolicy PutGroupPolicy PutUserPermissionsBoundary PutUserPolicy ResetServiceSpecificCredential "
    "SetDefaultPolicyVersion UpdateAccessKey UpdateLoginProfile UpdateOpenIDConnectProviderThumbprint "
    "UpdateSAMLProvider UploadSSHPublicKey"
)
"""Actions of IAM on users, groups, policies and identity providers, each a way by itself."""
ON_ROLES: Final = (
    "iam:AttachRolePolicy",
    "iam:DeleteRolePermissionsBoundary",
    "iam:PutRolePermissionsBoundary",
    "iam:PutRolePolicy",
    "iam:UpdateAssumeRolePolicy",
    "sts:AssumeRole",
)
"""Actions on a role, after each of which the person acts as that role."""
TAKEN_OVER: Final = (
    *(f"iam:{name}" for name in _IAM.split()),
    *("apprunner:UpdateService", "bedrock-agentcore:InvokeCodeInterpreter", "cloudformation:UpdateStackSet"),
    *("codebuild:StartBuild", "codebuild:StartBuildBatch", "codebuild:UpdateProject", "codedeploy:CreateDeployment"),
    *(
        "cognito-identity:GetCredentialsForIdentity",
        "datapipeline:PutPipelineDefinition",
        "ec2:ModifyInstanceAttribute",
    ),
    *("ec2-instance-connect:SendSSHPublicKey", "ec2-instance-connect:SendSerialConsoleSSHPublicKey"),
    *("ecs:ExecuteCommand", "eks:CreatePodIdentityAssociation", "eks:UpdateAccessEntry", "eks:UpdateClusterConfig"),
    *("glue:UpdateDevEndpoint", "glue:UpdateJob", "identitystore:CreateGroupMembership", "lambda:AddPermission"),
    *("lambda:UpdateFunctionCode", "lambda:UpdateFunctionConfiguration", "organizations:MoveAccount"),
    *("sagemaker:CreateNotebookInstanceLifecycleConfig", "sagemaker:CreatePresignedDomainUrl"),
    *("sagemaker:CreatePresignedNotebookInstanceUrl", "sagemaker:UpdateNotebookInstanceLifecycleConfig"),
    *("secretsmanager:GetSecretValue", "ssm:CreateAssociation", "ssm:SendCommand", "ssm:StartAutomationExecution"),
    *("sso:CreateAccountAssignment", "sso:PutInlinePolicyToPermissionSet", "states:UpdateStateMachine"),
    *("sts:AssumeRoleWithSAML", "sts:AssumeRoleWithWebIdentity", "sts:GetFederationToken"),
)
"""Actions that take over a principal, or an existing resource with its role: no policy may have one."""
PASSED: Final[Mapping[str, Sequence[str]]] = {
    "apprunner.amazonaws.com": ("apprunner:CreateService",),
    "batch.amazonaws.com": ("batch:CreateComputeEnvironment",),
    "bedrock-agentcore.amazonaws.com": ("bedrock-agentcore:CreateCodeInterpreter",),
    "cloudformation.amazonaws.com": (
        *("cloudformation:CreateChangeSet", "cloudformation:CreateStack", "cloudformation:CreateStackSet"),
        "cloudformation:UpdateStack",
    ),
    "codebuild.amazonaws.com": ("codebuild:CreateProject",),
    "datapipeline.amazonaws.com": ("datapipeline:CreatePipeline",),
    "ec2.amazonaws.com": (
        *("autoscaling:CreateLaunchConfiguration", "ec2:AssociateIamInstanceProfile", "ec2:RequestSpotInstances"),
        *("ec2:ReplaceIamInstanceProfileAssociation", "ec2:RunInstances"),
    ),
    "ecs-tasks.amazonaws.com": ("ecs:RegisterTaskDefinition", "ecs:RunTask", "ecs:StartTask"),
    "eks.amazonaws.com": ("eks:CreateAddon", "eks:CreateCluster", "eks:CreateFargateProfile", "eks:CreateNodegroup"),
    "elasticmapreduce.amazonaws.com": ("elasticmapreduce:RunJobFlow",),
    "events.amazonaws.com": ("events:PutTargets",),
    "glue.amazonaws.com": ("glue:CreateDevEndpoint", "glue:CreateJob", "glue:CreateSession"),
    "lambda.amazonaws.com": ("lambda:CreateFunction",),
    "pods.eks.amazonaws.com": ("eks:CreatePodIdentityAssociation",),
    "sagemaker.amazonaws.com": (
        *("sagemaker:CreateCluster", "sagemaker:CreateNotebookInstance", "sagemaker:CreateProcessingJob"),
        *("sagemaker:CreateTrainingJob", "sagemaker:UpdateCluster"),
    ),
    "scheduler.amazonaws.com": ("scheduler:CreateSchedule",),
    "ssm.amazonaws.com": ("ssm:StartAutomationExecution",),
    "states.amazonaws.com": ("states:CreateStateMachine",),
}
"""The services to which a role can be passed, and the actions that then run something with it."""
HARMLESS: Final[Mapping[str, str]] = {
    "cloudformation:DeleteChangeSet": "runs nothing",
    "cloudformation:UpdateTerminationProtection": "runs nothing",
    "ec2:Delete": "removes",
    "ec2:ModifyImageAttribute": "shares the environment's own AMIs",
    "ec2:ModifySnapshotAttribute": "shares a snapshot with an account, not with everybody; the page says so",
    "ecr:CreateRepository": "a new repository; nobody pulls from it",
    "ecr:DeleteRepository": "removes",
    "ecr:PutImageScanningConfiguration": "changes no image",
    "ecr:PutImageTagMutability": "changes no image",
    "ecr:PutLifecyclePolicy": "removes",
    "ecr:TagResource": "no policy asks for a tag that a person can set on a repository",
    "ecr:UntagResource": "as ecr:TagResource",
    "eks:DeleteAccessEntry": "takes access away",
    "fsx:CreateDataRepositoryTask": "copies between the own file system and the own bucket, as Ray's pods can",
    "fsx:DeleteFileSystem": "removes",
    "iam:CreateServiceLinkedRole": "only its service assumes it",
    "iam:DeleteRole": "removes a bootstrap's role, whose rights the person can give anyway",
    "iam:DetachRolePolicy": "as iam:AttachRolePolicy",
    "iam:TagRole": "no policy asks for a role's tags",
    "iam:UntagRole": "no policy asks for a role's tags",
    "iam:UpdateRole": "a role's description and longest session",
    "kms:Decrypt": "through S3, for what the role may read there",
    "kms:GenerateDataKey": "through S3, for what the role may write there",
    "kms:ScheduleKeyDeletion": "removes",
    "logs:DeleteLogGroup": "removes",
    "s3:AbortMultipartUpload": "removes",
    "s3:CreateBucket": "the bootstrap's own",
    "s3:DeleteBucketPolicy": "as s3:PutBucketPolicy",
    "s3:Put": "of the bootstrap's bucket; s3:PutBucketPolicy is a way, these lead nowhere",
    "sagemaker:BatchDeleteClusterNodes": "removes nodes of the own cluster",
    "sagemaker:BatchRebootClusterNodes": "runs nothing new",
    "sagemaker:BatchReplaceClusterNodes": "runs nothing new",
    "sagemaker:CreatePresignedMlflowTrackingServerUrl": "MLflow's pages; not the server's role",
    "sagemaker:StartClusterHealthCheck": "runs nothing new",
    "sagemaker:UpdateClusterSoftware": "AWS's own image",
    "servicequotas:RequestServiceQuotaIncrease": "a quota is no right",
    "ssm:AddTagsToResource": "the bootstrap's version",
    "ssm:DeleteParameter": "the bootstrap's version",
    "ssm:PutParameter": "the bootstrap's version",
    "ssm:RemoveTagsFromResource": "the bootstrap's version",
    "ssm:ResumeSession": "as ssm:StartSession",
    "ssm:TerminateSession": "ends a session",
}
"""Actions of the policies that change something and lead to nobody, and why; a key may be the begin of actions."""
LAYERS: Final = ("ecr:CompleteLayerUpload", "ecr:InitiateLayerUpload", "ecr:UploadLayerPart")
WAYS: Final = {
    *ON_ROLES,
    *TAKEN_OVER,
    *LAYERS,
    *(action for actions in PASSED.values() for action in actions),
    *("cloudformation:ExecuteChangeSet", "ecr:PutImage", "ecr:SetRepositoryPolicy", "eks:AssociateAccessPolicy"),
    *("eks:CreateAccessEntry", "iam:CreateRole", "iam:DeleteRolePolicy", "iam:PassRole", "kms:CreateGrant"),
    *("s3:PutBucketPolicy", "s3:PutObject", "ssm:StartSession"),
}
"""The actions that the search looks at."""


class _Resource(NamedTuple):
    """A resource, and whom one becomes who may change it."""

    arn: str
    gains: str


class World:
    """The principals and resources of an account with two environments, of which one is the policy's."""

    def __init__(self, environment: Environment, other: Environment) -> None:
        arns, self._account = Arns(environment), environment.account
        path = environment.company.role_path
        self._where = f"{environment.region}:{environment.account}"
        made = f"arn:aws:iam::{self._account}:role{path}"
        stack = naming.stack(environment, "hyperpod")
        self.roles = {
            f"`{name}`": naming.bootstrap_role(environment, name)
            for name in (*naming.BOOTSTRAP_ROLES, "image-publishing")
        }
        abroad = environment.model_copy(update={"region": "eu-north-1"})
        others = f"{made}{naming.stack(other, 'hyperpod')}"
        self.roles |= {
            CLOUDFORMATION: naming.bootstrap_role(environment, "cfn-exec"),
            NODES: f"{made}{stack}-ExecutionRoleFAA49FA6-ABCDEFGHIJKL",
            "the handlers' role": f"{made}{stack}-ProviderOnEventServiceRole82DF95BA-ABCDEFGHIJKL",
            RAY: f"{made}{naming.stack(environment, 'ray')}-RayRole3C804ACF-ABCDEFGHIJKL",
            "an administrator": f"arn:aws:iam::{self._account}:role/Administrator",
            "a bootstrap of another region": naming.bootstrap_role(abroad, "cfn-exec"),
            "a bootstrap's name alike": f"{naming.bootstrap_role(environment, 'cfn-exec')}-2",
            "nodes of another environment": f"{others}-ExecutionRoleFAA49FA6-ABCDEFGHIJKL",
        }
        qualifier = naming.bootstrap_qualifier(environment)
        place = f"{environment.account}-{environment.region}"
        self.buckets = (
            _Resource(f"arn:aws:s3:::cdk-{qualifier}-assets-{place}", CLOUDFORMATION),
            _Resource(f"arn:aws:s3:::{naming.lifecycle_bucket(environment)}", NODES),
            _Resource(f"arn:aws:s3:::{naming.data_bucket(environment)}", RAY),
            _Resource(f"arn:aws:s3:::{naming.data_bucket(other)}", "Ray of another environment"),
            _Resource(f"arn:aws:s3:::{naming.lifecycle_bucket(other)}", "nodes of another environment"),
        )
        ecr = f"arn:aws:ecr:{self._where}:repository"
        mirrored = "mirrored images" if environment.image_registry else "other images"
        self.repositories = (
            _Resource(f"{ecr}/{environment.repository or 'own-image'}", RAY),
            _Resource(f"{ecr}/mirror/kuberay/operator", mirrored),
            _Resource(f"{ecr}/other", "other images"),
            _Resource(f"{ecr}/cdk-{qualifier}-container-assets-{place}", "`image-publishing`"),
        )
        self.stacks = (
            *(_Resource(each.replace("/*", "/0"), CLOUDFORMATION) for each in arns.stacks),
            _Resource(f"arn:aws:cloudformation:{self._where}:stack/{naming.stack(other, 'eks')}/0", CLOUDFORMATION),
        )
        self.node = f"arn:aws:sagemaker:{self._where}:cluster/abcdefghijkl"
        targets = ("ec2:{}:instance/i-0", "ecs:{}:task/t", "ssm:{}:managed-instance/mi-0")
        self.targets = [f"arn:aws:{each.format(self._where)}" for each in targets]
        self.eks = EksArns(environment).eks_cluster if isinstance(environment, EksEnvironment) else ()
        self.boundary = {"iam:PermissionsBoundary": environment.company.permissions_boundary or ""}
        self.key = environment.company.kms_key


_NEXT: Final = {"`deploy`": CLOUDFORMATION, "`file-publishing`": CLOUDFORMATION}
"""Whom the bootstrap's roles become: one passes the role on, the other writes the code that it deploys."""
_BY_ACCESS: Final = {"admins": PODS, "submitters": RAY}
"""Whom the lists of `access` let their members become, in Kubernetes: pods run what they are told."""


def become(policies: Sequence[Policy], world: World, access: str = "") -> dict[str, set[str]]:
    """Return whom a person with these policies can become, each with the ways; `access` is the list for the role."""
    found: dict[str, set[str]] = {}
    ways = list(_ways(policies, world))
    ways += [(_NEXT[whom], whom) for whom, _ in ways if whom in _NEXT]
    if world.eks and access in _BY_ACCESS:
        ways.append((_BY_ACCESS[access], f"access.{access}"))
    for whom, way in ways:
        found.setdefault(whom, set()).add(way)
    return found


def _ways(policies: Sequence[Policy], world: World) -> Iterator[tuple[str, str]]:
    def may(action: str, resource: str, keys: Mapping[str, str] | None = None) -> bool:
        return evaluate(policies, action, resource, keys or {}) is PolicyDecision.ALLOW

    given = set(granted(policies))
    yield from ((ANYBODY, action) for action in given & set(TAKEN_OVER))
    for whom, role in world.roles.items():
        # Where the company has a boundary, the roles of its bootstrap have it.
        bounded = world.boundary if ":role/cdk-" in role else {}
        yield from ((whom, action) for action in ON_ROLES if may(action, role, bounded))
        for service, actions in PASSED.items():
            if may("iam:PassRole", role, {"iam:PassedToService": service}):
                yield from ((whom, f"iam:PassRole and {action}") for action in given.intersection(actions))
    for bucket, whom in world.buckets:
        yield from ((whom, "s3:PutBucketPolicy") for _ in range(may("s3:PutBucketPolicy", bucket)))
        yield from ((whom, "s3:PutObject") for _ in range(may("s3:PutObject", f"{bucket}/ray/code.zip")))
    for repository, whom in world.repositories:
        yield from ((whom, action) for action in ("ecr:PutImage", "ecr:SetRepositoryPolicy") if may(action, repository))
    for stack, whom in world.stacks:
        runs = ("cloudformation:ExecuteChangeSet", "cloudformation:UpdateStack", "cloudformation:CreateStack")
        yield from ((whom, action) for action in runs if may(action, stack))
    yield from _of_nodes(policies, world)
    yield from _of_kubernetes(policies, world)
    if world.key and may("kms:CreateGrant", world.key):
        yield "a reader of all that the key encrypts", "kms:CreateGrant"


def _of_nodes(policies: Sequence[Policy], world: World) -> Iterator[tuple[str, str]]:
    """Yield whose nodes a person can log in to; a node gives its role's keys to whoever is on it."""
    # The condition of a scientist on Slurm: Session Manager checks the document, too.
    keys = {"ssm:SessionDocumentAccessCheck": "true"}
    if evaluate(policies, "ssm:StartSession", world.node, keys) is PolicyDecision.ALLOW:
        # No resource type, so no limit to one cluster.
        yield from ((whom, "ssm:StartSession") for whom in (NODES, OTHER_NODES))
    for target in world.targets:
        if evaluate(policies, "ssm:StartSession", target, keys) is PolicyDecision.ALLOW:
            yield ANYBODY, "ssm:StartSession"


def _of_kubernetes(policies: Sequence[Policy], world: World) -> Iterator[tuple[str, str]]:
    admin = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
    for cluster in world.eks:
        entry = f"{cluster.replace(':cluster/', ':access-entry/')}/role/111122223333/name/0"
        for whom, role in world.roles.items():
            keys = {"eks:principalArn": role, "eks:policyArn": admin}
            if whom != NODES and evaluate(policies, "eks:CreateAccessEntry", cluster, keys) is PolicyDecision.ALLOW:
                yield PODS, "eks:CreateAccessEntry"
            if evaluate(policies, "eks:AssociateAccessPolicy", entry, keys) is PolicyDecision.ALLOW:
                yield PODS, "eks:AssociateAccessPolicy"


def granted(policies: Sequence[Policy]) -> Iterator[str]:
    """Yield the actions that policies allow on something."""
    statements: list[Mapping[str, Any]] = [each for policy in policies for each in policy["Statement"]]
    for statement in statements:
        if statement["Effect"] == "Allow":
            yield from statement["Action"]
