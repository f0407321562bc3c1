"""The upload of the lifecycle scripts to their bucket."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aws_cdk import FileSystem
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_deployment as s3_deployment
from constructs import Construct

from stacks.shared.checkov_skips import explain_variables
from stacks.shared.environment_stack import asset_bucket
from stacks.shared.nag_suppressions import acknowledge, imported, managed_policy, wildcard

PROJECT: Final = Path(__file__).resolve().parents[2]
ENTRY_POINT: Final = "on_create.sh"
_BYTECODE: Final = ["__pycache__", "*.pyc"]
SETTINGS: Final = "settings"


@dataclass(frozen=True)
class GeneratedFile:
    """A JSON file that a deployment generates. `stable` is its content without values that only AWS knows."""

    name: str
    content: Mapping[str, Any]
    stable: str


class LifecycleScripts(Construct):
    """Folders of scripts, each uploaded below a prefix that is the hash of its content; `uris` maps folder to address.

    `settings` (such as FSX_EFA=true) are uploaded beside the scripts as the file `settings`, one per line; without
    settings there is no such file. A `generated` file is uploaded beside the scripts of each folder.

    A changed script thus changes `LifeCycleConfig`, which a diff shows. The previous version stays in the bucket until
    the bucket is deleted, because a rollback needs it. Existing nodes are not touched: HyperPod runs the scripts on
    new nodes and at a software update.
    """

    uris: dict[str, str]
    entry_point: str

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        bucket: s3.IBucket,
        folders: Iterable[str],
        settings: Mapping[str, str] | None = None,
        generated: GeneratedFile | None = None,
        project: Path = PROJECT,
    ) -> None:
        super().__init__(scope, id)
        self.entry_point = ENTRY_POINT
        self.uris = {}
        text = "".join(f"{name}={value}\n" for name, value in sorted((settings or {}).items()))
        beside = [s3_deployment.Source.data(SETTINGS, text)] if text else []
        if generated:
            beside.append(s3_deployment.Source.json_data(generated.name, generated.content))
        extra = text + (generated.stable if generated else "")
        first, *_ = [self._upload(folder, project / folder, bucket, beside, extra) for folder in dict.fromkeys(folders)]
        _acknowledge(first, bucket)

    def _upload(
        self, name: str, folder: Path, bucket: s3.IBucket, beside: list[s3_deployment.ISource], extra: str
    ) -> s3_deployment.BucketDeployment:
        # A node must run what people read, and no address may depend on what ran here before.
        prefix = FileSystem.fingerprint(str(folder), extra_hash=extra or None, exclude=_BYTECODE)
        self.uris[name] = f"s3://{bucket.bucket_name}/{prefix}/"
        return s3_deployment.BucketDeployment(
            self,
            f"Upload-{name.replace('/', '-')}",
            destination_bucket=bucket,
            destination_key_prefix=prefix,
            sources=[s3_deployment.Source.asset(str(folder), exclude=_BYTECODE), *beside],
            prune=False,
            retain_on_delete=True,
        )


def _acknowledge(upload: s3_deployment.BucketDeployment, bucket: s3.IBucket) -> None:
    """Accept the findings about CDK's own function; all uploads of a stack share one function."""
    acknowledge(
        upload.handler_role,
        "CDK's own function reads the scripts from the asset bucket and writes them to the lifecycle bucket",
        managed_policy("service-role/AWSLambdaBasicExecutionRole"),
        *(f"IAM5[Action::s3:{verb}*]" for verb in ("Abort", "DeleteObject", "GetBucket", "GetObject", "List")),
        wildcard(f"arn:aws:s3:::{asset_bucket(upload)}/*"),
        wildcard(f"{imported(bucket.bucket_arn, bucket)}/*"),
    )
    if bucket.encryption_key:
        reason = "CDK's grants on the key of the lifecycle bucket, the company's"
        keys = (f"IAM5[Action::kms:{verb}*]" for verb in ("GenerateDataKey", "ReEncrypt"))
        acknowledge(upload.handler_role, reason, *keys)
    function = upload.handler_role.node.scope
    if function is not None:
        explain_variables(function)
        acknowledge(function, "CDK chooses the runtime of its own function", "L1")
