"""`sleep` of an instance group: the sleeper, its role and its code; nothing of it in other environments."""

import pytest

from config import naming
from k8s_charts.controllers import code as controller_code
from k8s_charts.shared.names import SLEEPER, SLEEPER_CODE
from tests.synth.support.kubernetes_objects import id_of, needs, objects, release_id, released, trust
from tests.synth.support.synthesis import Assemblies, Assembly, Resource, Template
from tests.synth.support.variants import SLEEPING


@pytest.fixture(scope="module")
def sleeping(assembly: Assemblies) -> Assembly:
    return assembly(SLEEPING)


@pytest.fixture(scope="module")
def ray(sleeping: Assembly) -> Template:
    return sleeping.templates["ray"]


@pytest.fixture(scope="module")
def role(ray: Template) -> Resource:
    """Return the role that the service account's annotation names."""
    [account] = [
        item
        for item in objects(ray)[id_of(ray, "ServiceAccount", SLEEPER)]
        if item["kind"] == "ServiceAccount" and item["metadata"]["name"] == SLEEPER
    ]
    annotation = account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"]
    [found] = [each["Properties"] for id, each in ray.all("AWS::IAM::Role").items() if id in annotation]
    return dict(found)


def test_the_role_may_invoke_one_function_and_nothing_else(role: Resource, sleeping: Assembly) -> None:
    [policy] = role["Policies"]
    [statement] = policy["PolicyDocument"]["Statement"]
    where = f"{sleeping.environment.region}:{sleeping.environment.account}"
    assert statement == {
        "Effect": "Allow",
        "Action": "lambda:InvokeFunction",
        "Resource": f"arn:aws:lambda:{where}:function:{naming.group_counts(sleeping.environment)}",
    }
    assert "ManagedPolicyArns" not in role


def test_the_role_is_taken_by_its_own_pods_only(role: Resource) -> None:
    [statement] = trust(role)["Statement"]
    assert statement["Condition"]["StringEquals"] == {
        "${Issuer}:aud": "sts.amazonaws.com",
        "${Issuer}:sub": f"system:serviceaccount:kuberay:{SLEEPER}",
    }


def test_its_code_exists_before_its_pods(ray: Template, sleeping: Assembly) -> None:
    code = release_id(ray, controller_code.RELEASE)
    assert needs(ray, id_of(ray, "Deployment", SLEEPER), code)
    held = {item["metadata"]["name"]: item for item in released(sleeping, "ray", controller_code.RELEASE)}
    assert {"sleeper.py", "sleep_decision.py", "group_users.py", "aws_api.py"} <= held[SLEEPER_CODE]["data"].keys()


def test_other_environments_have_nothing_of_it(dev: Assembly, prod: Assembly) -> None:
    for made in (dev, prod):
        template = str(made.templates["ray"].body).lower()
        assert SLEEPER not in template
        assert SLEEPER_CODE not in {item["metadata"]["name"] for item in released(made, "ray", controller_code.RELEASE)}
