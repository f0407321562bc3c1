"""One version: pyproject.toml states it, the changelog describes it, `ops --version` shows it."""

import re
import tomllib

from typer.testing import CliRunner

from ops.commands.whole import app
from tests.unit.repository.pages import PAGES, REPOSITORY


def test_the_three_places_of_the_version_agree() -> None:
    stated = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", stated)
    newest = re.search(r"^## (\S+)", (REPOSITORY / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest
    assert newest[1] == stated
    assert CliRunner().invoke(app, ["--version"]).stdout == f"{stated}\n"


def test_a_heading_of_the_changelog_has_a_version_and_its_day() -> None:
    """Only the newest version may be unreleased, and versions descend."""
    headings = re.findall(r"^## (.+)$", (REPOSITORY / "CHANGELOG.md").read_text(), re.MULTILINE)
    forms = [re.fullmatch(r"(\d+)\.(\d+)\.(\d+) \((unreleased|\d{4}-\d{2}-\d{2})\)", each) for each in headings]
    assert all(forms), headings
    numbers = [tuple(map(int, form.groups()[:3])) for form in forms if form]
    assert numbers == sorted(set(numbers), reverse=True)
    assert [form[4] for form in forms[1:] if form and form[4] == "unreleased"] == []


def test_no_page_names_the_version() -> None:
    """It would be wrong from the next version on. Only the changelog does."""
    stated = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    pages = [page for page in PAGES if page.name != "CHANGELOG.md" and not page.is_relative_to(REPOSITORY / "docs/adr")]
    assert [
        str(page) for page in pages if re.search(rf"(?<![\d.]){re.escape(stated)}(?![\d.])", page.read_text())
    ] == []
