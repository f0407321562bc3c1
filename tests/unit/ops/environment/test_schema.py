"""The files that `ops schema` derives from the models: the editors' schema, and the reference page."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from ruamel.yaml import YAML
from typer.testing import CliRunner

import config
from config.load import DIRECTORY
from config.model import HyperPod, InstanceGroup
from config.model.hyperpod import Sleep, Taint
from config.model.memory_tier import TieredStorage
from config.model.slurm import SlurmNode
from handlers.hyperpod_cluster.consequences import TABLE
from ops.commands.whole import app
from ops.environment import schema, updates
from rehearsal.paths import REPOSITORY


def test_schema_and_reference_page_are_current() -> None:
    assert schema.stale() == [], "run `ops schema` and commit what it writes"


def test_a_stale_file_is_named_and_exits_with_1(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(schema, "SCHEMA", tmp_path / "schema.json")
    result = CliRunner().invoke(app, ["schema", "--check"])
    assert result.exit_code == 1
    assert f"{tmp_path / 'schema.json'} is stale" in result.stdout
    assert not (tmp_path / "schema.json").exists()
    assert CliRunner().invoke(app, ["schema"]).exit_code == 0
    assert CliRunner().invoke(app, ["schema", "--check"]).exit_code == 0


@pytest.mark.parametrize("name", config.available())
def test_every_environment_names_the_schema_for_editors(name: str) -> None:
    first = (DIRECTORY / f"{name}.yaml").read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=schema.json"


def _keys(document: Any, path: str = "") -> set[str]:
    if isinstance(document, list):
        return {key for item in document for key in _keys(item, f"{path}[]")}
    if isinstance(document, dict):
        return {path or "top"} | {
            key for name in document for key in _keys(document[name], f"{path}.{name}".strip("."))
        }
    return {path}


def test_every_key_of_prod_is_on_the_page() -> None:
    text = schema.reference()
    document = YAML(typ="safe", pure=True).load(DIRECTORY / "prod.yaml")
    # The page lists a free mapping as one key.
    document["accepted_warnings"] = list(document["accepted_warnings"].values())
    for key in _keys(document) - {"top"}:
        section, _, name = key.removesuffix("[]").rpartition(".")
        heading = f"## `{section}`" if section else "## Top level"
        part = text[text.index(heading) :]
        assert re.search(rf"`{name}`", part[: part.find("\n## ", 3)]), key


def test_every_key_has_a_meaning() -> None:
    rows = [line for line in schema.reference().splitlines() if line.startswith(("| `", "| **`"))]
    assert len(rows) > 80
    assert [row for row in rows if not row.split(" | ")[3].rstrip(" |")] == []


def test_the_schema_refuses_unknown_keys_everywhere() -> None:
    document = json.loads(schema.json_schema())
    open_models = [name for name, model in document["$defs"].items() if model.get("additionalProperties") is not False]
    assert open_models == []
    assert "name" not in document["required"]


def test_links_lead_to_sections() -> None:
    text = schema.reference()
    headings = re.findall(r"^## `?([^`\n]+)`?$", text, flags=re.MULTILINE)
    anchors = {"".join(c for c in heading if c.isalnum() or c in "_-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= anchors


def test_files_are_where_users_and_editors_look() -> None:
    assert Path("environments", "schema.json") == schema.SCHEMA.relative_to(REPOSITORY)


def test_every_key_of_the_cluster_has_a_consequence_or_is_said_to_have_none() -> None:
    models: dict[str, type[BaseModel]] = {
        "hyperpod": HyperPod,
        "hyperpod.tiered_storage": TieredStorage,
        updates.GROUP_KEYS: InstanceGroup,
        f"{updates.GROUP_KEYS}.sleep": Sleep,
        f"{updates.GROUP_KEYS}.taints[]": Taint,
        f"{updates.GROUP_KEYS}.slurm": SlurmNode,
    }
    keys = {f"{path}.{key}" for path, model in models.items() for key in model.model_fields}
    assert keys == updates.PROPERTY_OF.keys() | updates.ELSEWHERE.keys()
    assert not updates.PROPERTY_OF.keys() & updates.ELSEWHERE.keys()
    assert set(updates.PROPERTY_OF.values()) <= {row.path for row in TABLE}


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("count", "raised: in place; lowered: nodes removed"),
        ("name", "nodes replaced"),
        ("image_id", "unknown"),
        ("zone", "refused (give the group another name, which makes new nodes and removes the old ones)"),
        ("type_facts", "nothing in the cluster: the figures only size Ray's pods"),
    ],
)
def test_the_page_tells_what_a_change_of_a_key_does(key: str, told: str) -> None:
    text = schema.reference()
    part = text[text.index("## `hyperpod.instance_groups[]`") :]
    row = next(line for line in part.splitlines() if re.match(rf"\| \**`{key}`", line))
    assert row.endswith(f"| {told} |")


def test_a_page_without_a_place_for_the_table_is_refused() -> None:
    with pytest.raises(ValueError, match="has no place for the table"):
        updates.with_table("# A page\n")
