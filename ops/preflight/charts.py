"""Check the Helm charts in the cache of this machine: a synthesis unpacks them."""

from collections.abc import Iterator
from pathlib import Path

from botocore.exceptions import ClientError

from config import EksEnvironment, Environment
from config.facts import charts_lock
from ops.preflight.check import CheckFinding, failed, passed, warned
from ops.preflight.here import Here


def charts(here: Here[EksEnvironment]) -> Iterator[CheckFinding]:
    """Require every chart of the lock, unaltered, in the cache.

    AWS: ssm GetParameter, to recognise the account of a rehearsal, which takes stand-ins. Source:
    config/facts/charts.lock.yaml, whose digests `ops charts fetch` verifies.
    """
    cached, locked = charts_lock.cache_directory(), charts_lock.locked()
    wrong = charts_lock.missing(locked)
    if not wrong:
        yield passed(f"all {len(locked)} charts are in {_short(cached)} and match the lock")
        return
    named = ", ".join(f"{chart.name} {chart.version}" for chart in wrong)
    text = f"missing or altered in {_short(cached)}: {named}"
    if _takes_stand_ins(here):
        yield warned(f"{text}; this account takes stand-ins", "ops charts fetch")
    else:
        yield failed(text, "ops charts fetch")


def _short(directory: Path) -> str:
    return f"~/{directory.relative_to(Path.home())}" if directory.is_relative_to(Path.home()) else str(directory)


def _takes_stand_ins(here: Here[Environment]) -> bool:
    try:
        here.client("ssm").get_parameter(Name=charts_lock.STAND_IN_MARKER)
    except ClientError as error:
        if error.response["Error"]["Code"] == "ParameterNotFound":
            return False
        raise
    return True
