"""The job supervisor's objects: minimal rights, code for a plain Python image, and the submitters' role."""

from typing import Any

import cdk8s
import pytest

from config import load
from config.facts.versions import PYTHON_IMAGE
from config.model.eks import AddOn
from config.model.ray import SecretVariable
from controllers import job_output, job_supervisor, lease, run_objects, supervision
from k8s_charts.controllers.job_supervisor import JobSupervisor, JobSupervisorChart
from k8s_charts.ray.from_environment import token_secrets
from k8s_charts.ray_objects import ray_objects
from k8s_charts.shared import names
from tests.charts.support.facts import RAY_FACTS

Object = dict[str, Any]


@pytest.fixture(scope="module")
def made() -> dict[tuple[str, str], Object]:
    """Return the objects by kind and name."""
    chart = JobSupervisorChart(cdk8s.App(), "job-supervisor", supervisor=JobSupervisor("ray", PYTHON_IMAGE))
    return {(item["kind"], item["metadata"]["name"]): item for item in chart.to_json()}


@pytest.fixture(scope="module")
def job(made: dict[tuple[str, str], Object]) -> Object:
    spec: Object = made["CronJob", names.JOB_SUPERVISOR]["spec"]["jobTemplate"]["spec"]
    return spec


def verbs(role: Object) -> set[tuple[str, str, str]]:
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_everything_is_in_rays_namespace(made: dict[tuple[str, str], Object]) -> None:
    assert {item["metadata"]["namespace"] for item in made.values()} == {"ray"}


def test_supervisor_may_read_its_job_and_the_pods_and_hold_leases_and_no_more(
    made: dict[tuple[str, str], Object],
) -> None:
    assert verbs(made["Role", names.JOB_SUPERVISOR]) == {
        *(("batch", "jobs", verb) for verb in ("get", "list", "watch")),
        *(("", "pods", verb) for verb in ("list", "watch")),
        *(("coordination.k8s.io", "leases", verb) for verb in ("get", "list", "watch", "create", "update")),
    }
    [subject] = made["RoleBinding", names.JOB_SUPERVISOR]["subjects"]
    assert subject == {"kind": "ServiceAccount", "name": names.JOB_SUPERVISOR, "namespace": "ray"}


def test_people_and_supervisors_may_read_the_secrets_with_tokens_and_no_others(
    made: dict[tuple[str, str], Object],
) -> None:
    supervisor = JobSupervisor("ray", PYTHON_IMAGE, tokens=("rayml",))
    chart = JobSupervisorChart(cdk8s.App(), "with-tokens", supervisor=supervisor)
    for role in (item for item in chart.to_json() if item["kind"] == "Role"):
        found = [rule for rule in role["rules"] if "secrets" in rule["resources"]]
        assert found == [{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["rayml"], "verbs": ["get"]}]
    closed = SecretVariable(env="RAY_AUTH_TOKEN", secret="rayml-token", key="auth_token")
    other = closed.model_copy(update={"env": "HF_TOKEN", "secret": "hugging-face"})
    environment = load("dev")
    [cluster] = environment.ray.clusters
    changed = cluster.model_copy(update={"secrets": (closed, other)})
    ray = environment.ray.model_copy(update={"clusters": (changed,)})
    assert token_secrets(environment.model_copy(update={"ray": ray})) == ("rayml-token",)
    for role in (item for (kind, _), item in made.items() if kind == "Role"):
        assert not [rule for rule in role["rules"] if "secrets" in rule["resources"]]


@pytest.mark.parametrize("add_ons", [(), ("amazon-sagemaker-hyperpod-training-operator",)])
def test_submitters_may_create_hyperpodpytorchjobs_only_where_their_operator_is_an_add_on(
    add_ons: tuple[str, ...],
) -> None:
    dev = load("dev")
    eks = dev.eks.model_copy(update={"add_ons": tuple(AddOn(name=name) for name in add_ons)})
    objects = ray_objects(dev.model_copy(update={"eks": eks}), RAY_FACTS)
    assert objects.viewers
    submitters, viewers = (
        {
            (item["metadata"]["namespace"], verb)
            for item in chart.to_json()
            if item["kind"] == "Role"
            for group, resource, verb in verbs(item)
            if (group, resource) == ("sagemaker.amazonaws.com", "hyperpodpytorchjobs")
        }
        for chart in (objects.job_supervisor, objects.viewers)
    )
    read = {("ray", verb) for verb in ("get", "list", "watch")} if add_ons else set()
    assert viewers == read
    assert submitters == (read | {("ray", "create"), ("ray", "delete")} if add_ons else read)


def test_submitters_are_the_group_of_the_access_entries_and_see_no_secrets(
    made: dict[tuple[str, str], Object],
) -> None:
    [subject] = made["RoleBinding", "submitters"]["subjects"]
    assert (subject["kind"], subject["name"]) == ("Group", names.submitters_group("ray"))
    given = verbs(made["Role", "submitters"])
    assert not {resource for _, resource, _ in given} & {"secrets", "roles", "rolebindings", "serviceaccounts"}
    assert not {verb for _, _, verb in given} & {"*", "escalate", "bind", "impersonate"}


def test_template_never_runs_by_itself(made: dict[tuple[str, str], Object]) -> None:
    spec = made["CronJob", names.JOB_SUPERVISOR]["spec"]
    assert spec["suspend"] is True


def test_exit_code_of_the_job_ends_the_run_and_its_own_starts_another(job: Object) -> None:
    codes = next(rule["onExitCodes"] for rule in job["podFailurePolicy"]["rules"] if "onExitCodes" in rule)
    assert codes["operator"] == "NotIn"
    assert set(codes["values"]) == job_supervisor.STARTS_ANOTHER
    assert job_supervisor.TRY_AGAIN in codes["values"]
    assert supervision.NAME_IN_USE not in codes["values"]


def test_charts_and_code_name_things_alike(job: Object) -> None:
    assert (supervision.NAME, run_objects.STOP, lease.STATE) == (names.JOB_SUPERVISOR, names.RUN_STOP, names.RUN_STATE)
    assert job_output.OUTPUT_MARK == names.OUTPUT_MARK
    assert job["template"]["metadata"]["labels"][names.SUBMITTER_LABEL] == "true", "the head admits this label"


def test_run_that_outlives_a_deployment_gets_the_complete_newer_code(job: Object) -> None:
    """Its Job is a copy of the previous template, and the newer code may have other modules."""
    pod = job["template"]["spec"]
    [volume] = pod["volumes"]
    [mount] = pod["containers"][0]["volumeMounts"]
    assert volume["configMap"] == {"name": names.JOB_SUPERVISOR_CODE}, "fixed name, mounted whole"
    assert mount["name"] == volume["name"]
    assert mount["mountPath"].endswith("/controllers")


def test_it_keeps_to_restricted_and_cannot_write(job: Object) -> None:
    pod = job["template"]["spec"]
    [container] = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
