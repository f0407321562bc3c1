"""Shell commands of the README and of the task pages: which of them a test types, and what runs the others."""

import re
from functools import cache
from typing import Final

from rehearsal.paths import REPOSITORY

PAGES: Final = (
    "README.md",
    "docs/getting-started.md",
    *(f"docs/operate/{page}.md" for page in ("deploy", "change", "tear-down", "upgrade")),
)
"""What a new reader types from."""

ACTIVATE: Final = "source .venv/bin/activate"
NEW: Final = "ops new trial"
CLONE: Final = "git clone URL ray-on-hyperpod && cd ray-on-hyperpod"
CHECK: Final = "ops check --env dev"
FETCH: Final = "ops charts fetch"
BOOTSTRAP: Final = "cdk bootstrap -c environment=dev"
PREFLIGHT: Final = "ops preflight --env dev"
DEPLOY: Final = "cdk deploy --all --concurrency 3 --require-approval never -c environment=dev"
WAIT: Final = "ops wait --env dev"
KUBECONFIG: Final = "aws eks update-kubeconfig --name rayhp-dev --region us-west-2"
ISOLATION: Final = "ops isolation-check --env dev"
DIFF: Final = "cdk diff -c environment=dev"
DESTROY: Final = "ops destroy --env dev"
TYPED: Final = {ACTIVATE, CHECK, FETCH, BOOTSTRAP, PREFLIGHT, DEPLOY, WAIT, KUBECONFIG, ISOLATION, DIFF, DESTROY}

PROD_DESTROY: Final = (
    "cdk destroy rayhp-prod-ray rayhp-prod-platform rayhp-prod-hyperpod rayhp-prod-eks --concurrency 3 "
    "-c environment=prod"
)
PROD_UNPROTECTED: Final = "cdk deploy rayhp-prod-storage rayhp-prod-network -c environment=prod"
NOT_TYPED: Final = {
    CLONE: "tests/unit/repository/test_index.py types it, with the address of this checkout",
    f"{NEW} --like small": "test_new does it with --like; tests/unit/ops/environment/test_new.py copies each example",
    NEW: "test_new types it, and rehearses what it writes",
    "ops check": "tests/unit/ops/environment/test_check.py does it, and each environment's is typed here",
    "make manifests": "the tests of manifests render them, and CI compares",
    "make rehearse": "the tier rehearse-dev runs it as written",
    "make test": "CI runs its tiers one by one, and this is part of one",
    "make rehearse KEEP=1": "test_kept",
    "make rehearse-down": "test_kept",
    "make drill": "test_drills types it",
    "make drill NAME=capacity": "CI runs it with the other drills",
    "ops destroy --env dev --dry-run": "tests/unit/ops/destroy does it",
    "cdk destroy --all --concurrency 3 -c environment=dev": "`make rehearse ENV=prod` does it for prod",
    "ops scale worker-group-1 2 --env dev": "the drill scale-down does it",
    "ops update-software --env dev --group worker-group-1": "the unit tests of `ops update-software` do it",
    "ops rollout rayml --env dev": "tests/rehearsal/kubernetes/test_rollout.py does it with the real operator",
    "ops rollout rayml --env dev --max-unavailable 10%": "the same file does it, in two halves",
    "ops job submit fsdp_finetune --env dev -- --epochs 3": "`make rehearse-job` submits a job so, to real Ray",
    "ops smoke --env dev": "`make rehearse-job` runs it on real Ray",
    "ops job list --env dev": "tests/rehearsal/kubernetes/test_submitters.py does it on a real control plane",
    "make rehearse-job": "CI runs it as written",
    "ops dashboard --env dev": "tests/rehearsal/account/test_every_day.py does it, and a browser opens the address",
    PROD_DESTROY: "`make rehearse ENV=prod` does it, with these stacks",
    PROD_UNPROTECTED: "`make rehearse ENV=prod` does it, with these stacks",
    "cdk destroy --all --concurrency 3 -c environment=prod": "`make rehearse ENV=prod` does it",
}


@cache
def readme_commands() -> list[str]:
    """Return the commands of the pages' shell blocks, in order."""
    text = "\n".join((REPOSITORY / page).read_text() for page in PAGES)
    blocks = re.findall(r"```bash\n(.*?)```", text, re.DOTALL)
    lines = [line.partition(" #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line]
