"""What docs/operate/storage.md says of a dynamic file system: destroyed with nothing left, or stopped and named."""

import json
import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from embedded_account.kubernetes.building.binaries import Binaries
from tests.rehearsal.run.checkout import Checkout, rehearsal

# Both stories are told once, by one worker.
pytestmark = [pytest.mark.long, pytest.mark.xdist_group("dynamic")]


@dataclass(frozen=True)
class Told:
    """How one rehearsal went, and what the driver's stand-in did in it."""

    code: int
    output: str
    driver: list[str]


def tell(directory: Path, reclaim: str) -> Told:
    checkout = Checkout(directory / "checkout")
    yaml = YAML()
    document = yaml.load(checkout.directory / "environments" / "small.yaml")
    document["fsx"] = {"provisioning": "dynamic", "throughput_mbps_per_tib": 125, "reclaim_policy": reclaim}
    yaml.dump(document, checkout.directory / "environments" / "dynamic.yaml")
    code, output = checkout.run(*rehearsal("run", "--env", "dynamic"))
    journal = checkout.runs / "runs" / "dynamic" / "account" / "journal.jsonl"
    entries = [json.loads(line) for line in journal.read_text().splitlines()]
    marked = "FSx CSI stand-in "
    done = [str(entry["action"]) for entry in entries if str(entry.get("action")).startswith(marked)]
    return Told(code, output, [action.removeprefix(marked) for action in done])


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, programs: Binaries) -> Iterator[dict[str, Future[Told]]]:
    """Both policies side by side: each waits more than it works."""
    assert programs
    base = tmp_path_factory.mktemp("dynamic")
    with ThreadPoolExecutor(2) as pool:
        yield {reclaim: pool.submit(tell, base / reclaim, reclaim) for reclaim in ("Delete", "Retain")}


def test_file_system_comes_with_its_claim_and_nothing_of_it_is_left(told: dict[str, Future[Told]]) -> None:
    ending = told["Delete"].result()
    assert ending.code == 0, ending.output
    assert re.search(r"RayClusters ready", ending.output)
    assert re.search(r"resources without an owner\s+0", ending.output)
    # Once for the environment, and once more after its ray stack was destroyed and deployed again.
    assert ending.driver == ["made", "deleted", "made", "deleted"]


def test_file_system_that_shall_stay_stops_the_destroy_and_is_named(told: dict[str, Future[Told]]) -> None:
    ending = told["Retain"].result()
    assert ending.code == 1
    assert ending.driver == ["made"]
    for said in (
        r"failed to delete: \[FileSystemGuard",
        r"reclaim policy Retain keeps fs-[0-9a-f]+ \(AVAILABLE\)",
        r"aws fsx delete-file-system --region us-west-2 --file-system-id fs-",
        r"aws fsx untag-resource .* --tag-keys ray-on-hyperpod:environment",
    ):
        assert re.search(said, ending.output), ending.output
