"""Any environment that keeps all rules can be synthesised."""

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings

from config import load_any
from tests.support.generated_environments import valid_environments
from tests.synth.support.synthesis import STACKS, synthesise


@given(document=valid_environments())
# Failures are not shrunk: each attempt takes seconds.
@settings(
    max_examples=settings().max_examples // 50,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
def test_an_environment_that_keeps_all_rules_can_be_synthesised(document: Any) -> None:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "generated.yaml"
        file.write_text(json.dumps(document, ensure_ascii=False))
        assembly = synthesise(load_any("generated", file.parent), file.parent)
        assert set(assembly.templates) == set(STACKS)
        assert all(template.body["Resources"] for template in assembly.templates.values())
