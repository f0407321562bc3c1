"""Helm charts as CDK assets: the pinned ones from the verified cache, or a rehearsal's stand-ins."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct
from ruamel.yaml import YAML

from config.facts import charts_lock
from config.facts.charts_lock import ChartError
from stacks.shared.crds_chart import write_crds_chart

CONTEXT_KEY: Final = "charts"
STAND_IN: Final = "stand-in"
STAND_IN_DIRECTORY_KEY: Final = "stand-in-charts"


def chart_asset(scope: Construct, name: str, *, version: str | None = None, only_crds: bool = False) -> s3_assets.Asset:
    """Return the locked chart `name` as an asset, so that a deployment pulls no chart from the internet.

    `version` selects one of several locked versions. With `only_crds` the asset is a chart of the custom resource
    definitions of `name` (crds_chart.py).

    With `-c charts=stand-in -c stand-in-charts=DIRECTORY`, or in the shell of a kept rehearsal that has stand-ins, the
    asset is DIRECTORY/name instead, and a real account refuses the stack.

    Raises:
        ChartError: the chart is missing or was altered.
    """
    # CDK copies the asset into the cloud assembly immediately, so its source may be deleted.
    with TemporaryDirectory() as directory:
        chart = _chart(scope, name, version, Path(directory))
        if not only_crds:
            return s3_assets.Asset(scope, f"{name}Chart", path=str(chart))
        crds = write_crds_chart(name, chart, Path(directory))
        return s3_assets.Asset(scope, f"{name}CrdsChart", path=str(crds))


def _chart(scope: Construct, name: str, version: str | None, directory: Path) -> Path:
    """Return the chart's folder: unpacked into `directory`, or the folder of its stand-in."""
    source = scope.node.try_get_context(CONTEXT_KEY)
    rehearsed = os.environ.get(charts_lock.STAND_IN_VARIABLE)
    if source is None and not rehearsed:
        return charts_lock.unpack(name, directory, version)
    if source not in (None, STAND_IN):
        raise ChartError(name, f"context {CONTEXT_KEY}={source!r} is invalid. Allowed: {STAND_IN}, or no such context")
    _refuse_outside_rehearsals(cdk.Stack.of(scope))
    return _stand_in(scope.node.try_get_context(STAND_IN_DIRECTORY_KEY) or rehearsed, name, version)


def _stand_in(directory: str | None, name: str, version: str | None) -> Path:
    if not directory:
        raise ChartError(
            name, f"context {CONTEXT_KEY}={STAND_IN} needs a folder. Fix: -c {STAND_IN_DIRECTORY_KEY}=DIRECTORY"
        )
    # Beside the stand-in of the version that a rehearsal began with there may be those of further ones.
    own = Path(directory) / f"{name}-{version}"
    chart = own if own.is_dir() else Path(directory) / name
    if not (chart / "Chart.yaml").is_file():
        raise ChartError(name, f"no stand-in at {chart}. Fix: `python -m rehearsal.stand_ins {directory}`")
    found = YAML(typ="safe", pure=True).load(chart / "Chart.yaml")["version"]
    if version not in (None, found):
        message = f"the stand-in at {chart} is of version {found}, and no rehearsal has {version}. Allowed: {found}"
        raise ChartError(name, message)
    return chart


def _refuse_outside_rehearsals(stack: cdk.Stack) -> None:
    """Make CloudFormation refuse the stack, before it creates anything, unless the embedded account's marker exists."""
    if stack.node.try_find_child("RehearsalOnly"):
        return
    options = stack.template_options
    options.description = f"REHEARSAL ONLY (stand-in Helm charts): {options.description}"
    marker = cdk.CfnParameter(
        stack,
        "RehearsalOnly",
        type="AWS::SSM::Parameter::Value<String>",
        default=charts_lock.STAND_IN_MARKER,
        description="Exists in the rehearsal's embedded account only. Deploy without -c charts=stand-in elsewhere.",
    )
    cdk.CfnRule(
        stack,
        "StandInChartsOnlyInRehearsal",
        assertions=[
            cdk.CfnRuleAssertion(
                assert_=cdk.Fn.condition_equals(marker.value_as_string, charts_lock.STAND_IN_MARKER_VALUE),
                assert_description="Stand-in Helm charts: run `ops charts fetch` and synth without -c charts",
            )
        ],
    )
