"""Test that pods get their service account's IAM role as EKS's webhook gives it."""

import copy
from typing import Any, cast

from embedded_account.kubernetes.api import KubernetesClient
from embedded_account.kubernetes.pods.identity import ROLE, AwsAddress, with_role

AWS = AwsAddress.parsed("us-west-2=http://127.0.0.1:1/a=b")
ARN = "arn:aws:iam::111122223333:role/sleeper"
POD: dict[str, Any] = {
    "metadata": {"namespace": "team", "name": "one"},
    "spec": {
        "serviceAccountName": "own",
        "initContainers": [{"name": "first"}],
        "containers": [{"name": "main", "env": [{"name": "AWS_REGION", "value": "eu-west-1"}]}],
    },
}


class Accounts:
    """Answers for one service account."""

    def __init__(self, annotations: dict[str, str] | None) -> None:
        self._annotations = annotations

    def get(self, path: str) -> Any:
        assert path == "/api/v1/namespaces/team/serviceaccounts/own"
        return {"metadata": {} if self._annotations is None else {"annotations": self._annotations}}


def given(annotations: dict[str, str] | None) -> Any:
    before = copy.deepcopy(POD)
    changed = with_role(POD, cast("KubernetesClient", Accounts(annotations)), AWS)
    assert before == POD
    return changed


def test_each_container_has_role_token_and_the_accounts_address() -> None:
    pod = given({ROLE: ARN})
    for container in (*pod["spec"]["initContainers"], *pod["spec"]["containers"]):
        variables = {each["name"]: each["value"] for each in container["env"]}
        assert variables["AWS_ROLE_ARN"] == ARN
        assert variables["AWS_ENDPOINT_URL"] == "http://127.0.0.1:1/a=b"
        [mount] = container["volumeMounts"]
        assert variables["AWS_WEB_IDENTITY_TOKEN_FILE"] == f"{mount['mountPath']}/token"
        [volume] = pod["spec"]["volumes"]
        assert volume["name"] == mount["name"]
        [source] = volume["projected"]["sources"]
        assert source["serviceAccountToken"]["audience"] == "sts.amazonaws.com"


def test_what_a_container_says_itself_stays() -> None:
    [container] = given({ROLE: ARN})["spec"]["containers"]
    assert [each["value"] for each in container["env"] if each["name"] == "AWS_REGION"] == ["eu-west-1"]


def test_service_account_without_a_role_gives_none() -> None:
    assert given(None) == given({"other": "x"}) == POD
