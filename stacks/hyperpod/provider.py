"""The provider of the HyperPod custom resources: two functions, CDK's provider framework, and their IAM rights."""

import importlib.resources
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from config.facts.hyperpod_permissions import HANDLER_CALLS
from stacks.hyperpod.call_permissions import CallPermissions
from stacks.shared.nag_suppressions import acknowledge, wildcard
from stacks.shared.waiting_provider import RUNTIME, waiting_provider

HANDLERS: Final = Path(__file__).resolve().parents[2] / "handlers" / "hyperpod_cluster"
SERVICE_MODEL: Final = "data/sagemaker/2017-07-24/service-2.json.gz"
# The limit of CloudFormation for a custom resource, and of CDK's provider framework.
TOTAL_TIMEOUT: Final = Duration.hours(1)


class ClusterProvider(Construct):
    """The provider of Custom::HyperPodCluster and Custom::HyperPodClusterTeardown.

    Its functions have the rights that their calls need. The handlers read a cluster's owner from its tags.
    """

    service_token: str

    def __init__(self, scope: Construct, id: str, *, permissions: CallPermissions) -> None:
        super().__init__(scope, id)
        with packed(HANDLERS) as code:
            on_event = self._function("OnEvent", code, "on_event", Duration.minutes(3))
            is_complete = self._function("IsComplete", code, "is_complete", Duration.minutes(2))
        for handler, function in (("on_event", on_event), ("is_complete", is_complete)):
            permissions.grant(function, HANDLER_CALLS[handler])
        provider = waiting_provider(self, on_event=on_event, is_complete=is_complete, total_timeout=TOTAL_TIMEOUT)
        self.service_token = provider.service_token
        acknowledge(self, "ListClusters has no resource type", wildcard("*"))
        permissions.acknowledge(self)

    def _function(self, id: str, code: lambda_.Code, handler: str, timeout: Duration) -> lambda_.Function:
        return lambda_.Function(
            self,
            id,
            description=f"HyperPod cluster of this stack: {handler}",
            runtime=RUNTIME,
            code=code,
            handler=f"hyperpod_cluster.index.{handler}",
            timeout=timeout,
            memory_size=256,
        )


@contextmanager
def packed(source: Path) -> Iterator[lambda_.Code]:
    """Yield a package's code. Construct the functions inside the block: CDK copies the code then."""
    with TemporaryDirectory() as directory:
        pack_handlers(Path(directory), source)
        yield lambda_.Code.from_asset(directory)


def pack_handlers(directory: Path, source: Path = HANDLERS) -> None:
    """Fill an empty directory with the code for Lambda: the package, with the pinned botocore's SageMaker model in it.

    Lambda's own SDK can be older than a field of the request. Bytecode is left out, so that the asset's hash depends
    on the sources and the pinned botocore only.
    """
    package = directory / source.name
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    model = package / "models" / Path(SERVICE_MODEL).relative_to("data")
    model.parent.mkdir(parents=True)
    model.write_bytes(importlib.resources.files("botocore").joinpath(SERVICE_MODEL).read_bytes())
