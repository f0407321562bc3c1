"""What a new reader types on the first day, page by page: each command, its exit code, and what the page promises."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from config.facts.charts_lock import STAND_IN_VARIABLE

NODE: Final = "i-0123456789abcdef0"
"""The pages' name of a node."""
SHORTAGE: Final = (
    """until [[ "$(ops status --env dev)" == *"do not have sufficient ml.g5.4xlarge capacity"* ]]; do sleep 5; done"""
)
UNCORDON: Final = f"kubectl uncordon hyperpod-{NODE}"
GROW: Final = "sed -i 's/ count: 2$/ count: 3/; s/replicas: 2\\b/replicas: 3/' environments/dev.yaml"
SHRINK: Final = "sed -i 's/ count: 3$/ count: 2/; s/replicas: 3\\b/replicas: 2/' environments/dev.yaml"
_JOB: Final = {
    "apiVersion": "ray.io/v1",
    "kind": "RayJob",
    "metadata": {"name": "train", "namespace": "ray"},
    "spec": {"entrypoint": "python train.py", "clusterSelector": {"ray.io/cluster": "rayml"}},
}
TRAIN: Final = (
    f"echo '{json.dumps(_JOB)}' | kubectl apply -f - && kubectl wait -n ray rayjob/train --timeout=2m "
    "--for='jsonpath={.status.rayClusterName}=rayml'"
)
END_TRAINING: Final = "kubectl delete -n ray rayjob/train --timeout=2m"
WITHOUT_CHARTS: Final = f"unset {STAND_IN_VARIABLE}"
"""Without charts no synthesis succeeds, and a destroy needs none."""
REFUSED: Final = "RayCluster ray/rayml has unfinished jobs: RayJob train. Fix: wait for their end or stop them"
DEPLOYED_STATE: Final = (
    "printf '%s\\n' .venv node_modules .rehearsal __pycache__ cdk.out > .gitignore; git init -q -b main; git add .; "
    "git -c user.name=reader -c user.email=reader@example.com commit -q -m deployed"
)
SET_UP_BEFORE: Final = "cp -a .venv node_modules ../before"
"""Instead of `./setup.sh runtime` there, which asks package indexes."""
AWS_CLI: Final = (
    'mkdir -p ~/bin && ln -s "$(ls $PWD/.rehearsal/runs/dev/account/lambda/packages/opt/*/awscli/aws | head -1)" ~/bin/'
)
SIMULATED: Final = r"error: .* is simulated: no program runs in it; `make rehearse KEEP=1 JOBS=1` runs real Ray"


@dataclass(frozen=True)
class Line:
    """A command as its page has it."""

    command: str
    promises: tuple[str, ...] = ()
    """Regular expressions that find in the output what the page says of it."""
    code: int = 0
    before: str = ""
    """What the page lets the reader do before, as bash."""
    replaced: bool = False
    """Whether a pod of the RayCluster, which the output names, is lost and replaced."""
    piped: bool = False
    """Whether the reader pipes the output, as into a file."""
    until: str | None = None
    """What is shown when the reader presses Ctrl-C."""


ACTIVATE: Final = Line("source .venv/bin/activate")
BOOTSTRAP: Final = "cdk bootstrap -c environment=dev"
DIFF: Final = "cdk diff -c environment=dev"
DEPLOY: Final = "cdk deploy --all --concurrency 3 --require-approval never -c environment=dev"
SCALE: Final = "ops scale worker-group-1 2 --env dev"
PAUSE: Final = "ops pause --env dev"
DESTROY: Final = "ops destroy --env dev"

FIRST_DAY: Final[Mapping[str, tuple[Line, ...]]] = {
    "docs/getting-started.md": (
        ACTIVATE,
        Line("ops new trial", (r"environments/dev\.yaml written",)),
        Line("ops check --env dev", (r"dev: account 444455556666, us-west-2[\s\S]*worker-group-1[\s\S]*US\$",)),
        Line("make manifests", (r"manifests/dev/ray/clusters/rayml\.yaml written",)),
        Line("make rehearse ENV=dev KEEP=1", (r"^✔ RayClusters ready", r"It stays until make rehearse-down")),
        Line("make drill", (r"^capacity +A shortage of instances",)),
        Line("make lose", ("^node +a worker's node", "^head ", "^disk ", "^capacity ")),
        Line("make lose WHAT=disk", ("is evicted",), replaced=True),
        Line("make lose WHAT=head", ("every job of RayCluster rayml",), replaced=True),
        Line("make lose WHAT=node", (r"lost: node hyperpod-i-\w+ is silent, and on it rayml-",), replaced=True),
        Line("make lose WHAT=capacity", (r"AWS has no ml\.g5\.4xlarge to replace it",)),
        Line("make lose WHAT=nothing", before=SHORTAGE),
    ),
    "docs/operate/deploy.md": (
        ACTIVATE,
        # No test asks a publisher of charts.
        Line(
            "ops charts fetch",
            (r"Fix: give a mirror with --mirror",),
            code=2,
            before="export HTTPS_PROXY=http://127.0.0.1:1",
        ),
        Line(BOOTSTRAP, (r"✅ +Environment aws://444455556666/us-west-2 bootstrapped",)),
        Line("ops preflight --env dev", (r"dev is ready to deploy: ",)),
        Line(
            "ops isolation-check --env dev",
            (r"error: a rehearsal does not enforce policies: nothing was tried\. Fix: ",),
            code=1,
        ),
        Line("ops smoke --env dev", (SIMULATED,), code=1),
        Line("ops dashboard --env dev", (SIMULATED,), code=1),
        Line("aws eks update-kubeconfig --name rayhp-dev --region us-west-2", ("rayhp-dev",), before=AWS_CLI),
        Line("ops job submit fsdp_finetune --env dev -- --epochs 3", (SIMULATED,), code=1),
        Line("ops job list --env dev", ("run +kind +RayCluster",)),
    ),
    "docs/operate/change.md": (
        Line(DIFF, ("Number of stacks with differences: 2",), before=GROW),
        Line(DEPLOY, ("✅  rayhp-dev-hyperpod\n", "✅  rayhp-dev-ray\n")),
        Line("ops wait --env dev", ("worker-group-1: 3 of 3 nodes", "dev is ready"), piped=True),
        Line(SCALE, (REFUSED,), code=1, before=TRAIN),
        Line(SCALE, ("the nodes are gone", "`count: 3` becomes `count: 2`"), before=END_TRAINING),
        Line("ops rollout rayml --env dev", ("no pod has an old template",), before=SHRINK),
        Line("ops rollout rayml --env dev --max-unavailable 10%", ("no pod has an old template",)),
    ),
    "docs/operate/save-money.md": (
        Line("ops cost --env dev", (r"per month +[\d,]+$", "Not priced: ")),
        Line("ops cost --env dev --live", (r"worker-group-1 +2 x ml\.g5\.4xlarge +4\.06 +2 x ml\.g5\.4xlarge",)),
    ),
    "docs/operate/pause.md": (
        Line(f"{PAUSE} --dry-run", ("dry run: nothing was changed", "still costs, in US")),
        Line(PAUSE, (REFUSED,), code=1, before=TRAIN),
        Line(PAUSE, ("no node is left", "still costs, in US"), before=END_TRAINING),
        Line("ops resume --env dev", ("dev is ready",), piped=True),
        Line("ops resume --env dev --no-wait"),
    ),
    "docs/operate/nodes.md": (
        Line("ops node list --env dev", (r"^i-\w+ +worker-group-1 +ml\.g5\.4xlarge +Running",)),
        Line(f"ops node shell {NODE} --env dev", ("session-manager-plugin is not installed",), code=2),
        Line(f"ops node drain {NODE} --env dev", ("Continue", "to use it again: `kubectl uncordon hyperpod-i-")),
        Line(f"ops node reboot {NODE} --env dev", ("Continue", "and its Ray pods are back"), before=UNCORDON),
        Line(f"ops node replace {NODE} --env dev", ("Continue", "the node in place of i-.* and its Ray pods are back")),
        Line(f"ops node check {NODE} --env dev", ("Continue", "InstanceStress", "passed its deep health checks")),
    ),
    "docs/operate/watch.md": (
        Line("ops status --env dev", ("10 of 10 ready", "6 of 6 complete", "about US. [0-9.]+ per hour")),
        Line("ops status --env dev --watch", code=130, until="Ctrl-C stops"),
        Line(
            "ops events --env dev --since 30m", (r"^[-\d]+ [:\d]+ HyperPod Info", r"^[-\d]+ [:\d]+ Kubernetes Warning")
        ),
        Line("ops logs head --env dev --follow", (SIMULATED,), code=1),
        Line("ops kubeconfig --env dev --file ~/.kube/config", ("has the context rayhp-dev: ",)),
        Line("ops support-bundle --env dev --dry-run", ("kubernetes/ray/rayclusters.json",)),
        Line("ops support-bundle --env dev --since 1d", ("kubernetes/ray/rayclusters.json",)),
    ),
    "docs/operate/review.md": (
        Line("git worktree add --detach ../before main", before=DEPLOYED_STATE),
        Line(
            "ops review ../before",
            ("No change needs an approval", "^Running jobs: ", "^Data: ", "worker-group-1: count 2 → 3 +in place"),
            before=f"{SET_UP_BEFORE}; {GROW}",
        ),
    ),
    "docs/operate/tear-down.md": (
        Line(f"{DESTROY} --dry-run", ("these stacks are destroyed", r"file system fs-\w+", "these stay")),
        Line(DESTROY, (REFUSED,), code=1, before=TRAIN),
        Line(
            DESTROY,
            (r"this data is deleted for good[\s\S]*  file system fs-\w+\n[\s\S]*\[y/N\]", "dev: 6 stacks destroyed"),
            before=f"{END_TRAINING}; {WITHOUT_CHARTS}",
        ),
    ),
}
