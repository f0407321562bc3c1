"""NetworkPolicies, pod security levels, quotas and security contexts."""

from ops.review.model import Danger, Effect
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit

LOOSER = Danger.LOOSER_ISOLATION


@destructive(
    "the policy that denies all no longer denies what goes out",
    Category.ISOLATION,
    expect("NetworkPolicy ray/default-deny", Effect.IN_PLACE, dangers=LOOSER, words=("egress",)),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "NetworkPolicy", "ray/default-deny") as policy:
        policy["spec"]["policyTypes"].remove("Egress")


@destructive(
    "the namespace of Ray allows privileged pods",
    Category.ISOLATION,
    expect("Namespace ", Effect.IN_PLACE, dangers=LOOSER, words=("privileged",)),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "Namespace", "ray") as namespace:
        namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = "privileged"


@destructive(
    "the quota no longer names load balancers",
    Category.ISOLATION,
    expect("ResourceQuota ray/project", Effect.IN_PLACE, dangers=LOOSER, words=("loadbalancers",)),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "ResourceQuota", "ray/project") as quota:
        del quota["spec"]["hard"]["services.loadbalancers"]


@harmless("the namespace of the image build is restricted", Category.ISOLATION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.object("platform", "Namespace", "image-build") as namespace:
        namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = "baseline"


@harmless("the quota of the image build allows fewer pods", Category.ISOLATION, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    with edit.object("platform", "ResourceQuota", "image-build/project") as quota:
        assert quota["spec"]["hard"]["pods"] == "3"
        quota["spec"]["hard"]["pods"] = "2"


@harmless("the ports of a NetworkPolicy are in another order", Category.ISOLATION, worst=Effect.NOTHING)
def _(edit: Edit) -> None:
    with edit.object("ray", "NetworkPolicy", "ray/allow-dns") as policy:
        policy["spec"]["egress"][0]["ports"].reverse()
