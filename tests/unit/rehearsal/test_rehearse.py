"""The end of a protected environment's rehearsal, by Kubernetes and by Slurm."""

from types import SimpleNamespace
from unittest.mock import create_autospec

import pytest
from rich.console import Console

from rehearsal.run import rehearse
from rehearsal.run.slurm import SlurmRehearsal
from rehearsal.run.steps import Rehearsal


@pytest.mark.parametrize(("kind", "asks_for_ray"), [(Rehearsal, True), (SlurmRehearsal, False)])
def test_a_protected_environment_is_deployed_again_and_only_a_ray_environments_ray_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, kind: type[Rehearsal], asks_for_ray: bool
) -> None:
    rehearsal = create_autospec(kind, instance=True, environment=SimpleNamespace(protect=True))
    rehearsal.destroy.return_value = ()
    shown = []
    monkeypatch.setattr(rehearse, "_show_leftovers", lambda *_, protected: shown.append(protected))
    rehearse._end(rehearsal, Console(), kills=())
    begun = ["lift_protection", "destroy", "deployed_again"]
    ended = ["destroy_unprotected", "existing_is_untouched", "timeline"]
    assert [name for name, *_ in rehearsal.method_calls] == [*begun, *["ray_is_ready"] * asks_for_ray, *ended]
    assert shown == [True, False]
