"""Run as the first process of a pod: create the pod's file tree, then hold its namespaces until it is killed.

`python -m embedded_account.kubernetes.pods.sandbox.pause FILE` reads a `Tree` as JSON from FILE, waits for a line on
standard input (the network exists then), prints `ready`, and becomes `sleep`. It is process 1 of the pod: everything in
the pod ends with it.
"""

import json
import os
import shutil
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from embedded_account.kubernetes.pods.sandbox import kernel


@dataclass(frozen=True)
class Mount:
    """A file or folder of this machine at a path of the pod."""

    target: str
    source: str | None
    """A file or folder; None means an empty file system in memory."""
    size: str = ""
    """The size of a file system in memory, in the form of mount(8); empty means half of the machine's memory."""
    read_only: bool = False


@dataclass(frozen=True)
class Tree:
    """What the pod sees: this machine's files, with `mounts` over them."""

    hostname: str
    root: str
    """An empty folder that becomes the pod's root."""
    home: str
    """The working directory of everything that runs in the pod."""
    mounts: list[Mount]


def make(tree: Tree) -> None:
    """Create the file tree and enter it. Raises OSError with a path."""
    socket.sethostname(tree.hostname)
    # A mount may cover another one's source, or home: open all sources before the first mount.
    mounts = [*tree.mounts, Mount(tree.home, tree.home)]
    held = {each.source: os.open(each.source, os.O_PATH) for each in mounts if each.source}
    old = os.open("/", os.O_PATH)
    kernel.mount("tmpfs", tree.root, "tmpfs", options="mode=755")
    kernel.mount(None, tree.root, flags=kernel.UNBINDABLE)
    _fill(Path(tree.root), old, without={"proc"})
    os.chroot(tree.root)
    os.chdir("/")
    Path("/proc").mkdir()
    kernel.mount("proc", "/proc", "proc")
    ours = {Path("/")}
    for each in sorted(mounts, key=lambda mount: mount.target):
        source = f"/proc/self/fd/{held[each.source]}" if each.source else None
        _place(each, source, ours)
    os.chdir(tree.home)


def _place(mount: Mount, source: str | None, ours: set[Path]) -> None:
    target = Path(mount.target)
    is_folder = source is None or Path(source).is_dir()
    _make_room(target, ours, is_folder=is_folder)
    if source is None:
        options = f"mode=1777,size={mount.size}" if mount.size else "mode=1777"
        kernel.mount("tmpfs", mount.target, "tmpfs", options=options)
        ours.add(target)
        return
    kernel.mount(source, mount.target, flags=kernel.BIND | kernel.RECURSIVE)
    if mount.read_only:
        kernel.mount(None, mount.target, flags=kernel.BIND | kernel.REMOUNT | kernel.READ_ONLY)


def _make_room(target: Path, ours: set[Path], *, is_folder: bool) -> None:
    """Create the mount point of a mount without touching this machine's files.

    Its parent becomes a copy made of mounts. `ours` are the folders that are such copies, or empty ones in memory.
    """
    if target.exists():
        return
    parent = next(folder for folder in target.parents if folder.exists()).resolve()
    if parent not in ours:
        covered = os.open(parent, os.O_PATH)
        mode = parent.stat().st_mode & 0o7777
        kernel.mount("tmpfs", str(parent), "tmpfs", options=f"mode={mode:o}")
        _fill(parent, covered)
        os.close(covered)
        ours.add(parent)
    target.parent.mkdir(parents=True, exist_ok=True)
    if is_folder:
        target.mkdir()
    else:
        target.touch()


def _fill(folder: Path, source: int, without: set[str] | None = None) -> None:
    """Mount each entry of an open folder into another folder."""
    origin = Path(f"/proc/self/fd/{source}")
    for entry in os.scandir(str(origin)):
        target = folder / entry.name
        if entry.name in (without or ()):
            continue
        try:
            _bind(entry, target)
        except (FileNotFoundError, NotADirectoryError):
            # Somebody else's program removed or replaced it meanwhile, as happens in /tmp.
            _remove(target)


def _bind(entry: os.DirEntry[str], target: Path) -> None:
    if entry.is_symlink():
        target.symlink_to(Path(entry.path).readlink())
        return
    if entry.is_dir():
        target.mkdir()
    else:
        target.touch()
    kernel.mount(entry.path, str(target), flags=kernel.BIND | kernel.RECURSIVE)


def _remove(target: Path) -> None:
    if target.is_dir():
        target.rmdir()
    else:
        target.unlink(missing_ok=True)


def main() -> None:
    """Read the tree, create it, and wait to be killed."""
    content = json.loads(Path(sys.argv[1]).read_text())
    tree = Tree(content["hostname"], content["root"], content["home"], [Mount(**each) for each in content["mounts"]])
    sleep = shutil.which("sleep") or "/bin/sleep"
    sys.stdin.readline()
    try:
        make(tree)
    except OSError as error:
        sys.exit(f"{error.filename}: {error.strerror}")
    print("ready", flush=True)
    # `sleep` inherits this: the kernel then reaps the orphans that process 1 inherits.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.execv(sleep, ["pause", "infinity"])  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main()
