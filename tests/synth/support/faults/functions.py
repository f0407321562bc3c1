"""Answer an app's custom resources in this process: our handlers as they are, CDK's functions by what they change."""

import json
import re
import threading
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import pytest
from moto.s3.models import s3_backends
from werkzeug.test import Client as WebClient
from werkzeug.wrappers import Response as WebResponse

from embedded_account.context import Account
from embedded_account.hyperpod import simulator_of
from embedded_account.hyperpod.bench import EksRecords, ManualClock
from embedded_account.hyperpod.eks import EksDescription, EksOrchestrators
from embedded_account.hyperpod.schedule import Schedule
from embedded_account.testing.clients import Clients
from embedded_account.testing.stacks import InvocationResult
from handlers.hyperpod_cluster import index as hyperpod
from tests.handlers.support.clients import DirectClient
from tests.handlers.support.framework import Event, Framework, Response

FunctionFault = Literal["crash before", "crash after", "twice", "lost", "late"]
OF_ANY: Final[tuple[FunctionFault, ...]] = ("crash before", "crash after", "twice", "lost")
OURS: Final = frozenset({hyperpod.CLUSTER, hyperpod.TEARDOWN})
"""The resources whose functions are ours: CDK's cannot be asked to notice a request that comes too late."""
_SIGNED: Final = re.compile(r"X-Amz-Date=\d{8}T\d{6}Z")


class _Eks(EksRecords):
    """The account's EKS clusters for HyperPod: their nodes are records, as no Kubernetes runs."""

    def __init__(self, account: Account) -> None:
        super().__init__()
        self._account = EksOrchestrators(account)

    def cluster(self, name: str) -> EksDescription | None:
        return self._account.cluster(name)

    def _require_answer(self, name: str) -> None:
        """Answer always."""


class _Bench:
    """The part of a bench that `Framework` uses: the served account's HyperPod, on a clock that is set by hand."""

    def __init__(self, account: Account, clients: Clients) -> None:
        self.hyperpod = simulator_of(account)
        self.client = clients
        self.clock = ManualClock()
        self.hyperpod.world.timeline = Schedule(self.clock)
        self.hyperpod.world.orchestrators = _Eks(account)

    def advance(self, minutes: float) -> None:
        """Advance the clock, and carry out what falls due."""
        self.clock.present += timedelta(minutes=minutes)
        self.hyperpod.tick()


_REST_MINUTES: Final = 600
"""Longer than launch, deep checks and shutdown of a node (`embedded_account.hyperpod.world.Minutes`) together."""


@dataclass
class Planned:
    """A fault of the next `times` requests to the function of a resource, in each of Lambda's deliveries."""

    logical_id: str
    request: str
    fault: FunctionFault
    times: int = 1
    hit: set[str] = field(default_factory=set)
    """The ids of the requests that suffered it."""
    held: dict[str, Event] = field(default_factory=dict)
    """Requests that are delivered late: after CloudFormation has given up. By their ids."""

    def is_of(self, request: Event) -> bool:
        """Return whether this request suffers the fault."""
        if (self.logical_id, self.request) != (request["LogicalResourceId"], request["RequestType"]):
            return False
        return request["RequestId"] in self.hit or len(self.hit) < self.times


class Functions:
    """The function runtime of the account; `assets` is the folder of the cloud assembly."""

    def __init__(self, account: Account, clients: Clients, assets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._account = account
        self._assets = assets
        self._web = WebClient(account.routes.in_front_of(WebResponse(status=404)))  # type: ignore[attr-defined]
        self._lock = threading.RLock()
        bench: Any = _Bench(account, clients)
        self._bench = bench
        self._rollback_began: datetime | None = None
        self._framework = Framework(bench, self._status, monkeypatch, lambda: self._rollback_began)
        self._framework.use(DirectClient(bench, account.keys.access_key_id))
        self.applied: dict[str, Any] = {}
        """What CDK's functions applied to Kubernetes: Helm releases and manifests, by their identity."""
        self.planned: list[Planned] = []
        self._answers: dict[str, Callable[[Event], Response]] = {
            hyperpod.CLUSTER: self._framework.handle,
            hyperpod.TEARDOWN: self._framework.handle,
            "Custom::AWSCDK-EKS-HelmChart": self._helm,
            "Custom::AWSCDK-EKS-KubernetesResource": self._manifest,
            "Custom::S3AutoDeleteObjects": self._empty_bucket,
            "Custom::CDKBucketDeployment": self._copy_files,
        }

    def invoke(self, _function: str, event: Mapping[str, Any]) -> InvocationResult:
        """Run the function of a custom resource once, as Lambda does; a planned fault comes first."""
        request: Event = json.loads(json.dumps(event))
        with self._lock:
            self._date(request)
            planned = next((each for each in self.planned if each.is_of(request)), None)
            if planned is None:
                return self._deliver(request)
            planned.hit.add(request["RequestId"])
            return self._suffer(planned, request)

    def rest(self) -> None:
        """Let HyperPod's nodes, which start after their cluster's stack is complete, end what they do."""
        self._bench.advance(_REST_MINUTES)

    def deliver_late(self) -> None:
        """Deliver the requests that were held back."""
        for planned in self.planned:
            for request in planned.held.values():
                with self._lock:
                    self._deliver(request)
            planned.held.clear()

    def _suffer(self, planned: Planned, request: Event) -> InvocationResult:
        failed = InvocationResult(b'{"errorMessage": "Runtime exited without providing a reason"}', error=True)
        match planned.fault:
            case "crash before":
                return failed
            case "crash after" | "lost":
                self._answer_of(request)
                return failed
            case "twice":
                self._answer_of(request)
                return self._deliver(request)
            case "late":
                planned.held[request["RequestId"]] = request
                return failed

    def _date(self, request: Event) -> None:
        """Let two seconds pass, as between two requests of CloudFormation, and write the time into the request."""
        self._bench.advance(minutes=2 / 60)
        now = self._bench.clock.present
        if "ROLLBACK" not in self._status(request["StackId"]):
            self._rollback_began = None
        elif self._rollback_began is None:
            self._rollback_began = now
        request["ResponseURL"] = _SIGNED.sub(f"X-Amz-Date={now:%Y%m%dT%H%M%SZ}", request["ResponseURL"])

    def _status(self, stack_id: str) -> str:
        stack = self._account.stacks.find(stack_id)
        return stack.status if stack else ""

    def _deliver(self, request: Event) -> InvocationResult:
        self._send(request, self._answer_of(request))
        return InvocationResult(b"null", error=False)

    def _answer_of(self, request: Event) -> Response:
        return self._answers[request["ResourceType"]](request)

    def _send(self, request: Event, response: Response) -> None:
        body = {
            "Status": "SUCCESS" if response.succeeded else "FAILED",
            "Reason": response.reason or "none",
            "PhysicalResourceId": response.physical_id,
            "Data": dict(response.data),
            **{name: request[name] for name in ("StackId", "RequestId", "LogicalResourceId")},
        }
        self._web.put(urlsplit(request["ResponseURL"]).path, data=json.dumps(body))

    # --- CDK's functions ---------------------------------------------------------------------------------

    def _helm(self, request: Event) -> Response:
        properties = request["ResourceProperties"]
        release = (
            f"release {properties['ClusterName']} {properties.get('Namespace', 'default')} {properties['Release']}"
        )
        self._apply(request, [release], {release: properties})
        return Response(True, request.get("PhysicalResourceId") or f"helm-{properties['Release']}")

    def _manifest(self, request: Event) -> Response:
        properties = request["ResourceProperties"]
        objects = {
            f"{each['kind']} {each['metadata'].get('namespace', '')} {each['metadata']['name']}": each
            for each in json.loads(properties["Manifest"])
        }
        old = request.get("OldResourceProperties", {}).get("Manifest")
        self._apply(request, [*objects], objects, json.loads(old) if old else ())
        return Response(True, request.get("PhysicalResourceId") or f"manifest-{request['LogicalResourceId']}")

    def _apply(self, request: Event, names: list[str], objects: Mapping[str, Any], _old: Any = ()) -> None:
        for name in names:
            if request["RequestType"] == "Delete":
                self.applied.pop(name, None)
            else:
                self.applied[name] = objects[name]

    def _empty_bucket(self, request: Event) -> Response:
        name = request["ResourceProperties"]["BucketName"]
        buckets = s3_backends[self._account.account_id]["aws"].buckets
        if request["RequestType"] == "Delete" and name in buckets:
            buckets[name].keys.clear()
        return Response(True, request.get("PhysicalResourceId") or f"emptied-{name}")

    def _copy_files(self, request: Event) -> Response:
        properties = request["ResourceProperties"]
        bucket, prefix = (
            properties["DestinationBucketName"],
            properties.get("DestinationBucketKeyPrefix", "").strip("/"),
        )
        s3 = s3_backends[self._account.account_id]["aws"]
        if request["RequestType"] != "Delete":
            for key in properties["SourceObjectKeys"]:
                for name, content in _files(self._assets / f"asset.{key.removesuffix('.zip')}"):
                    s3.put_object(bucket, f"{prefix}/{name}".lstrip("/"), content)
        elif properties.get("RetainOnDelete", "true") != "true":
            for name in [each for each in s3.buckets[bucket].keys if each.startswith(prefix)]:
                s3.buckets[bucket].keys.pop(name)
        return Response(True, request.get("PhysicalResourceId") or f"copied-{request['LogicalResourceId']}")


def _files(asset: Path) -> list[tuple[str, bytes]]:
    if asset.is_dir():
        return [(str(file.relative_to(asset)), file.read_bytes()) for file in asset.rglob("*") if file.is_file()]
    with zipfile.ZipFile(asset.with_suffix(asset.suffix + ".zip")) as archive:
        return [(name, archive.read(name)) for name in archive.namelist() if not name.endswith("/")]
