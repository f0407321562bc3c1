"""The token that a head wants: `ops` reads it by the person's rights, and says what is wrong without it."""

import base64
import socket
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from kubernetes.client import ApiException

from ops.jobs import head_api
from ops.jobs.head_api import HeadApi, HeadUnreachableError, RayApiError
from tests.support import fake_ray
from tests.support.fake_ray import FakeRay

TOKEN = "dG9rZW4="


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Return an API whose head takes its token from the key `auth_token` of Secret `rayml`."""
    reference = SimpleNamespace(name="rayml", key="auth_token")
    source = SimpleNamespace(secret_key_ref=reference)
    variable = SimpleNamespace(name="RAY_AUTH_TOKEN", value_from=source)
    pod = SimpleNamespace(spec=SimpleNamespace(containers=[SimpleNamespace(env=[variable])]))
    core = Mock()
    core.read_namespaced_pod.return_value = pod
    core.read_namespaced_secret.return_value = secret(TOKEN)
    return core


def secret(token: str) -> Any:
    return SimpleNamespace(data={"auth_token": base64.b64encode(token.encode()).decode()})


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Any:
    with fake_ray.serve() as fake:
        fake.token = TOKEN
        forward = Mock(socket=lambda port: socket.create_connection((fake.host, port)), error=lambda _: None)
        monkeypatch.setattr(head_api, "open_port_forward", lambda *_: forward)
        yield fake


def test_requests_and_the_web_socket_have_the_token_which_is_read_once(core: Mock, ray: FakeRay) -> None:
    head = HeadApi(core, "ray", "rayml-head")
    head.submit({"submission_id": "train", "entrypoint": "true", "runtime_env": {}})
    ray.jobs["train"].output = "hello"
    ray.jobs["train"].end("SUCCEEDED", 0)
    assert list(head.tail("train")) == ["hello"]
    core.read_namespaced_secret.assert_called_once()
    assert core.read_namespaced_secret.call_args.args == ("rayml", "ray")


def test_head_that_names_no_secret_gets_no_token_and_its_refusal_says_what_to_do(core: Mock, ray: FakeRay) -> None:
    core.read_namespaced_pod.return_value.spec.containers[0].env = None
    with pytest.raises(RayApiError, match=r"401: Unauthorized: Missing authentication token\. Fix: .*RAY_AUTH_TOKEN"):
        HeadApi(core, "ray", "rayml-head").jobs()


def test_another_token_than_the_heads_is_named(core: Mock, ray: FakeRay) -> None:
    core.read_namespaced_secret.return_value = secret("another")
    with pytest.raises(RayApiError, match=r"403: Forbidden: Invalid .* Fix: `ops rollout` restarts it") as refused:
        HeadApi(core, "ray", "rayml-head").jobs()
    assert "another" not in str(refused.value).replace("another token", "")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ApiException(403, "Forbidden"), r"Secret ray/rayml, .* cannot be read: Forbidden\. Fix: "),
        (KeyError("auth_token"), r"Secret ray/rayml, .* has no key 'auth_token'\. Fix: "),
    ],
)
def test_secret_that_cannot_be_used_is_one_message(core: Mock, ray: FakeRay, error: Exception, message: str) -> None:
    core.read_namespaced_secret.side_effect = error
    with pytest.raises(HeadUnreachableError, match=message):
        HeadApi(core, "ray", "rayml-head").jobs()
