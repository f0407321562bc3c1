"""Test Lambda functions as local processes."""

import io
import json
import os
import struct
import time
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from embedded_account.context import Account
from embedded_account.lambdas.packages import PackageStore
from embedded_account.testing.clients import Clients
from embedded_account.testing.functions import invoke, make_function, upload, zipped
from embedded_account.testing.resources import ResourceModels
from embedded_account.testing.waiting import wait_until

ECHO = {"main.py": "def handler(event, context):\n    return {'got': event, 'id': context.aws_request_id}\n"}
WHO_AM_I = """
import boto3
def handler(event, context):
    return boto3.client("sts").get_caller_identity()["Arn"]
"""


def test_python_function_returns_its_value(account: Account) -> None:
    payload, is_error, logs = invoke(account, make_function(account, ECHO), {"a": 1})

    assert not is_error
    assert payload["got"] == {"a": 1}
    assert f"START RequestId: {payload['id']}" in logs


def test_function_calls_the_account_with_its_own_role(account: Account) -> None:
    function = make_function(account, {"main.py": WHO_AM_I}, Timeout=20)

    payload, is_error, _ = invoke(account, function)

    assert not is_error
    assert payload == f"arn:aws:sts::{account.account_id}:assumed-role/work-role/work"


def test_raised_error_is_the_payload(account: Account) -> None:
    code = "def handler(event, context):\n    print('about to fail')\n    raise ValueError('no such thing')\n"

    payload, is_error, logs = invoke(account, make_function(account, {"main.py": code}))

    assert is_error
    assert payload["errorMessage"] == "no such thing"
    assert payload["errorType"] == "ValueError"
    assert "about to fail" in logs


def test_function_is_ended_at_its_timeout_with_what_it_started(account: Account, tmp_path: Path) -> None:
    mark = tmp_path / "child"
    code = (
        "import subprocess, time\n"
        "def handler(event, context):\n"
        f"    child = subprocess.Popen(['sleep', '60'])\n"
        f"    open({str(mark)!r}, 'w').write(str(child.pid))\n"
        "    time.sleep(60)\n"
    )
    started = time.monotonic()

    payload, is_error, _ = invoke(account, make_function(account, {"main.py": code}, Timeout=1))

    assert is_error
    assert "Task timed out after 1.00 seconds" in payload["errorMessage"]
    assert time.monotonic() - started < 10
    child = int(mark.read_text())
    assert not Path(f"/proc/{child}/cmdline").exists() or not Path(f"/proc/{child}/cmdline").read_bytes()


def test_crash_is_reported_with_its_exit_status(account: Account) -> None:
    code = "import os\ndef handler(event, context):\n    os._exit(3)\n"

    payload, is_error, _ = invoke(account, make_function(account, {"main.py": code}))

    assert is_error
    assert payload["errorType"] == "Runtime.ExitError"
    assert "exit status 3" in payload["errorMessage"]


def test_nothing_of_the_callers_environment_is_inherited(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "real-account")
    monkeypatch.setenv("KUBECONFIG", "/home/someone/.kube/config")
    code = "import os\ndef handler(event, context):\n    return dict(os.environ)\n"
    function = make_function(account, {"main.py": code}, Environment={"Variables": {"GIVEN": "1"}})

    payload, _, _ = invoke(account, function)

    assert payload["GIVEN"] == "1"
    assert "AWS_PROFILE" not in payload
    assert "KUBECONFIG" not in payload
    assert payload["HOME"] != os.environ["HOME"]
    assert payload["TEST_OUTDIR"] == payload["TMPDIR"]


def test_log_lines_reach_a_group_that_lambda_creates(account: Account, clients: Clients) -> None:
    function = make_function(account, {"main.py": "def handler(event, context):\n    print('line one')\n"})

    invoke(account, function)

    events = clients("logs").filter_log_events(logGroupName="/aws/lambda/work")["events"]
    assert "line one" in [event["message"] for event in events]
    made = account.background.maker_of("log-group", "/aws/lambda/work")
    assert made is not None
    assert made.maker_arn == function.attributes()["Arn"]


def test_function_deleted_before_it_ended_leaves_no_log_group(account: Account, clients: Clients) -> None:
    code = (
        "import boto3\ndef handler(event, context):\n    boto3.client('lambda').delete_function(FunctionName='work')\n"
    )

    function = make_function(account, {"main.py": code}, policies=["AdministratorAccess"], Timeout=20)
    _, is_error, logs = invoke(account, function)

    assert not is_error, logs
    assert clients("logs").describe_log_groups()["logGroups"] == []


def test_function_whose_role_may_not_log_leaves_no_log_group(account: Account, clients: Clients) -> None:
    _, is_error, logs = invoke(account, make_function(account, ECHO, policies=[]))

    assert not is_error, logs
    assert clients("logs").describe_log_groups()["logGroups"] == []


def test_function_needs_rights_for_its_calls(account: Account) -> None:
    code = "import boto3\ndef handler(event, context):\n    boto3.client('sns').publish(TopicArn=event, Message='a')\n"
    function = make_function(account, {"main.py": code}, Timeout=20)

    payload, is_error, _ = invoke(account, function, topic := "arn:aws:sns:us-west-2:111122223333:topic")

    assert is_error
    who = "user: arn:aws:sts::111122223333:assumed-role/work-role/work"
    assert (
        f"{who} is not authorized to perform: SNS:Publish on resource: {topic}".lower()
        in payload["errorMessage"].lower()
    )


def test_node_function_finds_sdk_clients_and_reports_errors(account: Account) -> None:
    code = (
        "const { LambdaClient } = require('@aws-sdk/client-lambda');\n"
        "exports.handler = async (event) => {\n"
        "  if (event.fail) throw new TypeError('bad event');\n"
        "  return { client: typeof LambdaClient };\n"
        "};\n"
    )
    function = make_function(account, {"main.js": code}, runtime="nodejs24.x", Timeout=20)

    assert invoke(account, function)[0] == {"client": "function"}
    payload, is_error, _ = invoke(account, function, {"fail": True})
    assert is_error
    assert (payload["errorType"], payload["errorMessage"]) == ("TypeError", "bad event")


def test_missing_sdk_client_names_the_fix(account: Account) -> None:
    code = "exports.handler = async () => require('@aws-sdk/client-not-there');\n"

    payload, is_error, _ = invoke(account, make_function(account, {"main.js": code}, runtime="nodejs24.x", Timeout=20))

    assert is_error
    assert "add @aws-sdk/client-not-there" in payload["errorMessage"]


def test_layer_programs_are_found_and_start_with_any_python(account: Account) -> None:
    layer = zipped(
        {"awscli/aws": "#!/var/lang/bin/python\nprint('aws from the layer')\n", "python/helper.py": "WORD = 'hi'\n"},
        executable=["awscli/aws"],
    )
    version = ResourceModels(account).create(
        "AWS::Lambda::LayerVersion", {"Content": upload(account, "layer.zip", layer)}, name="tools"
    )
    code = (
        "import subprocess, helper\n"
        "def handler(event, context):\n"
        "    return [subprocess.check_output([p], text=True) for p in ('aws', '/opt/awscli/aws')] + [helper.WORD]\n"
    )

    payload, is_error, logs = invoke(
        account, make_function(account, {"main.py": code}, Layers=[version.physical_resource_id])
    )

    assert not is_error, logs
    assert payload == ["aws from the layer\n", "aws from the layer\n", "hi"]


def test_later_layers_win_and_opt_is_only_rewritten_for_their_folders(tmp_path: Path) -> None:
    store = PackageStore(tmp_path)
    first = zipped({"helm/helm": "one", "helm/only-first": "1"})
    second = zipped({"helm/helm": "two"})

    package = store.unpack(zipped({"main.py": "A = '/opt/helm/helm'\nB = '/opt/other'\n"}), [first, second])

    assert (package.opt / "helm/helm").read_text() == "two"
    assert (package.opt / "helm/only-first").read_text() == "1"
    source = (package.task / "main.py").read_text()
    assert f"A = '{package.opt}/helm/helm'" in source
    assert "B = '/opt/other'" in source


@pytest.mark.parametrize(
    ("extra", "changed"),
    [
        (b"", 1785770742),
        (struct.pack("<HHBi", 0x5455, 5, 3, 1785770741), 1785770741),
        (struct.pack("<HH4s", 0x7875, 4, bytes(4)) + struct.pack("<HHBi", 0x5455, 5, 1, 1785770741), 1785770741),
        (struct.pack("<HHBi", 0x5455, 5, 2, 1785770741), 1785770742),
        (struct.pack("<HHB", 0x5455, 1, 0), 1785770742),
    ],
    ids=["none", "exact", "after another field", "no time of a change", "no times"],
)
def test_unpacked_file_has_its_time_so_that_python_takes_the_compiled_file_beside_it(
    tmp_path: Path, extra: bytes, changed: int
) -> None:
    entry = zipfile.ZipInfo("python/helper.py", (2026, 8, 3, 15, 25, 42))
    entry.extra = extra
    layer = io.BytesIO()
    with zipfile.ZipFile(layer, "w") as archive:
        archive.writestr(entry, "WORD = 'hi'\n")

    package = PackageStore(tmp_path).unpack(zipped({"main.py": ""}), [layer.getvalue()])

    assert (package.opt / "python" / "helper.py").stat().st_mtime == changed


def test_unpacked_file_without_a_date_is_of_the_first_day_of_zips(tmp_path: Path) -> None:
    layer = io.BytesIO()
    with zipfile.ZipFile(layer, "w") as archive:
        archive.writestr(zipfile.ZipInfo("python/helper.py"), "")
    packed = layer.getvalue().replace(struct.pack("<H", (1 << 5) | 1), bytes(2))

    package = PackageStore(tmp_path).unpack(zipped({"main.py": ""}), [packed])

    assert (package.opt / "python" / "helper.py").stat().st_mtime == datetime(1980, 1, 1, tzinfo=UTC).timestamp()


def test_api_reports_function_errors_and_the_log_tail(account: Account, clients: Clients) -> None:
    make_function(account, {"main.py": "def handler(event, context):\n    raise KeyError(event['k'])\n"})

    answer = clients("lambda").invoke(FunctionName="work", Payload=json.dumps({"k": "v"}), LogType="Tail")

    assert answer["FunctionError"] == "Unhandled"
    assert json.load(answer["Payload"])["errorType"] == "KeyError"
    assert answer["LogResult"]


def test_failing_event_invocation_is_retried(account: Account, clients: Clients, tmp_path: Path) -> None:
    tries = tmp_path / "tries"
    code = f"def handler(event, context):\n    open({str(tries)!r}, 'a').write('x')\n    raise RuntimeError('again')\n"
    make_function(account, {"main.py": code})
    ResourceModels(account).create(
        "AWS::Lambda::EventInvokeConfig",
        {"FunctionName": "work", "Qualifier": "$LATEST", "MaximumRetryAttempts": 1},
    )

    answer = clients("lambda").invoke(FunctionName="work", InvocationType="Event", Payload=b"{}")

    assert answer["StatusCode"] == 202
    wait_until(lambda: tries.exists() and len(tries.read_text()) == 2, "the second try")
    time.sleep(0.5)
    assert tries.read_text() == "xx"


def test_node_answers_to_cloudformation_reach_the_account(account: Account) -> None:
    code = (
        "const https = require('https');\n"
        "exports.handler = (event) => new Promise((resolve, reject) => {\n"
        "  const url = new URL(event.ResponseURL);\n"
        "  const request = https.request({ hostname: url.hostname, path: url.pathname, method: 'GET' }, (answer) => {\n"
        "    answer.resume(); resolve(answer.statusCode);\n"
        "  });\n"
        "  request.on('error', reject); request.end();\n"
        "});\n"
    )
    function = make_function(account, {"main.js": code}, runtime="nodejs24.x", Timeout=20)

    payload, is_error, logs = invoke(
        account, function, {"ResponseURL": "https://cfn-response.invalid/_rehearsal/health"}
    )

    assert not is_error, logs
    assert payload == 401  # The account requires its secret, so the request reached it.
