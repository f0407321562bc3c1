"""Damaged checkpoints: each kind of damage, and what the next start of the training makes of it."""

from __future__ import annotations

import base64
import errno
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.support.damages import (
    CASES,
    DATA,
    DOTFILE,
    EVERY,
    FORMER,
    KILLED_AT,
    LIMIT,
    MIDDLE,
    MODES,
    NAME,
    NEWEST,
    OLDEST,
    SMALL,
    STEPS,
    WITHOUT_ROOTS_RIGHTS,
    Expect,
    Trained,
    all_differently,
    at,
    flip_in,
    flipped,
    problems,
    tree,
)
from tests.jobs.support.forkserver import Script
from tests.jobs.support.paths import MODULES

SCRIPT = Path(__file__).parent / "support" / "tiny_training.py"


def training(
    storage: Path,
    *,
    steps: int = STEPS,
    every: int = EVERY,
    keep: int = 3,
    stop: int = 0,
    before_load: str = "",
    full_at: int = 0,
    wrap: Sequence[str] = (),
) -> Trained:
    """Train in `storage`/tiny; stop=13 kills it after step 13, `before_load` is a command run just before a load."""
    with tempfile.TemporaryDirectory() as folder:
        weights, log = Path(folder, "weights"), Path(folder, "log")
        log.touch()
        env = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("RUN_", "TINY_", "SLURM_"))},
            "RUN_STORAGE": str(storage),
            "RUN_NAME": NAME,
            "RANK": "0",
            "WORLD_SIZE": "1",
            "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1",
            "MASTER_ADDR": "127.0.0.1",
            # The process takes a free port itself: one that is chosen here may be taken before it listens.
            "MASTER_PORT": "0",
            "PYTHONPATH": MODULES,
            "TINY_OUT": str(weights),
            "TINY_STOP_AT": str(stop),
            "TINY_BEFORE_LOAD": before_load,
            "TINY_FULL_AT": str(full_at),
        }
        argv = [str(SCRIPT), f"--steps={steps}", f"--every={every}", f"--keep={keep}"]
        code: int | None = None
        try:
            if wrap:
                with log.open("wb") as output:
                    command = [*wrap, sys.executable, *argv]
                    code = subprocess.run(
                        command, env=env, stdout=output, stderr=output, timeout=LIMIT, check=False
                    ).returncode
            else:
                script = Script(argv, env, log)
                try:
                    code = script.wait(LIMIT)
                finally:
                    script.kill()
        except subprocess.TimeoutExpired:
            pass
        return Trained(code, log.read_text(errors="replace"), weights.read_bytes() if weights.exists() else None)


def names_in(storage: Path) -> list[str]:
    """Return the names in the folder of the run's checkpoints."""
    return [path.name for path in (storage / NAME / "checkpoints").iterdir()]


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The final weights of a run that nothing disturbed."""
    trained = training(tmp_path_factory.mktemp("undisturbed"))
    assert trained.code == 0, trained.output
    assert trained.weights
    return trained.weights


@pytest.fixture(scope="session")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The storage of a run that was killed after step 13."""
    storage = tmp_path_factory.mktemp("interrupted")
    trained = training(storage, stop=KILLED_AT)
    assert trained.code == 99, trained.output
    assert sorted(names_in(storage), reverse=True) == list(FORMER)
    return storage


@pytest.fixture
def storage(interrupted: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    shutil.copytree(interrupted, tmp_path / "storage", symlinks=True)
    return tmp_path / "storage"


def check(storage: Path, expects: tuple[Expect, ...], undisturbed: bytes, **how: Any) -> Trained:
    before = tree(storage / NAME)
    trained = training(storage, **how)
    after = tree(storage / NAME)
    wrong = [problems(trained, expect, before, after, undisturbed) for expect in expects]
    if all(wrong):
        allowed = "\n".join(f"  not {expect}: {'; '.join(found)}" for expect, found in zip(expects, wrong, strict=True))
        pytest.fail(f"{allowed}\n--- output, exit code {trained.code}\n{trained.output[-3000:]}", pytrace=False)
    return trained


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", CASES)
def test_damaged_run(name: str, storage: Path, undisturbed: bytes) -> None:
    damage, expects = CASES[name]
    damage(storage / NAME)
    check(storage, expects, undisturbed)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", MODES)
def test_run_that_cannot_be_read(name: str, storage: Path, undisturbed: bytes) -> None:
    damage, expects = MODES[name]
    damage(storage / NAME)
    check(storage, expects, undisturbed, wrap=WITHOUT_ROOTS_RIGHTS if os.getuid() == 0 else ())


HASHES = ("sha256", "sha384", "sha512", "blake2b", "blake2s", "sha3_256")


def test_manifest_holds_digests(storage: Path) -> None:
    """Promise 1: every file's digest, a hash of hashlib in hex or base 64, is in the manifest."""
    for name in FORMER:
        text = (at(storage / NAME, name) / "manifest.json").read_text()
        for file in (DATA, DOTFILE, SMALL):
            content = (at(storage / NAME, name) / file).read_bytes()
            digests = [hashlib.new(kind, content).digest() for kind in HASHES]
            forms = [form for one in digests for form in (one.hex(), base64.b64encode(one).decode())]
            assert any(form in text for form in forms), f"{name}/manifest.json has no known digest of {file}"


@pytest.mark.parametrize("how", ["truncate", "flip", "remove", "zero"])
def test_damage_between_verification_and_reading(how: str, storage: Path, undisturbed: bytes) -> None:
    """The newest falls apart after it was found good: the same start, or the next one, falls back; never wrong bits."""
    file = f'"$CKPT/{DATA}"'
    command = {
        "truncate": f"truncate -s 1000 {file}",
        "flip": f"printf Z | dd of={file} bs=1 seek=30000 conv=notrunc status=none",
        "remove": f"rm -f {file}",
        "zero": f"dd if=/dev/zero of={file} bs=1 seek=20000 count=30000 conv=notrunc status=none",
    }[how]
    only_newest = f'case "$CKPT" in *{NEWEST}*) {command};; esac'
    trained = training(storage, before_load=only_newest)
    if trained.code != 0:
        assert NEWEST in trained.output, trained.output
        assert not trained.steps
        trained = training(storage)
    assert trained.code == 0, trained.output
    # With "flip" and "zero" the content may have been read before: the bits decide.
    assert trained.weights == undisturbed, f"other bits, started at {trained.start}\n{trained.output}"


@pytest.mark.parametrize("keep", [1, 2])
def test_after_a_fallback_the_older_stays_until_a_newer_is_proven(keep: int, tmp_path: Path) -> None:
    """Promise 4: 12 is damaged, 8 is loaded, 16 is written and damaged, too: the next start still finds 8."""
    steps, storage = 28, tmp_path / "storage"
    reference = training(tmp_path / "reference", steps=steps, keep=keep)
    training(storage, steps=steps, keep=3, stop=13)
    flipped(DATA, 0.5)(storage / NAME)
    second = training(storage, steps=steps, keep=keep, stop=21)  # Writes 12, 16 and 20 again.
    assert (second.code, second.start) == (99, 8), second.output
    names = names_in(storage)
    assert MIDDLE in names, f"the checkpoint that was loaded is gone, and no newer one was ever loaded: {names}"
    for name in names:
        if int(name.split("@")[0]) > 8:
            flip_in(at(storage / NAME, name))
    third = training(storage, steps=steps, keep=keep)
    assert (third.code, third.start) == (0, 8), third.output
    assert third.weights == reference.weights, "other bits"


@pytest.mark.parametrize("keep", [1, 2])
def test_proven_checkpoints_are_pruned_again(keep: int, tmp_path: Path) -> None:
    """Promise 4, too: once a newer one was loaded, the older ones go, so that a run does not fill its disk."""
    steps, storage = 40, tmp_path / "storage"
    training(storage, steps=steps, keep=3, stop=13)
    flipped(DATA, 0.5)(storage / NAME)
    training(storage, steps=steps, keep=keep, stop=21)
    third = training(storage, steps=steps, keep=keep, stop=33)
    assert third.start == 20, third.output
    whole = [name for name in names_in(storage) if (at(storage / NAME, name) / "manifest.json").exists()]
    assert not {OLDEST, MIDDLE} & {*whole}
    assert len(whole) <= keep + 2, sorted(whole)


def test_damaged_twice_prints_the_same(storage: Path) -> None:
    """Two starts with all damaged end alike: the first one changes nothing that the second needs to refuse."""
    all_differently(storage / NAME)
    for _ in range(2):
        trained = training(storage)
        assert (trained.code, trained.steps) == (2, []), trained.output


def test_full_disk_of_the_write_function(storage: Path) -> None:
    """Promise 5: the write function meets ENOSPC."""
    trained = training(storage, full_at=16)
    _shows_enospc(trained)
    assert trained.code in (1, 2)
    assert all((at(storage / NAME, name) / "manifest.json").exists() for name in FORMER[:1]), "the newest is gone"


@pytest.mark.parametrize("room", ["100k", "250k"])
def test_full_disk(room: str, tmp_path: Path) -> None:
    """Promise 5: a real file system is full: at the first checkpoint, and at a later one."""
    mount = tmp_path / "mount"
    mount.mkdir()
    wrap = [
        "unshare",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        f'mount -t tmpfs -o size={room} none {mount} && exec "$@"',
        "sh",
    ]
    trained = training(mount, wrap=wrap, keep=0)
    _shows_enospc(trained)
    assert trained.code in (1, 2)


def _shows_enospc(trained: Trained) -> None:
    assert re.search(r"ENOSPC|Errno 28", trained.output), f"no errno\n{trained.output[-2500:]}"
    free = r"\d+ bytes[^\n]{0,40}\bfree"
    assert re.search(free, trained.output, re.I), f"no free space\n{trained.output[-2500:]}"
    assert os.strerror(errno.ENOSPC) in trained.output or "full" in trained.output
