"""One noun for one idea: names keep to the table of terms in CONTRIBUTING.md, and a public class has its name alone."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).parents[3]
PRODUCT: Final = (
    "config",
    "stacks",
    "k8s_charts",
    "handlers",
    "controllers",
    "lifecycle_scripts",
    "ops",
    "rehearsal",
    "packages/embedded-account/embedded_account",
    "packages/ray-resume/ray_resume",
    "bench",
    "ray_jobs",
)
SUPPORT: Final = ("tests/support",)
MOST_TERMS: Final = 40
ROW: Final = re.compile(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
WORD: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
SHARED: Final = {
    "Checkpoints": "the library's public name, and the definition of a key in the schema of environments",
    "Resume": "the library's public name for Accelerate and for Lightning, which are never used together",
}
"""Names of classes that are defined twice: others import one, or read it in a file."""

DURATION: Final = {
    "TIMEOUT",
    "PATIENCE",
    "INTERVAL",
    "PAUSE",
    "DELAY",
    "WAIT",
    "PERIOD",
    "GRACE",
    "EVERY",
    "POLL",
    "RETRY",
}
"""Words of which a number is a duration, be it whole or not. A number that is not whole is one by any other name."""
SIZE: Final = {"SIZE", "CHUNK", "PART", "PIECE", "LARGEST", "MEMORY", "DISK"}
UNITS: Final = {"SECONDS", "MINUTES", "HOURS", "DAYS", "BYTES", "MIB", "GIB", "CHARACTERS"}
WITHOUT_DIMENSION: Final = {
    "FRACTION",
    "SHARE",
    "HEADROOM",
    "SCALE",
    "ROUNDING",
    "GROWTH",
    "NOMINAL",
    "CPU",
    "CENT",
    "LEAST",
    "MOST",
}
"""Words of which a number is a share, a factor, or a quantity whose unit is the word itself."""
WITHOUT_UNITS: Final = {
    "packages/ray-resume/ray_resume/elastic/sizes.py WAIT": "jobs that users copied from `ray_jobs/` import it",
    "packages/ray-resume/ray_resume/watchdog.py PATIENCE": "jobs that users copied from `ray_jobs/` import it",
}
"""Constants that may lack a unit."""


def terms() -> dict[str, list[str]]:
    """Return the words of the last column by the term."""
    section = (REPOSITORY / "CONTRIBUTING.md").read_text().partition("\n## Terms\n")[2].partition("\n## ")[0]
    rows = [row for row in ROW.findall(section) if row[0] != "term" and set(row[0]) != {"-"}]
    assert rows, "CONTRIBUTING.md has no table of terms"
    return {term: words.split(", ") for term, _, words in rows}


def files(folders: tuple[str, ...]) -> Iterator[Path]:
    yield from sorted(file for folder in folders for file in (REPOSITORY / folder).rglob("*.py"))


def names(code: str) -> Iterator[tuple[int, str]]:
    """Yield line and name of all classes, functions and methods, and of a module's constants and types."""
    tree = ast.parse(code)
    for line in tree.body:
        for target in line.targets if isinstance(line, ast.Assign) else [getattr(line, "target", None)]:
            if isinstance(target, ast.Name):
                yield line.lineno, target.id
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name


def words(name: str) -> set[str]:
    return {word.lower() for word in WORD.findall(name)}


def wrong(name: str, instead: dict[str, str]) -> list[str]:
    return [f"{name}: {word!r} is no term. Fix: use {instead[word]!r}" for word in words(name) & instead.keys()]


def test_the_table_is_short_and_gives_each_word_one_term() -> None:
    table = terms()
    assert len(table) <= MOST_TERMS
    others = [word for row in table.values() for word in row]
    assert len(others) == len(set(others)), "a word stands for two terms"


def test_names_have_no_word_that_the_table_replaces() -> None:
    instead = {word: term for term, row in terms().items() for word in row}
    found = []
    for file in files(PRODUCT + SUPPORT):
        where = file.relative_to(REPOSITORY)
        found += [f"{where}: {each}" for each in wrong(file.stem, instead)]
        found += [f"{where}:{line} {each}" for line, name in names(file.read_text()) for each in wrong(name, instead)]
    assert not found, "\n".join(found)


def test_no_two_public_classes_of_the_product_have_one_name() -> None:
    places = defaultdict(list)
    for file in files(PRODUCT):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{file.relative_to(REPOSITORY)}:{node.lineno}")
    twice = {name: found for name, found in places.items() if len(found) > 1}
    assert twice.keys() <= SHARED.keys(), "\n".join(f"{name}: {', '.join(found)}" for name, found in twice.items())
    assert all(len(found) == 2 for found in twice.values())
    assert twice.keys() == SHARED.keys(), "a name of SHARED is defined once: delete it there"


def without_unit(code: str) -> Iterator[tuple[int, str]]:
    """Yield line and name of each constant of a module that holds a duration or a size, and names no unit."""
    for node in ast.parse(code).body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=value)
            ):
                words = set(name.split("_"))
                if not words & (UNITS | WITHOUT_DIMENSION) and _is_quantity(value, words):
                    yield node.lineno, name


def _is_quantity(value: ast.expr | None, words: set[str]) -> bool:
    match value:
        case ast.Constant(value=float()):
            return True
        case ast.Constant(value=int()) | ast.BinOp():
            return bool(words & (DURATION | SIZE)) or "1024" in ast.unparse(value)
        case _:
            return False


def test_constants_of_durations_and_sizes_carry_their_unit() -> None:
    found = {
        f"{file.relative_to(REPOSITORY)} {name}": line
        for file in files(PRODUCT + SUPPORT)
        for line, name in without_unit(file.read_text())
    }
    assert [
        f"{each} (line {line}) has no unit. Fix: end it in _SECONDS, _BYTES, …"
        for each, line in found.items()
        if each not in WITHOUT_UNITS
    ] == []
    assert found.keys() >= WITHOUT_UNITS.keys(), "delete the names of WITHOUT_UNITS that have a unit, or are gone"


def test_constants_without_a_unit_are_seen() -> None:
    code = "_TIMEOUT: Final = 3.0\nPAUSE_SECONDS = 1\nFIRST_PAUSE = 2\nWAIT = 'long'\nMINUTES_OF_GRACE = 1\n"
    assert list(without_unit(code)) == [(1, "_TIMEOUT"), (3, "FIRST_PAUSE")]
    code = "_DEAF = 90.0\nPART = 1 << 20\nLARGEST_HEAD = 64 * 1024\nCHUNK_BYTES = 4 * 1024\nSHARE = 0.5\nPORT = 80\n"
    assert list(without_unit(code)) == [(1, "_DEAF"), (2, "PART"), (3, "LARGEST_HEAD")]


def test_words_of_a_name_are_seen_in_each_form() -> None:
    assert words("_look_atHTTPServer") == {"look", "at", "http", "server"}
    assert wrong("LookAgain", {"look": "poll"}) == ["LookAgain: 'look' is no term. Fix: use 'poll'"]
    assert not wrong("lookup_table", {"look": "poll"})
    assert [name for _, name in names("C = D = 1\nE: int = 2\nclass A:\n    async def b(self): ...\n")] == list("CDEAb")
