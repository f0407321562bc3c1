"""Collect, without running it, the texts of the error messages that Python source can show."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, product, takewhile
from pathlib import Path
from typing import Final

UNKNOWN: Final = "{}"
"""Stands for a part of a text that is known at run time only."""
PASSED: Final = "{message}"
"""Stands for the text of another error message, which is checked where it is written."""

_VARIANTS: Final = 64
"""How many variants of one text are read at most."""
_STEPS: Final = 6
"""How many variables and functions are followed at most, one from the other."""
# Calls that print their first argument and end the command.
_PRINTED: Final = ("sys.exit", "parser.error")
# The positions of a finding's texts among the arguments.
_PARTS: Final = {"Violation": (1, 4), "Finding": (1, 5), "note": (1, 5)}
_MARK: Final = "error:[/] "


@dataclass(frozen=True)
class Message:
    """One text that a call can show, with `{}` for each part that is known at run time only."""

    file: Path
    line: int
    text: str

    def __str__(self) -> str:
        """Return file, line and text."""
        return f"{self.file}:{self.line}: {self.text!r}"


@dataclass(frozen=True)
class Source:
    """A Python file of the project."""

    file: Path
    code: str

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return ast.parse(self.code)

    @cached_property
    def error_classes(self) -> dict[str, bool]:
        """The exception classes that the file defines, and whether the last argument of each is its message."""
        found = [node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef) and node.bases]
        return {node.name: _ends_with_message(node) for node in found if node.name.endswith("Error")}

    @cached_property
    def functions(self) -> list[ast.FunctionDef]:
        """The functions and methods that the file defines."""
        return [node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef)]

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """The enclosing node of each node."""
        return {child: parent for parent in ast.walk(self.tree) for child in ast.iter_child_nodes(parent)}


def _ends_with_message(node: ast.ClassDef) -> bool:
    """Tell whether the class ends its text with its last argument; other classes write their message themselves."""
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and each.name == "__init__":
            calls = [ast.unparse(call) for call in ast.walk(each) if isinstance(call, ast.Call)]
            ending = re.compile(rf"super\(\).__init__\(.*\b{each.args.args[-1].arg}\}}?['\"]?\)")
            return any(map(ending.fullmatch, calls))
    return True


class Project:
    """All files together: texts are followed from one to another by the names of functions."""

    def __init__(self, sources: list[Source], unseen: frozenset[str]) -> None:
        """Take the files, and the names of the exception classes whose text nobody sees."""
        self._sources = sources
        self._known = {name: ends for source in sources for name, ends in source.error_classes.items()}
        self._shown = {name for name in self._known if name not in unseen}
        defined = Counter(each.name for source in sources for each in source.functions)
        self._functions = {
            each.name: (source, each) for source in sources for each in source.functions if defined[each.name] == 1
        }

    def messages(self) -> list[Message]:
        """Return each text that a person can see: what is printed, and what exceptions are given."""
        return [
            Message(source.file, call.lineno, text)
            for source in self._sources
            for call in ast.walk(source.tree)
            if isinstance(call, ast.Call) and call.args
            for text in sorted(self._texts_of(source, call))
        ]

    def parts_of_findings(self) -> list[Message]:
        """Return each text that a finding is made of: value, reason, what is allowed, fix."""
        found = []
        for source in self._sources:
            for call in (node for node in ast.walk(source.tree) if isinstance(node, ast.Call)):
                first, last = _PARTS.get(ast.unparse(call.func).rpartition(".")[2], (0, 0))
                # A starred argument hides how many it stands for.
                for part in takewhile(lambda each: not isinstance(each, ast.Starred), call.args[:last]):
                    if part in call.args[first:]:
                        found += [Message(source.file, part.lineno, text) for text in self._texts(source, part)]
        return found

    def _texts_of(self, source: Source, call: ast.Call) -> set[str]:
        """Return the texts that a call shows; none where it shows none."""
        name = ast.unparse(call.func)
        if (error := name.rpartition(".")[2]) in self._shown:
            return self._texts(source, call.args[-1]) if self._known[error] else set()
        if name == "super().__init__":
            owner = next((each for each in _around(source, call) if isinstance(each, ast.ClassDef)), None)
            return self._texts(source, call.args[0]) if owner and owner.name in self._shown else set()
        if name == "errors.print":
            return {text.partition(_MARK)[2] for text in self._texts(source, call.args[0]) if _MARK in text} - {UNKNOWN}
        if name == "fail":
            return self._texts(source, call.args[0])
        if name in _PRINTED or any(ast.unparse(each.value) == "sys.stderr" for each in call.keywords):
            # A status of the process, or another program's line, is no text of this project.
            return self._texts(source, call.args[0]) - {UNKNOWN}
        return set()

    def _texts(self, source: Source, node: ast.expr, steps: int = 0) -> set[str]:
        """Return what the expression can be, as far as the source says it."""
        found = {UNKNOWN}
        match node:
            case ast.Constant(value=str(text)):
                found = {text}
            case ast.JoinedStr(values=parts):
                found = self._joined(source, parts, steps)
            case ast.FormattedValue(value=value) | ast.Call(func=ast.Name(id="str" | "escape"), args=[value]):
                found = self._texts(source, value, steps)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                found = self._joined(source, [left, right], steps)
            case ast.IfExp(body=body, orelse=other):
                found = self._texts(source, body, steps) | self._texts(source, other, steps)
            case ast.Name() if steps < _STEPS:
                found = self._named(source, node, steps + 1)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in self._functions:
                found = self._returned(name, steps + 1) if steps < _STEPS else found
        return found

    def _joined(self, source: Source, parts: list[ast.expr], steps: int) -> set[str]:
        ways = product(*(sorted(self._texts(source, part, steps)) for part in parts))
        return {"".join(way) for way in islice(ways, _VARIANTS)}

    def _returned(self, name: str, steps: int) -> set[str]:
        source, function = self._functions[name]
        values = [each.value for each in ast.walk(function) if isinstance(each, ast.Return)]
        return {text for value in values if value for text in self._texts(source, value, steps)} or {UNKNOWN}

    def _named(self, source: Source, node: ast.Name, steps: int) -> set[str]:
        """Return what a variable can be; PASSED where it is one of the project's errors, or an error's message."""
        for scope in _around(source, node):
            if isinstance(scope, ast.ExceptHandler) and scope.name == node.id and scope.type:
                types = scope.type.elts if isinstance(scope.type, ast.Tuple) else [scope.type]
                ours = all(ast.unparse(each).rpartition(".")[2] in self._known for each in types)
                return {PASSED if ours else UNKNOWN}
            if isinstance(scope, ast.FunctionDef | ast.Module):
                if isinstance(scope, ast.FunctionDef) and self._is_own_message(source, scope, node.id):
                    return {PASSED}
                values = list(_assigned(scope, node.id))
                if values:
                    return {text for value in values for text in self._texts(source, value, steps)}
        return {UNKNOWN}

    def _is_own_message(self, source: Source, function: ast.FunctionDef, name: str) -> bool:
        """Tell whether `name` is the message that an exception class is given."""
        owner = source.parents[function]
        takes = isinstance(owner, ast.ClassDef) and self._known.get(owner.name, False)
        return takes and function.name == "__init__" and function.args.args[-1].arg == name


def _around(source: Source, node: ast.AST) -> Iterator[ast.AST]:
    while node in source.parents:
        node = source.parents[node]
        yield node


def _assigned(scope: ast.FunctionDef | ast.Module, name: str) -> Iterator[ast.expr]:
    """Yield the values that a name is given in a function, or at the top of a file."""
    for each in ast.walk(scope) if isinstance(scope, ast.FunctionDef) else scope.body:
        targets = each.targets if isinstance(each, ast.Assign) else [getattr(each, "target", None)]
        value = getattr(each, "value", None)
        if isinstance(value, ast.expr) and any(isinstance(to, ast.Name) and to.id == name for to in targets):
            yield value
