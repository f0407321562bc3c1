"""The ways into the documentation: the README, the index of all pages, the glossary, and the first account."""

import re
import subprocess
from pathlib import Path
from typing import Final

import yaml

import config
from config.estimates import costs
from config.facts import support, versions
from config.facts.instance_types import catalogue
from config.load import EXAMPLES
from ops.environment import new
from tests.rehearsal.run.readme import CLONE
from tests.unit.repository.pages import ADRS, PAGES, README, REPOSITORY, UNVERIFIED, section

DOCS: Final = REPOSITORY / "docs"
INDEX: Final = DOCS / "README.md"
FIRST_ACCOUNT: Final = DOCS / "first-account.md"
MOST_LINKS: Final = 10
MOST_WORDS: Final = 900
"""What a person reads in three minutes, at 300 words a minute; nobody reads a whole table or file."""


def links(page: Path) -> list[Path]:
    """Return the files of this repository that a page links, pictures aside."""
    targets = re.findall(r"(?<!!)\[[^]]*\]\(([^)\s]+)\)", page.read_text())
    paths = [target.partition("#")[0] for target in targets if not target.startswith(("https://", "#"))]
    return [(page.parent / path).resolve() for path in paths]


def test_the_readme_links_at_most_ten_pages_of_the_documentation() -> None:
    linked = [path for path in links(REPOSITORY / "README.md") if path.is_relative_to(DOCS)]
    assert INDEX in linked
    assert len(linked) <= MOST_LINKS
    assert {REPOSITORY / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")} <= set(
        links(REPOSITORY / "README.md")
    )


def test_the_readme_is_read_in_three_minutes() -> None:
    assert len(README.split()) <= MOST_WORDS


def test_the_index_lists_every_page_once() -> None:
    """It links the folder of decision records, not each record."""
    lists = INDEX.read_text().partition("\n## Platform engineers\n")[2].partition("\n## Glossary\n")[0]
    listed = [
        (DOCS / target).resolve() for target in re.findall(r"^\| \[[^]]*\]\(([^)\s]+)\) \| \S", lists, re.MULTILINE)
    ]
    pages = {path for path in PAGES if path not in {*ADRS, INDEX, REPOSITORY / "README.md"}}
    assert pages | {DOCS / "adr"} == set(listed)
    assert len(listed) == len(set(listed))


def glossary() -> list[tuple[str, str, str]]:
    """Return the glossary's rows: term, meaning, where to look."""
    rows = INDEX.read_text().partition("\n## Glossary\n")[2]
    return re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", rows, re.MULTILINE)[1:]


def test_the_glossary_explains_the_terms_of_the_pages_in_order() -> None:
    terms = [term for term, _, _ in glossary()]
    needed = {"run", "attempt", "supervisor", "head", "reaper", "instance group", "worker group", "environment"}
    assert needed <= set(terms)
    assert terms == sorted(terms, key=str.lower)
    prose = " ".join(page.read_text() for page in PAGES if page != INDEX).lower()
    assert [term for term in terms if term.lower() not in prose] == []


def test_the_glossary_names_keys_that_exist() -> None:
    """Another test looks at its commands."""
    reference = (DOCS / "reference" / "environment.md").read_text()
    keys = set(re.findall(r"^## `(.+)`$", reference, re.MULTILINE))
    for part in re.split(r"^## ", reference, flags=re.MULTILINE)[1:]:
        parent = "" if part.startswith("Top level") else part.partition("\n")[0].strip("`") + "."
        keys |= {f"{parent}{key}" for key in re.findall(r"^\| \**`(\w+)`", part, re.MULTILINE)}
    named = {name for _, _, see in glossary() for name in re.findall(r"`([^`]+)`", see) if not name.startswith("ops ")}
    assert named
    assert named - keys == set()


def test_the_readme_shows_the_whole_example_small() -> None:
    [block] = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    assert block == (EXAMPLES / "small.yaml").read_text()


def test_the_keys_that_the_readme_says_ops_new_asks_for_are_what_an_environment_lacks(tmp_path: Path) -> None:
    asked = re.findall(r"`([\w.]+)`", section("Make an environment").partition("It asks for")[2].partition(", and")[0])
    assert asked == list(new.INPUTS)
    small = yaml.safe_load((EXAMPLES / "small.yaml").read_text())
    document = new.template("trial", {}, tmp_path)
    target = tmp_path / "trial.yaml"
    assert new.write(document, target, "Environment trial.")
    for key in asked:
        parent, _, child = key.rpartition(".")
        (document[parent] if parent else document)[child] = (small[parent] if parent else small)[child]
    filled = tmp_path / "filled.yaml"
    assert new.write(document, filled, "Environment filled.") == []
    assert config.examine("filled", tmp_path).errors == []


def test_the_readme_s_clone_leads_into_the_root(tmp_path: Path) -> None:
    assert CLONE in section("Rehearse")
    command = CLONE.replace("URL", f"--quiet file://{REPOSITORY}")
    shown = subprocess.run(
        ["/bin/bash", "-c", f"{command} && make"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "make rehearse " in shown.stdout


def test_the_readme_s_versions_are_the_pinned_ones() -> None:
    assert f"KubeRay operator {versions.KUBERAY}" in README
    rays = [each.ray for each in versions.SETS.values()]
    assert f"RayClusters on Ray {', '.join(rays[:-1])} or {rays[-1]}" in README
    table = section("Versions that work together")
    others = [each for each in versions.KUBERAY_VERSIONS if each != versions.KUBERAY]
    newest = f"{rays[2]} with Python {versions.SETS['current'].python} (`current`)"
    row = f"| Ray (its image: Python {versions.RAY_PYTHON}) | {rays[0]} | {rays[1]} (`versions: fixed`), {newest} |"
    assert row in table
    assert f"| KubeRay | {versions.KUBERAY} | {', '.join(others)} |" in table
    offered = [each for each in support.offered(support.today()) if each != versions.KUBERNETES_DEFAULT]
    assert f"| Kubernetes on EKS | {versions.KUBERNETES_DEFAULT} | {', '.join(offered)} |" in table


def checks() -> list[str]:
    """Return the sections of the first account's checks."""
    return re.split(r"^## (?=\d+\. )", FIRST_ACCOUNT.read_text(), flags=re.MULTILINE)[1:]


def test_the_first_account_has_ten_checks_with_cost_command_and_remedy() -> None:
    assert [check.partition(". ")[0] for check in checks()] == [str(number) for number in range(1, 11)]
    for check in checks():
        title, _, text = check.partition("\n\n")
        assert re.search(r"Free|US\$|hour|Minutes", text.partition("Verifies")[0]), title
        assert "```bash\n" in text, title
        assert re.search(r"^If .+", text.rpartition("```")[2], re.MULTILINE) or "If the run" in text, title


def test_the_first_account_s_costs_are_the_estimates() -> None:
    page, small = FIRST_ACCOUNT.read_text(), config.load_any("small")
    lines = {line.item: line.usd_per_hour or 0 for line in costs.estimate(small)}
    nodes = sum(lines[group.name] for group in small.hyperpod.instance_groups)
    assert f"About US$ {sum(lines.values()) - nodes:.1f}0 an hour" in page
    assert f"about US$ {sum(lines.values()):.0f} an hour" in page
    assert f"ml.g5.8xlarge (US$ {catalogue()['ml.g5.8xlarge'].usd_per_hour}" in page


def test_the_first_account_s_checks_are_of_rows_that_are_still_unverified() -> None:
    for check in checks():
        places = re.findall(r"`([\w-]+(?:/[\w.-]+)+\.(?:py|sh|yaml))`", check.partition("```bash")[0])
        assert places, check
        assert [place for place in places if f"| `{place}` |" not in UNVERIFIED] == []
