"""Show the sets of versions, and the dated table of support, on the page docs/reference/versions.md."""

from collections.abc import Iterator
from typing import Final

from config.facts import support
from config.facts.versions import EFA_INSTALLER, SET_DEFAULT, SETS, VersionSet
from config.rules.image import CUDA_RUNTIME, locked
from ops.environment.generated import between

_BEGIN: Final = "<!-- Written by `ops schema`, from config/facts/support.yaml. -->"
_END: Final = "<!-- End of what `ops schema` writes. -->"
_SETS_BEGIN: Final = "<!-- Written by `ops schema`, from config/facts/versions.py and the locks of the Ray image. -->"
_SETS_END: Final = "<!-- End of the sets of versions. -->"


def with_table(page: str) -> str:
    """Return the page with the current tables between their markers. Raises ValueError if it lacks them."""
    return between(between(page, _SETS_BEGIN, _SETS_END, _set_lines()), _BEGIN, _END, _lines())


def _set_lines() -> Iterator[str]:
    yield f"| component | {' | '.join(f'`{name}`' for name in SETS)} |"
    yield "|---|" + "---|" * len(SETS)
    columns = {name: components(each) for name, each in SETS.items()}
    for component in columns[SET_DEFAULT]:
        cells = (f"{column[component]}, {SETS[name].proof[component]}" for name, column in columns.items())
        yield f"| {component} | {' | '.join(cells)} |"
    yield ""
    yield from (f"- **`{name}`**{', the default' * (name == SET_DEFAULT)}. {each.gains}" for name, each in SETS.items())


def components(version_set: VersionSet) -> dict[str, str]:
    """Map each component to its version."""
    return {
        "Ray": version_set.ray,
        "CPython": version_set.python,
        "PyTorch": locked(version_set, "torch"),
        "CUDA": locked(version_set, CUDA_RUNTIME),
        "base image": f"`{version_set.base_image.removeprefix('docker.io/')}`",
        "EFA installer": EFA_INSTALLER,
        "KubeRay": version_set.kuberay,
    }


def _lines() -> Iterator[str]:
    components = support.table()["components"]
    yield from ("| component | version | supported until | extended until | known flaws |", "|---|---|---|---|---|")
    for found in (each for component in components for each in support.versions(component["name"]).values()):
        flaws = ", ".join(f"{flaw} (mended in {mended})" for flaw, mended in found.flaws.items())
        cells = (found.component, found.version, found.until or "not published", found.extended or "", flaws)
        yield f"| {' | '.join(map(str, cells))} |"
    yield from ("", f"Read on {support.table()['date']}:", "")
    yield from (f"- **{each['name']}**. {each['note']} Source: {each['source']}." for each in components)
