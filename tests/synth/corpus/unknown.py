"""Types, properties and kinds that no rule knows."""

from ops.review.model import Danger, Effect
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit


@destructive(
    "a resource has a type that CloudFormation's schemas lack",
    Category.UNKNOWN,
    expect("AWS::Nowhere::Thing ", Effect.UNKNOWN, dangers=Danger.UNKNOWN, words=("AWS::Nowhere::Thing",)),
)
def _(edit: Edit) -> None:
    edit.add("network", "Thing", "AWS::Nowhere::Thing", Size=3)


@destructive(
    "the file system has a property that its schema lacks",
    Category.UNKNOWN,
    expect("AWS::FSx::FileSystem FileSystem", Effect.UNKNOWN, dangers=Danger.UNKNOWN, words=("Eviction",)),
)
def _(edit: Edit) -> None:
    edit.properties("storage", "AWS::FSx::FileSystem")["LustreConfiguration"]["Eviction"] = "ON"


@destructive(
    "an object has a kind that no rule knows",
    Category.UNKNOWN,
    expect("Gadget ray/one", Effect.UNKNOWN, dangers=Danger.UNKNOWN, words=("Gadget",)),
)
def _(edit: Edit) -> None:
    gadget = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "one", "namespace": "ray"}}
    with edit.objects("ray", "ServiceAccount", "ray/ray") as objects:
        objects.append(gadget | {"spec": {"size": 3}})


@harmless(
    "there is a queue, whose type the schemas know and the project lacks",
    Category.UNKNOWN,
    expect("AWS::SQS::Queue Queue", Effect.CREATED),
    worst=Effect.CREATED,
)
def _(edit: Edit) -> None:
    edit.add("hyperpod", "Queue", "AWS::SQS::Queue", SqsManagedSseEnabled=True)


@harmless("the metadata of a resource has a key that nothing reads", Category.UNKNOWN, worst=Effect.NOTHING)
def _(edit: Edit) -> None:
    edit.find("storage", "AWS::FSx::FileSystem")[1].setdefault("Metadata", {})["team"] = "platform"
