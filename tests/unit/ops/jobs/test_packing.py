"""A job's working directory as a zip file, and one message for each folder that cannot be packed."""

import os
import secrets
import socket
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from ops.jobs import packing
from ops.jobs.packing import (
    FETCHER,
    LARGEST_BYTES,
    LARGEST_FOLDER_BYTES,
    LIBRARY,
    EntryError,
    LargePackage,
    Package,
    library,
    pack,
)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """Write a user's script and a module beside it; return the script's path."""
    (tmp_path / "train.py").write_text("import helper")
    (tmp_path / "helper.py").write_text("")
    return tmp_path / "train.py"


def packed(package: Package | LargePackage) -> list[str]:
    """Return the names of a package's files."""
    return sorted(
        zipfile.ZipFile(BytesIO(package.content) if isinstance(package, Package) else package.file).namelist()
    )


def own(package: Package | LargePackage) -> list[str]:
    """Return the names of a package's files, without the library's."""
    return [name for name in packed(package) if not name.startswith("ray_resume/")]


class TestPackage:
    def test_same_files_make_the_same_package_whenever_they_are_packed(self, script: Path) -> None:
        first = pack(script.parent, ())
        script.touch()
        assert pack(script.parent, ()) == first
        script.write_text("changed")
        assert pack(script.parent, ()) != first

    def test_excluded_files_and_files_that_never_belong_to_a_job_are_not_packed(self, script: Path) -> None:
        for name in (".git/config", "__pycache__/x.pyc", "data/big.parquet", "data/small.txt", "logs/a.txt"):
            (script.parent / name).parent.mkdir(exist_ok=True)
            (script.parent / name).write_text("")
        names = packed(pack(script.parent, ["*.parquet", "logs"]))
        assert [name for name in names if not name.startswith("ray_resume/")] == [
            "data/small.txt",
            "helper.py",
            "train.py",
        ]

    def test_package_carries_the_checkouts_library(self, script: Path) -> None:
        files = [path for path in LIBRARY.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        library = {f"ray_resume/{path.relative_to(LIBRARY).as_posix()}" for path in files}
        assert library == {name for name in packed(pack(script.parent, ["ray_resume"])) if "/" in name}

    @pytest.mark.parametrize("own", ["ray_resume.py", "ray_resume/__init__.py"])
    def test_folders_own_library_replaces_the_checkouts(self, script: Path, own: str) -> None:
        (script.parent / own).parent.mkdir(exist_ok=True)
        (script.parent / own).write_text("")
        assert [name for name in packed(pack(script.parent, ())) if "ray_resume" in name] == [own]

    def test_names_are_kept_as_they_are(self, script: Path) -> None:
        names = ["a\nb.txt", "größe.txt", "with space.txt", "ディレクトリ/データ.txt"]
        for name in names:
            (script.parent / name).parent.mkdir(exist_ok=True)
            (script.parent / name).write_text(name)
        assert own(pack(script.parent, ())) == sorted([*names, "helper.py", "train.py"])

    def test_empty_folder_brings_the_library_only(self, tmp_path: Path) -> None:
        (tmp_path / "inside").mkdir()
        made = pack(tmp_path, ())
        assert own(made) == []
        assert [name for name in packed(library()) if not name.startswith("ray_resume/")] == [FETCHER.name]
        assert set(packed(made)) < set(packed(library()))

    def test_link_to_a_file_or_a_folder_brings_its_content(
        self, script: Path, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        outside = tmp_path_factory.mktemp("outside")
        (outside / "shared.py").write_text("x = 1")
        (script.parent / "link.py").symlink_to(outside / "shared.py")
        (script.parent / "linked").symlink_to(outside)
        assert own(pack(script.parent, ())) == ["helper.py", "link.py", "linked/shared.py", "train.py"]

    def test_what_is_neither_a_file_nor_a_folder_is_left_out_and_named(
        self, script: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(script.parent)
        os.mkfifo("pipe")
        Path("nowhere").symlink_to("gone")
        Path("itself").symlink_to("itself")
        said: list[str] = []
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind("agent.sock")
            made = pack(script.parent, (), say=said.append)
        assert own(made) == ["helper.py", "train.py"]
        assert said == [f"left out: 4 of {script.parent} that are neither files nor folders, such as 'agent.sock'"]


class TestLarge:
    def test_what_a_config_map_cannot_hold_has_a_name_by_its_content(self, script: Path) -> None:
        (script.parent / "weights.bin").write_bytes(secrets.token_bytes(LARGEST_BYTES))
        first, second = pack(script.parent, ()), pack(script.parent, ())
        assert isinstance(first, LargePackage)
        assert first == second
        assert first.size == len(first.file.read())
        assert own(second) == ["helper.py", "train.py", "weights.bin"]
        script.write_text("changed")
        assert pack(script.parent, ()) != first

    def test_folder_with_one_folder_keeps_it_in_ray_s_hands(self, tmp_path: Path) -> None:
        # Ray strips the only folder of a zip file that it does not fetch from its head.
        (tmp_path / "ray_resume").mkdir()
        (tmp_path / "ray_resume" / "__init__.py").write_bytes(secrets.token_bytes(LARGEST_BYTES))
        assert len({name.partition("/")[0] for name in packed(pack(tmp_path, ()))}) == 2

    def test_folder_of_the_largest_size_is_packed(self, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        size = sum(path.stat().st_size for path in script.parent.iterdir())
        monkeypatch.setattr(packing, "LARGEST_FOLDER_BYTES", size)
        assert own(pack(script.parent, ())) == ["helper.py", "train.py"]
        monkeypatch.setattr(packing, "LARGEST_FOLDER_BYTES", size - 1)
        with pytest.raises(EntryError, match=f"has {size} bytes of files. Allowed: {size - 1}. "):
            pack(script.parent, ())

    def test_one_byte_more_is_refused_with_the_largest_files(self, tmp_path: Path) -> None:
        for number in range(12):
            (tmp_path / f"small-{number:02}").write_bytes(bytes(12 - number))
        with (tmp_path / "data.bin").open("wb") as file:
            file.truncate(LARGEST_FOLDER_BYTES + 1 - sum(range(13)))
        with pytest.raises(EntryError) as refused:
            pack(tmp_path, ())
        message = str(refused.value)
        assert message.startswith(f"{tmp_path} has 500,000,001 bytes of files. Allowed: 500,000,000. ")
        listed = message.partition("Largest: ")[2].partition(". Fix: ")[0].split(", ")
        assert listed == ["data.bin (500.0 MB)", *(f"small-{number:02} ({12 - number} B)" for number in range(9))]
        assert own(pack(tmp_path, ["data.bin"])) == [f"small-{number:02}" for number in range(12)]


class TestRefusals:
    """Each is one message, and names the file."""

    @pytest.mark.parametrize("kind", ["file", "folder"])
    def test_what_cannot_be_read(self, script: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
        # Root reads everything.
        secret = script.parent / "secret"
        if kind == "folder":
            secret.mkdir()
            monkeypatch.setattr(Path, "iterdir", denied(Path.iterdir, secret))
        else:
            secret.write_text("")
            monkeypatch.setattr(Path, "open", denied(Path.open, secret))
        with pytest.raises(EntryError, match=f"^{secret} cannot be read: Permission denied. Fix: .*--exclude$"):
            pack(script.parent, ())
        assert own(pack(script.parent, ["secret"])) == ["helper.py", "train.py"]

    def test_file_that_changes_while_it_is_packed(self, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        opened = Path.open

        def grown(path: Path, *words: Any) -> object:
            if path.name == "train.py":
                with opened(path, "a") as file:
                    file.write("more")
            return opened(path, *words)

        monkeypatch.setattr(Path, "open", grown)
        with pytest.raises(EntryError, match=r"train\.py changed while it was packed"):
            pack(script.parent, ())

    def test_file_that_vanishes(self, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (script.parent / "draft").write_text("")
        opened = Path.open

        def gone(path: Path, *words: Any) -> object:
            if path.name == "draft":
                path.unlink()
            return opened(path, *words)

        monkeypatch.setattr(Path, "open", gone)
        with pytest.raises(EntryError, match="draft cannot be read: No such file or directory"):
            pack(script.parent, ())

    def test_link_to_a_folder_around_it(self, script: Path) -> None:
        (script.parent / "inside").mkdir()
        (script.parent / "inside" / "up").symlink_to(script.parent)
        with pytest.raises(EntryError, match="inside/up is a symbolic link to a folder that contains it"):
            pack(script.parent, ())
        assert own(pack(script.parent, ["up"])) == ["helper.py", "train.py"]

    def test_name_that_no_zip_file_can_hold(self, script: Path) -> None:
        (script.parent / os.fsdecode(b"caf\xe9.txt")).write_text("")
        with pytest.raises(EntryError, match="its name is not UTF-8"):
            pack(script.parent, ())

    def test_full_disk(self, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*_: object, **__: object) -> object:
            return Path("/dev/full").open("r+b", buffering=0)

        monkeypatch.setattr("tempfile.TemporaryFile", full)
        with pytest.raises(
            EntryError, match=r"cannot hold the package of .*: No space left on device. Fix: free space"
        ):
            pack(script.parent, ())


def denied(real: object, denied_path: Path) -> object:
    """Return a method of paths that may not touch one path."""

    def refuse(path: Path, *words: str) -> object:
        if path == denied_path:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *words)  # type: ignore[operator]

    return refuse
