"""The walkthrough's page agrees with the code: the last column names where to find each value of the column "ours"."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jmespath  # type: ignore[import-untyped]  # boto3 brings it, without types
import pytest
import yaml

from config import load
from ops.render.manifests import render
from tests.synth.support.synthesis import Assembly

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reference" / "walkthrough.md").read_text()
COLUMNS = ["value", "walkthrough", "ours", "", "why", "where"]


@dataclass(frozen=True)
class Row:
    """One value of the walkthrough."""

    section: str
    value: str
    walkthrough: str
    ours: str
    verdict: str
    why: str
    where: str

    def __str__(self) -> str:
        return f"{self.section}: {self.value}"


def cells(line: str) -> list[str]:
    """Return the cells of a line of a Markdown table; a bar inside a cell is written `\\|`."""
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def rows() -> list[Row]:
    """Return all rows of all tables of the page."""
    found: list[Row] = []
    section = ""
    for line in PAGE.splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif line.startswith("|") and not line.startswith("|---"):
            read = cells(line)
            if read != COLUMNS:
                found.append(Row(section, *read))
    return found


ROWS = rows()
LOOKED_UP = [row for row in ROWS if row.where]


def text(value: Any) -> str:
    """Return a value in the page's notation."""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def in_template(assembly: Assembly, part: str, resource_type: str, path: str) -> Any:
    """Return the value in the only resource of the type."""
    return jmespath.search(path, assembly.templates[part].only(resource_type))


@cache
def manifests() -> dict[Path, str]:
    """Return the files of manifests/ for the walkthrough's environment."""
    return render(load("dev"))


def in_manifest(file: str, name: str, path: str) -> Any:
    """Return the value from the file's first object of the kind that has it, or from the release of that name."""
    documents = [document for document in yaml.safe_load_all(manifests()[Path("dev", file)]) if document]
    named = [document for document in documents if name in {document.get("kind"), document.get("name")}]
    assert named, f"manifests/dev/{file} has no {name}"
    values = (jmespath.search(path, document) for document in named)
    return next((value for value in values if value is not None), None)


def look_up(assembly: Assembly, where: str) -> Any:
    """Evaluate a cell such as `storage AWS::FSx::FileSystem StorageCapacity`."""
    place, thing, path = where.strip("`").split(" ", 2)
    if place == "manifests":
        file, _, rest = where.strip("`").removeprefix("manifests ").partition(" ")
        name, _, path = rest.partition(" ")
        return in_manifest(file, name, path)
    return in_template(assembly, place, thing, path)


@pytest.mark.parametrize("row", LOOKED_UP, ids=str)
def test_our_value_is_the_one_of_the_code(dev: Assembly, row: Row) -> None:
    assert text(look_up(dev, row.where)) == row.ours


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_comparison_is_true_and_a_difference_has_a_reason(row: Row) -> None:
    if row.verdict == "same":
        assert row.walkthrough == row.ours
    else:
        assert row.verdict in {"changed", "replaced"}
        assert row.walkthrough != row.ours
        assert row.why


@pytest.mark.parametrize("row", [row for row in ROWS if not row.where], ids=str)
def test_only_a_replacement_may_lack_a_place_to_look(row: Row) -> None:
    assert row.verdict == "replaced" or row.value == "base"


def test_the_image_s_base_is_the_walkthrough_s() -> None:
    """No property has the value: the build gets it as an argument."""
    [base] = [row.ours for row in ROWS if row.value == "base"]
    documents = yaml.safe_load_all(manifests()[Path("dev", "ray", "image-build.yaml")])
    arguments = jmespath.search("[].spec.template.spec.containers[].args[]", [*documents])
    assert f"build-arg:BASE_IMAGE=docker.io/{base}" in arguments


def test_the_training_jobs_options_are_those_of_our_job() -> None:
    named = {option for row in ROWS if row.section == "Training job" for option in re.findall(r"--[a-z-]+", row.ours)}
    jobs = DOCS.parent / "ray_jobs"
    code = "".join((jobs / name).read_text() for name in ("fsdp_finetune.py", "arguments.py"))
    assert named
    assert {option for option in named if f'"{option}"' not in code} == set()


def test_the_page_covers_every_part_of_the_walkthrough() -> None:
    sections = {row.section for row in ROWS}
    assert sections == {"HyperPod cluster", "Storage", "KubeRay", "RayCluster", "Image", "Training job", "Use"}
    assert len(LOOKED_UP) > 50


@pytest.mark.parametrize("record", sorted(set(re.findall(r"ADR (\d+)", PAGE))))
def test_the_decisions_that_it_names_exist(record: str) -> None:
    assert list((DOCS / "adr").glob(f"{int(record):04}-*.md"))
