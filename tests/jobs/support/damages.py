"""Kinds of damage of a run's folder, and what the promises demand of the next start.

They were written from the promises alone, by somebody who had not seen the library:

1. A checkpoint is whole or not there: its manifest holds digests.
2. A damaged checkpoint is skipped, the output says which and why, and training resumes from the last whole one with the
   bits of an undisturbed run.
3. If every checkpoint is damaged, the program ends with 2, names what is damaged and a fix, trains and deletes nothing.
   A run never starts at step 0 where checkpoints exist.
4. Nothing is pruned as long as no start has loaded a newer checkpoint.
5. Errors of a full disk show errno and the free space.
6. Damaged manifests and records are named; no traceback is the only message.
7. Checkpoints of earlier versions, whose manifests have no digests, still load.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.waiting import REHEARSAL_PATIENCE_SECONDS

Damage = Callable[[Path], object]

STEPS, EVERY, KILLED_AT = 16, 4, 13
"""An interrupted run has the checkpoints of steps 4, 8 and 12."""
NAME = "tiny"
LIMIT = REHEARSAL_PATIENCE_SECONDS
WITHOUT_ROOTS_RIGHTS = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
FORMER = "000000012@0001.01", "000000008@0001.01", "000000004@0001.01"
NEWEST, MIDDLE, OLDEST = FORMER
DATA, DOTFILE, SMALL = "__0_0.distcp", ".metadata", "generators-00000.pt"
"""Files of torch_state.save, with one worker."""


@dataclasses.dataclass
class Trained:
    """What a training did: exit code (None: it hung), all it printed, the final weights (None: none were written)."""

    code: int | None
    output: str
    weights: bytes | None

    @property
    def start(self) -> int | None:
        """The step at which the train function began."""
        found = re.findall(r"^TINY start=(\d+)$", self.output, re.M)
        return int(found[-1]) if found else None

    @property
    def steps(self) -> list[int]:
        """The steps that were trained."""
        return [int(step) for step in re.findall(r"^TINY step=(\d+)$", self.output, re.M)]


@dataclasses.dataclass(frozen=True)
class Expect:
    """An outcome that the promises allow; a case lists one or more, and one of them must hold."""

    code: int
    start: int | None  # Of the train function; None: nothing is trained.
    named: tuple[str, ...] = ()  # Words that the output must have.
    reason: bool = False  # Some word for why must stand on the line that has the first of `named`.
    keeps: tuple[str, ...] = ()  # Paths below the run that must be unchanged afterwards.


def falls_back(step: int, *named: str) -> Expect:
    """Skipped, named with a reason; trained from `step` with the bits of an undisturbed run."""
    return Expect(0, step, named or (NEWEST,), reason=True)


def unaffected() -> Expect:
    """As if nothing had happened; a line about it may be printed."""
    return Expect(0, 12)


def refuses(*named: str) -> Expect:
    """Exit code 2; names what is damaged; trains nothing, deletes nothing."""
    return Expect(2, None, named)


REASON = re.compile(
    r"digest|checksum|hash|sha|size|byte|short|trunc|empty|miss|not there|no such|absent|lack|differ|mismatch|another|"
    r"permission|denied|cannot|unread|directory|not a file|no file|regular|link|json|manifest|valid|corrupt|torn|step|"
    r"expect|damaged|decode|negative|unknown|loop|errno",
    re.IGNORECASE,
)
FIX = re.compile(
    r"remove|delete|restore|move|copy|rename|another name|other name|RUN_NAME|fix|repair|chmod|start over|backup",
    re.IGNORECASE,
)


def problems(  # noqa: PLR0912 (one branch for each demand)
    trained: Trained, expect: Expect, before: dict[str, str], after: dict[str, str], undisturbed: bytes
) -> list[str]:
    """Return in what a training differs from an outcome."""
    found = []
    output = trained.output
    if trained.code is None:
        return [f"hangs for over {LIMIT:.0f} s"]
    if trained.code != expect.code:
        found.append(f"exit code {trained.code} instead of {expect.code}")
    if trained.start != expect.start:
        found.append(f"the train function starts at {trained.start} instead of {expect.start}")
    if expect.start is None and trained.steps:
        found.append(f"trained {trained.steps}")
    if expect.code == 0 and trained.weights != undisturbed:
        found.append("final weights differ from the undisturbed run's" if trained.weights else "no final weights")
    for word in expect.named:
        if word not in output:
            found.append(f"the output does not name {word}")
    if expect.reason and expect.named:
        lines = [line for line in output.splitlines() if expect.named[0] in line and "resumes from" not in line]
        stripped = [line.replace(expect.named[0], "") for line in lines]
        if not any(REASON.search(line) for line in stripped):
            found.append(f"no line gives a reason for skipping {expect.named[0]}")
    if expect.code == 2:
        if not FIX.search(output):
            found.append("no fix in the output")
        gone = [path for path in before if path not in after or before[path] != after[path]]
        if gone:
            found.append(f"deleted or changed: {gone[:4]}")
    for prefix in expect.keeps:
        gone = [path for path in before if path.startswith(prefix) and before[path] != after.get(path)]
        if gone:
            found.append(f"deleted or changed: {gone[:4]}")
    last = [line for line in output.splitlines() if line.strip()][-1:]
    if (
        expect.code != 0
        and last
        and re.match(r"\w*(\.\w+)*(Error|Exception)\b", last[0])
        and "InvalidInput" not in last[0]
    ):
        found.append(f"a traceback is the last message: {last[0][:120]}")
    if "JSONDecodeError" in output:
        found.append("a bare JSONDecodeError")
    if re.search(r"attempt \S+: starts at step 0", output):
        found.append("starts at step 0 although checkpoints exist")
    return found


def tree(folder: Path) -> dict[str, str]:
    """Return all files, links and special files below a folder, with what is in them."""
    result = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            result[name] = f"-> {path.readlink()}"
        elif path.is_file():
            try:
                result[name] = hashlib.sha256(path.read_bytes()).hexdigest()
            except OSError as error:
                result[name] = str(error.errno)
        elif not path.is_dir():
            result[name] = "special"
    return result


def at(run: Path, name: str = NEWEST) -> Path:
    """Return the folder of a checkpoint."""
    return run / "checkpoints" / name


def truncated(file: str, part: float) -> Damage:
    def damage(run: Path) -> None:
        path = at(run) / file
        os.truncate(path, int(path.stat().st_size * part))

    return damage


def one_byte_short(run: Path) -> None:
    path = at(run) / DATA
    os.truncate(path, path.stat().st_size - 1)


def flipped(file: str, where: float, name: str = NEWEST, bit: int = 1) -> Damage:
    def damage(run: Path) -> None:
        path = at(run, name) / file
        content = bytearray(path.read_bytes())
        content[min(int(len(content) * where), len(content) - 1)] ^= bit
        _same_times(path, bytes(content))

    return damage


def payloads(content: bytes) -> list[tuple[int, int]]:
    """Return where tensors lie in a file of torch (begin and length): the entries data/N of zip archives in it."""
    found, at_ = [], 0
    while (at_ := content.find(b"PK\x03\x04", at_)) >= 0:
        name, extra = (int.from_bytes(content[at_ + n : at_ + n + 2], "little") for n in (26, 28))
        begin = at_ + 30 + name + extra
        following = min(n for m in (b"PK\x07\x08", b"PK\x03\x04", b"PK\x01\x02") if (n := content.find(m, begin)) >= 0)
        if re.search(rb"/data/\d+$", content[at_ + 30 : at_ + 30 + name]):
            found.append((begin, following - begin))
        at_ += 4
    return found


def tensors_flipped(bit: int, every: int = 1) -> Damage:
    """Flip a bit in the middle of every n-th tensor: torch loads it without a word, and the weights differ."""

    def damage(run: Path) -> None:
        path = at(run) / DATA
        content = bytearray(path.read_bytes())
        places = payloads(bytes(content))
        assert places, "no tensor found: adapt payloads() to the file's format"
        for begin, length in places[::every]:
            content[begin + length // 2 // 4 * 4 + 2] ^= bit
        _same_times(path, bytes(content))

    return damage


def _same_times(path: Path, content: bytes) -> None:
    """Write with the old size and times: nothing but the content tells."""
    before = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def zeroed(file: str, start: float, end: float) -> Damage:
    """A sparse hole after a crash: the size is right, blocks are zeros."""

    def damage(run: Path) -> None:
        path = at(run) / file
        content = bytearray(path.read_bytes())
        first, last = int(len(content) * start), int(len(content) * end)
        content[first:last] = bytes(last - first)
        _same_times(path, bytes(content))

    return damage


def padded(run: Path) -> None:
    path = at(run) / DATA
    os.truncate(path, path.stat().st_size + 4096)


def one_byte_longer(run: Path) -> None:
    with (at(run) / DATA).open("ab") as file:
        file.write(b"\n")


def missing(file: str) -> Damage:
    return lambda run: (at(run) / file).unlink()


def swapped_same_size(run: Path) -> None:
    """Two files of equal size are exchanged: the newest's data file and that of the one before."""
    one, two = at(run) / DATA, at(run, MIDDLE) / DATA
    assert one.stat().st_size == two.stat().st_size
    a, b = one.read_bytes(), two.read_bytes()
    one.write_bytes(b)
    two.write_bytes(a)


def copied_without_dotfiles(run: Path) -> None:
    for name in FORMER[:1]:
        for path in at(run, name).glob(".*"):
            path.unlink()


def all_copied_without_dotfiles(run: Path) -> None:
    for name in FORMER:
        for path in at(run, name).glob(".*"):
            path.unlink()


def replaced_by_directory(file: str) -> Damage:
    def damage(run: Path) -> None:
        (at(run) / file).unlink()
        (at(run) / file).mkdir()

    return damage


def replaced_by_link(file: str, target: str) -> Damage:
    def damage(run: Path) -> None:
        (at(run) / file).unlink()
        (at(run) / file).symlink_to(target)

    return damage


def replaced_by_fifo(file: str) -> Damage:
    def damage(run: Path) -> None:
        (at(run) / file).unlink()
        os.mkfifo(at(run) / file)

    return damage


def folder_is_a_file(run: Path) -> None:
    shutil.rmtree(at(run))
    at(run).write_bytes(b"")


def folder_is_empty(run: Path) -> None:
    shutil.rmtree(at(run))
    at(run).mkdir()


def other_steps_data(run: Path) -> None:
    """Data files of step 8 lie in step 12's folder; the manifest is step 12's."""
    for file in (DATA, DOTFILE, SMALL):
        shutil.copy2(at(run, MIDDLE) / file, at(run) / file)


def other_steps_small_file(run: Path) -> None:
    """Only the generators are of step 8: the weights load, and the bits drift."""
    shutil.copy2(at(run, MIDDLE) / SMALL, at(run) / SMALL)


def other_steps_checkpoint(run: Path) -> None:
    """The whole folder of step 8, manifest included, lies under step 12's name."""
    shutil.rmtree(at(run))
    shutil.copytree(at(run, MIDDLE), at(run))


def renamed(new: str) -> Damage:
    return lambda run: at(run).rename(at(run, new))


def duplicate(new: str, recorded: bool, harm: Damage | None = None) -> Damage:
    """Another writer has the same step; `harm` damages the duplicate."""

    def damage(run: Path) -> None:
        shutil.copytree(at(run), at(run, new))
        if recorded:
            record = new.split("@")[1]
            shutil.copy2(run / "attempts/0001.01.json", run / f"attempts/{record}.json")
        if harm:
            harm(at(run, new))

    return damage


def flip_in(folder: Path) -> None:
    content = bytearray((folder / DATA).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / DATA).write_bytes(bytes(content))


def record(path: str, content: bytes | None) -> Damage:
    """Write a file of the run; None removes it."""

    def damage(run: Path) -> None:
        if content is None:
            (run / path).unlink()
        else:
            (run / path).write_bytes(content)

    return damage


def manifest_is(content: bytes | None) -> Damage:
    return record(f"checkpoints/{NEWEST}/manifest.json", content)


def manifest(change: Callable[[dict[str, Any]], Any], name: str = NEWEST) -> Damage:
    """Change the manifest's content, whatever else it holds."""

    def damage(run: Path) -> None:
        path = at(run, name) / "manifest.json"
        content = json.loads(path.read_text())
        changed = change(content)
        path.write_text(json.dumps(content if changed is None else changed, indent=2, sort_keys=True))

    return damage


def manifest_bytes(change: Callable[[bytes], bytes]) -> Damage:
    def damage(run: Path) -> None:
        path = at(run) / "manifest.json"
        path.write_bytes(change(path.read_bytes()))

    return damage


def _walk(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict):
        return {key: _walk(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_walk(item, change) for item in value]
    return change(value)


def size_is(new: Any) -> Damage:
    """Replace the data file's size, wherever the manifest has it."""

    def damage(run: Path) -> None:
        size = (at(run) / DATA).stat().st_size
        path = at(run) / "manifest.json"
        content = _walk(json.loads(path.read_text()), lambda item: new if item == size and item is not True else item)
        path.write_text(json.dumps(content))

    return damage


def looks_like_a_digest(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"(?:[a-z0-9_]+[:=-])?[0-9A-Za-z+/]{32,}={0,2}", value) is not None


def digests_are(change: Callable[[str], Any]) -> Damage:
    """Change the manifest's digests; a manifest without any breaks promise P1."""

    def damage(run: Path) -> None:
        path = at(run) / "manifest.json"
        content = json.loads(path.read_text())
        changed = _walk(content, lambda item: change(item) if looks_like_a_digest(item) else item)
        assert changed != content, "the manifest holds no digests (P1)"
        path.write_text(json.dumps(changed))

    return damage


def _another_digit(digest: str) -> str:
    return digest[:-1] + ("0" if digest[-1] != "0" else "1")


def former_version(*names: str) -> Damage:
    """Write the manifest as the version without digests did: files with sizes, metrics, step, time."""

    def damage(run: Path) -> None:
        for name in names or FORMER:
            folder = at(run, name)
            old = json.loads((folder / "manifest.json").read_text())
            files = {
                path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.name != "manifest.json"
            }
            content = {"files": files, "metrics": old["metrics"], "step": old["step"], "written": old["written"]}
            (folder / "manifest.json").write_text(json.dumps(content, indent=2, sort_keys=True))

    return damage


def both(*damages: Damage) -> Damage:
    def damage(run: Path) -> None:
        for one in damages:
            one(run)

    return damage


def unlisted(file: str, content: bytes = b"x") -> Damage:
    return record(f"checkpoints/{NEWEST}/{file}", content)


def listed_outside(run: Path) -> None:
    """The manifest lists a file outside of the checkpoint, with its right size."""
    size = (run / "run.json").stat().st_size
    manifest(lambda content: content["files"].update({"../../run.json": _like(content, size)}))(run)


def _like(content: dict[str, Any], size: int) -> Any:
    example = next(iter(content["files"].values())) if isinstance(content["files"], dict) else size
    return size if isinstance(example, int) else {**example, "size": size} if isinstance(example, dict) else example


def listed_extra(run: Path) -> None:
    manifest(lambda content: content["files"].update({"never-written.pt": _like(content, 17)}))(run)


def all_differently(run: Path) -> None:
    flipped(DATA, 0.5)(run)
    os.truncate(at(run, MIDDLE) / SMALL, 0)
    (at(run, OLDEST) / "manifest.json").write_bytes(b"")


def all_the_same(run: Path) -> None:
    for name in FORMER:
        flipped(DATA, 0.5, name)(run)


def all_data_missing(run: Path) -> None:
    for name in FORMER:
        (at(run, name) / DATA).unlink()


def all_manifests_empty(run: Path) -> None:
    for name in FORMER:
        (at(run, name) / "manifest.json").write_bytes(b"")


def newest_two(run: Path) -> None:
    flipped(DATA, 0.5)(run)
    (at(run, MIDDLE) / DATA).unlink()


def middle_only(run: Path) -> None:
    flipped(DATA, 0.5, MIDDLE)(run)


def linked_folder(run: Path) -> None:
    """The newest checkpoint was moved to another disk; a link stands in its place. It is whole."""
    elsewhere = run.parent / "elsewhere"
    shutil.move(at(run), elsewhere)
    at(run).symlink_to(elsewhere)


def dangling_folder(run: Path) -> None:
    shutil.rmtree(at(run))
    at(run).symlink_to("/nonexistent/checkpoint")


def dangling_checkpoints(run: Path) -> None:
    shutil.rmtree(run / "checkpoints")
    (run / "checkpoints").symlink_to("/nonexistent/checkpoints")


def checkpoints_is_a_file(run: Path) -> None:
    shutil.rmtree(run / "checkpoints")
    (run / "checkpoints").write_bytes(b"")


def mode(path: str, bits: int) -> Damage:
    return lambda run: (run / path).chmod(bits)


DEEP = b"[" * 200_000
ALL = refuses(*FORMER)
HERE_OR_BEFORE = (unaffected(), falls_back(8))

# name: (damage, the outcomes that the promises allow)
CASES: dict[str, tuple[Damage, tuple[Expect, ...]]] = {
    # Data files.
    "data truncated to half": (truncated(DATA, 0.5), (falls_back(8),)),
    "data one byte short": (one_byte_short, (falls_back(8),)),
    "data of length zero": (truncated(DATA, 0), (falls_back(8),)),
    "small file of length zero": (truncated(SMALL, 0), (falls_back(8),)),
    "dot file of length zero": (truncated(DOTFILE, 0), (falls_back(8),)),
    "bit flipped at the start of data": (flipped(DATA, 0), (falls_back(8),)),
    "bit flipped in the middle of data": (flipped(DATA, 0.5), (falls_back(8),)),
    "bit flipped at the end of data": (flipped(DATA, 1), (falls_back(8),)),
    "highest bit flipped in the middle of data": (flipped(DATA, 0.37, bit=128), (falls_back(8),)),
    "bit flipped in the middle of each tensor": (tensors_flipped(1 << 6), (falls_back(8),)),
    "lowest bit flipped in one tensor": (tensors_flipped(1, every=1000), (falls_back(8),)),
    "bit flipped in the dot file": (flipped(DOTFILE, 0.5), (falls_back(8),)),
    "bit flipped at the start of the generators": (flipped(SMALL, 0), (falls_back(8),)),
    "bit flipped in the middle of the generators": (flipped(SMALL, 0.5), (falls_back(8),)),
    "bit flipped at the end of the generators": (flipped(SMALL, 1), (falls_back(8),)),
    "second half of data is zeros": (zeroed(DATA, 0.5, 1), (falls_back(8),)),
    "one block of data is zeros": (zeroed(DATA, 0.3, 0.375), (falls_back(8),)),
    "all of the generators is zeros": (zeroed(SMALL, 0, 1), (falls_back(8),)),
    "data padded with zeros": (padded, (falls_back(8),)),
    "data one byte longer": (one_byte_longer, (falls_back(8),)),
    "data missing": (missing(DATA), (falls_back(8),)),
    "generators missing": (missing(SMALL), (falls_back(8),)),
    "dot file missing, copied with dir/*": (copied_without_dotfiles, (falls_back(8),)),
    "data of step 8 in step 12": (other_steps_data, (falls_back(8),)),
    "generators of step 8 in step 12": (other_steps_small_file, (falls_back(8),)),
    "two checkpoints' files swapped, same size": (swapped_same_size, (falls_back(4, NEWEST, MIDDLE),)),
    "directory in place of data": (replaced_by_directory(DATA), (falls_back(8),)),
    "dangling link in place of data": (replaced_by_link(DATA, "/nonexistent/file"), (falls_back(8),)),
    "link to itself in place of data": (replaced_by_link(DATA, DATA), (falls_back(8),)),
    "link to an endless device": (replaced_by_link(DATA, "/dev/zero"), (falls_back(8),)),
    "named pipe in place of data": (replaced_by_fifo(DATA), (falls_back(8),)),
    # The manifest.
    "manifest missing": (manifest_is(None), (Expect(0, 8),)),
    "manifest empty": (manifest_is(b""), (falls_back(8),)),
    "manifest of zeros": (manifest_bytes(lambda old: bytes(len(old))), (falls_back(8),)),
    "manifest cut in the middle": (manifest_bytes(lambda old: old[: len(old) // 2]), (falls_back(8),)),
    "manifest no JSON": (manifest_is(b"<html>503 Slow Down</html>"), (falls_back(8),)),
    "manifest no UTF-8": (manifest_is(b"\xff\xfe\x00{"), (falls_back(8),)),
    "manifest in UTF-16": (manifest_bytes(lambda old: old.decode().encode("utf-16")), HERE_OR_BEFORE),
    "manifest with a byte-order mark": (manifest_bytes(lambda old: b"\xef\xbb\xbf" + old), HERE_OR_BEFORE),
    "manifest with CRLF": (manifest_bytes(lambda old: old.replace(b"\n", b"\r\n")), HERE_OR_BEFORE),
    "manifest twice in one file": (manifest_bytes(lambda old: old + old), (falls_back(8),)),
    "manifest a list": (manifest_is(b"[]"), (falls_back(8),)),
    "manifest null": (manifest_is(b"null"), (falls_back(8),)),
    "manifest a number": (manifest_is(b"12"), (falls_back(8),)),
    "manifest a string": (manifest_is(b'"step"'), (falls_back(8),)),
    "manifest nested without end": (manifest_is(DEEP), (falls_back(8),)),
    "manifest an empty object": (manifest_is(b"{}"), (falls_back(8),)),
    "manifest without files": (manifest(lambda content: content.pop("files") and None), (falls_back(8),)),
    "manifest without step": (manifest(lambda content: content.pop("step") and None), HERE_OR_BEFORE),
    "manifest without metrics": (manifest(lambda content: content.pop("metrics") and None), HERE_OR_BEFORE),
    "manifest without its time": (manifest(lambda content: content.pop("written") and None), HERE_OR_BEFORE),
    "manifest's files null": (manifest(lambda content: content.update(files=None)), (falls_back(8),)),
    "manifest's files a list": (manifest(lambda content: content.update(files=[])), (falls_back(8),)),
    "manifest's files empty": (manifest(lambda content: content.update(files={})), (falls_back(8),)),
    "manifest's step another": (manifest(lambda content: content.update(step=8)), HERE_OR_BEFORE),
    "manifest's step beyond the end": (manifest(lambda content: content.update(step=99)), HERE_OR_BEFORE),
    "manifest's step negative": (manifest(lambda content: content.update(step=-12)), HERE_OR_BEFORE),
    "manifest's step a string": (manifest(lambda content: content.update(step="12")), HERE_OR_BEFORE),
    "manifest's step a truth value": (manifest(lambda content: content.update(step=True)), HERE_OR_BEFORE),
    "manifest's metrics a list": (manifest(lambda content: content.update(metrics=[1])), HERE_OR_BEFORE),
    "manifest with another key": (manifest(lambda content: content.update(site="backup of Tuesday")), HERE_OR_BEFORE),
    "size negative": (size_is(-1), (falls_back(8),)),
    "size a string": (size_is("many"), (falls_back(8),)),
    "size null": (size_is(None), (falls_back(8),)),
    "size a list": (size_is([54560]), (falls_back(8),)),
    "size infinite": (size_is(float("inf")), (falls_back(8),)),
    "manifest lists a file that never was": (listed_extra, (falls_back(8),)),
    "manifest lists a file outside": (listed_outside, (falls_back(8),)),
    "digest with another digit": (digests_are(_another_digit), (falls_back(8),)),
    "digests empty": (digests_are(lambda _: ""), (falls_back(8),)),
    "digests null": (digests_are(lambda _: None), (falls_back(8),)),
    "digests numbers": (digests_are(lambda _: 12), (falls_back(8),)),
    "directory in place of the manifest": (replaced_by_directory("manifest.json"), (falls_back(8),)),
    "dangling link in place of the manifest": (
        replaced_by_link("manifest.json", "/nonexistent/manifest"),
        (Expect(0, 8),),
    ),
    "link to itself in place of the manifest": (replaced_by_link("manifest.json", "manifest.json"), (falls_back(8),)),
    "named pipe in place of the manifest": (replaced_by_fifo("manifest.json"), (falls_back(8),)),
    # What lies beside is no damage.
    "file beside that no manifest lists": (unlisted("notes.txt"), (unaffected(),)),
    "file of NFS beside": (unlisted(".nfs000000000001"), (unaffected(),)),
    "temporary file of the manifest beside": (unlisted("manifest.json.tmp", b"{"), (unaffected(),)),
    # Folders.
    "folder is empty": (folder_is_empty, (Expect(0, 8),)),
    "folder is a file": (folder_is_a_file, (Expect(0, 8),)),
    "folder is a dangling link": (dangling_folder, (Expect(0, 8),)),
    "folder is a link to a whole checkpoint": (linked_folder, HERE_OR_BEFORE),
    "folder of step 8 copied under the name of step 12": (other_steps_checkpoint, (falls_back(8),)),
    "folder renamed to a later step": (
        renamed("000000099@0001.01"),
        (Expect(0, 12), falls_back(8, "000000099@0001.01")),
    ),
    "folder renamed to an earlier step": (renamed("000000006@0001.01"), (Expect(0, 12), Expect(0, 8))),
    "folder renamed to a backup": (
        renamed(f"{NEWEST}.bak"),
        (Expect(0, 8, keeps=(f"checkpoints/{NEWEST}.bak",)), Expect(0, 12)),
    ),
    "folder renamed without zeros": (renamed("12@0001.01"), (Expect(0, 12), Expect(0, 8))),
    "folder of somebody else": (
        lambda run: shutil.copytree(at(run), run / "checkpoints" / "do not delete"),
        (Expect(0, 12, keeps=("checkpoints/do not delete",)),),
    ),
    "same step by a second writer, recorded": (duplicate("000000012@0001.02", True), (unaffected(),)),
    "same step by a second writer, not recorded": (duplicate("000000012@0001.02", False), (unaffected(),)),
    "same step by a second writer, which is damaged": (
        duplicate("000000012@0001.02", True, flip_in),
        (Expect(0, 12, ("000000012@0001.02",), reason=True),),
    ),
    "same step by a second writer, the first is damaged": (
        both(duplicate("000000012@0001.02", True), flipped(DATA, 0.5)),
        (Expect(0, 12),),
    ),
    "checkpoints is a dangling link": (
        dangling_checkpoints,
        (refuses("checkpoints"), Expect(1, None, ("checkpoints",))),
    ),
    "checkpoints is a file": (checkpoints_is_a_file, (refuses("checkpoints"), Expect(1, None, ("checkpoints",)))),
    # Several checkpoints.
    "newest two of three damaged": (newest_two, (falls_back(4, NEWEST, MIDDLE),)),
    "only the middle one damaged": (middle_only, (unaffected(),)),
    "all damaged in different ways": (all_differently, (ALL,)),
    "all damaged by a flipped bit": (all_the_same, (ALL,)),
    "all without data": (all_data_missing, (ALL,)),
    "all without dot files": (all_copied_without_dotfiles, (ALL,)),
    "all manifests empty": (all_manifests_empty, (ALL,)),
    # Records beside the checkpoints.
    "attempt's record missing": (record("attempts/0001.01.json", None), (unaffected(),)),
    **{
        f"attempt's record {what}": (
            record("attempts/0001.01.json", content),
            (Expect(0, 12, ("0001.01.json",)), refuses("0001.01.json")),
        )
        for what, content in {
            "empty": b"",
            "garbage": b"\x00" * 64,
            "cut": b'{"began": "2026',
            "a list": b"[]",
            "without keys": b"{}",
        }.items()
    },
    "attempt's record of a stranger": (record("attempts/README.json", b"not a record"), HERE_OR_BEFORE),
    "attempt's record a directory": (
        both(record("attempts/0001.01.json", None), lambda run: (run / "attempts/0001.01.json").mkdir()),
        (Expect(0, 12), refuses("0001.01.json")),
    ),
    **{
        f"run.json {what}": (record("run.json", content), (Expect(0, 12, ("run.json",)), refuses("run.json")))
        for what, content in {
            "empty": b"",
            "of zeros": b"\x00" * 18,
            "cut": b'{"steps":',
            "a list": b"[]",
            "null": b"null",
            "no UTF-8": b"\xff\xfe{",
        }.items()
    },
    "run.json missing": (record("run.json", None), (Expect(0, 12), refuses("run.json"))),
    **{
        f"DONE.json {what}": (record("DONE.json", content), (Expect(0, 12, ("DONE.json",)), refuses("DONE.json")))
        for what, content in {"empty": b"", "of zeros": b"\x00" * 40, "a list": b"[]", "an empty object": b"{}"}.items()
    },
    "telemetry empty": (record("telemetry/0001.01.json", b""), (unaffected(),)),
    "telemetry a list": (record("telemetry/0001.01.json", b"[]"), (unaffected(),)),
    # Checkpoints of earlier versions (P7).
    "all of the former version": (former_version(), (unaffected(),)),
    "newest of the former version": (former_version(NEWEST), (unaffected(),)),
    "older ones of the former version, newest damaged": (
        both(former_version(MIDDLE, OLDEST), flipped(DATA, 0.5)),
        (falls_back(8),),
    ),
    "former version, data truncated": (both(former_version(), truncated(DATA, 0.5)), (falls_back(8),)),
    "former version, dot file missing": (both(former_version(), copied_without_dotfiles), (falls_back(8),)),
    "former version, generators of zeros": (both(former_version(), zeroed(SMALL, 0, 1)), (falls_back(8),)),
    "former version, dot file's start flipped": (
        both(former_version(), flipped(DOTFILE, 0, bit=255)),
        (falls_back(8),),
    ),
}

# Cases as root would be no cases: the program runs without the rights that ignore modes.
MODES: dict[str, tuple[Damage, tuple[Expect, ...]]] = {
    "data unreadable": (mode(f"checkpoints/{NEWEST}/{DATA}", 0), (falls_back(8), refuses(NEWEST))),
    "manifest unreadable": (mode(f"checkpoints/{NEWEST}/manifest.json", 0), (falls_back(8), refuses(NEWEST))),
    "folder unreadable": (mode(f"checkpoints/{NEWEST}", 0), (falls_back(8), refuses(NEWEST))),
    "folder without its x bit": (mode(f"checkpoints/{NEWEST}", 0o600), (falls_back(8), refuses(NEWEST))),
    "checkpoints unreadable": (mode("checkpoints", 0), (refuses("checkpoints"),)),
    "run.json unreadable": (mode("run.json", 0), (refuses("run.json"),)),
    "attempts unreadable": (mode("attempts", 0), (refuses("attempts"),)),
}
