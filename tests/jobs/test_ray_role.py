"""Ray's pods use the data bucket with the role of the ray stack: a run needs every right of it, and gets no more."""

import hashlib
import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ray_resume.checkpoint_store import CheckpointStore, Saved, Writer
from ray_resume.storage import check_writable, open_storage
from tests.jobs.support.paths import REPOSITORY
from working_dir import fetch_working_dir

PACKAGE = b"package"
REFUSED = "ACCESS_DENIED|not authorized"


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """Yield the variables of a pod, in an account that refuses what the role lacks."""
    directory = tmp_path_factory.mktemp("ray-role")
    argv = [str(REPOSITORY / ".venv" / "bin" / "python"), "-m", "tests.support.deployed_ray_role", str(directory)]
    with (
        (directory / "log.txt").open("wb") as log,
        subprocess.Popen(argv, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log) as account,
    ):
        assert account.stdout
        line = account.stdout.readline()
        assert line, (directory / "log.txt").read_text()
        yield json.loads(line)
        account.communicate()


@pytest.fixture
def storage(variables: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return variables["RUN_STORAGE"]


def test_run_saves_resumes_and_removes_what_is_incomplete(storage: str) -> None:
    check_writable(open_storage(storage, "run"), storage)
    store = CheckpointStore(open_storage(storage, "run"))
    assert store.begin(1) == (Writer(1, 1), None)
    saved, torn = Saved(5, Writer(1, 1)), Saved(10, Writer(1, 1))
    for one in (saved, torn):
        with store.storage.writing(one.folder) as directory:
            (directory / "part").write_text("weights")
    store.commit(saved, {"loss": 0.5})
    assert store.is_whole(saved)
    assert store.begin(2) == (Writer(2, 1), saved)
    assert store.storage.names("checkpoints") == [saved.name]
    with store.storage.reading(saved.folder) as directory:
        assert (directory / "part").read_text() == "weights"


def test_working_directory_is_read_and_cannot_be_replaced(storage: str, tmp_path: Path) -> None:
    packages = storage.replace("/runs", "/packages")
    digest = hashlib.sha256(PACKAGE).hexdigest()
    assert fetch_working_dir.fetched(f"{packages}/package.zip", digest, tmp_path).read_bytes() == PACKAGE
    others = open_storage(storage.removesuffix("/runs"), "packages")
    with pytest.raises(OSError, match=REFUSED):
        others.put("package.zip", b"another")
    with pytest.raises(OSError, match=REFUSED):
        others.delete("package.zip")


def test_data_of_others_stays_out_of_reach(storage: str) -> None:
    others = open_storage(storage.removesuffix("/ray/runs"), "datasets")
    with pytest.raises(OSError, match=REFUSED):
        others.put("labels.csv", b"")
    with pytest.raises(OSError, match=REFUSED):
        others.names("")
