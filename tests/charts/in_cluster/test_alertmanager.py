"""Prometheus' alerts reach the topic: real Prometheus, real Alertmanager, and the embedded account's SNS."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from moto.sns.models import sns_backends

from config import load
from controllers.telemetry import Metrics, serve
from embedded_account.context import Account
from embedded_account.machine.processes import free_port
from embedded_account.testing.clients import ACCOUNT_ID, REGION, Clients
from k8s_charts.in_cluster.alertmanager import AlertFacts, Alertmanager, configuration
from k8s_charts.in_cluster.alerts import ALERTS, rule_groups
from k8s_charts.in_cluster.scrape import configuration as prometheus_configuration
from k8s_charts.ray_objects import ray_objects
from k8s_charts.shared.names import ALERTMANAGER, ALERTMANAGER_PORT, METRICS_PORT
from rehearsal.in_cluster import ALERTMANAGER as PACKAGE
from tests.charts.support.connection_table import with_in_cluster
from tests.charts.support.facts import RAY_FACTS
from tests.support import assumed_role
from tests.support.prometheus import programs, running, running_alertmanager
from tests.support.waiting import wait_until

TRUST = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": ACCOUNT_ID}}


def policy(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


@pytest.fixture
def topic(clients: Clients) -> str:
    """Return the ARN of an encrypted topic."""
    key = clients("kms").create_key()["KeyMetadata"]["Arn"]
    return str(clients("sns").create_topic(Name="alerts", Attributes={"KmsMasterKeyId": key})["TopicArn"])


@pytest.fixture
def variables(clients: Clients, topic: str) -> dict[str, str]:
    """Return the credentials of a role with the rights of Alertmanager's, which the account evaluates."""
    key = clients("sns").get_topic_attributes(TopicArn=topic)["Attributes"]["KmsMasterKeyId"]
    use = {"Effect": "Allow", "Action": ["kms:Decrypt", "kms:GenerateDataKey"], "Resource": key}
    rights = ({"Effect": "Allow", "Action": "sns:Publish", "Resource": topic}, use)
    iam = clients("iam")
    role = iam.create_role(RoleName="publisher", AssumeRolePolicyDocument=policy(TRUST))["Role"]["Arn"]
    iam.put_role_policy(RoleName="publisher", PolicyName="own", PolicyDocument=policy(*rights))
    return assumed_role.credentials(clients, role)


def settings(topic: str) -> Alertmanager:
    return Alertmanager("dev", "rayhp-dev", REGION, "image", AlertFacts(topic, "role"))


def quick(topic: str, endpoint: str) -> str:
    """Return the configuration with the account's address and without its pauses."""
    made = configuration(settings(topic))
    made["route"] |= {"group_wait": "0s", "group_interval": "1s"}
    made["receivers"][0]["sns_configs"][0]["api_url"] = endpoint
    return json.dumps(made)


@contextmanager
def prometheus(folder: Path, alertmanager: str, port: int) -> Iterator[None]:
    """Run Prometheus with the project's rule about the exporter, which serves at `port`, without its patience."""
    made = prometheus_configuration(
        ray_namespace="ray", operator_namespace="kuberay", alertmanager=True, gpus=False, efa=False, sleep=False
    )
    made["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    made["scrape_configs"] = [job for job in made["scrape_configs"] if job["job_name"] == "exporter"]
    [rule] = [alert.rule() for alert in ALERTS if alert.name == "ExporterDown"]
    groups = {"groups": [{"name": "test", "rules": [{**rule, "for": "0s"}]}]}
    text = json.dumps(made).replace(f"{ALERTMANAGER}:{ALERTMANAGER_PORT}", alertmanager)
    text = text.replace(f"localhost:{METRICS_PORT}", f"localhost:{port}")
    with running({"prometheus.yaml": text, "rules.yaml": json.dumps(groups)}, folder):
        yield


def test_an_alert_and_its_end_reach_the_topic_signed_by_the_role(
    account: Account, topic: str, variables: dict[str, str], tmp_path: Path
) -> None:
    port, folders = free_port(), [tmp_path / name for name in ("alertmanager", "prometheus")]
    for folder in folders:
        folder.mkdir()

    def received() -> list[tuple[str, str]]:
        sent = sns_backends[account.account_id][account.region].topics[topic].sent_notifications
        return [(subject, message) for _, message, subject, *_ in sent]

    with (
        running_alertmanager(quick(topic, account.endpoint), folders[0], variables) as address,
        prometheus(folders[1], address, port),
    ):
        wait_until(lambda: len(received()) == 1, "the alert")
        exporter = serve(f"127.0.0.1:{port}", Metrics(), {})
        try:
            wait_until(lambda: len(received()) == 2, "the end of the alert")
        finally:
            exporter.shutdown()
    (fired, text), (resolved, _) = received()
    assert (fired, resolved) == ("FIRING: ExporterDown in dev", "RESOLVED: ExporterDown in dev")
    assert text.splitlines()[:2] == [
        "FIRING: ExporterDown (critical)",
        "The exporter does not answer: alerts about runs and nodes are blind.",
    ]
    assert "Runbook: docs/operate/observe.md#exporterdown\n" in text
    assert text.endswith("Cluster: rayhp-dev\n")


def test_amtool_accepts_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "alertmanager.yaml"
    charts = ray_objects(with_in_cluster(load("dev"), alertmanager=True), RAY_FACTS).observability
    [text] = [item["data"]["alertmanager.yaml"] for item in charts["alertmanager"].to_json() if "data" in item]
    file.write_text(text)
    argv = [str(programs(PACKAGE)["amtool"]), "check-config", str(file)]
    checked = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    assert "1 receivers" in checked.stdout


def test_no_alert_makes_a_subject_that_sns_refuses() -> None:
    names = [rule["alert"] for group in rule_groups(gpus=True, efa=True, sleep=True) for rule in group["rules"]]
    longest = max(names, key=len)
    [published] = configuration(settings("topic"))["receivers"][0]["sns_configs"]
    subject = published["subject"].replace("{{ .GroupLabels.alertname }}", longest)
    assert len(subject.replace("{{ .Status | toUpper }}", "RESOLVED").replace("dev", "e" * 40)) < 100
