"""Deploy an app's stacks in the served account: templates as synthesised, no Kubernetes, no function's process."""

import json
import re
import time
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
from moto.s3.models import s3_backends

from config import naming
from embedded_account import existing, quotas_file
from embedded_account.cloudformation import custom_resources
from embedded_account.context import Account
from embedded_account.inventory import report as inventory
from embedded_account.inventory.report import KEPT_BY_KMS
from embedded_account.running import EmbeddedAccount
from embedded_account.services.eks.host import ClusterHost
from embedded_account.services.eks.service import service_of
from embedded_account.testing.clients import ACCOUNT_ID, REGION, Clients
from embedded_account.testing.fake_cluster import FakePlane
from embedded_account.testing.functions import zipped
from embedded_account.testing.plugin import discard_resources
from embedded_account.testing.stacks import Template
from embedded_account.testing.waiting import PATIENCE_SECONDS
from rehearsal.extensions import stand_in_marker
from rehearsal.run import owner
from rehearsal.run.account import QUOTAS
from rehearsal.run.existing_resources import existing_resources
from tests.synth.support.faults.functions import Functions
from tests.synth.support.synthesis import Assembly

_TEMPLATES: Final = "templates"
_ANSWER_SECONDS: Final = 60.0
"""Real seconds for the answer of a function, of which none is slow."""


class World:
    """The account with an app's stacks. Stacks are named by their part (network, storage, …)."""

    def __init__(self, account: Account, clients: Clients, assembly: Assembly, monkeypatch: pytest.MonkeyPatch) -> None:
        self.account = account
        self.assembly = assembly
        self.parts = assembly.environment.stacks
        self.functions = Functions(account, clients, assembly.directory, monkeypatch)
        self._clients = clients
        self._cloudformation = clients("cloudformation")
        self._ids: dict[str, str] = {}
        monkeypatch.setattr(account, "functions", self.functions)
        for service, raised in quotas_file.read(QUOTAS).items():
            monkeypatch.setitem(cast("dict[str, Any]", account.quotas), service, raised)
        monkeypatch.setattr(account, "clusters", ClusterHost(account, lambda *_: FakePlane()))
        monkeypatch.setattr(account.clock, "scale", 1e6)
        monkeypatch.setattr(custom_resources, "DEFAULT_TIMEOUT_SECONDS", _ANSWER_SECONDS)
        monkeypatch.setattr("embedded_account.cloudformation.models.POLL_SECONDS", 0.002)

    def furnish(self) -> None:
        """Empty the account, and create what exists before the app: the bootstrap, assets, the company's key."""
        discard_resources(self.account)
        self.functions.applied.clear()
        environment = self.assembly.environment
        existing.make(self.account, existing_resources(environment))
        owner.make_roles(cast("EmbeddedAccount", SimpleNamespace(client=self._clients)), environment)
        s3, ssm = self._clients("s3"), self._clients("ssm")
        here = {"LocationConstraint": REGION}
        buckets = {_TEMPLATES, *(bucket for bucket, _ in self._assets())}
        for bucket in buckets:
            s3.create_bucket(Bucket=bucket, CreateBucketConfiguration=here)
        code = zipped({"index.py": ""})
        for bucket, key in self._assets():
            s3.put_object(Bucket=bucket, Key=key, Body=code)
        for template in self.assembly.templates.values():
            for parameter in template.body.get("Parameters", {}).values():
                if parameter["Default"].endswith("/version"):  # of the bootstrap
                    ssm.put_parameter(Name=parameter["Default"], Value="30", Type="String", Overwrite=True)
        stand_in_marker.install(self.account)
        self.account.existing.update(item.id for item in inventory.collect(self.account))

    def template(self, part: str) -> Template:
        """Return a copy of a stack's template."""
        copied: Template = json.loads(json.dumps(self.assembly.templates[part].body))
        return copied

    def deploy(self, part: str, template: Template | None = None, **execution: Any) -> str:
        """Create or update a stack, and return its status."""
        name = self.stack(part)
        self._clients("s3").put_object(
            Bucket=_TEMPLATES, Key=part, Body=json.dumps(template or self.template(part)).encode()
        )
        kind = "UPDATE" if self.account.stacks.find(name) else "CREATE"
        cloudformation = self._cloudformation
        made = cloudformation.create_change_set(
            StackName=name,
            ChangeSetName="cs",
            ChangeSetType=kind,
            TemplateURL=f"https://s3.{REGION}.amazonaws.com/{_TEMPLATES}/{part}",
            Capabilities=["CAPABILITY_NAMED_IAM"],
        )
        self._ids[part] = made["StackId"]
        described = cloudformation.describe_change_set(ChangeSetName=made["Id"])
        assert described["Status"] == "CREATE_COMPLETE", described["StatusReason"]
        cloudformation.execute_change_set(ChangeSetName=made["Id"], **execution)
        return self._settled(part)

    def delete(self, part: str) -> str:
        """Delete a stack, and return its status."""
        self._cloudformation.delete_stack(StackName=self.stack(part))
        return self._settled(part)

    def continue_rollback(self, part: str) -> str:
        """Continue a failed rollback, and return the stack's status."""
        self._cloudformation.continue_update_rollback(StackName=self.stack(part))
        return self._settled(part)

    def _settled(self, part: str) -> str:
        stack = self._found(part)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while stack.busy:
            assert time.monotonic() < deadline, f"{part} is still {stack.status}"
            time.sleep(0.005)
        return str(stack.status)

    def _found(self, part: str) -> Any:
        """Return the record of a stack, also of a deleted one."""
        return self.account.stacks.find(self._ids[part])

    def stack(self, part: str) -> str:
        """Return the name of a stack."""
        return naming.stack(self.assembly.environment, part)

    def reasons(self, part: str) -> list[tuple[str, str]]:
        """Return the logical id and the reason of each failure in the events of a stack, also of a deleted one."""
        events = self._found(part).events
        return [(event.logical_id, event.reason or "") for event in events if event.status.endswith("_FAILED")]

    def reason(self, part: str) -> str:
        """Return the reason of a stack's status."""
        return self._found(part).reason or ""

    def handle(self, part: str, id: str) -> dict[tuple[str, str], Any]:
        """Return the handle of a resource, by its type and id."""
        resource = self._found(part).resources[id]
        return {(resource.type, resource.physical_id): resource.handle}

    def retained(self, part: str) -> dict[tuple[str, str], Any]:
        """Return the handles of the resources that the stack's deletion keeps, by type and id."""
        return {
            (resource.type, resource.physical_id): resource.handle
            for resource in self._found(part).resources.values()
            if str(resource.definition.get("DeletionPolicy", "")).startswith("Retain") and resource.handle
        }

    def remove(self, retained: Mapping[tuple[str, str], Any]) -> None:
        """Delete retained resources, as their owner does after a destroy."""
        buckets = s3_backends[ACCOUNT_ID]["aws"].buckets
        for (kind, id), handle in reversed([*retained.items()]):
            if kind == "AWS::S3::Bucket":
                buckets[id].keys.clear()
            handle.model.remove()
            deadline = time.monotonic() + PATIENCE_SECONDS
            while self._has(kind, id):
                assert time.monotonic() < deadline, f"{kind} {id} is still there"
                time.sleep(0.005)

    def _has(self, kind: str, id: str) -> bool:
        """Return whether the account still has a resource, or what its service made for it."""
        owners = self.inventory()
        is_here = owners.get((kind, id), KEPT_BY_KMS) != KEPT_BY_KMS
        return is_here or any(owner.endswith(f"/{id}") for owner in owners.values())

    def unprotect(self) -> None:
        """Let EKS clusters be deleted, as their owner does before a destroy."""
        for cluster in service_of(self.account).records.backend.clusters.values():
            cluster.deletion_protection = False

    def inventory(self) -> dict[tuple[str, str], str]:
        """Return the owner of each resource, by type and id."""
        return {(item.type, item.id): item.owner for item in inventory.collect(self.account)}

    def _assets(self) -> set[tuple[str, str]]:
        """Return the bucket and the key of each asset to which a template refers."""
        found = set[tuple[str, str]]()
        for template in self.assembly.templates.values():
            for bucket, key in _pairs(template.body["Resources"]):
                found.add((_text(bucket), _text(key)))
        return found


def _pairs(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        if "S3Bucket" in value and "S3Key" in value:
            yield value["S3Bucket"], value["S3Key"]
        if "SourceBucketNames" in value:
            yield from zip(value["SourceBucketNames"], value["SourceObjectKeys"], strict=True)
        for each in value.values():
            yield from _pairs(each)
    elif isinstance(value, list):
        for each in value:
            yield from _pairs(each)


def _text(value: Any) -> str:
    text = value["Fn::Sub"] if isinstance(value, Mapping) else value
    return re.sub(
        r"\$\{AWS::(AccountId|Region)\}", lambda found: {"AccountId": ACCOUNT_ID, "Region": REGION}[found[1]], text
    )
