"""Pairs about properties that name a role, a group, a subnet, a key, code or a target, and are updated in place."""

from collections.abc import Callable
from typing import Any

from ops.review.model import Danger, Effect
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

ADDON = "AWS::EKS::Addon"
EKS = "AWS::EKS::Cluster"
NODES = "AWS::EKS::Nodegroup"
FUNCTION = "AWS::Lambda::Function"
MACHINE = "AWS::StepFunctions::StateMachine"
RULE = "AWS::Events::Rule"
STATE = "NotificationsStateAndHealth"
HANDLER = "ClusterKubectlProviderHandler"
STRONG = "arn:aws:iam::111122223333:role/administrator"
ELSEWHERE = "arn:aws:lambda:us-west-2:999999999999:function:elsewhere"
WIDER, OPENED, LOWER, RUNS = (
    Danger.WIDER_PERMISSIONS,
    Danger.OPENED_PORT,
    Danger.LOWER_PROTECTION,
    Danger.RUNS_CODE,
)


def sets(part: str, kind: str, construct: str, **properties: Any) -> Callable[[Edit], None]:
    """Return an edit that sets top-level properties; None removes one."""

    def edit(edit: Edit) -> None:
        target = edit.properties(part, kind, construct)
        target.update(properties)
        for name in [name for name, value in properties.items() if value is None]:
            del target[name]

    return edit


# Roles

destructive(
    "an add-on acts with another role",
    Category.PERMISSIONS,
    expect(f"{ADDON} AddOnvpccni", Effect.IN_PLACE, dangers=WIDER, words=("ServiceAccountRoleArn", "administrator")),
)(sets("eks", ADDON, "AddOnvpccni", ServiceAccountRoleArn=STRONG))

harmless("an add-on gets a tag", Category.PERMISSIONS, worst=Effect.IN_PLACE)(
    sets("eks", ADDON, "AddOnvpccni", Tags=[{"Key": "owner", "Value": "platform"}])
)

destructive(
    "an add-on gets a pod identity",
    Category.PERMISSIONS,
    expect(f"{ADDON} AddOncoredns", Effect.IN_PLACE, dangers=WIDER, words=("PodIdentityAssociations",)),
)(sets("eks", ADDON, "AddOncoredns", PodIdentityAssociations=[{"RoleArn": STRONG, "ServiceAccount": "coredns"}]))

harmless("an add-on keeps what somebody configured", Category.PERMISSIONS, worst=Effect.IN_PLACE)(
    sets("eks", ADDON, "AddOncoredns", ResolveConflicts="PRESERVE")
)

destructive(
    "the system's nodes act with another role",
    Category.PERMISSIONS,
    expect(f"{NODES} SystemNodes", Effect.NODES_REPLACED, Effect.IN_PLACE, dangers=WIDER, words=("NodeRole",)),
)(sets("eks", NODES, "SystemNodes", NodeRole=STRONG))

harmless("the system's nodes get a label", Category.PERMISSIONS, worst=Effect.NODES_REPLACED)(
    sets("eks", NODES, "SystemNodes", Labels={"ray-on-hyperpod/node-role": "system", "team": "platform"})
)

destructive(
    "a state machine acts with another role",
    Category.PERMISSIONS,
    expect(f"{MACHINE} ", Effect.IN_PLACE, dangers=WIDER, words=("RoleArn",)),
)(sets("hyperpod", MACHINE, "", RoleArn=STRONG))

harmless("a state machine is traced", Category.PERMISSIONS, worst=Effect.IN_PLACE)(
    sets("hyperpod", MACHINE, "", TracingConfiguration={"Enabled": True})
)

# Code


def _definition(edit: Edit, before: str, after: Any) -> None:
    """Replace a text in the definition of the state machine, by an expression too."""
    pieces = edit.properties("hyperpod", MACHINE)["DefinitionString"]["Fn::Join"][1]
    if isinstance(after, str):
        assert before in pieces[0]
        pieces[0] = pieces[0].replace(before, after)
    else:
        pieces[1] = after


@destructive(
    "a state machine calls another function",
    Category.SCRIPTS,
    expect(f"{MACHINE} ", Effect.IN_PLACE, dangers=RUNS, words=("Resource",)),
)
def _(edit: Edit) -> None:
    _definition(edit, "", {"Ref": edit.find("hyperpod", FUNCTION, "ProviderOnEvent")[0]})


@harmless("a state machine waits for longer between attempts", Category.SCRIPTS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    _definition(edit, '"IntervalSeconds":15', '"IntervalSeconds":30')


destructive(
    "a function enters its code at another place",
    Category.SCRIPTS,
    expect(f"{FUNCTION} {HANDLER}", Effect.IN_PLACE, dangers=RUNS, words=("Handler",)),
)(sets("eks", FUNCTION, HANDLER, Handler="shutil.rmtree"))

harmless("a function's description differs", Category.SCRIPTS, worst=Effect.IN_PLACE)(
    sets("eks", FUNCTION, HANDLER, Description="Applies manifests")
)


@destructive(
    "a function gets a layer of another account",
    Category.SCRIPTS,
    expect(f"{FUNCTION} {HANDLER}", Effect.IN_PLACE, dangers=RUNS, words=("Layers", "999999999999")),
)
def _(edit: Edit) -> None:
    layers = edit.properties("eks", FUNCTION, HANDLER)["Layers"]
    layers.append("arn:aws:lambda:us-west-2:999999999999:layer:tools:1")


@harmless("a function's layers are in another order", Category.SCRIPTS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    edit.properties("eks", FUNCTION, HANDLER)["Layers"].reverse()


@destructive(
    "a function calls another function for its work",
    Category.SCRIPTS,
    expect(f"{FUNCTION} ProviderFrameworkframeworkonEvent", Effect.IN_PLACE, dangers=RUNS, words=("USER_ON_EVENT",)),
)
def _(edit: Edit) -> None:
    function = edit.properties("hyperpod", FUNCTION, "ProviderFrameworkframeworkonEvent")
    function["Environment"]["Variables"]["USER_ON_EVENT_FUNCTION_ARN"] = ELSEWHERE


harmless("a function logs more", Category.SCRIPTS, worst=Effect.IN_PLACE)(
    sets("hyperpod", FUNCTION, "ProviderOnEvent", Environment={"Variables": {"LOG_LEVEL": "DEBUG"}})
)

destructive(
    "a function may run no more than zero times at once",
    Category.PROTECTION,
    expect(f"{FUNCTION} ProviderOnEvent", Effect.IN_PLACE, dangers=LOWER, words=("ReservedConcurrentExecutions",)),
)(sets("hyperpod", FUNCTION, "ProviderOnEvent", ReservedConcurrentExecutions=0))

harmless("a function may run five times at once", Category.PROTECTION, worst=Effect.IN_PLACE)(
    sets("hyperpod", FUNCTION, "ProviderOnEvent", ReservedConcurrentExecutions=5)
)

# Targets


@destructive(
    "an event rule starts a function too",
    Category.SCRIPTS,
    expect(f"{RULE} {STATE}", Effect.IN_PLACE, dangers=RUNS, words=("Targets", "elsewhere")),
)
def _(edit: Edit) -> None:
    edit.properties("hyperpod", RULE, STATE)["Targets"].append({"Arn": ELSEWHERE, "Id": "Target1"})


@harmless("an event rule retries for longer", Category.SCRIPTS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    edit.properties("hyperpod", RULE, STATE)["Targets"][0]["RetryPolicy"] = {"MaximumEventAgeInSeconds": 3600}


@destructive(
    "an event rule matches no node any more",
    Category.PROTECTION,
    expect(f"{RULE} {STATE}", Effect.IN_PLACE, dangers=LOWER, words=("EventPattern",)),
)
def _(edit: Edit) -> None:
    del edit.properties("hyperpod", RULE, STATE)["EventPattern"]["detail-type"][1]


@harmless("an event rule matches more levels", Category.PROTECTION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    details = edit.properties("hyperpod", RULE, "NotificationsErrors")["EventPattern"]["detail"]["EventDetails"]
    details["EventLevel"].append("Warn")


SUBSCRIPTION = "AWS::SNS::Subscription"

destructive(
    "the notifications go to another address",
    Category.PERMISSIONS,
    expect(f"{SUBSCRIPTION} ", Effect.REPLACED, Effect.IN_PLACE, dangers=WIDER, words=("Endpoint", "elsewhere")),
)(sets("hyperpod", SUBSCRIPTION, "", Endpoint="somebody@elsewhere.example"))

destructive(
    "few notifications pass a filter",
    Category.PROTECTION,
    expect(f"{SUBSCRIPTION} ", Effect.IN_PLACE, dangers=LOWER, words=("FilterPolicy",)),
)(sets("hyperpod", SUBSCRIPTION, "", FilterPolicy={"level": ["none"]}))

harmless(
    "all notifications pass, without a filter",
    Category.PROTECTION,
    worst=Effect.IN_PLACE,
    prepare=sets("hyperpod", SUBSCRIPTION, "", FilterPolicy={"level": ["none"]}),
)(sets("hyperpod", SUBSCRIPTION, "", FilterPolicy=None))

harmless("a topic has another name for people", Category.PERMISSIONS, worst=Effect.IN_PLACE)(
    sets("hyperpod", "AWS::SNS::Topic", "", DisplayName="Alerts")
)

PARAMETER = "AWS::SSM::Parameter"

destructive(
    "a parameter that programs read has another value",
    Category.UNKNOWN,
    expect(f"{PARAMETER} ", Effect.IN_PLACE, dangers=Danger.UNKNOWN, words=("Value",)),
)(sets("eks", PARAMETER, "", Value="another"))

harmless("a parameter is described", Category.UNKNOWN, worst=Effect.IN_PLACE)(
    sets("eks", PARAMETER, "", Description="Ready for kubectl")
)


def _alias(edit: Edit) -> None:
    id, _ = edit.find("eks", "AWS::KMS::Key")
    edit.add("eks", "Name", "AWS::KMS::Alias", AliasName="alias/rayhp", TargetKeyId={"Fn::GetAtt": [id, "Arn"]})


destructive(
    "the alias of a key names another key",
    Category.PROTECTION,
    expect("AWS::KMS::Alias Name", Effect.IN_PLACE, dangers=LOWER, words=("TargetKeyId",)),
    prepare=_alias,
)(sets("eks", "AWS::KMS::Alias", "", TargetKeyId="arn:aws:kms:us-west-2:999999999999:key/elsewhere"))

harmless("a key that has an alias is described", Category.PROTECTION, worst=Effect.IN_PLACE, prepare=_alias)(
    sets("eks", "AWS::KMS::Key", "", Description="Secrets of the cluster")
)

BUCKET = "AWS::S3::Bucket"

destructive(
    "new objects of a bucket start a function",
    Category.SCRIPTS,
    expect(f"{BUCKET} Data", Effect.IN_PLACE, dangers=RUNS, words=("NotificationConfiguration",)),
)(
    sets(
        "storage",
        BUCKET,
        "Data",
        NotificationConfiguration={"LambdaConfigurations": [{"Event": "s3:ObjectCreated:*", "Function": ELSEWHERE}]},
    )
)

harmless("a bucket tells EventBridge of its objects", Category.SCRIPTS, worst=Effect.IN_PLACE)(
    sets(
        "storage",
        BUCKET,
        "Data",
        NotificationConfiguration={"EventBridgeConfiguration": {"EventBridgeEnabled": True}},
    )
)
