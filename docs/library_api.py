"""Write packages/ray-resume/docs/api.md from the library's docstrings: `python docs/library_api.py`.

The code is read, not imported: PyTorch and Ray are in the jobs' environment only.
"""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import griffe

_PACKAGE: Final = Path(__file__).resolve().parents[1] / "packages" / "ray-resume"
FILE: Final = _PACKAGE / "docs" / "api.md"
_INTRODUCTION: Final = """# API of ray-resume

`python docs/library_api.py` generates this page from the docstrings. Names that are not here may change at any time.
"""
MODULES: Final = {
    "ray_resume": None,
    "ray_resume.torch_state": None,
    "ray_resume.data_order": ["DataOrder", "Batches"],
    "ray_resume.telemetry.meter": ["Meter"],
    "ray_resume.requests.save_requests": ["SaveRequests"],
    "ray_resume.integrations.lightning": None,
    "ray_resume.integrations.transformers": None,
    "ray_resume.integrations.accelerate": None,
    "ray_resume.integrations.deepspeed": None,
    "ray_resume.integrations.torchrun": None,
}
"""The modules, and the names of each; None: those in its `__all__`."""

Thing = griffe.Object | griffe.Alias


def page() -> str:
    """Return the page: a section for each module, with its classes, functions and their parameters."""
    package = griffe.load("ray_resume", search_paths=[_PACKAGE], docstring_parser="google", resolve_aliases=True)
    return "\n".join([_INTRODUCTION, *_modules(package)]).rstrip() + "\n"


def _modules(package: Thing) -> Iterator[str]:
    for name, chosen in MODULES.items():
        module = package.modules_collection[name]
        yield from (f"## {name}", "")
        yield from _text(module)
        for member in chosen if chosen is not None else sorted(map(str, module.exports or ())):
            yield from _member(module[member], member, "###")


def _member(thing: Thing, name: str, level: str) -> Iterator[str]:
    """Yield the section of a class or function, then those of a class's public methods."""
    # The members of an alias are aliases, too.
    thing = thing.final_target if thing.is_alias else thing
    yield from (f"{level} {name}", "")
    if not thing.is_class or list(_asked(thing)):
        yield from ("```python", _signature(thing, name), "```", "")
    yield from _text(thing)
    if thing.is_class:
        if "__init__" in thing.members:
            yield from _text(thing["__init__"])
        for below, member in thing.members.items():
            if not below.startswith("_") and not member.is_alias and member.has_docstring:
                yield from _member(member, f"{name}.{below}", level + "#")


def _signature(thing: Thing, name: str) -> str:
    """Return how a class or function is called, with one line for each parameter if one line is too short."""
    shown = list(_parameters(_asked(thing)))
    returned = f" -> {thing.returns}" if thing.is_function and thing.returns else ""
    line = f"{name}({', '.join(shown)}){returned}"
    return line if len(line) <= 100 else "\n".join([f"{name}(", *(f"    {one}," for one in shown), f"){returned}"])


def _asked(thing: Thing) -> list[griffe.Parameter]:
    """Return the parameters that a caller gives."""
    called = thing["__init__"] if thing.is_class and "__init__" in thing.members else thing
    return [one for one in called.parameters if one.name not in ("self", "cls")]


def _parameters(parameters: list[griffe.Parameter]) -> Iterator[str]:
    stars = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}
    apart = False
    for one in parameters:
        if one.kind is griffe.ParameterKind.var_positional:
            apart = True
        elif one.kind is griffe.ParameterKind.keyword_only and not apart:
            apart = True
            yield "*"
        kind = f": {one.annotation}" if one.annotation else ""
        has_default = one.default is not None and one.kind not in stars
        yield f"{stars.get(one.kind, '')}{one.name}{kind}" + (f" = {one.default}" if has_default else "")


def _text(thing: Thing) -> Iterator[str]:
    """Yield a docstring in Markdown: its text, then tables of arguments and errors."""
    if not thing.docstring:
        return
    for section in thing.docstring.parsed:
        if section.kind is griffe.DocstringSectionKind.text:
            yield from _markdown(section.value)
        elif section.kind is griffe.DocstringSectionKind.parameters:
            yield from ("| argument | meaning |", "|---|---|")
            yield from (f"| `{one.name}` | {_cell(one.description)} |" for one in section.value)
            yield ""
        elif section.kind is griffe.DocstringSectionKind.raises:
            yield from ("| raises | when |", "|---|---|")
            yield from (f"| `{one.annotation}` | {_cell(one.description)} |" for one in section.value)
            yield ""
        else:
            raise ValueError(f"{thing.path}: the section {section.kind.value} of its docstring has no form here")


def _markdown(text: str) -> Iterator[str]:
    """Yield paragraphs, and indented blocks as code."""
    for paragraph in _paragraphs(text):
        if paragraph.startswith("    "):
            yield from ("```text", inspect.cleandoc(paragraph), "```", "")
        else:
            yield from (" ".join(paragraph.split()), "")


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs; indented ones that follow each other are one."""
    block: list[str] = []
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("    "):
            block.append(paragraph)
            continue
        if block:
            yield "\n\n".join(block)
            block = []
        yield paragraph
    if block:
        yield "\n\n".join(block)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(page())
