"""Run cfn-lint in this process."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from cfnlint.config import ConfigMixIn
from cfnlint.decode.decode import decode_str
from cfnlint.rules import Match, Rules
from cfnlint.runner import Runner, run_template_by_data


def findings(template: Mapping[str, Any], *, region: str, ignored: tuple[str, ...] = ()) -> list[Match]:
    """Return what cfn-lint finds in a template; `ignored` are ids of its rules.

    `cfnlint.api.lint` loads all rules for each template, which takes longer than most templates do.
    """
    decoded, errors = decode_str(json.dumps(template))
    config = ConfigMixIn(regions=[region], ignore_checks=[*ignored])
    return errors or list(run_template_by_data(decoded, config, _rules(ignored)))


@cache
def _rules(ignored: tuple[str, ...]) -> Rules:
    return Runner(ConfigMixIn(ignore_checks=[*ignored])).rules
