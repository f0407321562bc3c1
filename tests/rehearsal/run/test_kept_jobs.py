"""Jobs in a kept rehearsal with real Ray, as the pages type them: a lost worker, an own script, a save and a stop.

Its workers' nodes may sleep. The deployed sleeper runs under its own rights, leaves jobs alone and wakes nodes for one.
"""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from config.labels import INSTANCE_GROUP_LABEL
from embedded_account.kubernetes.building.binaries import Binaries
from rehearsal.job.machine import require_machine
from rehearsal.paths import RAY_ENVIRONMENT, REPOSITORY
from tests.rehearsal.run import readme
from tests.rehearsal.run.checkout import Checkout
from tests.support.waiting import REHEARSAL_PATIENCE_SECONDS

pytestmark = [pytest.mark.kept_jobs, pytest.mark.product]

GROUP = "worker-group-1"
"""Of `dev`. It sleeps here instead of being checked deeply, which would also follow each wake."""
DEEP_CHECKS = "deep_health_checks: [InstanceStress, InstanceConnectivity]"

MAKE = "make --assume-old=setup-rehearsal --assume-old=setup-jobs --no-print-directory"


@pytest.fixture
def checkout(tmp_path: Path, programs: Binaries) -> Iterator[Checkout]:
    """A clone with the jobs' Python environment; what it keeps is ended."""
    assert programs
    require_machine()
    made = Checkout(tmp_path / "checkout")
    (made.directory / RAY_ENVIRONMENT.name).symlink_to(RAY_ENVIRONMENT)
    file = made.directory / "environments" / "dev.yaml"
    assert DEEP_CHECKS in file.read_text()
    file.write_text(file.read_text().replace(DEEP_CHECKS, "sleep: {}"))
    yield made
    made.run(*MAKE.split(), "rehearse-down")


OWN_SCRIPT = """
import argparse, os, ray.train
from ray.train.data_parallel_trainer import DataParallelTrainer

def train(config):
    said = f"{open('data/x').read()} with {config['lr']}, {os.environ['NCCL_DEBUG']}"
    path = f"{os.environ['RUN_STORAGE']}/{os.environ['RUN_NAME']}-{ray.train.get_context().get_world_rank()}"
    open(path, "w").write(said)

parser = argparse.ArgumentParser()
parser.add_argument("--lr")
workers = ray.train.ScalingConfig(num_workers=2, resources_per_worker={"CPU": 2}, trainer_resources={"CPU": 0})
storage = ray.train.RunConfig(storage_path=os.environ["RUN_STORAGE"])
given = vars(parser.parse_args())
DataParallelTrainer(train, train_loop_config=given, scaling_config=workers, run_config=storage).fit()
print(open("data/x").read(), "in the driver")
"""
"""Each worker needs a pod of its own."""


def pasted(checkout: Checkout, command: str) -> list[str]:
    """The words that run a command in a shell of the kept rehearsal."""
    look = checkout.runs / "runs" / "dev" / "look.sh"
    return ["bash", "-c", f"set -e\nsource {look}\n{command}"]


def typed(checkout: Checkout, command: str, code: int = 0) -> str:
    """Type a command of the scientist's pages; return its output."""
    ended, shown = checkout.run(*pasted(checkout, f"export OPS_ENV=dev\n{command}"))
    assert ended == code, shown
    return shown


def test_a_job_of_the_page_resumes_after_the_loss_of_a_worker(checkout: Checkout) -> None:
    code, shown = checkout.run(*readme.REHEARSE_JOBS.replace("make", MAKE).split())
    assert code == 0, shown
    assert "so jobs run." in shown
    with checkout.start(*pasted(checkout, readme.SUBMIT_PRACTICE)) as submitting:
        assert submitting.stdout
        deadline, seen = time.monotonic() + REHEARSAL_PATIENCE_SECONDS, list[str]()
        for line in submitting.stdout:
            seen.append(line)
            assert time.monotonic() < deadline, "".join(seen)
            if "checkpoint of step" in line:
                break
        code, shown = checkout.run(*readme.LOSE_NODE.replace("make", MAKE).split())
        assert code == 0, shown
        seen += submitting.stdout
    followed = "".join(seen)
    assert submitting.returncode == 0, followed
    assert re.search(r"run practice attempt 0001\.\d+: resumes from step [1-9]\d*0 ", followed), followed
    code, shown = checkout.run(*pasted(checkout, readme.LIST_JOBS))
    assert code == 0, shown
    assert re.search(r"^practice +supervised +rayml +succeeded", shown, re.MULTILINE), shown

    assert "goodput" in typed(checkout, readme.GOODPUT.replace("train-1", "practice"))

    [folder] = re.findall(r"`(\.rehearsal/\S+/ray)`", (REPOSITORY / "docs" / "getting-started.md").read_text())
    storage = checkout.directory / folder / "runs"
    assert (storage / "practice").is_dir(), "the page says where /fsx/ray is"
    own_script_and_its_folder(checkout, storage)
    running_job_saves_and_stops(checkout, storage)
    group_sleeps_and_a_run_wakes_it(checkout, storage)


def own_script_and_its_folder(checkout: Checkout, storage: Path) -> None:
    home = Path(checkout.environment()["HOME"])
    (home / "mine" / "data").mkdir(parents=True)
    (home / "mine" / "data" / "x").write_text("größe")
    (home / "mine" / "train.py").write_text(OWN_SCRIPT)
    command = readme.OWN_SCRIPT.replace(" -- ", f" --name own {readme.VARIABLE} -- ")
    assert "größe in the driver\n" in typed(checkout, command)
    said = {path.name: path.read_text() for path in storage.glob("own-*")}
    assert said == dict.fromkeys(("own-0", "own-1"), "größe with 0.1, INFO")
    (home / "data").mkdir()
    (home / "data" / "train.jsonl").write_text("{}")
    typed(checkout, readme.BRING)
    assert (storage.parent / "data" / "train.jsonl").read_text() == "{}"


def running_job_saves_and_stops(checkout: Checkout, storage: Path) -> None:
    [name] = re.findall(r"train-\d+-\d+", readme.STOP)
    typed(checkout, f"ops job submit pytorch_ddp --name {name} --detach -- --epochs 100000 --every 1000000")
    deadline = time.monotonic() + REHEARSAL_PATIENCE_SECONDS
    while not re.search(rf"^{name} +running\b", shown := typed(checkout, readme.TOP), re.MULTILINE):
        assert time.monotonic() < deadline, shown
    # Ray's job runs before its script has begun the run, which takes long on a busy machine.
    while not (storage / name / "run.json").is_file():
        assert time.monotonic() < deadline, f"{name} has not begun"
        time.sleep(1)
    assert re.search(r"\bstep [1-9][0-9]*\b", typed(checkout, readme.SAVE))
    assert f"stopping {name}" in typed(checkout, readme.STOP)
    assert "stop requested" in typed(checkout, readme.LOGS, code=130)


def group_sleeps_and_a_run_wakes_it(checkout: Checkout, storage: Path) -> None:
    """What trains on woken nodes ends with the same bits as what trained before they slept."""
    train = "ops job submit pytorch_ddp --name {} -- --epochs 2 --every 16"
    typed(checkout, train.format("before"))
    typed(checkout, f"{readme.SLEEP} --yes")
    deadline = time.monotonic() + REHEARSAL_PATIENCE_SECONDS
    # The sleeper notes it in its Lease at its next look.
    asleep = rf'"name": "{GROUP}"[^}}]*asleep since '
    while nodes(checkout) or not re.search(asleep, typed(checkout, "ops status -o json || true")):
        assert time.monotonic() < deadline, typed(checkout, "ops logs sleeper")
        time.sleep(1)
    shown = typed(checkout, train.format("woken"))
    assert re.search(rf"wakes \d+ x ml.p5.48xlarge in {GROUP}: about \d+ minutes, US\$ \d+ an hour", shown), shown
    assert nodes(checkout) > 0
    assert digests(storage / "woken") == digests(storage / "before")


def nodes(checkout: Checkout) -> int:
    """How many nodes of the group Kubernetes has."""
    return len(typed(checkout, f"kubectl get nodes -o name -l {INSTANCE_GROUP_LABEL}={GROUP}").split())


def digests(run: Path) -> dict[str, str]:
    """The digests of the weights in a run's last checkpoint."""
    last = max(run.glob("checkpoints/*/manifest.json"))
    written: dict[str, str] = json.loads(last.read_text())["sha256"]
    found = {name: digest for name, digest in written.items() if name.endswith(".distcp")}
    assert found
    return found
