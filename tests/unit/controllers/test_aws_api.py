"""Requests of AWS's APIs from a pod: signatures as botocore's, credentials that are renewed, and what may go wrong."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore import auth, awsrequest
from botocore.credentials import Credentials as BotocoreCredentials

from controllers import aws_api as module
from controllers.aws_api import RENEW_SECONDS, AwsAccess, AwsApi, AwsApiError, Credentials, signed
from tests.support.fake_aws import FakeAws, serve

NOW = 1_760_000_000.0
REGION = "us-west-2"
ROLE = "arn:aws:iam::111122223333:role/rayhp-dev-sleeper"
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
CREDENTIALS = Credentials("AKIDEXAMPLE", SECRET, "a/session+token==", NOW + 3600)
COUNTS = {"cluster": "InService", "groups": {"gpu": {"target": 4, "current": 2}}, "refused": ""}


def botocores(monkeypatch: pytest.MonkeyPatch, method: str, url: str, headers: dict[str, str], body: bytes) -> str:
    """Return the signature that botocore's SigV4Auth gives a request to Lambda at NOW."""
    at = datetime.fromtimestamp(NOW, UTC).replace(tzinfo=None)
    monkeypatch.setattr(auth, "get_current_datetime", lambda: at)
    own = BotocoreCredentials(CREDENTIALS.access_key, CREDENTIALS.secret_key, CREDENTIALS.session_token)
    request = awsrequest.AWSRequest(method=method, url=url, headers=headers, data=body)
    auth.SigV4Auth(own, "lambda", REGION).add_auth(request)
    return str(request.headers["Authorization"])


@pytest.mark.parametrize(
    ("method", "url", "headers", "body"),
    [
        ("POST", "https://lambda.us-west-2.amazonaws.com/2015-03-31/functions/counts/invocations", {}, b"{}"),
        (
            "POST",
            "https://lambda.us-west-2.amazonaws.com/2015-03-31/functions/"
            "arn%3Aaws%3Alambda%3Aus-west-2%3A111122223333%3Afunction%3Acounts/invocations?Qualifier=live",
            {"Content-Type": "application/json"},
            b'{"counts": {"gpu": 4}}',
        ),
        ("GET", "https://lambda.us-west-2.amazonaws.com/functions?b=2&a=1&a-b=3&a=0&empty=", {}, b""),
        (
            "POST",
            "http://127.0.0.1:4566/2015-03-31/functions/%C3%A4~b/invocations",
            {"X-Spaces": "  a   b "},
            b"\x00\xff",
        ),
        ("GET", "https://lambda.us-west-2.amazonaws.com:443", {"x-Lower": "1", "X-Upper": "2"}, b""),
    ],
)
def test_signatures_are_botocores(
    method: str, url: str, headers: dict[str, str], body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = signed(method, url, headers, body, credentials=CREDENTIALS, region=REGION, service="lambda", now=NOW)
    assert made["Authorization"] == botocores(monkeypatch, method, url, headers, body)


@pytest.fixture
def aws() -> Iterator[FakeAws]:
    with serve(ROLE, "group-counts") as fake:
        fake.answer = COUNTS
        yield fake


@pytest.fixture
def api(aws: FakeAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AwsApi:
    monkeypatch.setattr(module, "time", SimpleNamespace(time=aws.now))
    (tmp_path / "token").write_text(f"{aws.token}\n")
    variables = {
        "AWS_ROLE_ARN": ROLE,
        "AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "token"),
        "AWS_ENDPOINT_URL_STS": aws.address,
        "AWS_ENDPOINT_URL_LAMBDA": f"{aws.address}/",
    }
    return AwsApi(AwsAccess.of_environment(REGION, variables), session="sleeper-0")


def test_function_is_invoked_with_the_role_of_the_pod(aws: FakeAws, api: AwsApi) -> None:
    assert api.invoke("group-counts", {"counts": {"gpu": 4}}) == COUNTS
    assert api.invoke("group-counts", {}) == COUNTS
    assert aws.events == [{"counts": {"gpu": 4}}, {}]
    assert aws.requests == ["sts", "lambda", "lambda"], "credentials are kept"


def test_credentials_are_renewed_before_they_expire_with_the_newest_token(
    aws: FakeAws, api: AwsApi, tmp_path: Path
) -> None:
    api.invoke("group-counts", {})
    aws.later = 3600 - RENEW_SECONDS - 5
    api.invoke("group-counts", {})
    assert len(aws.issued) == 1
    aws.token = "a-new-token"
    (tmp_path / "token").write_text(aws.token)
    aws.later += 10
    api.invoke("group-counts", {})
    assert len(aws.issued) == 2


def test_old_credentials_serve_while_sts_gives_no_new_ones_and_they_are_valid(aws: FakeAws, api: AwsApi) -> None:
    api.invoke("group-counts", {})
    aws.refuse["sts"] = 503, "<Error><Code>ServiceUnavailable</Code></Error>"
    aws.later = 3600 - RENEW_SECONDS + 5
    assert api.invoke("group-counts", {}) == COUNTS
    aws.later = 3600 - 5
    with pytest.raises(AwsApiError, match="ServiceUnavailable") as raised:
        api.invoke("group-counts", {})
    assert raised.value.status == 503


def test_refused_credentials_are_not_used_again(aws: FakeAws, api: AwsApi) -> None:
    api.invoke("group-counts", {})
    aws.refuse["lambda"] = 403, '{"message":"The security token included in the request is expired"}'
    with pytest.raises(AwsApiError, match="expired"):
        api.invoke("group-counts", {})
    aws.refuse.clear()
    assert api.invoke("group-counts", {}) == COUNTS
    assert len(aws.issued) == 2


@pytest.mark.parametrize(
    ("service", "answer", "says"),
    [
        ("lambda", (429, '{"Reason":"ReservedFunctionConcurrentInvocationLimitExceeded"}'), "429: .*Reserved"),
        ("lambda", (404, '{"Message":"Function not found"}'), "404: .*not found"),
        ("lambda", (302, ""), "302"),
        ("sts", (403, "<Error><Code>AccessDenied</Code></Error>"), "403: .*AccessDenied"),
        ("sts", (200, "no XML"), "the answer of STS cannot be read"),
        ("sts", (200, "<other/>"), "the answer of STS cannot be read"),
        ("sts", (200, ""), "the answer of STS cannot be read"),
    ],
)
def test_refusals_are_errors_with_their_reason(
    aws: FakeAws, api: AwsApi, service: str, answer: tuple[int, str], says: str
) -> None:
    aws.refuse[service] = answer
    with pytest.raises(AwsApiError, match=says):
        api.invoke("group-counts", {})


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        ({"errorMessage": "KeyError"}, "Unhandled", "function group-counts failed: Unhandled: .*KeyError"),
        ("<html>", "", "no JSON"),
        ([1], "", "no object"),
    ],
)
def test_unusable_answers_are_errors(aws: FakeAws, api: AwsApi, answer: Any, error: str, says: str) -> None:
    aws.answer, aws.function_error = answer, error
    with pytest.raises(AwsApiError, match=says):
        api.invoke("group-counts", {})


def test_no_secret_is_in_an_error(aws: FakeAws, api: AwsApi, tmp_path: Path) -> None:
    aws.refuse["sts"] = 200, f"<a><SecretAccessKey>{SECRET}</SecretAccessKey></a>"
    with pytest.raises(AwsApiError) as raised:
        api.invoke("group-counts", {})
    assert SECRET not in str(raised.value)


def test_unreachable_services_and_unreadable_tokens_are_errors(api: AwsApi, tmp_path: Path) -> None:
    variables = {
        "AWS_ROLE_ARN": ROLE,
        "AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "token"),
        "AWS_ENDPOINT_URL_STS": "http://127.0.0.1:1",
    }
    with pytest.raises(AwsApiError, match=r"127\.0\.0\.1"):
        AwsApi(AwsAccess.of_environment(REGION, variables), session="s").invoke("group-counts", {})
    (tmp_path / "token").unlink()
    with pytest.raises(AwsApiError, match="token cannot be read"):
        api.invoke("group-counts", {})


def test_addresses_are_the_regions_unless_the_sdks_variables_redirect_them() -> None:
    variables = {"AWS_ROLE_ARN": ROLE, "AWS_WEB_IDENTITY_TOKEN_FILE": "/token"}
    found = AwsAccess.of_environment("eu-central-1", variables)
    assert (found.sts, found.functions) == (
        "https://sts.eu-central-1.amazonaws.com",
        "https://lambda.eu-central-1.amazonaws.com",
    )
    with pytest.raises(KeyError, match="AWS_ROLE_ARN"):
        AwsAccess.of_environment("eu-central-1", {})
