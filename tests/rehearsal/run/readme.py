"""Shell commands of all pages: which of them a test types, and what runs the others, or why nothing does."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from rehearsal.paths import REPOSITORY
from tests.rehearsal.run.first_day import FIRST_DAY

PAGES: Final = (
    REPOSITORY / "README.md",
    *sorted(page for page in (REPOSITORY / "docs").rglob("*.md") if page.parent.name != "adr"),
    *sorted((REPOSITORY / "packages").glob("*/README.md")),
)

NEW: Final = "ops new trial"
CLONE: Final = "git clone URL ray-on-hyperpod && cd ray-on-hyperpod"
CHECK: Final = "ops check --env dev"
PREFLIGHT: Final = "ops preflight --env dev"
TYPED: Final = {line.command for lines in FIRST_DAY.values() for line in lines}
LOSE_NODE: Final = "make lose WHAT=node"
REHEARSE_JOBS: Final = "make rehearse KEEP=1 JOBS=1"
SUBMIT_PRACTICE: Final = "ops job submit pytorch_ddp --env dev --name practice -- --epochs 100 --workers 4"
SETUP_CURRENT: Final = "make setup-jobs ROW=current"
SUBMIT_LONG_PRACTICE: Final = "ops job submit pytorch_ddp --env dev --name practice -- --epochs 100000"
UPGRADE_PRACTICE: Final = "ops upgrade --env dev --to current --checkpoint"
STOP_PRACTICE: Final = "ops job stop practice --env dev"
OWN_SCRIPT: Final = "ops job submit ~/mine/train.py -- --lr 0.1"
VARIABLE: Final = "--variable NCCL_DEBUG=INFO"
BRING: Final = "ops job submit --name bring --env dev --working-dir ~/data -- cp -rT . /fsx/ray/data"
TOP: Final = "ops job top --env dev"
SAVE: Final = "ops job checkpoint train-20261121-201500"
STOP: Final = "ops job stop train-20261121-201500"
LOGS: Final = "ops job logs train-20261121-201500"
SLEEP: Final = "ops sleep worker-group-1 --env dev"
GOODPUT: Final = "ops job submit --name look -- python -m ray_resume goodput /fsx/ray/runs/train-1"
LIST_JOBS: Final = "ops job list --env dev"

PROD_DESTROY: Final = (
    "cdk destroy rayhp-prod-ray rayhp-prod-platform rayhp-prod-hyperpod rayhp-prod-eks --concurrency 3 "
    "-c environment=prod"
)
PROD_UNPROTECTED: Final = "cdk deploy rayhp-prod-storage rayhp-prod-network -c environment=prod"

REASONS: Final = {
    "AWS": "asks or changes what only a real account has",
    "registries": "installs packages from the internet",
    "measures": "prints measurements for a developer, and promises no result",
    "variables": "sets a shell's variables",
}
"""Why no test runs a command."""

NOT_TYPED: Final[Mapping[str, tuple[str, ...]]] = {
    # A file of tests
    "tests/unit/repository/test_index.py": (CLONE,),
    "tests/rehearsal/run/test_new.py": (f"{NEW} --like small",),
    "tests/unit/ops/environment/test_check.py": ("ops check",),
    "tests/rehearsal/run/test_kept.py": ("make rehearse KEEP=1", "make rehearse-down"),
    "tests/rehearsal/run/test_kept_jobs.py": (
        *(REHEARSE_JOBS, SUBMIT_PRACTICE, GOODPUT, OWN_SCRIPT, BRING, TOP, SAVE, STOP, LOGS, SLEEP),
    ),
    "tests/rehearsal/run/test_kept_upgrade.py": (
        *(SETUP_CURRENT, SUBMIT_LONG_PRACTICE, UPGRADE_PRACTICE, STOP_PRACTICE),
    ),
    "tests/rehearsal/kubernetes/test_rollout.py": (
        "ops rollout rayml --env dev --dry-run",
        "ops rollout rayml --env dev --checkpoint",
        "kubectl get pods -n ray -L ray-on-hyperpod/template",
    ),
    "tests/rehearsal/kubernetes/test_isolation_check.py": ("ops isolation-check --env dev --dry-run",),
    "tests/rehearsal/kubernetes/test_rayjobs.py": (
        "ops job submit fsdp_finetune --env dev --as rayjob --workers 2 -- --epochs 3",
        "ops job submit fsdp_finetune --env dev --as rayjob --queue team-a",
    ),
    "tests/rehearsal/kubernetes/test_reaper.py": (
        "kubectl logs -n kuberay -l app.kubernetes.io/name=ray-reaper",
        "kubectl get events -n ray --field-selector reason=StuckPodForceDeleted",
        "kubectl get events -n ray --field-selector reason=SavesBeforeMove",
        "kubectl get events -n ray --field-selector reason=MovedOffUnhealthyNode",
        "kubectl get events -n ray --field-selector reason=UnreadyWorkerReplaced",
        "kubectl exec -n kuberay deploy/ray-reaper -- python -m controllers.reaper --namespace=ray "
        "--unready-seconds=30 --unwell-seconds=240 --service-account=/var/run/secrets/kubernetes.io/serviceaccount "
        "--listen=127.0.0.1:8081 --dry-run",
    ),
    "tests/rehearsal/kubernetes/test_kubeflow.py": ("kubectl get crd -o name | grep -e kubeflow.org",),
    "tests/rehearsal/kubernetes/test_submitters.py": (
        "ops job submit --name probe -- nvidia-smi",
        "ops job list",
        "ops job logs survivor --env dev",
        "ops job logs train-20261121-201500 --env dev",
        "ops job stop survivor --env dev",
        "ops job submit --direct train.py",
        "ops job submit pytorch_ddp --name digits --again -- --epochs 3",
        "ops job submit pytorch_ddp --name digits -- --epochs 2",
    ),
    "tests/unit/ops/upgrade/test_upgrade.py": (
        "ops upgrade --env dev --to fixed --dry-run",
        "ops upgrade --env dev --to fixed --checkpoint",
    ),
    "tests/unit/ops/jobs/test_job.py": (
        "ops job submit --in-head train.py",
        "ops job submit fsdp_finetune --name second -- --warm-from first --learning-rate 1e-5",
        "ops job submit pytorch_ddp --env dev --min-workers 2 --max-workers 4",
        "ops job submit train.py --env dev --min-workers 12 --max-workers 16 --wait-for-workers 5m -- --epochs 3",
        "ops job submit fsdp_finetune --env dev --name survivor --detach -- --gpus --epochs 100000 --every 100",
    ),
    "tests/unit/ops/jobs/test_routes.py": (
        "ops job submit train.py --variable NCCL_DEBUG=INFO --variable HF_HUB_OFFLINE=1",
    ),
    "tests/unit/ops/change/test_by_hand.py": ("ops wake worker-group-1 --env dev --for 2h",),
    "tests/unit/ops/jobs/test_waking.py": ("ops job submit train.py --env dev --detach",),
    "tests/unit/ops/jobs/test_pip.py": ("ops job submit train.py --pip requirements.txt",),
    "tests/unit/ops/jobs/test_pytorchjob.py": (
        "ops job submit train.py --env dev --as pytorchjob --workers 4 -- --epochs 3",
        "ops job submit train.py --env dev --as pytorchjob --dry-run",
    ),
    "tests/unit/ops/jobs/test_exec.py": (
        "ops job exec train-20261121-201500 --env dev -- nvidia-smi",
        "ops job exec train-20261121-201500 --env dev --worker 3 -- bash",
    ),
    "tests/unit/ops/jobs/test_checkpoint.py": (
        "ops job checkpoint train-20261121-201500 --env dev",
        "ops scale worker-group-1 2 --env dev --checkpoint",
        "ops update-software --env dev --group worker-group-1 --checkpoint",
        "ops pause --env dev --checkpoint",
        "ops node replace i-0123456789abcdef0 --env dev --checkpoint",
    ),
    "tests/jobs/test_save_requests.py": ("python -m ray_resume checkpoint --timeout 600",),
    "tests/jobs/test_telemetry.py": ("ops job top --env dev --watch", "ops job top --watch"),
    "tests/jobs/test_profiles.py": (
        "ops job profile train-20261121-201500 --env dev",
        "ops job profile train-20261121-201500 --env dev --seconds 60 --worker 3",
    ),
    "tests/jobs/test_serving.py": (
        "ops job submit serve_finetuned --name tuned --max-stalled 1000 -- --model /fsx/ray/models/tuned "
        "--replicas 2 --gpus",
        "curl -c cookies 'http://localhost:8000/?token=TOKEN'",
        """curl -b cookies -d '{"prompt": "Once upon", "tokens": 20}' http://localhost:8000/tuned""",
    ),
    "tests/jobs/test_tracking.py": (
        "kubectl exec -n ray HEAD_POD -- tensorboard --logdir /fsx/ray/runs/digits/tensorboard",
    ),
    "tests/jobs/test_llm_finetune.py": (
        "ops job submit llm_finetune -- --gpus --workers 16 --cpus 8 --model $MODEL --data $DATA/train.jsonl "
        "--validation $DATA/validation.jsonl --length 4096 --batch 128 --activation-checkpointing --epochs 2 "
        "--warmup 50 --every 200 --keep-best",
        "ops job submit llm_export -- --trained /fsx/ray/runs/RUN --folder /fsx/ray/models/tuned",
    ),
    "tests/rehearsal/account/test_every_day.py": (
        "ops dashboard prometheus --env dev",
        "ops dashboard serve --env dev --port 8000",
        "ops dashboard tensorboard --env dev",
        "ops update-software --env dev --group worker-group-1",
        "ops update-software --env dev --group head-group",
    ),
    "tests/unit/ops/review/test_owners.py": ("make owners TEAM=@OWNER/PLATFORM-TEAM",),
    "tests/unit/ops/test_output.py": ("ops images --env closed",),
    "tests/rehearsal/account/test_data.py": (
        "ops data ls --env prod",
        "ops data put ./images /fsx/datasets/images --env prod",
        "ops data get /fsx/results/run-1 ./run-1 --env prod",
    ),
    "tests/rehearsal/account/test_delivery.py": (
        'cdk deploy --app "python3 -m stacks.delivery" -c environment=dev -c repository=OWNER/NAME -c provider=create',
    ),
    "tests/rehearsal/account/test_plan.py": ("cdk synth --quiet -c environment=dev", "ops plan --env dev"),
    "tests/rehearsal/account/test_existing_cluster.py": ("ops check --env existing-eks --live",),
    "tests/rehearsal/account/test_image_build_real_cluster.py": ("ops image build --env dev",),
    "tests/unit/ops/change/test_image_build.py": ("ops image build --env dev --dry-run",),
    "tests/rehearsal/account/test_mirror.py": (
        "ops mirror --env closed --dry-run",
        "ops mirror --env closed",
        "ops mirror --env dev --to 111122223333.dkr.ecr.us-west-2.amazonaws.com --dry-run",
    ),
    "tests/unit/ops/watch/test_logs.py": ("ops logs sleeper --env dev",),
    "tests/unit/ops/policy/test_policy.py": ("ops policy operator --env dev --out policies",),
    "tests/rehearsal/account/test_sweep.py": ("ops sweep --env dev --dry-run",),
    # A tier of CI
    "tier rehearse-dev": ("make rehearse", "ops drift --env dev"),
    "tier rehearse-prod": (
        PROD_DESTROY,
        PROD_UNPROTECTED,
        "cdk destroy --all --concurrency 3 -c environment=prod",
        "cdk destroy --all --concurrency 3 -c environment=dev",
    ),
    "tier rehearse-job": (
        "make rehearse-job",
        "ops job submit fsdp_finetune -- --epochs 3",
    ),
    "tier drills-creation": ("make drill NAME=capacity",),
    "tier drills-nodes": ("make drill NAME='node-dies head-node-dies'",),
    "tier unit": ("make test",),
    # No test
    "AWS": (
        "aws eks describe-addon-versions --region us-west-2 --kubernetes-version 1.35 --owners aws --output text "
        "--query 'addons[].[addonName,addonVersions[?compatibilities[0].defaultVersion].addonVersion|[0]]'",
        "cdk deploy rayhp-trial-storage rayhp-trial-eks --concurrency 3 --require-approval never -c environment=dev",
        "cdk deploy rayhp-trial-hyperpod --require-approval never -c environment=dev",
        "aws sagemaker list-cluster-nodes --region us-west-2 --cluster-name ml-cluster-trial --query "
        "'ClusterNodeSummaries[].[InstanceGroupName,InstanceStatus.Status]'",
        "aws sagemaker list-cluster-events --region us-west-2 --cluster-name ml-cluster-trial",
        "aws cloudtrail lookup-events --region us-west-2 --query 'Events[].EventTime' "
        "--lookup-attributes AttributeKey=EventName,AttributeValue=UpdateCluster",
        "aws sagemaker list-clusters --region us-west-2 --name-contains ml-cluster-trial",
        "aws fsx describe-file-systems --region us-west-2 --query 'FileSystems[].FileSystemId'",
        "aws eks describe-cluster --name shared-platform --query 'cluster.[version, identity.oidc.issuer, "
        "resourcesVpcConfig.clusterSecurityGroupId]'",
        "aws iam list-open-id-connect-providers",
        "aws eks describe-addon --cluster-name shared-platform --addon-name vpc-cni --query addon.addonVersion",
        "kubectl get lease -n kube-system | grep fsx",
        "cdk bootstrap aws://111122223333/us-west-2 --qualifier mlplatform --toolkit-stack-name CDKToolkit-mlplatform",
        "aws s3api put-bucket-lifecycle-configuration --bucket rayhp-dev-data-111122223333-us-west-2 "
        """--lifecycle-configuration '{"Rules": [ {"ID": "empty", "Status": "Enabled", "Filter": {}, """
        """"Expiration": {"Days": 1}, "NoncurrentVersionExpiration": {"NoncurrentDays": 1}, """
        """"AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1}}, {"ID": "markers", "Status": "Enabled", """
        """"Filter": {}, "Expiration": {"ExpiredObjectDeleteMarker": true}}]}'""",
        "hyp set-cluster-context --cluster-name ml-cluster-dev --namespace ray",
        "hyp list hyp-pytorch-job --namespace ray",
        "cdk bootstrap -c environment=dev --custom-permissions-boundary Boundary "
        "--apply-permissions-boundary-to-all-roles",
        "aws fsx update-file-system --file-system-id fs-… --lustre-configuration PerUnitStorageThroughput=500",
        "aws fsx describe-file-systems --query 'FileSystems[].[FileSystemId,LustreConfiguration.MountName]'",
        "aws fsx delete-file-system --file-system-id fs-…",
        "aws fsx untag-resource --resource-arn arn:aws:fsx:…:file-system/fs-… --tag-keys ray-on-hyperpod:environment",
    ),
    "registries": (
        "uv pip compile requirements.in --generate-hashes --python-version 3.10 "
        "--constraint ray_image/requirements.txt -o requirements.txt",
        "ops job submit --name download --env dev -- huggingface-cli download facebook/opt-125m "
        "--local-dir /fsx/ray/models/opt",
        "(cd ../before && ./setup.sh runtime && .venv/bin/ops charts fetch)",
    ),
    "measures": (
        "make bench",
        "cdk synth --quiet -c environment=dev --app 'python3 -m cProfile -o synth.prof app.py'",
        "python3 -m pstats synth.prof",
        "python3 -X importtime app.py 2> imports.txt",
        "NODE_OPTIONS='--cpu-prof --cpu-prof-dir=profiles' cdk synth --quiet -c environment=dev",
    ),
    "variables": (
        "export OPS_ENV=dev",
        "MODEL=/fsx/ray/models/llama-2-7b DATA=/fsx/ray/data",
        "export HTTPS_PROXY=http://127.0.0.1:9",
        "export HTTP_PROXY=http://127.0.0.1:9",
        "export NO_PROXY=127.0.0.1,localhost,sts.us-west-2.amazonaws.com,iam.amazonaws.com,"
        "api.sagemaker.us-west-2.amazonaws.com,eks.us-west-2.amazonaws.com,.us-west-2.eks.amazonaws.com",
        "REGION=us-west-2 EKS=rayhp-dev CLUSTER=ml-cluster ACCOUNT=111122223333",
    ),
}
"""Commands that are not typed as written, by the test file or tier that runs their like, or by the reason for none."""


def shell_lines(text: str) -> Iterator[str]:
    """Return each command of the shell blocks of a Markdown text, without comments, on one line."""
    for block in re.findall(r"```bash\n(.*?)```", text, re.DOTALL):
        whole = re.sub(r"\s*\\\n\s*", " ", re.sub(r"(^|\s)#.*$", "", block, flags=re.MULTILINE))
        whole = re.sub(r"'[^']*'", lambda quoted: re.sub(r"\n\s*", " ", quoted[0]), whole)
        yield from filter(None, (line.strip() for line in whole.splitlines()))


@cache
def commands(page: Path) -> list[str]:
    """Return the commands of a page, in order; `dev` stands for the environment, as the pages say."""
    return [re.sub(r"(?<=--env |nment=)trial\b", "dev", line) for line in shell_lines(page.read_text())]


def written(command: str) -> bool:
    """Return whether a page has this command."""
    return any(command in commands(page) for page in PAGES)
