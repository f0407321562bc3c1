"""A controller that lacks an argument ends with a message that names it, and starts nothing."""

import sys
from types import ModuleType

import pytest

from controllers import job_supervisor, rayjob_submitter, reaper, sleeper
from controllers.in_cluster import efa_exporter, exporter

REQUIRED = {
    reaper: "--namespace, --unready-seconds, --unwell-seconds, --service-account, --listen",
    job_supervisor: "--run, --namespace, --cluster, --entrypoint, --storage, --max-attempts, --max-stalled, "
    "--service-account, --listen",
    rayjob_submitter: "--run, --entrypoint, --storage, --listen",
    sleeper: "--namespace, --own-namespace, --group, --function, --region, --service-account, --listen",
    exporter: "--namespace, --service-account, --listen",
    efa_exporter: "--sys, --listen",
}


@pytest.mark.parametrize("program", REQUIRED, ids=lambda program: program.__name__)
def test_missing_arguments_are_named(
    program: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["program"])
    with pytest.raises(SystemExit) as ended:
        program.main()
    assert ended.value.code == 2
    assert f"required: {REQUIRED[program]}\n" in capsys.readouterr().err
