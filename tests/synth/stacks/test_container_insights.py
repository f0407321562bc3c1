"""`observability.container_insights`: the add-on, its role and log groups, the alarms, and the topic."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from config import load, naming
from config.container_insights import RUNBOOK
from config.estimates.costs import estimate, unpriced
from ops.review.assembly import Assembly as ReviewedAssembly
from ops.review.cost import bill
from tests.synth.support.synthesis import REPOSITORY, Assemblies, Assembly, Template, synthesise
from tests.synth.support.variants import WATCHED, watched

LISTED = YAML(typ="safe").load(Path(__file__).with_name("cloudwatch_metrics.yaml"))
CLUSTER = naming.eks_cluster(load("dev"))
GROUPS = [f"/aws/containerinsights/{CLUSTER}/{name}" for name in ("application", "dataplane", "host", "performance")]


@pytest.fixture(scope="module")
def assembly_of_dev(assembly: Assemblies) -> Assembly:
    return assembly(WATCHED)


@pytest.fixture(scope="module")
def ray(assembly_of_dev: Assembly) -> Template:
    return assembly_of_dev.templates["ray"]


def role(ray: Template) -> Any:
    add_on = ray.only("AWS::EKS::Addon")
    return ray.body["Resources"][add_on["ServiceAccountRoleArn"]["Fn::GetAtt"][0]]["Properties"]


def test_no_environment_has_it_unasked(assembly: Assemblies) -> None:
    for kind in ("AWS::CloudWatch::Alarm", "AWS::CloudWatch::Dashboard", "AWS::EKS::Addon", "AWS::SNS::Topic"):
        assert assembly("dev").templates["ray"].all(kind) == {}


def test_the_add_on_collects_what_the_alarms_are_about(ray: Template) -> None:
    add_on = ray.only("AWS::EKS::Addon")
    assert add_on["AddonName"] == "amazon-cloudwatch-observability"
    wanted = json.loads(add_on["ConfigurationValues"])["agent"]["config"]["logs"]["metrics_collected"]
    assert wanted == {"kubernetes": {"enhanced_container_insights": True}}


def test_log_groups_keep_events_as_long_as_stated_and_exist_before_the_agents(ray: Template) -> None:
    groups = ray.all("AWS::Logs::LogGroup")
    kept = {id: g for id, g in groups.items() if str(g["Properties"].get("LogGroupName", "")).startswith("/aws/cont")}
    assert sorted(g["Properties"]["LogGroupName"] for g in kept.values()) == GROUPS
    assert {g["Properties"]["RetentionInDays"] for g in kept.values()} == {14}
    assert {g["DeletionPolicy"] for g in kept.values()} == {"Delete"}
    [add_on] = ray.all("AWS::EKS::Addon").values()
    assert kept.keys() <= set(add_on["DependsOn"])


def test_the_agents_role_writes_to_these_log_groups_and_this_namespace_only(ray: Template) -> None:
    text, values = role(ray)["AssumeRolePolicyDocument"]["Fn::Sub"]
    assert "sts:AssumeRoleWithWebIdentity" in text
    assert (values["Namespace"], values["ServiceAccount"]) == ("amazon-cloudwatch", "cloudwatch-agent")
    [policy] = role(ray)["Policies"]
    writing, metrics, reading = policy["PolicyDocument"]["Statement"]
    assert [resource.partition("log-group:")[2] for resource in writing["Resource"]] == [f"{g}:*" for g in GROUPS]
    assert (metrics["Action"], metrics["Condition"]) == (
        "cloudwatch:PutMetricData",
        {"StringEquals": {"cloudwatch:namespace": "ContainerInsights"}},
    )
    assert all(action.split(":")[1].startswith("Describe") for action in reading["Action"])


def test_each_alarms_metric_has_these_dimensions_by_its_documentation(ray: Template) -> None:
    alarms = ray.properties("AWS::CloudWatch::Alarm")
    assert len(alarms) >= 4
    for alarm in alarms:
        dimensions = sorted(each["Name"] for each in alarm["Dimensions"])
        listed = LISTED[alarm["Namespace"]]["metrics"][alarm["MetricName"]]
        assert dimensions in [sorted(names) for names in listed], alarm["MetricName"]
        assert LISTED[alarm["Namespace"]]["source"]


def test_the_file_systems_free_bytes_are_summed_over_its_disks_and_not_over_minutes(ray: Template) -> None:
    """FSx for Lustre user guide, fs-metrics: one value for each disk and minute, which add up to the file system."""
    [full] = [alarm for alarm in ray.properties("AWS::CloudWatch::Alarm") if alarm["Namespace"] == "AWS/FSx"]
    assert (full["Statistic"], full["Period"], full["EvaluationPeriods"]) == ("Sum", 60, 5)
    assert full["Threshold"] == load("dev").fsx.capacity_gib * 2**30 / 10


def test_each_alarm_calls_the_topic_and_names_a_runbook_that_the_page_has(ray: Template) -> None:
    [topic] = ray.all("AWS::SNS::Topic")
    headings = re.findall(r"^### (\w+)$", (REPOSITORY / RUNBOOK).read_text(), flags=re.MULTILINE)
    named = set()
    for alarm in ray.properties("AWS::CloudWatch::Alarm"):
        assert alarm["AlarmActions"] == alarm["OKActions"] == [{"Ref": topic}]
        page, _, anchor = alarm["AlarmDescription"].rpartition("Runbook: ")[2].partition("#")
        assert page == RUNBOOK
        named.add(anchor)
    assert named <= {heading.lower() for heading in headings}


def test_alarms_and_dashboard_are_only_about_what_the_environment_has(tmp_path: Path) -> None:
    """The file system of existing-vpc is not the environment's; its groups have no EFA."""
    existing = synthesise(watched("existing-vpc"), tmp_path).templates["ray"]
    assert {alarm["Namespace"] for alarm in existing.properties("AWS::CloudWatch::Alarm")} == {"ContainerInsights"}
    metrics = charted(widgets(existing))
    assert {namespace for namespace, *_ in metrics} == {"ContainerInsights"}
    assert not [name for _, name, *_ in metrics if "efa" in name]


def widgets(ray: Template) -> list[dict[str, Any]]:
    """Return the dashboard's widgets; a value that the deployment knows is the logical id that it comes from."""
    text = ray.only("AWS::CloudWatch::Dashboard")["DashboardBody"]["Fn::Join"][1]
    known = [each if isinstance(each, str) else _origin(each) for each in text]
    found: list[dict[str, Any]] = json.loads("".join(known))["widgets"]
    return found


def _origin(reference: dict[str, Any]) -> str:
    [(_, of)] = reference.items()
    return str(of[0] if isinstance(of, list) else of)


def charted(shown: list[dict[str, Any]]) -> list[list[Any]]:
    """Return the metrics of the dashboard's charts: namespace, name, dimensions, options."""
    lines = [line for each in shown if each["type"] == "metric" for line in each["properties"]["metrics"]]
    return [line for line in lines if isinstance(line[0], str)]


def test_each_metric_of_the_dashboard_has_these_dimensions_by_its_documentation(ray: Template) -> None:
    metrics = charted(widgets(ray))
    for namespace, name, *more in metrics:
        dimensions = sorted(word for word in more[::2] if isinstance(word, str))
        assert dimensions in [sorted(names) for names in LISTED[namespace]["metrics"][name]], name
    shown = {(namespace, name) for namespace, name, *_ in metrics}
    assert {"FreeDataStorageCapacity", "DataReadBytes", "DataWriteBytes", "MetadataOperations"} <= {
        name for namespace, name in shown if namespace == "AWS/FSx"
    }
    alarmed = {(alarm["Namespace"], alarm["MetricName"]) for alarm in ray.properties("AWS::CloudWatch::Alarm")}
    assert alarmed <= shown
    # Three dashboards of an account cost nothing if each has at most 50 metrics.
    assert len(metrics) <= 50


def test_the_dashboard_shows_every_alarm_and_its_region_is_in_its_name(ray: Template) -> None:
    [states] = [each for each in widgets(ray) if each["type"] == "alarm"]
    assert sorted(states["properties"]["alarms"]) == sorted(ray.all("AWS::CloudWatch::Alarm"))
    assert ray.only("AWS::CloudWatch::Dashboard")["DashboardName"] == f"{CLUSTER}-{load('dev').region}"


def test_what_the_file_system_sums_in_a_period_is_divided_by_the_period(ray: Template) -> None:
    summed = [line[-1] for line in charted(widgets(ray)) if line[0] == "AWS/FSx"]
    assert {(each["stat"], each["visible"]) for each in summed} == {("Sum", False)}
    formulas = [
        line[0]["expression"]
        for each in widgets(ray)
        for line in each["properties"].get("metrics", [])
        if isinstance(line[0], dict)
    ]
    per_second = [f"m{n} / PERIOD(m{n})" for n in (0, 1, 0, 1, 2)]
    assert formulas == ["m0 * 60 / PERIOD(m0)", *per_second]


def test_the_topic_is_encrypted_takes_tls_only_and_admits_only_alarms_of_the_account(ray: Template) -> None:
    assert "KmsMasterKeyId" in ray.only("AWS::SNS::Topic")
    statements = ray.only("AWS::SNS::TopicPolicy")["PolicyDocument"]["Statement"]
    denied = [s["Condition"] for s in statements if s["Effect"] == "Deny"]
    assert denied == [{"Bool": {"aws:SecureTransport": "false"}}]
    [allowed] = [s for s in statements if s["Effect"] == "Allow"]
    assert (allowed["Principal"], allowed["Action"]) == ({"Service": "cloudwatch.amazonaws.com"}, "sns:Publish")
    assert allowed["Condition"] == {"StringEquals": {"aws:SourceAccount": "111122223333"}}
    key = ray.only("AWS::KMS::Key")["KeyPolicy"]["Statement"]
    assert [s["Action"] for s in key if s["Principal"] == allowed["Principal"]] == [
        ["kms:Decrypt", "kms:GenerateDataKey*"]
    ]


def test_receivers_are_the_environments(ray: Template) -> None:
    made = {(s["Protocol"], s["Endpoint"]) for s in ray.properties("AWS::SNS::Subscription")}
    assert made == {("email", "ml-platform@example.com"), ("https", "https://alerts.example.com/a")}


def test_check_and_review_agree_on_what_it_costs(assembly_of_dev: Assembly) -> None:
    environment = watched("dev")
    lines, without = estimate(environment), estimate(load("dev"))
    _, alarms, dashboard = (line for line in lines if line not in without)
    assert (alarms.item, dashboard.item) == ("CloudWatch alarms", "CloudWatch dashboard")
    assert alarms.usd_per_hour
    assert dashboard.usd_per_hour
    found = bill(ReviewedAssembly(Path(assembly_of_dev.directory)))
    assert found.usd_per_hour == pytest.approx(sum(line.usd_per_hour or 0 for line in lines))
    observations = "Container Insights' observations"
    assert observations in found.unpriced
    assert observations in unpriced(environment)
