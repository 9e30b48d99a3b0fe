"""Records and dataclasses say of each field what it holds: units, shapes, what None means."""

import ast
from collections.abc import Iterator

from test_rooms import TREES

RECORDS = {"TypedDict", "NamedTuple", "Struct"}


def name_of(node: ast.expr) -> str:
    """Return the last part of what a decorator or a base class is called."""
    match node:
        case ast.Call(func=called):
            return name_of(called)
        case ast.Subscript(value=generic):
            return name_of(generic)
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def records(trees: dict[str, ast.Module]) -> Iterator[tuple[str, ast.ClassDef]]:
    """List the records and dataclasses by module; of a record's child too."""
    classes = [
        (module, node)
        for module, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    ]
    known, before = set(RECORDS), 0
    while len(known) > before:
        before = len(known)
        known |= {node.name for _, node in classes if known & set(map(name_of, node.bases))}
    for module, node in classes:
        is_dataclass = "dataclass" in map(name_of, node.decorator_list)
        if is_dataclass or node.name in known:
            yield module, node


def undocumented(trees: dict[str, ast.Module]) -> list[str]:
    """Name the fields that have no line of documentation below."""
    found = []
    for module, node in records(trees):
        for field, below in zip(node.body, [*node.body[1:], None], strict=True):
            match field, below:
                case ast.AnnAssign(), ast.Expr(value=ast.Constant(value=str())):
                    pass
                case ast.AnnAssign(target=ast.Name(id=name)), _:
                    found.append(f"{module}.{node.name}.{name}")
    return found


def test_every_field_has_a_line_of_documentation():
    assert len(list(records(TREES))) > 100
    assert undocumented(TREES) == []


def test_a_field_without_one_is_seen():
    """In a record, its child, a dataclass with arguments, and a Struct; last or in the middle."""
    tree = ast.parse(
        "class A(TypedDict):\n    x: int\n    y: int\n    '''Of y.'''\n"
        "class B(A):\n    z: int\n"
        "@dataclass(frozen=True)\nclass C:\n    u: int = 0\n    v: ClassVar[int]\n    '''Of v.'''\n"
        "class D(msgspec.Struct, frozen=True):\n    w: int\n    def f(self): '''Of f.'''\n"
        "class E:\n    no_record: int\n"
    )
    assert undocumented({"m": tree}) == ["m.A.x", "m.B.z", "m.C.u", "m.D.w"]
