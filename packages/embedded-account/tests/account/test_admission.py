"""Test which requests the account admits and which it refuses."""

import io
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Literal

import boto3
import pytest
import requests
from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from embedded_account.context import Account
from embedded_account.run_keys import RunKeys
from embedded_account.testing.clients import REGION, Clients
from embedded_account.testing.waiting import PATIENCE_SECONDS

IDENTITY = "Action=GetCallerIdentity&Version=2011-06-15"
CONTROL = "/_rehearsal/health"


def signed(account: Account, keys: RunKeys | None = None, body: str = IDENTITY, host: str = "") -> dict[str, str]:
    """Return the headers of a signed request to STS, by default signed with the run's keys."""
    keys = keys or account.keys
    request = AWSRequest("POST", f"{account.endpoint}/", data=body)
    request.headers["Content-Type"] = "application/x-www-form-urlencoded"
    request.headers["Host"] = host or f"127.0.0.1:{account.port}"
    SigV4Auth(Credentials(keys.access_key_id, keys.secret_access_key), "sts", REGION).add_auth(request)
    return dict(request.headers)


def ask(account: Account, headers: Mapping[str, str], body: str = IDENTITY) -> requests.Response:
    return requests.post(f"{account.endpoint}/", body, headers=headers, timeout=PATIENCE_SECONDS)


def test_signed_request_on_an_own_host_is_answered(account: Account) -> None:
    for host in ("127.0.0.1", "localhost", "bucket.localhost"):
        answer = ask(account, signed(account, host=f"{host}:{account.port}"))
        assert answer.status_code == 200
        assert f"arn:aws:sts::{account.account_id}:" in answer.text


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:{port}",
        "localhost.evil.example:{port}",
        "evillocalhost:{port}",
        "localhost:1",
        "localhost",
        "[::1]",
    ],
)
def test_foreign_host_is_refused(account: Account, host: str) -> None:
    foreign = host.format(port=account.port)
    answer = ask(account, signed(account, host=foreign))
    assert (answer.status_code, answer.text) == (403, f"{foreign!r} is not a host of the embedded account\n")
    headers = {**account.keys.control_headers, "Host": foreign}
    assert requests.get(account.endpoint + CONTROL, headers=headers, timeout=PATIENCE_SECONDS).status_code == 403


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost"])
def test_web_page_is_refused_even_with_the_keys(account: Account, origin: str) -> None:
    assert ask(account, {**signed(account), "Origin": origin}).status_code == 403
    headers = {**account.keys.control_headers, "Origin": origin}
    assert requests.get(account.endpoint + CONTROL, headers=headers, timeout=PATIENCE_SECONDS).status_code == 403
    preflight = requests.options(f"{account.endpoint}/", headers={"Origin": origin}, timeout=PATIENCE_SECONDS)
    assert preflight.status_code == 403
    assert "Access-Control-Allow-Origin" not in preflight.headers


def test_unsigned_request_is_refused(account: Account) -> None:
    for path in ("/", "/moto-api/data.json", "/moto-api/reset", "/a-bucket/a-key", "/latest/meta-data/iam/"):
        answer = requests.post(
            account.endpoint + path, "Action=CreateStack&Version=2010-05-15", timeout=PATIENCE_SECONDS
        )
        assert (answer.status_code, answer.json()["__type"]) == (403, "MissingAuthenticationToken")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda _keys: RunKeys.issue(), "InvalidClientTokenId"),
        (lambda _keys: RunKeys("AKIAREHEARSAL0000000", "rehearsal-only-not-a-secret", ""), "InvalidClientTokenId"),
        (lambda keys: RunKeys(keys.access_key_id, "0" * 40, ""), "SignatureDoesNotMatch"),
    ],
)
def test_unknown_key_and_wrong_secret_are_refused(
    account: Account, change: Callable[[RunKeys], RunKeys], code: str
) -> None:
    answer = ask(account, signed(account, change(account.keys)))
    assert answer.status_code == 403
    assert f"<Code>{code}</Code>" in answer.text


def test_signature_is_valid_for_its_own_body_address_and_time_only(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = signed(account)
    assert "SignatureDoesNotMatch" in ask(account, headers, f"{IDENTITY}&More=1").text
    other = requests.post(f"{account.endpoint}/?More=1", IDENTITY, headers=headers, timeout=PATIENCE_SECONDS)
    assert "SignatureDoesNotMatch" in other.text
    monkeypatch.setattr("embedded_account.admission.signatures._SKEW", timedelta(0))
    assert "RequestTimeTooSkewed" in ask(account, headers).text


@pytest.mark.parametrize("body", [b"another", b""])
def test_a_body_that_is_not_the_signed_one_is_refused(account: Account, clients: Clients, body: bytes) -> None:
    """S3's clients sign a header with the body's hash (S3 API reference, "Error responses")."""
    clients("s3").create_bucket(Bucket="a-bucket", CreateBucketConfiguration={"LocationConstraint": REGION})
    request = AWSRequest("PUT", f"{account.endpoint}/a-bucket/key", data=b"mine")
    request.headers["Host"] = f"127.0.0.1:{account.port}"
    S3SigV4Auth(Credentials(account.keys.access_key_id, account.keys.secret_access_key), "s3", REGION).add_auth(request)
    answer = requests.put(str(request.url), body, headers=dict(request.headers), timeout=PATIENCE_SECONDS)
    assert answer.status_code == 400
    assert "<Code>XAmzContentSHA256Mismatch</Code>" in answer.text
    assert clients("s3").list_objects_v2(Bucket="a-bucket")["KeyCount"] == 0
    answer = requests.put(str(request.url), b"mine", headers=dict(request.headers), timeout=PATIENCE_SECONDS)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("path", ["/moto-api/data.json", "/moto-api/reset", "/moto-api/config", "/moto-api/"])
def test_motos_own_api_answers_nobody(account: Account, clients: Clients, path: str) -> None:
    clients("s3").create_bucket(Bucket="a-bucket", CreateBucketConfiguration={"LocationConstraint": REGION})
    for method in ("GET", "POST"):
        request = AWSRequest(method, f"{account.endpoint}{path}", data=b"")
        request.headers["Host"] = f"127.0.0.1:{account.port}"
        SigV4Auth(Credentials(account.keys.access_key_id, account.keys.secret_access_key), "sts", REGION).add_auth(
            request
        )
        answer = requests.request(method, str(request.url), headers=dict(request.headers), timeout=PATIENCE_SECONDS)
        assert answer.status_code >= 400, answer.text
        assert "a-bucket" not in answer.text
    assert [bucket["Name"] for bucket in clients("s3").list_buckets()["Buckets"]] == ["a-bucket"]


def test_authorization_that_is_no_signature_is_refused(account: Account) -> None:
    for value in (
        "",
        "Basic YTpi",
        "AWS4-HMAC-SHA256 Credential=a/b",
        "AWS4-HMAC-SHA256",
        *account.keys.control_headers.values(),
    ):
        answer = ask(account, {"Authorization": value})
        assert (answer.status_code, answer.json()["__type"]) == (403, "IncompleteSignature")


def role(clients: Clients) -> str:
    trust = (
        '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole",'
        ' "Principal": {"AWS": "*"}}]}'
    )
    return str(clients("iam").create_role(RoleName="member", AssumeRolePolicyDocument=trust)["Role"]["Arn"])


def identity(account: Account, key: str, secret: str, token: str | None) -> Any:
    session: Any = boto3.Session(key, secret, token, region_name=REGION)
    return session.client("sts", endpoint_url=account.endpoint).get_caller_identity()["Arn"]


def test_session_is_accepted_with_its_own_token_until_it_expires(account: Account, clients: Clients) -> None:
    request = {"RoleArn": role(clients), "RoleSessionName": "ann"}
    keys = clients("sts").assume_role(**request)["Credentials"]
    key, secret, token = keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"]
    assert identity(account, key, secret, token).endswith(":assumed-role/member/ann")
    for wrong in (None, "x", token + "x"):
        with pytest.raises(ClientError, match="InvalidClientTokenId"):
            identity(account, key, secret, wrong)

    from moto.sts.models import sts_backends

    [session] = sts_backends[account.account_id]["aws"].assumed_roles
    session.expiration = session.expiration.replace(year=2020)
    with pytest.raises(ClientError, match="ExpiredToken"):
        identity(account, key, secret, token)


def test_key_of_a_user_is_accepted_until_it_is_deleted(account: Account, clients: Clients) -> None:
    iam = clients("iam")
    iam.create_user(UserName="ann")
    keys = iam.create_access_key(UserName="ann")["AccessKey"]
    assert identity(account, keys["AccessKeyId"], keys["SecretAccessKey"], None).endswith("user/ann")
    iam.delete_access_key(UserName="ann", AccessKeyId=keys["AccessKeyId"])
    with pytest.raises(ClientError, match="InvalidClientTokenId"):
        identity(account, keys["AccessKeyId"], keys["SecretAccessKey"], None)


def s3_client(account: Account, session: Any, style: Literal["path", "virtual"]) -> Any:
    config = Config(signature_version="s3v4", s3={"addressing_style": style})
    return session.client("s3", endpoint_url=f"http://localhost:{account.port}", config=config)


def test_s3_s_ways_of_signing_are_understood(account: Account, aws_session: Any) -> None:
    s3 = s3_client(account, aws_session, "path")
    s3.create_bucket(Bucket="a-bucket", CreateBucketConfiguration={"LocationConstraint": REGION})
    key, content = "a folder/ä+b=c&d~e.txt", b"content" * 1000
    s3.put_object(Bucket="a-bucket", Key=key, Body=content)
    s3.upload_fileobj(io.BytesIO(content), "a-bucket", "uploaded")
    assert s3.get_object(Bucket="a-bucket", Key=key)["Body"].read() == content
    assert [item["Key"] for item in s3.list_objects_v2(Bucket="a-bucket", Prefix="a folder/ä")["Contents"]] == [key]
    url = s3.generate_presigned_url("get_object", {"Bucket": "a-bucket", "Key": key})
    assert requests.get(url, timeout=PATIENCE_SECONDS).content == content
    assert (
        requests.get(url.replace("X-Amz-Expires=3600", "X-Amz-Expires=9999"), timeout=PATIENCE_SECONDS).status_code
        == 403
    )
    virtual = s3_client(account, aws_session, "virtual")
    url = virtual.generate_presigned_url("get_object", {"Bucket": "a-bucket", "Key": key})
    host = f"a-bucket.localhost:{account.port}"
    assert url.startswith(f"http://{host}/")
    numbered = url.replace(host, f"127.0.0.1:{account.port}")  # Not every machine resolves subdomains of localhost.
    assert requests.get(numbered, headers={"Host": host}, timeout=PATIENCE_SECONDS).content == content


def test_only_a_web_identity_request_to_sts_needs_no_signature(account: Account) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    wanted = "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn&RoleSessionName=a&WebIdentityToken=x"
    assert "Not authorized to perform sts:AssumeRoleWithWebIdentity" in ask(account, form, wanted).text
    for body in (f"{wanted}&Action=CreateStack", f"Action=CreateStack&{wanted}", f"{wanted}&%41ction=CreateStack"):
        assert ask(account, form, body).json()["__type"] == "MissingAuthenticationToken"
    target = {**form, "X-Amz-Target": "AWSStepFunctions.StartExecution"}
    assert ask(account, target, wanted).json()["__type"] == "MissingAuthenticationToken"


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer x"}, {"Authorization": "Bearer "}])
@pytest.mark.parametrize(
    "route",
    [
        "GET health",
        "GET inventory",
        "GET journal",
        "GET nothing",
        "POST authenticate/c",
        "POST authenticate/x/c",
        "POST existing",
        "POST hyperpod/faults",
    ],
)
def test_control_route_asks_for_its_secret(account: Account, route: str, headers: dict[str, str]) -> None:
    method, path = route.split()
    answer = requests.request(
        method, f"{account.endpoint}/_rehearsal/{path}", headers=headers, timeout=PATIENCE_SECONDS
    )
    assert answer.status_code == 401


def test_answers_of_custom_resources_need_an_address_that_was_given_out(account: Account) -> None:
    for path in ("cfn-response", "cfn-response/", "cfn-response/0"):
        answer = requests.put(f"{account.endpoint}/_rehearsal/{path}", "{}", timeout=PATIENCE_SECONDS)
        assert answer.status_code == 403


def test_keys_differ_from_run_to_run_and_are_not_shown() -> None:
    one, two = RunKeys.issue(), RunKeys.issue()
    assert one.access_key_id != two.access_key_id
    assert {one.secret_access_key, one.control_secret}.isdisjoint({two.secret_access_key, two.control_secret})
    assert one.secret_access_key not in repr(one)
    assert one.control_secret not in repr(one)
