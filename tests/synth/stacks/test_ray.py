"""Promises of the ray stack."""

import json
from pathlib import Path

import pytest

from config import load, naming
from config.labels import TEMPLATE_LABEL
from embedded_account.services.iam.policies import PolicyDecision, evaluate
from k8s_charts.controllers import code as controller_code
from k8s_charts.ray_objects import image_build
from k8s_charts.shared.names import JOB_SUPERVISOR, JOB_SUPERVISOR_CODE, RAYJOB_SUBMITTER_CODE, REAPER, REAPER_CODE
from tests.support.rendered import documents
from tests.synth.support.kubernetes_objects import Object, id_of, needs, objects, release_id, released, trust
from tests.synth.support.synthesis import Assembly, Template, synthesise


@pytest.fixture(scope="session")
def ray(dev: Assembly) -> Template:
    return dev.templates["ray"]


def role_of(template: Template, account: str) -> Object:
    """Return the role that a service account's annotation names."""
    [item] = objects(template)[id_of(template, "ServiceAccount", account)]
    annotation = item["metadata"]["annotations"]["eks.amazonaws.com/role-arn"]
    [properties] = [r["Properties"] for id, r in template.all("AWS::IAM::Role").items() if id in annotation]
    return dict(properties)


def job_in(template: Template, namespace: str) -> tuple[str, Object]:
    """Return the only Job of a namespace, and the id of the resource that applies it."""
    [found] = [
        (id, item)
        for id, items in objects(template).items()
        for item in items
        if item["kind"] == "Job" and item["metadata"]["namespace"] == namespace
    ]
    return found


def statements_of(role: Object) -> list[Object]:
    return [statement for policy in role["Policies"] for statement in policy["PolicyDocument"]["Statement"]]


def test_ray_cluster_is_created_after_its_volume_account_policies_and_namespace(ray: Template) -> None:
    cluster = id_of(ray, "RayCluster", "rayml")
    for kind, name in (
        ("PersistentVolumeClaim", "fsx-claim"),
        ("ServiceAccount", "ray"),
        ("NetworkPolicy", "default-deny"),
        ("Namespace", "ray"),
    ):
        assert needs(ray, cluster, id_of(ray, kind, name))


def test_reaper_frees_the_claim_of_stuck_pods_while_the_volume_goes(ray: Template) -> None:
    """A pod on a lost node keeps the claim's finalizer until the pod is force-deleted."""
    reaper = id_of(ray, "Deployment", "ray-reaper")
    for kind, name in (
        ("RayCluster", "rayml"),
        ("PersistentVolumeClaim", "fsx-claim"),
        ("CronJob", "job-supervisor"),
    ):
        assert needs(ray, id_of(ray, kind, name), reaper)
    assert needs(ray, reaper, id_of(ray, "Namespace", "ray"))


def test_viewers_get_their_roles_once_all_namespaces_exist(ray: Template) -> None:
    viewers = id_of(ray, "ClusterRole", "ray-viewers")
    for namespace in ("ray", "ray-volume"):
        assert needs(ray, viewers, id_of(ray, "Namespace", namespace))


def test_code_of_the_controllers_exists_before_their_pods_and_is_in_no_template(ray: Template, dev: Assembly) -> None:
    """The code is a release, of which the template has only the asset's hash."""
    code = release_id(ray, controller_code.RELEASE)
    assert ray.body["Resources"][code]["Properties"]["Namespace"] == "kuberay"
    assert needs(ray, code, id_of(ray, "Namespace", "ray"))
    for kind, name in (("Deployment", REAPER), ("CronJob", JOB_SUPERVISOR)):
        assert needs(ray, id_of(ray, kind, name), code)
    held = released(dev, "ray", controller_code.RELEASE)
    assert {item["metadata"]["name"] for item in held} == {REAPER_CODE, JOB_SUPERVISOR_CODE, RAYJOB_SUBMITTER_CODE}
    template = json.dumps(ray.body)
    for program in {text for item in held for text in item["data"].values()}:
        assert json.dumps(json.dumps(program))[3:-3] not in template


def test_an_update_prunes_nothing_of_the_supervisor(ray: Template) -> None:
    """Pruning would delete the code's ConfigMap of earlier deployments, which the Jobs of their runs mount."""
    id = id_of(ray, "CronJob", JOB_SUPERVISOR)
    assert "PruneLabel" not in ray.body["Resources"][id]["Properties"]
    assert "PruneLabel" in ray.body["Resources"][id_of(ray, "Deployment", REAPER)]["Properties"]


def test_ray_stack_is_created_after_the_operator_and_deleted_before_it(dev: Assembly) -> None:
    artifact = dev.manifest["artifacts"][naming.stack(dev.of_eks, "ray")]
    assert naming.stack(dev.of_eks, "platform") in artifact["dependencies"]


def test_a_deployment_applies_the_templates_hashes_that_were_reviewed(ray: Template, dev: Assembly) -> None:
    """A hash over values that are known only at deployment would differ in each synthesis and outdate every pod."""
    [applied] = objects(ray)[id_of(ray, "RayCluster", "rayml")]
    [reviewed] = documents(dev.of_eks)[Path("dev", "ray", "clusters", "rayml.yaml")]
    assert hashes(applied) == hashes(reviewed)
    assert len(hashes(applied)) == 3


def hashes(cluster: Object) -> list[str]:
    """Return the hashes of the RayCluster, its head and its worker groups."""
    spec = cluster["spec"]
    groups = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    labels = [group["template"]["metadata"]["labels"] for group in groups]
    return [each[TEMPLATE_LABEL] for each in (cluster["metadata"]["annotations"], *labels)]


def test_each_ray_cluster_is_a_resource_of_its_own(ray: Template) -> None:
    """kubectl prunes no RayClusters, so CloudFormation must delete one that is removed from the environment."""
    [items] = [items for items in objects(ray).values() if any(item["kind"] == "RayCluster" for item in items)]
    assert len(items) == 1


def test_volume_is_the_environments_file_system(ray: Template, dev: Assembly) -> None:
    [volume, claim] = objects(ray)[id_of(ray, "PersistentVolume", "ray-fsx-claim")]
    csi = volume["spec"]["csi"]
    for value in (csi["volumeHandle"], csi["volumeAttributes"]["dnsname"], csi["volumeAttributes"]["mountname"]):
        export = value.split("'")[3]
        assert dev.imported({"Fn::ImportValue": export})[1]["Type"] == "AWS::FSx::FileSystem"
    assert claim["spec"]["volumeName"] == volume["metadata"]["name"]


def test_ray_clusters_run_the_tag_that_the_build_pushes(ray: Template, dev: Assembly) -> None:
    build = image_build(dev.of_eks, context="")
    [cluster] = objects(ray)[id_of(ray, "RayCluster", "rayml")]
    assert cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["image"] == build.image
    assert build.tag in job_in(ray, "image-build")[1]["metadata"]["name"]


@pytest.mark.parametrize(("account", "namespace"), [("ray", "ray"), ("image-builder", "image-build")])
def test_a_role_is_taken_by_its_own_pods_only(ray: Template, account: str, namespace: str) -> None:
    [statement] = trust(role_of(ray, account))["Statement"]
    assert statement["Condition"]["StringEquals"] == {
        "${Issuer}:aud": "sts.amazonaws.com",
        "${Issuer}:sub": f"system:serviceaccount:{namespace}:{account}",
    }


def test_ray_pods_read_and_write_their_prefix_of_the_data_bucket_and_nothing_else(ray: Template, dev: Assembly) -> None:
    bucket = f"arn:aws:s3:::{naming.data_bucket(dev.of_eks)}"
    look, use, never = statements_of(role_of(ray, "ray"))
    assert (look["Action"], look["Resource"]) == ("s3:ListBucket", bucket)
    assert use["Resource"] == f"{bucket}/ray/*"
    assert all(action.startswith("s3:") and "*" not in action for action in use["Action"])
    assert never["Effect"] == "Deny"


@pytest.mark.parametrize(
    ("action", "key", "decision"),
    [
        ("s3:GetObject", "ray/packages/0123.zip", PolicyDecision.ALLOW),
        ("s3:PutObject", "ray/packages/0123.zip", PolicyDecision.EXPLICIT_DENY),
        ("s3:DeleteObject", "ray/packages/0123.zip", PolicyDecision.EXPLICIT_DENY),
        ("s3:PutObject", "ray/runs/train/run.json", PolicyDecision.ALLOW),
        ("s3:GetObject", "packages/0123.zip", PolicyDecision.IMPLICIT_DENY),
    ],
)
def test_ray_pods_read_working_directories_and_replace_none(
    ray: Template, dev: Assembly, action: str, key: str, decision: PolicyDecision
) -> None:
    policies = [policy["PolicyDocument"] for policy in role_of(ray, "ray")["Policies"]]
    assert evaluate(policies, action, f"arn:aws:s3:::{naming.data_bucket(dev.of_eks)}/{key}", {}) is decision


@pytest.mark.parametrize(
    ("context", "decision"),
    [
        pytest.param({}, PolicyDecision.ALLOW, id="HeadBucket, or a key that is not there"),
        pytest.param({"s3:prefix": "ray/runs/probe/"}, PolicyDecision.ALLOW, id="their own prefix"),
        pytest.param({"s3:prefix": "results/"}, PolicyDecision.IMPLICIT_DENY, id="another prefix"),
    ],
)
def test_ray_pods_may_ask_for_the_bucket_and_list_their_prefix(
    ray: Template, dev: Assembly, context: dict[str, str], decision: PolicyDecision
) -> None:
    policies = [policy["PolicyDocument"] for policy in role_of(ray, "ray")["Policies"]]
    bucket = f"arn:aws:s3:::{naming.data_bucket(dev.of_eks)}"
    assert evaluate(policies, "s3:ListBucket", bucket, context) is decision


def test_image_build_reads_its_context_writes_its_log_and_pushes_to_the_one_repository(
    ray: Template, dev: Assembly
) -> None:
    read, write, push, log_in = statements_of(role_of(ray, "image-builder"))
    log = image_build(dev.of_eks, context="").log
    assert (write["Action"], write["Resource"]) == ("s3:PutObject", log.replace("s3://", "arn:aws:s3:::"))
    assert read["Action"] == "s3:GetObject"
    assert read["Resource"].endswith(".zip")
    assert dev.imported(push["Resource"])[1]["Type"] == "AWS::ECR::Repository"
    assert not any("*" in action or "Delete" in action for action in push["Action"])
    assert (log_in["Action"], log_in["Resource"]) == ("ecr:GetAuthorizationToken", "*")


def test_image_build_has_its_account_first(ray: Template) -> None:
    job, _ = job_in(ray, "image-build")
    assert needs(ray, job, id_of(ray, "ServiceAccount", "image-builder"))


def test_directory_s_owner_is_changed_once_volume_and_namespace_exist(ray: Template) -> None:
    job, item = job_in(ray, "ray-volume")
    assert item["spec"]["template"]["spec"]["securityContext"]["runAsUser"] == 0
    for kind, name in (
        ("PersistentVolumeClaim", "file-system"),
        ("PersistentVolume", "ray-volume-file-system"),
        ("Namespace", "ray-volume"),
    ):
        assert needs(ray, job, id_of(ray, kind, name))


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    """Return `small` with an existing image and with a priority."""
    environment = load("small")
    [cluster] = environment.ray.clusters
    uri = "444455556666.dkr.ecr.us-west-2.amazonaws.com/ray:2.42.1-1"
    ray = environment.ray.model_copy(update={"clusters": (cluster.model_copy(update={"priority": 100}),)})
    image = environment.image.model_copy(update={"repository": None, "uri": uri})
    return synthesise(environment.model_copy(update={"ray": ray, "image": image}), tmp_path_factory.mktemp("given"))


def test_an_existing_image_needs_no_repository_builder_or_namespace(given: Assembly) -> None:
    assert given.templates["storage"].all("AWS::ECR::Repository") == {}
    found = [item for items in objects(given.templates["ray"]).values() for item in items]
    assert not any(item["metadata"].get("namespace") == "image-build" for item in found)
    assert not any("ImageBuilder" in id for id in given.templates["ray"].all("AWS::IAM::Role"))
    platform = objects(given.templates["platform"])
    names = {item["metadata"]["name"] for items in platform.values() for item in items}
    assert "image-build" not in names


def test_a_priority_is_a_resource_of_its_own_which_comes_before_the_ray_cluster(given: Assembly) -> None:
    """Another value is another resource: CloudFormation creates it first, and deletes the old one last."""
    ray = given.templates["ray"]
    priority = id_of(ray, "PriorityClass", "ray-rayml-100")
    assert len(objects(ray)[priority]) == 1
    assert needs(ray, id_of(ray, "RayCluster", "rayml"), priority)
