"""The sleeper's objects: minimal rights on both APIs, what the file says of each group, and nothing without `sleep`."""

import os
from pathlib import Path
from typing import Any

import cdk8s
import pytest

from config import EksEnvironment, available, labels, load
from config.model import SecretVariable
from config.model.hyperpod import Sleep
from controllers import group_users, hand, sleeper
from controllers.group_users import SleepingGroup, TokenSecret
from controllers.sleep_decision import Hours
from controllers.sleeper import PERMISSIONS, NeededPermission, of_token
from k8s_charts.controllers.sleeper import SleeperChart, sleeper_objects
from k8s_charts.ray_objects import ray_objects
from k8s_charts.shared.names import RUN_CLUSTER_LABEL, RUN_LABEL, SLEEPER, SLEEPER_CODE
from ops.render import manifests
from tests.charts.support.connection_table import with_in_cluster, with_two_ray_clusters
from tests.charts.support.facts import RAY_FACTS, Object
from tests.support.sleeping_environment import with_sleep

ROLE = "arn:aws:iam::111122223333:role/sleeper"


def objects(environment: EksEnvironment) -> list[Object]:
    """Return the sleeper's objects in an environment."""
    return list(SleeperChart(cdk8s.App(), "sleeper", sleeper=sleeper_objects(environment, ROLE)).to_json())


@pytest.fixture(scope="module")
def made(dev: EksEnvironment) -> list[Object]:
    return objects(with_sleep(dev))


def of_kind(made: list[Object], kind: str) -> list[Object]:
    return [item for item in made if item["kind"] == kind]


def pod_of(made: list[Object]) -> Object:
    [deployment] = of_kind(made, "Deployment")
    spec: Object = deployment["spec"]["template"]["spec"]
    return spec


def words(made: list[Object], option: str) -> list[str]:
    [container] = pod_of(made)["containers"]
    pairs = [word.split("=", 1) for word in container["args"]]
    return [value for name, value in pairs if name == f"--{option}"]


def permissions(made: list[Object]) -> list[NeededPermission]:
    """Return what the bound roles grant, each right once for each object that it names."""
    scopes = {None: "cluster", "ray": "ray", "kuberay": "own"}
    found = []
    for kind in ("ClusterRole", "Role"):
        for role in of_kind(made, kind):
            metadata = role["metadata"]
            [binding] = [
                item
                for item in of_kind(made, f"{kind}Binding")
                if item["metadata"].get("namespace") == metadata.get("namespace")
            ]
            assert binding["roleRef"] == {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": kind,
                "name": metadata["name"],
            }
            assert binding["subjects"] == [{"kind": "ServiceAccount", "name": SLEEPER, "namespace": "kuberay"}]
            found += [
                NeededPermission(verb, resource, scopes[metadata.get("namespace")], group, name)  # type: ignore[arg-type]
                for rule in role["rules"]
                for group in rule["apiGroups"]
                for resource in rule["resources"]
                for verb in rule["verbs"]
                for name in rule.get("resourceNames", [""])
            ]
    return found


def test_roles_give_what_the_code_asks_for_and_no_more(made: list[Object]) -> None:
    given = permissions(made)
    assert len(given) == len(set(given))
    assert set(given) == set(PERMISSIONS)


def test_roles_give_the_tokens_of_heads_with_workers_on_sleeping_groups_and_no_other_secret(
    dev: EksEnvironment,
) -> None:
    token = SecretVariable(env="RAY_AUTH_TOKEN", secret="rayml-token", key="token")
    [cluster] = dev.ray.clusters
    own = cluster.model_copy(update={"env": {"RAY_AUTH_MODE": "token"}, "secrets": (token,)})
    kuberays = cluster.model_copy(update={"name": "other", "env": {"RAY_AUTH_MODE": "token"}})
    head_group = cluster.head.instance_group
    elsewhere = tuple(each.model_copy(update={"instance_group": head_group}) for each in cluster.workers)
    # No worker of this one is on a group that sleeps.
    third = kuberays.model_copy(update={"name": "third", "workers": elsewhere})
    sleeping = with_sleep(dev)
    ray = dev.ray.model_copy(update={"clusters": (own, kuberays, third)})
    found = objects(sleeping.model_copy(update={"ray": ray}))
    tokens = {"rayml": TokenSecret("rayml-token", "token"), "other": TokenSecret("other", "auth_token")}
    assert set(permissions(found)) == {*PERMISSIONS, *map(of_token, tokens.values())}
    assert sleeper._tokens(words(found, "token")) == tokens


def test_its_account_names_its_role_and_its_objects_are_out_of_reach_of_rays_users(made: list[Object]) -> None:
    [account] = of_kind(made, "ServiceAccount")
    assert account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"] == ROLE
    assert account["automountServiceAccountToken"] is False
    for kind in ("ServiceAccount", "Deployment", "NetworkPolicy", "PodDisruptionBudget"):
        assert {item["metadata"]["namespace"] for item in of_kind(made, kind)} == {"kuberay"}


def test_it_knows_each_group_that_sleeps_as_the_file_has_it(dev: EksEnvironment) -> None:
    sleep = Sleep(after="2h", min=1, hours="Mon-Fri 07:00-19:00 Europe/Berlin")
    environment = with_two_ray_clusters(with_sleep(dev, sleep))
    [group] = [SleepingGroup.read(each) for each in words(objects(environment), "group")]
    [own] = [each for each in environment.hyperpod.instance_groups if each.sleep]
    [workers] = environment.ray.clusters[0].workers
    rule = group.rule
    assert (rule.group, rule.count, rule.min, rule.after_seconds) == (own.name, own.count, 1, 7200)
    assert rule.hours == Hours.read("Mon-Fri 07:00-19:00 Europe/Berlin")
    assert rule.workers == 2 * workers.replicas
    assert group.clusters == ("rayml", "other")
    assert {(each.name, each.replicas, each.min_replicas) for each in group.workers} == {
        (workers.name, workers.replicas, workers.min_replicas)
    }
    assert SleepingGroup.read(words(objects(with_sleep(dev)), "group")[0]).rule.after_seconds == 1800


def test_it_asks_for_gpus_only_where_exporters_run(dev: EksEnvironment) -> None:
    for environment, gpus in ((dev, False), (with_in_cluster(dev), True)):
        found = objects(with_sleep(environment))
        [group] = [SleepingGroup.read(each) for each in words(found, "group")]
        assert group.gpus is gpus
        names = [item["metadata"]["name"] for item in of_kind(found, "NetworkPolicy")]
        assert ("sleeper-gpus" in names) is gpus


def test_it_knows_which_groups_stand_in(dev: EksEnvironment) -> None:
    environment = with_sleep(dev, Sleep(wake=("spare",)))
    [workers] = [group for group in environment.hyperpod.instance_groups if group.sleep]
    spare = workers.model_copy(update={"name": "spare", "sleep": Sleep()})
    groups = (*environment.hyperpod.instance_groups, spare)
    hyperpod = environment.hyperpod.model_copy(update={"instance_groups": groups})
    found = [
        SleepingGroup.read(each)
        for each in words(objects(environment.model_copy(update={"hyperpod": hyperpod})), "group")
    ]
    assert {group.rule.group: (group.rule.wake, group.rule.workers > 0) for group in found} == {
        workers.name: (("spare",), True),
        "spare": ((), False),
    }


def test_every_file_is_mounted_where_python_looks_for_it(made: list[Object]) -> None:
    pod = pod_of(made)
    [volume] = pod["volumes"]
    [container] = pod["containers"]
    [mount] = container["volumeMounts"]
    [path] = [item["value"] for item in container["env"] if item["name"] == "PYTHONPATH"]
    assert volume["configMap"] == {"name": SLEEPER_CODE}
    assert (mount["name"], mount["mountPath"]) == (volume["name"], os.path.normpath(f"{path}/controllers"))
    assert container["command"][-2:] == ["-m", "controllers.sleeper"]


def test_the_program_takes_these_arguments(made: list[Object], monkeypatch: pytest.MonkeyPatch) -> None:
    [container] = pod_of(made)["containers"]
    monkeypatch.setattr("sys.argv", ["sleeper", *container["args"]])
    found = sleeper._arguments()
    assert (found.namespace, found.own_namespace, found.dry_run) == ("ray", "kuberay", False)
    assert found.service_account == Path("/var/run/secrets/kubernetes.io/serviceaccount")


def test_it_keeps_to_restricted_and_cannot_write(made: list[Object]) -> None:
    pod = pod_of(made)
    assert pod["securityContext"]["runAsNonRoot"] is True
    [container] = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["limits"]["memory"]


def test_two_replicas_run_on_different_system_nodes(made: list[Object]) -> None:
    [deployment] = of_kind(made, "Deployment")
    pod = pod_of(made)
    assert deployment["spec"]["replicas"] == 2
    assert pod["nodeSelector"] == {labels.SYSTEM_NODE_LABEL: labels.SYSTEM_NODE_ROLE}
    [term] = pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    own = deployment["spec"]["template"]["metadata"]["labels"]
    assert term["podAffinityTerm"]["labelSelector"]["matchLabels"].items() <= own.items()
    [budget] = of_kind(made, "PodDisruptionBudget")
    assert (budget["spec"]["maxUnavailable"], budget["spec"]["selector"]["matchLabels"]) == (1, own)


def test_names_are_those_of_the_code() -> None:
    """The sleeper is shipped without `k8s_charts`, so it repeats the names."""
    own: tuple[Any, ...] = (sleeper.NAME, group_users.RUN_LABEL, group_users.RUN_CLUSTER_LABEL, group_users.PAUSED)
    assert own == (SLEEPER, RUN_LABEL, RUN_CLUSTER_LABEL, labels.PAUSED)
    assert (group_users.INSTANCE_GROUP_LABEL, hand.HAND) == (labels.INSTANCE_GROUP_LABEL, labels.HAND)
    assert group_users.SHELL == labels.SHELL


@pytest.mark.parametrize("name", available())
def test_an_environment_without_sleep_has_nothing_of_it(name: str) -> None:
    environment = load(name)
    assert ray_objects(environment, RAY_FACTS).sleeper is None
    assert SLEEPER not in "".join(manifests.render(environment).values()).lower()
