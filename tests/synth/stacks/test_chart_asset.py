"""The source of a stack's charts, and the error when a chart is missing."""

from pathlib import Path

import aws_cdk as cdk
import pytest

from config.facts import charts_lock
from config.facts.charts_lock import ChartError
from stacks.shared.crds_chart import write_crds_chart
from stacks.shared.helm_chart_asset import chart_asset


def stack(tmp_path: Path, **context: str) -> cdk.Stack:
    named = {key.replace("_", "-"): value for key, value in context.items()}
    return cdk.Stack(cdk.App(context=named, outdir=str(tmp_path / "cdk.out")), "stack")


def test_a_chart_that_is_not_cached_names_the_command_that_fetches_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(charts_lock.CACHE_VARIABLE, str(tmp_path / "empty"))
    with pytest.raises(ChartError, match=r"kuberay-operator: .* Fix: `ops charts fetch`"):
        chart_asset(stack(tmp_path), "kuberay-operator")


def test_a_cached_chart_leaves_no_mark_and_gives_the_same_asset_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unpack(name: str, directory: Path, version: str | None) -> Path:
        (directory / name).mkdir()
        (directory / name / "Chart.yaml").write_text("name: x")
        return directory / name

    monkeypatch.setattr(charts_lock, "unpack", unpack)
    first, second = (stack(tmp_path / out) for out in ("one", "two"))
    assert chart_asset(first, "x").asset_hash == chart_asset(second, "x").asset_hash
    assert first.node.try_find_child("RehearsalOnly") is None


def test_stand_ins_that_were_not_made_name_the_command_that_makes_them(tmp_path: Path) -> None:
    with pytest.raises(ChartError, match=r"python -m rehearsal\.stand_ins"):
        chart_asset(stack(tmp_path, charts="stand-in", stand_in_charts=str(tmp_path)), "kuberay-operator")


def test_a_stand_in_of_another_version_is_refused(tmp_path: Path) -> None:
    """A rehearsal of KubeRay 1.4.2 with another operator would prove nothing."""
    (tmp_path / "kuberay-operator").mkdir()
    (tmp_path / "kuberay-operator" / "Chart.yaml").write_text("name: kuberay-operator\nversion: 1.2.0\n")
    where = stack(tmp_path, charts="stand-in", stand_in_charts=str(tmp_path))
    with pytest.raises(ChartError, match=r"is of version 1\.2\.0, and no rehearsal has 1\.4\.2"):
        chart_asset(where, "kuberay-operator", version="1.4.2")


def test_a_stand_in_of_a_further_version_is_taken_for_this_version_only(tmp_path: Path) -> None:
    for folder, version in (("kuberay-operator", "1.2.0"), ("kuberay-operator-1.6.2", "1.6.2")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "Chart.yaml").write_text(f"name: kuberay-operator\nversion: {version}\n")
    assets = []
    for number, version in enumerate(("1.2.0", "1.6.2")):
        where = stack(tmp_path / str(number), charts="stand-in", stand_in_charts=str(tmp_path))
        assets.append(chart_asset(where, "kuberay-operator", version=version).asset_hash)
    assert len(set(assets)) == 2


def test_the_shell_of_a_kept_rehearsal_has_its_stand_ins_and_marks_the_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(charts_lock.STAND_IN_VARIABLE, str(tmp_path))
    (tmp_path / "kuberay-operator").mkdir()
    (tmp_path / "kuberay-operator" / "Chart.yaml").write_text("name: kuberay-operator\nversion: 1.2.0\n")
    where = stack(tmp_path)
    chart_asset(where, "kuberay-operator")
    assert where.node.try_find_child("RehearsalOnly")
    with pytest.raises(ChartError, match=r"python -m rehearsal\.stand_ins"):
        chart_asset(where, "HyperPodHelmChart")


def test_stand_ins_need_their_directory(tmp_path: Path) -> None:
    with pytest.raises(ChartError, match=r"needs a folder\. Fix: -c stand-in-charts=DIRECTORY"):
        chart_asset(stack(tmp_path, charts="stand-in"), "kuberay-operator")


def test_another_source_of_charts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ChartError, match=r"charts='latest' is invalid\. Allowed: stand-in"):
        chart_asset(stack(tmp_path, charts="latest"), "kuberay-operator")


def test_crds_become_a_chart_of_their_own_with_the_charts_version(tmp_path: Path) -> None:
    chart = tmp_path / "x"
    (chart / "crds").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("name: x\nversion: 1.2.0\n")
    (chart / "crds" / "a.yaml").write_text("description: '{{ not a template }}'\n")
    written = write_crds_chart("x", chart, tmp_path / "out")
    assert {str(path.relative_to(written)) for path in written.rglob("*.yaml")} == {
        "Chart.yaml",
        "files/a.yaml",
        "templates/crds.yaml",
    }
    assert (written / "files" / "a.yaml").read_text() == "description: '{{ not a template }}'\n"
    assert "version: 1.2.0" in (written / "Chart.yaml").read_text()


def test_a_chart_without_crds_is_no_source_of_them(tmp_path: Path) -> None:
    with pytest.raises(ChartError, match="holds no custom resource definition"):
        write_crds_chart("x", tmp_path, tmp_path / "out")
