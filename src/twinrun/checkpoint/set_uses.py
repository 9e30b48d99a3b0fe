"""Whether the order shows in which a set gives its members: it depends on what was in it before.

What is asked for members alone, and given some, may be made again of them.
"""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

from twinrun.checkpoint.late_unread import users_files

_METHODS = {"add", "discard", "remove", "update", "clear", "__contains__", "__len__"}
_METHODS |= {"issubset", "issuperset", "isdisjoint", "difference_update", "intersection_update"}
_FUNCTIONS = {"len", "bool", "sorted", "min", "max", "isinstance"}
_BY_TEXT = {"getattr", "vars", "__dict__", "attrgetter", "asdict", "astuple"}
_TESTS = (ast.If, ast.While, ast.IfExp, ast.Assert)


def may_show_order(name: str) -> bool:
    """Say whether a user's code may see the order of a set in attributes that are called so."""
    try:
        return any(_shows(file, name) for file in users_files().values())
    except Exception:  # of whatever class: a file cannot be read
        return True


@functools.cache
def _shows(file: str, name: str) -> bool:
    text = Path(file).read_bytes()
    return name.encode() in text and shows_order(text, name)


def shows_order(text: bytes | str, name: str) -> bool:
    """Say whether code may see it.

    >>> shows_order("self.ok = set(); self.ok.add(1); 2 in self.ok; len(self.ok)", "ok")
    False
    >>> shows_order("for each in self.ok: print(each)", "ok"), shows_order("f(self.ok)", "ok")
    (True, True)
    """
    tree = ast.parse(text)
    above = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    names = {*_named(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == name and not _is_asked(node, above):
            return True
        is_text = isinstance(node, ast.Constant) and node.value == name
        if is_text and not names.isdisjoint(_BY_TEXT):
            return True
    return False


def _named(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def _is_asked(node: ast.Attribute, above: dict[ast.AST, ast.AST]) -> bool:
    """Say whether a set is asked for a member there, or given some, or is made."""
    by = above.get(node)
    if isinstance(by, ast.Compare | ast.Expr):
        return True
    if isinstance(by, ast.Attribute):
        call = above.get(by)
        return by.attr in _METHODS and isinstance(call, ast.Call) and call.func is by
    if isinstance(by, ast.Call):
        is_one = isinstance(by.func, ast.Name) and by.func.id in _FUNCTIONS and not by.keywords
        return is_one and node in by.args
    if isinstance(by, ast.AugAssign):
        return by.target is node
    if isinstance(by, ast.Assign):
        return by.targets == [node] and _is_new(by.value)
    if isinstance(by, ast.AnnAssign):
        return by.target is node and by.value is not None and _is_new(by.value)
    return _is_tested(node, above)


def _is_tested(node: ast.AST, above: dict[ast.AST, ast.AST]) -> bool:
    """Say whether nothing is asked of it than whether something is in it."""
    by = above.get(node)
    if isinstance(by, ast.BoolOp):
        return _is_tested(by, above)
    is_not = isinstance(by, ast.UnaryOp) and isinstance(by.op, ast.Not)
    return is_not or (isinstance(by, _TESTS) and by.test is node)


def _is_new(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id == "set"
    return isinstance(value, ast.Set | ast.SetComp)
