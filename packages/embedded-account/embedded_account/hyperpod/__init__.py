"""The SageMaker HyperPod simulator of the embedded account.

SIMULATED: no instance starts, and no health check runs. Lifecycle scripts run only if an extension sets
`simulator_of(account).world.run_scripts`. The following is real:

- requests are validated against botocore's model and HyperPod's documented rules;
- the permissions of the caller and of the execution role are checked;
- the effects on other services: network interfaces, access entries, log streams, and nodes in the Kubernetes
  control plane of the EKS cluster.

Durations are simulated minutes; the account's clock shortens them (see `world.Minutes`).

`install` serves the simulator at moto's SageMaker endpoint. `bench` runs the same simulator inside a test, which
advances the clock by hand.
"""

import logging
import threading
from typing import TYPE_CHECKING, Any

from werkzeug.exceptions import BadRequest
from werkzeug.wrappers import Request

from embedded_account.hyperpod import fault_requests
from embedded_account.hyperpod.api import tracking_servers, training_plans
from embedded_account.hyperpod.api.operations import HyperPodApi, serving
from embedded_account.hyperpod.eks import EksOrchestrators
from embedded_account.hyperpod.schedule import Schedule
from embedded_account.hyperpod.state import HyperPodService
from embedded_account.hyperpod.surroundings import AccountServices
from embedded_account.hyperpod.world import SimulatorState
from embedded_account.services import events, service_quotas

if TYPE_CHECKING:
    from embedded_account.context import Account

TICK_SECONDS = 0.1

_log = logging.getLogger(__name__)
_simulators: dict[tuple[str, str], HyperPodService] = {}


def install(account: "Account") -> None:
    """Serve HyperPod in this account until the account ends; a thread carries out the transitions that are due."""
    world = SimulatorState(
        account_id=account.account_id,
        region=account.region,
        surroundings=AccountServices(account.account_id, account.region, account.background),
        orchestrators=EksOrchestrators(account),
        timeline=Schedule(account.clock),
        record=account.journal.record,
        quota=lambda name: service_quotas.instances_of(account, name),
        publish=lambda kind, detail: events.emit(account, source="aws.sagemaker", detail_type=kind, detail=detail),
    )
    hyperpod = HyperPodService(world)
    here = (account.account_id, account.region)
    _simulators[here] = hyperpod
    account.at_end.callback(_simulators.pop, here)
    api = HyperPodApi(hyperpod)
    account.at_end.enter_context(serving(lambda *asked: api if asked == here else None))
    training_plans.install(account)
    tracking_servers.install(account)
    service_quotas.enforce(account, "sagemaker", lambda: _quotas(hyperpod))
    account.routes.route("POST", "hyperpod/faults", lambda request, _: fault_requests.apply(hyperpod, _json(request)))
    ended = threading.Event()
    ticker = threading.Thread(target=_tick, args=(hyperpod, ended), name="hyperpod", daemon=True)
    ticker.start()
    account.at_end.callback(ticker.join)
    account.at_end.callback(ended.set)


def _quotas(hyperpod: HyperPodService) -> dict[str, int]:
    """Return the quotas that CreateCluster and UpdateCluster enforce, by their names in Service Quotas."""
    limits = hyperpod.world.faults.quota
    return {service_quotas.USAGE.format(name): limit for name, limit in limits.items()}


def simulator_of(account: "Account") -> HyperPodService:
    """Return the simulator installed in the account; raise KeyError if there is none."""
    return _simulators[account.account_id, account.region]


def _tick(hyperpod: HyperPodService, ended: threading.Event) -> None:
    while not ended.wait(TICK_SECONDS):
        try:
            hyperpod.tick()
        except Exception:  # noqa: BLE001 - the other clusters must continue; the log says what failed
            _log.exception("a transition of the HyperPod simulator failed")


def _json(request: Request) -> dict[str, Any]:
    body = request.get_json(force=True, silent=True)  # `curl -d` sends no JSON content type
    if not isinstance(body, dict):
        raise BadRequest(
            "the body is invalid: it is not a JSON object. Allowed: one JSON object of faults "
            "(embedded_account/hyperpod/fault_requests.py)"
        )
    return body
