"""The SageMaker HyperPod simulator of the embedded account.

SIMULATED: no instance starts and no lifecycle script or health check runs. Real are the request's validation
against botocore's model and HyperPod's documented rules, the permissions of caller and execution role, and what
becomes visible elsewhere: network interfaces, access entries, log streams, and nodes in the EKS cluster's own
Kubernetes control plane. Durations are simulated minutes, shortened by the account's clock (see `world.Minutes`).

`install` puts it behind moto's SageMaker endpoint; `bench` runs the same simulator inside a test with a clock that
is moved by hand.
"""

import logging
import threading
from typing import TYPE_CHECKING, Any

from werkzeug.exceptions import BadRequest
from werkzeug.wrappers import Request

from embedded_account.hyperpod import fault_requests
from embedded_account.hyperpod.api.operations import HyperPodApi, serving
from embedded_account.hyperpod.eks import EksOrchestrators
from embedded_account.hyperpod.schedule import Schedule
from embedded_account.hyperpod.state import HyperPodService
from embedded_account.hyperpod.surroundings import Surroundings
from embedded_account.hyperpod.world import World
from embedded_account.services import events

if TYPE_CHECKING:
    from embedded_account.context import Account

TICK_SECONDS = 0.1

_log = logging.getLogger(__name__)
_simulators: dict[tuple[str, str], HyperPodService] = {}


def install(account: "Account") -> None:
    """Serve HyperPod in this account until it ends, with a thread that carries out what is due."""
    world = World(
        account_id=account.account_id,
        region=account.region,
        surroundings=Surroundings(account.account_id, account.region, account.background),
        orchestrators=EksOrchestrators(account),
        timeline=Schedule(account.clock),
        record=account.journal.record,
        publish=lambda kind, detail: events.emit(account, source="aws.sagemaker", detail_type=kind, detail=detail),
    )
    hyperpod = HyperPodService(world)
    here = (account.account_id, account.region)
    _simulators[here] = hyperpod
    account.at_end.callback(_simulators.pop, here)
    api = HyperPodApi(hyperpod)
    account.at_end.enter_context(serving(lambda *asked: api if asked == here else None))
    account.routes.route("POST", "hyperpod/faults", lambda request, _: fault_requests.apply(hyperpod, _json(request)))
    ended = threading.Event()
    ticker = threading.Thread(target=_tick, args=(hyperpod, ended), name="hyperpod", daemon=True)
    ticker.start()
    account.at_end.callback(ticker.join)
    account.at_end.callback(ended.set)


def simulator_of(account: "Account") -> HyperPodService:
    """The simulator installed in the account; raises KeyError when there is none."""
    return _simulators[account.account_id, account.region]


def _tick(hyperpod: HyperPodService, ended: threading.Event) -> None:
    while not ended.wait(TICK_SECONDS):
        try:
            hyperpod.tick()
        except Exception:  # noqa: BLE001 - time goes on for the other clusters; the log tells what failed
            _log.exception("a transition of the HyperPod simulator failed")


def _json(request: Request) -> dict[str, Any]:
    body = request.get_json(force=True, silent=True)  # curl -d names no content type
    if not isinstance(body, dict):
        raise BadRequest("faults are one JSON object; see embedded_account/hyperpod/fault_requests.py")
    return body
