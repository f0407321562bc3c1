"""What docs/operate/hyp.md promises of the real client `hyp`. Needs .venv-hyp.

HyperPod and the operator of its jobs are simulated; the control plane, whose RBAC decides, is real.
"""

import json
import re
import subprocess
from collections.abc import Iterator

import pytest
import yaml

from config import naming
from k8s_charts.shared.names import submitters_group
from rehearsal.paths import REPOSITORY
from tests.rehearsal.account.small_cluster import SMALL
from tests.rehearsal.hyp import training_operator
from tests.rehearsal.hyp.client import PROGRAMS, Hyp, Proxy
from tests.rehearsal.hyp.conftest import NAMESPACE, Place
from tests.support import people

pytestmark = [pytest.mark.product, pytest.mark.long]

CLUSTER = SMALL.hyperpod.cluster_name
TELEMETRY = f"sm-pysdk-t-{SMALL.region}.s3.{SMALL.region}.amazonaws.com"
JOB = ("hyp-pytorch-job", "--job-name", "digits")
PAGE = (REPOSITORY / "docs" / "operate" / "hyp.md").read_text()


def said(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def scientist(place: Place) -> Hyp:
    """The scientist's client with the context set, refused nothing on the way."""
    since = len(place.account.journal.entries())
    done = place.scientist("set-cluster-context", "--cluster-name", CLUSTER, "--namespace", NAMESPACE)
    assert done.returncode == 0, said(done)
    # A role without a path needs no iam:GetRole: the client then takes the role's name from the session.
    refused = people.refusals(place.account, since)
    assert [each for each in refused if not each.startswith("iam:GetRole ")] == []
    return place.scientist


@pytest.fixture(scope="module")
def created(place: Place, scientist: Hyp) -> Iterator[list[str]]:
    """What the proxy was asked for while the scientist created a job, which the stand-in then accepted."""
    image = ("--image", "example.invalid/train:1", "--instance-type", "ml.g5.4xlarge", "--node-count", "2")
    words = (*JOB, "--namespace", NAMESPACE, *image, "--command", "[hyperpodrun, train.py]")
    with Proxy() as proxy:
        done = scientist("create", *words, proxy=proxy.address)
    assert done.returncode == 0, said(done)
    assert "Successfully submitted HyperPodPytorchJob 'digits'" in said(done)
    training_operator.accept(place.plane.api)
    yield proxy.asked
    done = scientist("delete", *JOB, "--namespace", NAMESPACE)
    assert done.returncode == 0, said(done)
    assert training_operator.jobs(place.plane.api) == []


def test_administrator_lists_the_clusters_and_only_the_telemetry_would_leave(place: Place) -> None:
    since = len(place.account.journal.entries())
    with Proxy() as proxy:
        done = place.administrator("list-cluster", proxy=proxy.address)
    assert done.returncode == 0, said(done)
    [found] = json.loads(done.stdout)
    assert found["Cluster"] == CLUSTER
    assert {each["InstanceType"]: each["TotalNodes"] for each in found["Instances"]} == {
        group.instance_type: group.count for group in SMALL.hyperpod.instance_groups
    }
    assert people.refusals(place.account, since) == []
    # Without a context, the client takes the host of another region.
    assert {re.sub(r"us-\w+-\d", "REGION", each) for each in proxy.asked} == {
        f"{TELEMETRY.replace(SMALL.region, 'REGION')}:443"
    }


def test_no_command_creates_rayclusters_or_rayjobs(place: Place) -> None:
    assert "no command creates RayClusters or RayJobs. `hyp create ray-dashboard-connection`" in " ".join(PAGE.split())
    done = place.scientist("create", "--help")
    assert done.returncode == 0, said(done)
    assert re.findall(r"^  (\S*ray\S*) ", done.stdout, re.MULTILINE) == ["ray-dashboard-connection"]


def test_scientists_context_is_the_environments_cluster_and_rays_namespace(scientist: Hyp) -> None:
    found = yaml.safe_load((scientist.home / "home" / "kubeconfig").read_text())
    arn = f"arn:aws:eks:{SMALL.region}:{SMALL.account}:cluster/{naming.eks_cluster(SMALL)}"
    assert found["current-context"] == arn
    assert [each["context"]["namespace"] for each in found["contexts"] if each["name"] == arn] == [NAMESPACE]


def test_scientist_creates_a_job_and_lists_it_while_a_closed_port_stops_the_telemetry(
    place: Place, scientist: Hyp, created: list[str]
) -> None:
    assert set(created) == {f"{TELEMETRY}:443"}, "the telemetry is all that would leave"
    [job] = training_operator.jobs(place.plane.api)
    assert [each["replicas"] for each in job["spec"]["replicaSpecs"]] == [2]
    listed = scientist("list", "hyp-pytorch-job", "--namespace", NAMESPACE)
    assert listed.returncode == 0, said(listed)
    assert re.search(rf"^digits +{NAMESPACE} +Created ", listed.stdout, re.MULTILINE), listed.stdout


def test_operator_of_the_job_says_that_it_is_simulated(scientist: Hyp, created: list[str]) -> None:
    described = scientist("describe", *JOB, "--namespace", NAMESPACE)
    assert described.returncode == 0, said(described)
    assert training_operator.SAYS in described.stdout


def test_scientist_is_refused_other_namespaces_and_the_list_of_clusters(scientist: Hyp) -> None:
    done = scientist("list", "hyp-pytorch-job", "--namespace", "default")
    assert done.returncode == 1, said(done)
    assert "Access denied to resource" in said(done)
    done = scientist("list-cluster", "--clusters", CLUSTER)
    assert json.loads(done.stdout) == []
    assert "forbidden" in done.stderr


@pytest.mark.parametrize(
    ("namespace", "verbs", "may"),
    [
        (NAMESPACE, ("get", "list", "watch", "create", "delete"), True),
        (NAMESPACE, ("update", "patch", "deletecollection"), False),
        ("default", ("get", "list", "watch", "create", "delete", "update", "patch", "deletecollection"), False),
    ],
)
def test_submitters_create_read_and_delete_jobs_of_rays_namespace_and_change_none(
    place: Place, namespace: str, verbs: tuple[str, ...], *, may: bool
) -> None:
    who = {"user": "somebody", "groups": [submitters_group(NAMESPACE)]}
    for verb in verbs:
        what = {"group": training_operator.GROUP, "resource": training_operator.PLURAL}
        spec = {**who, "resourceAttributes": {**what, "namespace": namespace, "verb": verb}}
        asked = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        answer = place.plane.api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", asked)
        assert answer["status"]["allowed"] is may, f"{verb} in {namespace}"


def test_pods_of_the_clients_own_template_are_refused_in_rays_namespace(place: Place, created: list[str]) -> None:
    [job] = training_operator.jobs(place.plane.api)
    spec = job["spec"]["replicaSpecs"][0]["template"]["spec"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "digits", "namespace": NAMESPACE}, "spec": spec}
    with pytest.raises(AssertionError, match='violates PodSecurity "restricted'):
        place.kubectl("create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(pod))


def test_recipe_of_the_page_lets_awss_services_through_and_not_the_telemetry() -> None:
    """The client's own libraries decide: requests for the telemetry, botocore and kubernetes for the rest."""
    recipe = dict(re.findall(r"^export (\w+)=(\S+)$", PAGE, re.MULTILINE))
    assert set(recipe) == {"HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"}
    names = [
        "sts.us-west-2.amazonaws.com",
        "iam.amazonaws.com",
        "api.sagemaker.us-west-2.amazonaws.com",
        "eks.us-west-2.amazonaws.com",
    ]
    names += ["0123456789ABCDEF.gr7.us-west-2.eks.amazonaws.com"]
    asked = "; ".join(
        (
            "import sys, json",
            "from requests.utils import should_bypass_proxies as requests_",
            "from botocore.utils import should_bypass_proxies as botocore_",
            "print(json.dumps([[bool(requests_('https://' + n, None)), bool(botocore_('https://' + n))]"
            " for n in sys.argv[1:]]))",
        )
    )
    argv = [str(PROGRAMS / "python"), "-W", "ignore", "-c", asked, *names, TELEMETRY]
    done = subprocess.run(argv, env=recipe, check=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == [[True, True]] * len(names) + [[False, False]]
