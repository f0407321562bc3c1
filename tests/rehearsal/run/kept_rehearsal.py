"""`python -m rehearsal run --keep` of a project whose only stack is a cluster: what needs more only says its name."""

from rehearsal.__main__ import app
from rehearsal.run.steps import Rehearsal
from tests.rehearsal.run.cluster_app import ENVIRONMENT

SKIPPED = ("nodes_join", "ops_wait", "ray_is_ready", "nothing_drifted")

if __name__ == "__main__":
    for step in SKIPPED:
        setattr(Rehearsal, step, lambda _, step=step: print(step, flush=True))
    app(["run", "--env", ENVIRONMENT, "--keep"])
