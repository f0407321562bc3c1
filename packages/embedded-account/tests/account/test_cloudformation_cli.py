"""Test the engine with the real CDK CLI: bootstrap, deploy, diff, update and destroy a small app of two stacks."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from embedded_account.machine.isolation import child_environment
from embedded_account.machine.processes import free_port
from embedded_account.paths import CDK_PRELOAD
from embedded_account.run_keys import RunKeys
from embedded_account.testing.clients import NODE_MODULES
from embedded_account.testing.waiting import PATIENCE_SECONDS

CLI = NODE_MODULES / "aws-cdk" / "bin" / "cdk"
ACCOUNT_ID, REGION = "111122223333", "us-west-2"


def template(**resources: Any) -> dict[str, Any]:
    return {
        "Parameters": {
            "BootstrapVersion": {
                "Type": "AWS::SSM::Parameter::Value<String>",
                "Default": "/cdk-bootstrap/hnb659fds/version",
            }
        },
        "Resources": resources,
    }


def producer(display_name: str) -> dict[str, Any]:
    topic = {"Type": "AWS::SNS::Topic", "Properties": {"DisplayName": display_name}}
    export = {"Value": {"Fn::GetAtt": ["T", "TopicName"]}, "Export": {"Name": "producer:topic"}}
    return {**template(T=topic), "Outputs": {"Topic": export}}


CONSUMER = template(
    P={"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": {"Fn::ImportValue": "producer:topic"}}}
)


def changed_stacks(printed: str) -> set[str]:
    """Return the stacks that `cdk deploy` created or changed: it prints `(no changes)` after the names of others."""
    return set(re.findall(r"^ *✅ +(\S+)$", printed, re.MULTILINE))


class Cdk:
    """A runner of the CDK CLI on a cloud assembly."""

    def __init__(self, directory: Path, port: int, keys: RunKeys) -> None:
        self._directory = directory
        self._environment = child_environment(
            directory,
            endpoint=f"http://localhost:{port}",
            region=REGION,
            account_id=ACCOUNT_ID,
            # As EmbeddedAccount.environment: otherwise each deployment sleeps for seconds between polls.
            extra=keys.aws | {"NODE_OPTIONS": f"--require={json.dumps(str(CDK_PRELOAD))}"},
        )
        self._environment["NODE_COMPILE_CACHE"] = str(directory / "compiled")
        self.assembly = directory / "cdk.out"
        self.assembly.mkdir()

    def write(self, **stacks: dict[str, Any]) -> None:
        """Write the assembly like `cdk synth`: each stack depends on the stacks before it."""
        role = "arn:${AWS::Partition}:iam::111122223333:role/cdk-hnb659fds-{}-role-111122223333-us-west-2"
        artifacts: dict[str, Any] = {}
        for name, body in stacks.items():
            (self.assembly / f"{name}.template.json").write_text(json.dumps(body))
            artifacts[name] = {
                "type": "aws:cloudformation:stack",
                "environment": "aws://111122223333/us-west-2",
                "dependencies": [*artifacts],
                "properties": {
                    "templateFile": f"{name}.template.json",
                    "validateOnSynth": False,
                    "assumeRoleArn": role.replace("{}", "deploy"),
                    "cloudFormationExecutionRoleArn": role.replace("{}", "cfn-exec"),
                },
            }
        manifest = {"version": "36.0.0", "artifacts": artifacts}
        (self.assembly / "manifest.json").write_text(json.dumps(manifest))

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run one command and check its exit code; return its output."""
        argv = ["node", str(CLI), "--app", str(self.assembly), "--no-color", *arguments]
        done = subprocess.run(argv, env=self._environment, cwd=self._directory, capture_output=True, text=True)  # noqa: PLW1510
        output = done.stdout + done.stderr
        assert done.returncode == code, output
        return output


@pytest.fixture(scope="module")
def cdk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cdk]:
    """Serve a bootstrapped account for all tests; each test deploys stacks of its own."""
    directory, port = tmp_path_factory.mktemp("cli"), free_port()
    argv = [sys.executable, "-m", "embedded_account", "serve", "--port", str(port), "--account-id", ACCOUNT_ID]
    argv += ["--region", REGION, "--directory", str(directory), "--binaries", str(directory)]
    argv += ["--node-modules", str(NODE_MODULES)]
    keys = RunKeys.issue()
    environment = child_environment(directory, region=REGION, account_id=ACCOUNT_ID, extra=keys.in_environment)
    process = subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["ready"]
    try:
        cdk = Cdk(directory, port, keys)
        # The CLI reads the app even for `bootstrap`.
        cdk.write(producer=producer("one"))
        assert "bootstrapped." in cdk.run("bootstrap", "aws://111122223333/us-west-2")
        yield cdk
    finally:
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0
        process.stdout.close()


def test_real_cdk_cli_deploys_compares_updates_and_destroys(cdk: Cdk) -> None:
    cdk.write(producer=producer("one"), consumer=CONSUMER)
    everything = ("deploy", "--all", "--require-approval", "never")

    assert changed_stacks(cdk.run(*everything)) == {"producer", "consumer"}
    assert "Number of stacks with differences: 0" in cdk.run("diff")
    assert changed_stacks(cdk.run(*everything)) == set()

    cdk.write(producer=producer("two"), consumer=CONSUMER)
    shown = cdk.run("diff")
    assert "[-] one" in shown
    assert "Number of stacks with differences: 1" in shown
    printed = cdk.run(*everything)
    assert "UPDATE_COMPLETE" in printed
    assert changed_stacks(printed) == {"producer"}

    refusal = cdk.run("destroy", "producer", "--exclusively", "--force", code=1)
    assert "Cannot delete export producer:topic as it is in use by consumer." in refusal
    assert "✅  producer: destroyed" in cdk.run("destroy", "--all", "--force")


def test_failed_deployment_shows_its_reason(cdk: Cdk) -> None:
    cdk.write(refused=template(T={"Type": "AWS::SNS::Topic", "Properties": {"TopicName": "no name"}}))
    output = cdk.run("deploy", "refused", "--require-approval", "never", code=1)
    assert "Topic names must be made up of" in output
    assert "ROLLBACK_COMPLETE" in output
