"""What `make clean` says of what it leaves."""

from pathlib import Path

import pytest

from rehearsal import disk, paths


def test_size_is_what_the_disk_holds_and_each_file_counts_once(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "program").write_bytes(b"x" * 1_000_000)
    (tmp_path / "same").hardlink_to(tmp_path / "below" / "program")
    assert 1_000_000 <= disk.size(tmp_path) < 1_100_000


def test_what_stays_is_named_with_its_size_and_its_removal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "CACHE", tmp_path / "cache")
    monkeypatch.setenv("GOCACHE", str(tmp_path / "compiled"))
    monkeypatch.setenv("GOMODCACHE", str(tmp_path / "modules"))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("NPM_CONFIG_CACHE", str(tmp_path / "npm"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    for name in ("cache", "compiled", "modules", "uv", "npm", "user/aws/jsii"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "compiled" / "package").write_bytes(b"x" * 2_000_000)
    kept = {each.folder: each for each in disk.kept()}
    assert {each.relative_to(tmp_path).as_posix() for each in kept if each.is_relative_to(tmp_path)} == {
        *("cache", "compiled", "modules", "uv", "npm", "user/aws/jsii")
    }
    assert str(kept[tmp_path / "compiled"]).startswith(
        f"       2 MB  {tmp_path / 'compiled'}  Go's compiled packages; "
    )
    assert kept[tmp_path / "compiled"].removal.endswith("/go clean -cache")


def test_what_is_not_there_is_not_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPM_CONFIG_CACHE", str(tmp_path / "none"))
    assert tmp_path / "none" not in {each.folder for each in disk.kept()}
