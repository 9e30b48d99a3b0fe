"""Which attributes a user's code sets of another object than a method's own.

By `data.x = ...`, and by a text: `setattr(data, "x", ...)`, `vars(data)["x"] = ...`. A name that is
computed may be any.
"""

import ast
import functools
from pathlib import Path
from typing import NamedTuple

_SETTERS = {"setattr", "delattr"}
_METHODS = {"__setattr__", "__delattr__"}
_WRITING = {"update", "setdefault", "pop", "popitem", "clear", "__setitem__", "__delitem__"}
BY_TEXT = frozenset({*_SETTERS, *_METHODS, "vars", "__dict__"})
"""By these code may set any attribute."""


class Stored(NamedTuple):
    """What the code of a file sets of other objects."""

    names: frozenset[str]
    """Of attributes."""
    computed: frozenset[int]
    """Lines where a name is computed."""


@functools.cache
def stored_in(file: str) -> Stored:
    """Name the attributes that the code of a file sets of other objects.

    Raises:
        OSError: if it cannot be read.
        SyntaxError: if it is none of Python's.
    """
    found = _Stores()
    found.visit(ast.parse(Path(file).read_bytes(), file))
    return Stored(frozenset(found.names), frozenset(found.computed))


class _Stores(ast.NodeVisitor):
    """Collects them."""

    def __init__(self) -> None:
        self.names, self.computed = set[str](), set[int]()
        self._is_own = self._is_in_class = False
        self._aliases = set[str]()  # of what holds all attributes of an object

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        before, self._is_in_class = self._is_in_class, True
        self.generic_visit(node)
        self._is_in_class = before

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        before = self._is_own, self._is_in_class, self._aliases
        given = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
        is_method = self._is_in_class and given[:1] == ["self"] and not isinstance(node, ast.Lambda)
        self._is_own = is_method or (self._is_own and "self" not in given)
        self._is_in_class, self._aliases = False, {*self._aliases}
        self.generic_visit(node)
        self._is_own, self._is_in_class, self._aliases = before

    visit_AsyncFunctionDef = visit_Lambda = visit_FunctionDef

    def visit_Assign(self, node: ast.Assign) -> None:
        if self._is_of_all(node.value):
            self._aliases |= {each.id for each in node.targets if isinstance(each, ast.Name)}
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        is_stored = isinstance(node.ctx, ast.Store | ast.Del) and not self._is_self(node.value)
        is_written = node.attr in _WRITING and self._is_of_all(node.value)
        is_called = node.attr in _METHODS and not self._is_super(node.value)
        if is_written or is_called or (is_stored and node.attr == "__dict__"):
            self.computed.add(node.lineno)
        elif is_stored:
            self.names.add(node.attr)
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in _SETTERS:  # which is handed on
            self.computed.add(node.lineno)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if isinstance(node.ctx, ast.Store | ast.Del) and self._is_of_all(node.value):
            self._set(node.slice, node.lineno)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        function, given = node.func, node.args
        if isinstance(function, ast.Name) and function.id in _SETTERS:
            if not (given and self._is_self(given[0])):
                self._set(given[1] if len(given) > 1 else function, node.lineno)
        elif isinstance(function, ast.Attribute) and function.attr in _METHODS:
            # `object.__setattr__(data, name, value)`, or `data.__setattr__(name, value)`.
            both = given if self._is_of_class(function.value) else [function.value, *given]
            is_own = self._is_super(function.value) or (bool(both) and self._is_self(both[0]))
            if not is_own:
                self._set(both[1] if len(both) > 1 else function, node.lineno)
            self.visit(function.value)
        else:
            self.visit(function)
        for each in (*given, *(keyword.value for keyword in node.keywords)):
            self.visit(each)

    def _set(self, name: ast.expr, line: int) -> None:
        if isinstance(name, ast.Constant):
            self.names.add(str(name.value))
        else:
            self.computed.add(line)

    def _is_self(self, node: ast.expr) -> bool:
        return self._is_own and isinstance(node, ast.Name) and node.id == "self"

    def _is_super(self, node: ast.expr) -> bool:
        called = node.func if isinstance(node, ast.Call) else None
        return self._is_own and isinstance(called, ast.Name) and called.id == "super"

    def _is_of_class(self, node: ast.expr) -> bool:
        """Say whether a method is that of a class, as `object` or `torch.nn.Module`."""
        name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
        return name in {"object", "type"} or name[:1].isupper()

    def _is_of_all(self, node: ast.expr) -> bool:
        """Say whether it holds all attributes of another object."""
        if isinstance(node, ast.Name):
            return node.id in self._aliases
        if isinstance(node, ast.Attribute):
            return node.attr == "__dict__" and not self._is_self(node.value)
        is_asked = isinstance(node, ast.Call) and getattr(node.func, "id", None) == "vars"
        return is_asked and bool(node.args) and not self._is_self(node.args[0])
