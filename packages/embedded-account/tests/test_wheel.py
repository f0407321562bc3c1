"""Test the content of a wheel: the package with its Go modules, its YAML and its JavaScript."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final
from zipfile import ZipFile

PACKAGE: Final = Path(__file__).parents[1]
BUILD: Final = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"


def test_a_wheel_has_every_file_of_the_package_and_no_test(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(
        PACKAGE / "embedded_account", source / "embedded_account", ignore=shutil.ignore_patterns("__pycache__")
    )
    for name in ("LICENSE", "README.md", "pyproject.toml"):
        shutil.copy2(PACKAGE / name, source)
    wanted = {str(file.relative_to(source)) for file in (source / "embedded_account").rglob("*") if file.is_file()}
    subprocess.run([sys.executable, "-c", BUILD, str(tmp_path)], cwd=source, capture_output=True, check=True)
    [wheel] = tmp_path.glob("embedded_account-*.whl")
    with ZipFile(wheel) as built:
        assert {name for name in built.namelist() if ".dist-info/" not in name} == wanted
