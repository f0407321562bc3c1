"""The review's answers on manifests and releases: what becomes of objects that leave them or move, and Helm values."""

import json
from typing import Any

import pytest

from ops.review.assembly import Pair, resource_changes
from ops.review.checkouts.cdk import ReviewError
from ops.review.kubernetes.changes import changes
from ops.review.kubernetes.differences import differences, notes
from ops.review.kubernetes.ray import ray_clusters
from ops.review.kubernetes.words import permissions
from ops.review.model import Change, Danger, Difference, Effect
from tests.unit.ops.review.kubernetes import assemblies as a
from tests.unit.ops.review.kubernetes.assemblies import (
    Body,
    Environment,
    changed,
    dangers,
    effects,
    helm_release,
    manifest,
)

# The template of stacks/shared/files_chart.py, which copies files.
# As stacks/shared/files_chart.py writes it.
_TEMPLATE = """\
{{- range $path, $content := .Files.Glob "files/*.yaml" }}
---
{{ $content | toString }}
{{- end }}
"""


def test_equal_sides_and_other_orders_of_keys_give_nothing(environment: Environment) -> None:
    reordered = json.loads(json.dumps(a.RAY_CLUSTER, sort_keys=True))
    assert environment.changes({"A": manifest(a.RAY_CLUSTER)}, {"A": manifest(a.RAY_CLUSTER)}) == []
    (same,) = environment.changes({"A": manifest(a.DENY, a.RAY_CLUSTER)}, {"A": manifest(reordered, a.DENY)})
    assert (same.effect, same.resource) == (Effect.NOTHING, "KubernetesManifest A")


def test_the_prune_label_and_the_order_of_the_deployment_are_noise(environment: Environment) -> None:
    def side(label: str, after: str) -> Body:
        marked = changed(a.QUOTA, "metadata", "labels", value={f"aws.cdk.eks/prune-{label}": ""})
        return {**manifest(marked, PruneLabel=f"aws.cdk.eks/prune-{label}"), "DependsOn": [after]}

    (change,) = environment.changes({"A0123ABCD": side("c8", "X")}, {"A0123ABCD": side("c9", "Y")})
    assert (change.effect, change.dangers, change.resource) == (Effect.NOTHING, frozenset(), "KubernetesManifest A")


def test_intrinsics_are_values_that_can_be_read(environment: Environment) -> None:
    def side(reference: Any) -> Body:
        before, after = json.dumps([changed(a.VOLUME, "spec", "csi", "volumeHandle", value="@")]).split("@")
        joined = {"Fn::Join": ["", [before, reference, after]]}
        return {"Type": manifest()["Type"], "Properties": {"Manifest": joined, "PruneLabel": a.PRUNE}}

    (change,) = environment.changes({"A": side("fs-1")}, {"A": side({"Fn::GetAtt": ["FileSystem", "Id"]})})
    assert "fs-1 → <GetAtt FileSystem.Id>" in change.what
    assert change.dangers == {Danger.DATA_LOSS}
    assert environment.changes({"A": side({"Ref": "X"})}, {"A": side({"Ref": "X"})}) == []


@pytest.mark.parametrize("text", ["{", '[{"kind": "Role"}]', "[1]"])
def test_a_manifest_that_cannot_be_read_is_an_error(environment: Environment, text: str) -> None:
    broken = {**manifest(), "Properties": {"Manifest": text}}
    with pytest.raises(ReviewError, match=r"Manifest of A .* Fix: "):
        environment.changes({"A": manifest()}, {"A": broken})


def test_an_object_that_leaves_a_manifest_is_pruned_or_kept(environment: Environment) -> None:
    def left(one: Body, **properties: Any) -> tuple[set[Effect], set[Danger]]:
        found = environment.changes({"A": manifest(a.QUOTA, one, **properties)}, {"A": manifest(a.QUOTA, **properties)})
        return effects(found), dangers(found)

    assert left(a.DYNAMIC_CLAIM) == ({Effect.DATA_LOST}, {Danger.DATA_LOSS})
    assert left(a.DENY) == ({Effect.KEPT}, {Danger.LOOSER_ISOLATION})
    assert left(a.DYNAMIC_CLAIM, PruneLabel=None)[0] == {Effect.KEPT}


def test_a_manifest_with_a_retain_policy_leaves_its_objects(environment: Environment) -> None:
    kept = {**manifest(a.RAY_CLUSTER), "DeletionPolicy": "Retain"}
    assert effects(environment.changes({"A": kept}, {})) == {Effect.KEPT}


def test_a_renamed_construct_fails_because_its_object_exists(environment: Environment) -> None:
    found = environment.changes({"A": manifest(a.RAY_CLUSTER)}, {"B": manifest(a.RAY_CLUSTER)})
    moved = [each for each in found if each.resource == "RayCluster ray/rayml" and each.dangers]
    assert (effects(moved), dangers(moved)) == ({Effect.REFUSED}, {Danger.JOBS_REMOVED})
    assert "it exists" in moved[0].reason


def test_an_object_that_another_manifest_takes_over_is_deleted_with_its_old_one(environment: Environment) -> None:
    before = {"A": manifest(a.RAY_CLUSTER), "B": manifest(a.QUOTA)}
    found = environment.changes(before, {"B": manifest(a.QUOTA, a.RAY_CLUSTER)})
    assert Effect.ENDS_JOBS in effects(found)
    assert dangers(found) == {Danger.JOBS_REMOVED}


def test_an_object_that_moves_to_another_stack_may_be_deleted(environment: Environment) -> None:
    found = environment.changes(
        {"ray": {"A": manifest(a.DYNAMIC_CLAIM)}, "platform": {}},
        {"ray": {}, "platform": {"A": manifest(a.DYNAMIC_CLAIM)}},
    )
    assert Effect.DATA_LOST in effects(found)
    assert dangers(found) == {Danger.DATA_LOSS}


def test_an_object_that_stays_in_the_cluster_can_be_taken_over(environment: Environment) -> None:
    before = {"A": manifest(a.QUOTA, a.DENY), "B": manifest(a.CODE)}
    found = environment.changes(before, {"A": manifest(a.QUOTA), "B": manifest(a.CODE, a.DENY)})
    assert (effects(found), dangers(found)) == ({Effect.IN_PLACE}, set())


def test_a_new_environment_stops_only_at_what_is_open_or_unknown(environment: Environment) -> None:
    public = changed(a.SERVICE, "spec", "type", value="LoadBalancer")
    found = environment.changes(None, {"A": manifest(a.ROLE, a.BINDING, a.NAMESPACE, public)})
    assert effects(found) == {Effect.CREATED}
    assert {each.resource: set(each.dangers) for each in found if each.dangers} == {
        "Service ray/dashboard": {Danger.PUBLIC_ENDPOINT}
    }


VALUES: list[tuple[dict[str, Any], dict[str, Any], set[Danger]]] = [
    ({"resources": {"limits": {"memory": "1Gi"}}}, {"resources": {"limits": {"memory": "2Gi"}}}, set()),
    ({"replicaCount": 1}, {"replicaCount": 2}, set()),
    ({"tolerations": []}, {"tolerations": [{"key": "a", "operator": "Exists"}]}, set()),
    ({}, {"nodeSelector": {"role": "system"}}, set()),
    ({"logging": {"level": "info"}}, {"logging": {"level": "debug"}}, set()),
    ({"image": {"tag": "v1.2.0"}}, {"image": {"tag": "v1.2.2"}}, set()),
    (
        {"image": {"repository": "quay.io/a/b"}},
        {"image": {"repository": "111122223333.dkr.ecr.us-west-2.amazonaws.com/a/b"}},
        set(),
    ),
    (
        {"image": {"repository": "quay.io/a/b"}},
        {"image": {"repository": "999999999999.dkr.ecr.us-west-2.amazonaws.com/a/b"}},
        {Danger.RUNS_CODE},
    ),
    ({"securityContext": {}}, {"securityContext": {"runAsNonRoot": True}}, set()),
    ({"image": {"tag": "v1.2.0"}}, {"image": {"tag": "latest"}}, {Danger.LOWER_PROTECTION}),
    ({"image": {"repository": "quay.io/a/b"}}, {"image": {"repository": "docker.io/a/b"}}, {Danger.RUNS_CODE}),
    ({"securityContext": {"privileged": False}}, {"securityContext": {"privileged": True}}, {Danger.LOOSER_ISOLATION}),
    ({"podSecurityContext": {"runAsNonRoot": True}}, {"podSecurityContext": {}}, {Danger.LOOSER_ISOLATION}),
    ({}, {"controller": {"hostNetwork": True}}, {Danger.LOOSER_ISOLATION}),
    ({}, {"serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "x"}}}, {Danger.WIDER_PERMISSIONS}),
    ({"singleNamespaceInstall": True}, {"singleNamespaceInstall": False}, {Danger.WIDER_PERMISSIONS}),
    ({"watchNamespace": ["ray"]}, {}, {Danger.WIDER_PERMISSIONS}),
    (
        {"featureGates": [{"name": "A", "enabled": True}]},
        {"featureGates": [{"name": "B", "enabled": True}]},
        {Danger.UNKNOWN},
    ),
    ({"reclaimPolicy": "Retain"}, {"reclaimPolicy": "Delete"}, {Danger.LOWER_PROTECTION}),
    ({"service": {"type": "ClusterIP"}}, {"service": {"type": "LoadBalancer"}}, {Danger.PUBLIC_ENDPOINT}),
    (
        {"health-monitoring-agent": {"enabled": True}},
        {"health-monitoring-agent": {"enabled": False}},
        {Danger.LOWER_PROTECTION},
    ),
    ({}, {"deleteOnExit": "yes"}, {Danger.UNKNOWN}),
    ({}, {"hooks": {"start": "rm -rf /fsx"}}, {Danger.RUNS_CODE}),
    (
        {"settings": '{"service": {"type": "ClusterIP"}}'},
        {"settings": '{"service": {"type": "NodePort"}}'},
        {Danger.PUBLIC_ENDPOINT},
    ),
]


@pytest.mark.parametrize(("before", "after", "expected"), VALUES)
def test_helm_values_are_reviewed_by_name(
    environment: Environment, before: dict[str, Any], after: dict[str, Any], expected: set[Danger]
) -> None:
    sides = [{"KubeRay": helm_release("kuberay-operator", values)} for values in (before, after)]
    found = [each for each in environment.changes(*sides) if each.what != "chart"]
    assert {each.resource for each in found} == {"HelmRelease kuberay/kuberay-operator"}
    assert dangers(found) == expected


class TestCharts:
    """Releases whose charts hold the project's own objects as files."""

    def pair(
        self,
        environment: Environment,
        before: list[Body],
        after: list[Body],
        *,
        values: Body | None = None,
        name: str = "Code",
    ) -> Pair:
        digests = ["ab" * 32, "cd" * 32]
        sides = [
            {construct: helm_release("own", each, ChartAssetURL=f"s3://assets/{digest}.zip")}
            for construct, each, digest in zip(("Code", name), ({}, values or {}), digests, strict=True)
        ]
        pair = environment.pair(*sides)
        for assembly, objects, digest in zip((pair.base, pair.head), (before, after), digests, strict=True):
            assert assembly
            chart = assembly.directory / f"asset.{digest}"
            for folder in ("files", "templates"):
                (chart / folder).mkdir(parents=True)
            (chart / "Chart.yaml").write_text("name: own\nversion: 1.0.0\n")
            (chart / "templates" / "objects.yaml").write_text(_TEMPLATE)
            (chart / "files" / "objects.yaml").write_text("\n---\n".join(map(json.dumps, objects)))
        return pair

    def changes(self, environment: Environment, before: list[Body], after: list[Body]) -> list[Change]:
        pair = self.pair(environment, before, after)
        return list(changes(pair, list(resource_changes(pair))))

    def test_the_objects_of_the_chart_are_reviewed_one_by_one(self, environment: Environment) -> None:
        code = changed(a.CODE, "data", "reaper.py", value="import json\nprint(1)\n")
        found = self.changes(environment, [a.CODE], [code])
        assert {each.resource: each.effect for each in found} == {
            "ConfigMap kuberay/ray-reaper-code": Effect.IN_PLACE,
            "HelmRelease kuberay/own": Effect.NOTHING,
        }
        assert dangers(found) == set()

    def test_helm_deletes_what_leaves_the_chart_also_kinds_that_kubectl_keeps(self, environment: Environment) -> None:
        found = self.changes(environment, [a.CODE, a.DENY], [a.CODE])
        assert {each.effect for each in found if each.resource == "NetworkPolicy ray/default-deny"} == {Effect.DELETED}

    def test_a_definition_that_leaves_the_chart_takes_all_ray_clusters(self, environment: Environment) -> None:
        found = self.changes(environment, [a.DEFINITION], [])
        assert Effect.DATA_LOST in effects(found)
        assert {Danger.DATA_LOSS, Danger.JOBS_REMOVED} <= dangers(found)

    def test_a_release_of_a_renamed_construct_is_uninstalled_with_its_objects(self, environment: Environment) -> None:
        pair = self.pair(environment, [a.DEFINITION], [a.DEFINITION], name="Renamed")
        found = list(changes(pair, list(resource_changes(pair))))
        definition = [each for each in found if each.resource == "CustomResourceDefinition rayclusters.ray.io"]
        assert [each.effect for each in definition] == [Effect.DATA_LOST]
        assert "then the deletion of the old one deletes it" in definition[0].reason

    def test_differences_show_yaml_and_no_json(self, environment: Environment) -> None:
        pair = self.pair(
            environment, [a.CODE], [changed(a.CODE, "data", "reaper.py", value="x = 1\n")], values={"a": {"b": 1}}
        )
        found = {each.title: each.diff for each in differences(pair)}
        assert list(found) == ["ConfigMap kuberay/ray-reaper-code", "values of own"]
        assert "-    import json" in found["ConfigMap kuberay/ray-reaper-code"]
        assert "+  b: 1" in found["values of own"]
        assert list(notes(pair)) == []


def test_a_chart_that_nobody_renders_is_unknown_and_noted(environment: Environment) -> None:
    sides = [{"A": helm_release("x", {}, ChartAssetURL=f"s3://assets/{digit * 64}.zip")} for digit in "12"]
    found = environment.changes(*sides)
    assert (effects(found), dangers(found)) == ({Effect.UNKNOWN}, {Danger.UNKNOWN})
    assert "HelmRelease kuberay/x was not rendered" in " ".join(notes(environment.pair(*sides)))


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("kuberay-crds", {Danger.JOBS_REMOVED, Danger.DATA_LOSS}),
        ("kuberay-operator", {Danger.LOWER_PROTECTION}),
        ("anything", {Danger.LOWER_PROTECTION}),
    ],
)
def test_a_release_that_is_removed_renamed_or_moved_is_dangerous(
    environment: Environment, release: str, expected: set[Danger]
) -> None:
    before = {"A": helm_release(release, {})}
    assert expected <= dangers(environment.changes(before, {}))
    assert expected <= dangers(environment.changes(before, {"A": helm_release("other", {})}))
    assert expected <= dangers(environment.changes(before, {"A": helm_release(release, {}, Namespace="elsewhere")}))
    moved = environment.changes(before, {"B": helm_release(release, {})})
    assert expected <= dangers(moved)
    assert any("uninstalls it" in each.reason for each in moved)


def test_another_cluster_or_type_of_a_resource_is_never_harmless(environment: Environment) -> None:
    before = {"A": manifest(a.DENY, ClusterName="one")}
    assert dangers(environment.changes(before, {"A": manifest(a.DENY, ClusterName="two")})) == {Danger.UNKNOWN}
    typed = environment.changes(before, {"A": helm_release("x", {})})
    assert Effect.REFUSED in effects(typed)
    assert Danger.LOOSER_ISOLATION in dangers(typed)


def test_permissions_are_sentences(environment: Environment) -> None:
    wider = changed(a.ROLE, "rules", 0, "verbs", value=["get", "list", "delete"])
    bound = changed(a.BINDING, "subjects", value=[{"kind": "Group", "name": "people"}])
    everywhere = changed(a.ALLOW, "spec", "egress", 0, "to", 0, "ipBlock", "cidr", value="0.0.0.0/0")
    pair = environment.pair(
        {"A": manifest(a.DENY, a.ALLOW, a.ROLE, a.BINDING)}, {"A": manifest(everywhere, wider, bound)}
    )
    assert list(permissions(pair)) == [
        "NetworkPolicy ray/allow-https: pods with app=ray in ray may send TCP 443 to 0.0.0.0/0.",
        "NetworkPolicy ray/default-deny no longer restricts ingress.",
        "NetworkPolicy ray/default-deny no longer restricts egress.",
        "Role ray/ray-reaper may now delete pods.",
        "Group people now has Role ray-reaper by RoleBinding ray/ray-reaper.",
        "ServiceAccount kuberay/ray-reaper no longer has Role ray-reaper by RoleBinding ray/ray-reaper.",
    ]


def test_a_job_that_replaces_another_is_one_change_without_a_hash_in_its_name(environment: Environment) -> None:
    old, new = (changed(a.JOB, "metadata", "name", value=f"ray-image-{tag * 16}-{tag * 8}") for tag in ("a", "b"))
    pair = environment.pair({"A": manifest(old)}, {"A": manifest(new)})
    (change,) = changes(pair, list(resource_changes(pair)))
    assert (change.resource, change.effect, set(change.dangers)) == (
        "Job image-build/ray-image",
        Effect.CREATED,
        set(),
    )
    assert change.what == f"ray-image-{'a' * 16}-{'a' * 8} → ray-image-{'b' * 16}-{'b' * 8}"
    assert change.reason.startswith("The new Job builds the image; the old Job is deleted")
    (difference,) = differences(pair)
    assert {line[:1] for line in difference.diff.splitlines()} == {"@", " ", "-", "+"}


def test_the_dangers_of_a_job_that_replaces_another_stay(environment: Environment) -> None:
    privileged = changed(a.JOB, "spec", "template", "spec", "hostNetwork", value=True)
    found = environment.changes(
        {"A": manifest(a.JOB)}, {"A": manifest(changed(privileged, "metadata", "name", value="ray-image-2"))}
    )
    assert dangers(found) == {Danger.LOOSER_ISOLATION}


def test_a_job_that_its_manifest_does_not_prune_is_kept(environment: Environment) -> None:
    renamed = changed(a.JOB, "metadata", "name", value="ray-image-2")
    found = environment.changes({"A": manifest(a.JOB, PruneLabel=None)}, {"A": manifest(renamed, PruneLabel=None)})
    assert effects(found) == {Effect.KEPT, Effect.CREATED}


def test_differences_leave_out_hashes_of_templates_and_notes_for_scanners(environment: Environment) -> None:
    noise = {"checkov.io/skip1": "why", "ray-on-hyperpod/template": "1"}
    marked = changed(a.QUOTA, "metadata", "annotations", value=noise)
    assert list(differences(environment.pair({"A": manifest(a.QUOTA)}, {"A": manifest(marked)}))) == [
        Difference(
            "ResourceQuota ray/project",
            "@@ -1,6 +1,7 @@\n apiVersion: v1\n kind: ResourceQuota\n metadata:"
            "\n+  annotations: {}\n   name: project\n   namespace: ray\n spec:",
        )
    ]


def test_ray_clusters_are_rows_of_heads_and_groups(environment: Environment) -> None:
    more = changed(a.RAY_CLUSTER, "spec", "workerGroupSpecs", 0, "replicas", value=5)
    pair = environment.pair({"A": manifest(a.RAY_CLUSTER)}, {"A": manifest(more)})
    head, workers = ray_clusters(pair)
    assert head.name == "ray/rayml head"
    assert head.before == head.after
    assert workers.before == {
        "replicas": "4",
        "min": "4",
        "max": "4",
        "runs on": "",
        "cpu": "8",
        "memory": "32Gi",
        "accelerators": "8 nvidia.com/gpu",
        "image": "aaaa",
    }
    assert workers.after == {**workers.before, "replicas": "5"}
