"""A machine on which Slurm cannot run says so in one sentence; a package is used only if it is the right one."""

import hashlib
import json
import platform
from pathlib import Path

import pytest

from embedded_account.machine.processes import ProcessError
from rehearsal.slurm import programs

TOOLS = ("apt-get", "dpkg-deb", "env", "ip", "nsenter", "unshare")
LOCKED = {"slurmctld": {"version": "22.05.8-4+deb12u3", "sha256": hashlib.sha256(b"package").hexdigest()}}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole PATH, with programs that succeed; apt's locked package is `slurmctld`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in TOOLS:
        write(folder / name, "exit 0")
    lock = tmp_path / "packages.lock.json"
    lock.write_text(json.dumps(LOCKED))
    monkeypatch.setattr(programs, "_LOCK", lock)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setenv("PATH", str(folder))
    return folder


def write(program: Path, script: str) -> None:
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def apt_offers(machine: Path, version: str, content: str = "package") -> None:
    """Let apt know one version only."""
    write(
        machine / "apt-get",
        f'case "$2" in slurmctld | slurmctld={version}) printf {content} > "slurmctld_{version}_amd64.deb" ;;\n'
        "*) echo \"E: Version for 'slurmctld' was not found\" >&2; exit 100 ;; esac",
    )


@pytest.mark.parametrize("tool", TOOLS)
def test_missing_program_is_named(machine: Path, tool: str, tmp_path: Path) -> None:
    (machine / tool).unlink()
    with pytest.raises(ProcessError, match=rf"needs {tool}, which this machine lacks\. Fix: rehearse Slurm on Debian"):
        programs.ensure(tmp_path / "cache")


def test_refused_namespaces_name_the_setting(machine: Path) -> None:
    write(machine / "unshare", "echo 'unshare: write failed: Operation not permitted' >&2; exit 1")
    with pytest.raises(ProcessError, match=r"refuses \(unshare: write failed.*sysctl kernel\.apparmor"):
        programs.require_machine()


def test_another_processor_is_refused(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(ProcessError, match=r"machine 'aarch64' is invalid.* Allowed: x86_64"):
        programs.require_machine()


def test_apt_without_the_package_is_named(machine: Path, tmp_path: Path) -> None:
    write(machine / "apt-get", "echo 'E: Unable to locate package slurmctld' >&2; exit 100")
    with pytest.raises(ProcessError, match=r"apt cannot fetch Slurm: Unable to locate .* Fix: `apt-get"):
        programs.ensure(tmp_path / "cache")


def test_locked_version_with_another_hash_is_refused(machine: Path, tmp_path: Path) -> None:
    apt_offers(machine, "22.05.8-4+deb12u3", content="changed")
    with pytest.raises(ProcessError, match=r"its hash is not the one in packages\.lock\.json"):
        programs.ensure(tmp_path / "cache")


def test_another_distributions_slurm_is_refused(machine: Path, tmp_path: Path) -> None:
    apt_offers(machine, "23.11.4-1.2ubuntu5")
    with pytest.raises(ProcessError, match=r"slurmctld 23.11.4-1.2ubuntu5 is invalid: .*Allowed: 22.05.8-4\+deb12u3"):
        programs.ensure(tmp_path / "cache")


@pytest.mark.parametrize("version", ["22.05.8-4+deb12u3", "22.05.8-4+deb12u9"])
def test_locked_version_and_its_newer_revisions_are_fetched_once(machine: Path, tmp_path: Path, version: str) -> None:
    apt_offers(machine, version)
    said: list[str] = []
    found = [programs.ensure(tmp_path / "cache", said.append) for _ in range(2)]
    assert (found[0].root / "revision").read_text() == version
    assert said == [f"Slurm {version}: fetched"]
