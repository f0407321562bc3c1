"""What the jobs are tested with is what the Ray image has: its Python, and its lock's packages."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path

from tests.jobs.support.paths import REPOSITORY
from tests.jobs.support.version_set import SET


def test_ci_tests_the_jobs_with_the_image_s_python() -> None:
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert ours == SET.python or "CI" not in os.environ, f"Fix: rm -r {sys.prefix}; make setup-jobs"


# Twice in one process, because the program takes five seconds of a core to import what the image has.
TWICE = """
import sys
program, module = sys.argv[1:]
exec(program)
print("passed", flush=True)
for name in [name for name in sys.modules if name.partition(".")[0] == "ray_resume"]:
    del sys.modules[name]
with open(module, "w") as file:
    file.write("from datetime import NOT_THERE")
exec(program)
"""


def test_the_image_s_last_check_imports_every_public_name_of_the_library(tmp_path: Path) -> None:
    dockerfile = (REPOSITORY / "ray_image/Dockerfile").read_text()
    [program] = re.findall(r'python -c "(.+)"$', dockerfile, re.MULTILINE)
    # `datasets` is in the image, but in no test.
    program = program.replace(" datasets,", "")
    shutil.copytree(REPOSITORY / "packages/ray-resume/ray_resume", tmp_path / "ray_resume")
    argv = [sys.executable, "-c", TWICE, program, str(tmp_path / "ray_resume/checkpoint_store.py")]
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.stdout == "passed\n", done.stderr
    assert done.returncode == 1
    assert "cannot import name 'NOT_THERE'" in done.stderr


def test_every_module_of_the_jobs_and_their_library_is_imported() -> None:
    """In a process of its own: this one's `conftest.py` lends newer names to parts that run elsewhere."""
    folders = ("ray_jobs", "ray_jobs/slurm", "packages/ray-resume")
    modules = [
        ".".join(path.relative_to(REPOSITORY / folder).with_suffix("").parts)
        for folder, pattern in zip(folders, ("*.py", "*.py", "ray_resume/**/*.py"), strict=True)
        for path in sorted((REPOSITORY / folder).glob(pattern))
        if path.name != "__init__.py"
    ]
    assert {"smoke", "train_ddp", "ray_resume.integrations.lightning"} <= set(modules)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(str(REPOSITORY / folder) for folder in folders)}
    program = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    argv = [sys.executable, "-c", program, *modules]
    done = subprocess.run(argv, env=env, cwd=REPOSITORY / "ray_jobs", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_package_that_the_image_has_too_is_in_its_version() -> None:
    locked = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", (REPOSITORY / "ray_image" / SET.requirements).read_text(), re.M))
    # Not the copies of packages that setuptools and Ray bring and put into sys.path.
    installed = metadata.distributions(path=[sysconfig.get_path("purelib")])
    ours = {each.metadata["Name"].lower().replace("_", "-"): each.version for each in installed}
    both = locked.keys() & ours.keys()
    assert {"ray", "torch", "torchdata", "pytorch-lightning", "transformers", "accelerate"} <= both
    assert {name: ours[name] for name in both} == {name: locked[name] for name in both}
