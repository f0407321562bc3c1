"""The pages of published values agree with the code: the last column names where each value of "ours" is."""

import enum
import importlib
import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jmespath
import pytest

from config import load
from ops.commands.operate import job
from ops.jobs.operators.pytorchjob import Script, pytorch_job
from ops.jobs.run import OwnPods
from tests.support.rendered import Document, documents
from tests.synth.support.synthesis import Assembly

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {name: (DOCS / "reference" / f"{name}.md").read_text() for name in ("walkthrough", "eks-announcement")}
COLUMNS = ["ours", "", "why", "where"]


@dataclass(frozen=True)
class Row:
    """One published value."""

    page: str
    section: str
    value: str
    published: str
    ours: str
    verdict: str
    why: str
    where: str

    def __str__(self) -> str:
        return f"{self.page} {self.section}: {self.value}"


def cells(line: str) -> list[str]:
    """Return the cells of a line of a Markdown table; a bar inside a cell is written `\\|`."""
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def rows(page: str) -> list[Row]:
    """Return all rows of all tables of a page."""
    found: list[Row] = []
    section = ""
    for line in PAGES[page].splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif line.startswith("|") and not line.startswith("|---"):
            read = cells(line)
            if read[2:] != COLUMNS:
                found.append(Row(page, section, *read))
    return found


ROWS = [row for page in PAGES for row in rows(page)]
LOOKED_UP = [row for row in ROWS if row.where]


def text(value: Any) -> str:
    """Return a value in the page's notation."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple | enum.EnumType) else str(value)


def in_template(assembly: Assembly, part: str, resource_type: str, path: str) -> Any:
    """Return the value in the only resource of the type."""
    return jmespath.search(path, assembly.templates[part].only(resource_type))


@cache
def manifests() -> dict[Path, list[Document]]:
    """Return the files of manifests/ for the walkthrough's environment."""
    return documents(load("dev"))


def in_manifest(file: str, name: str, path: str) -> Any:
    """Return the value from the file's first object of the kind that has it, or from the release of that name."""
    named = [
        document for document in manifests()[Path("dev", file)] if name in {document.get("kind"), document.get("name")}
    ]
    assert named, f"manifests/dev/{file} has no {name}"
    values = (jmespath.search(path, document) for document in named)
    return next((value for value in values if value is not None), None)


def in_release(assembly: Assembly, name: str, path: str) -> Any:
    """Return the value in the stack's resource that installs this release of a Helm chart."""
    templates = assembly.templates.values()
    releases = [each for template in templates for each in template.properties("Custom::AWSCDK-EKS-HelmChart")]
    [release] = [each for each in releases if each["Release"] == name]
    return jmespath.search(path, {**release, "Values": json.loads(release["Values"])})


def in_pytorch_job(path: str) -> Any:
    """Return the value in what `ops job submit --as pytorchjob` creates beside the walkthrough's RayCluster."""
    [cluster] = manifests()[Path("dev", "ray", "clusters", "rayml.yaml")]
    attempts = job._ATTEMPTS_OF_OPERATOR
    made = pytorch_job("train", Script("train.py", "/fsx/ray/runs"), OwnPods(), attempts=attempts, cluster=cluster)
    return jmespath.search(path, made)


def in_code(module: str, path: str) -> Any:
    """Return the value of a module's constant; what has no order is sorted."""
    found = jmespath.search(path, vars(importlib.import_module(module)))
    return sorted(found) if isinstance(found, frozenset) else found


def look_up(assembly: Assembly, where: str) -> Any:
    """Evaluate a cell such as `storage AWS::FSx::FileSystem StorageCapacity`."""
    place, thing, path = where.strip("`").split(" ", 2)
    if place == "manifests":
        file, _, rest = where.strip("`").removeprefix("manifests ").partition(" ")
        name, _, path = rest.partition(" ")
        return in_manifest(file, name, path)
    if place == "release":
        return in_release(assembly, thing, path)
    if place == "submitted":
        return in_pytorch_job(path)
    if place == "code":
        return in_code(thing, path)
    return in_template(assembly, place, thing, path)


@pytest.mark.parametrize("row", LOOKED_UP, ids=str)
def test_our_value_is_the_one_of_the_code(dev: Assembly, row: Row) -> None:
    assert text(look_up(dev, row.where)) == row.ours


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_comparison_is_true_and_a_difference_has_a_reason(row: Row) -> None:
    if row.verdict == "same":
        assert row.published == row.ours
    else:
        assert row.verdict in {"changed", "replaced"}
        assert row.published != row.ours
        assert row.why


@pytest.mark.parametrize("row", [row for row in ROWS if not row.where], ids=str)
def test_only_a_replacement_may_lack_a_place_to_look(row: Row) -> None:
    assert row.verdict == "replaced" or row.value == "base"


def test_the_image_s_base_is_the_walkthrough_s() -> None:
    """No property has the value: the build gets it as an argument."""
    [base] = [row.ours for row in ROWS if row.value == "base"]
    objects = manifests()[Path("dev", "ray", "image-build.yaml")]
    arguments = jmespath.search("[].spec.template.spec.containers[].args[]", objects)
    assert f"build-arg:BASE_IMAGE=docker.io/{base}" in arguments


def test_the_training_jobs_options_are_those_of_our_job() -> None:
    named = {option for row in ROWS if row.section == "Training job" for option in re.findall(r"--[a-z-]+", row.ours)}
    jobs = DOCS.parent / "ray_jobs"
    code = "".join((jobs / name).read_text() for name in ("fsdp_finetune.py", "arguments.py"))
    assert named
    assert {option for option in named if f'"{option}"' not in code} == set()


SECTIONS = {
    "walkthrough": {"HyperPod cluster", "Storage", "KubeRay", "RayCluster", "Image", "Training job", "Use"},
    "eks-announcement": {
        "Network",
        "Before the cluster",
        "HyperPod cluster",
        "Health of nodes",
        "Logs and metrics",
        "PyTorchJob with auto-resume",
        "Tools",
        "Administration",
    },
}


@pytest.mark.parametrize(("page", "least"), [("walkthrough", 55), ("eks-announcement", 35)])
def test_the_page_covers_every_part_of_its_source(page: str, least: int) -> None:
    assert {row.section for row in ROWS if row.page == page} == SECTIONS[page]
    assert len([row for row in LOOKED_UP if row.page == page]) > least


def quoted(row: Row) -> list[str]:
    """Return what the row quotes of this project."""
    return re.findall(r"`([^`]+)`", f"{row.ours} {row.why}")


COMMANDS = sorted({words for row in ROWS for words in quoted(row) if words.startswith("ops ")})


@pytest.mark.parametrize("words", COMMANDS)
def test_the_commands_and_options_that_they_name_exist(words: str) -> None:
    reference = (DOCS / "reference" / "commands.md").read_text()
    sections = dict(part.split("\n", 1) for part in reference.split("\n## ")[1:])
    [section] = [text for name, text in sections.items() if f"{words} ".startswith(f"{name} ") and name != "ops"]
    assert [option for option in re.findall(r"--[a-z-]+", words) if f"\n| `{option}` |" not in section] == []


def test_the_keys_that_they_name_are_those_of_an_environment() -> None:
    reference = (DOCS / "reference" / "environment.md").read_text()
    keys: dict[str, set[str]] = {}
    for part in reference.split("\n## `")[1:]:
        keys[part.partition("`")[0]] = set(re.findall(r"^\| \**`(\w+)`", part, re.MULTILINE))
    named = [words.partition(":")[0].rpartition(".") for row in ROWS for words in quoted(row)]
    stated = [(section, key) for section, _, key in named if section in keys]
    assert len(stated) >= 7
    assert [each for each in stated if each[1] not in keys[each[0]]] == []


@pytest.mark.parametrize("record", sorted(set(re.findall(r"ADR (\d+)", "".join(PAGES.values())))))
def test_the_decisions_that_they_name_exist(record: str) -> None:
    assert list((DOCS / "adr").glob(f"{int(record):04}-*.md"))
