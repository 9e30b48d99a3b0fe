"""Whether methods set an attribute before they read it, each time: then nothing is carried over.

What a forward pass leaves for the loss of the same step is of that step alone. The statements of a
method are gone through in their order, and those of methods of the same object that it calls; each
method that is not called so begins without the attribute. In doubt an attribute is read.
"""

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import pytorch_lightning as pl

from twinrun.checkpoint.users_code import MADE_ONCE, is_users
from twinrun.parallel.kept_values import kept_values
from twinrun.parallel.reached_code import ReachedCode

_STEPS = {"training_step", "forward"}


def carried(names: Iterable[str], trainer: pl.Trainer, module: pl.LightningModule) -> list[str]:
    """Leave out attributes that no code reads, and those that are set each time before.

    Args:
        names: of attributes, as `kept_values` gives them.
        trainer: that trained.
        module: that was trained.
    """
    if not (names := sorted(names)):
        return []
    reached, held = ReachedCode(trainer, module), kept_values(trainer, module)
    functions = [
        (owner, function, named)
        for owner, of_owner in reached.names.items()
        for function, named in of_owner.items()
    ]
    found: list[str] = []
    for name in names:
        kept, key = held.get(name), name.rpartition(".")[2]
        holder = None if kept is None else kept.holder
        # What torch's layers go by they read themselves.
        is_torchs = holder is not None and not is_users(getattr(_kind(holder), "__module__", None))
        owners = {owner for owner, function, named in functions if _reads(function, named, key)}
        is_named = is_torchs or reached.is_cut_short
        # In doubt it is: classes of the user's may refuse whatever they are asked.
        with suppress(Exception):
            is_named = is_named or (bool(owners) and _is_carried(holder, key, owners))
            if not is_named:
                continue
        found.append(name)
    return found


def _kind(holder: object) -> type:
    return holder if isinstance(holder, type) else type(holder)


def _reads(function: str, named: set[str], key: str) -> bool:
    return key in named and function not in MADE_ONCE


def _is_carried(holder: object, key: str, owners: set[str]) -> bool:
    """Say whether an attribute may be read that the same call of a method has not set."""
    if holder is None or isinstance(holder, type):
        return True
    bases = [base for base in type(holder).__mro__ if is_users(base.__module__)]
    if not owners <= {base.__name__ for base in bases}:
        return True
    methods = {name for base in bases for name, value in vars(base).items() if callable(value)}
    methods |= {name for base in bases for name, x in vars(base).items() if isinstance(x, property)}
    hooks = {*dir(pl.LightningModule), *dir(pl.Callback)}
    order = _Order(type(holder), key)
    # The step first: what it calls begins where it has come to.
    for entry in sorted(methods - {*MADE_ONCE}, key=lambda n: (n not in _STEPS, n not in hooks, n)):
        if entry not in order.visited:
            order.method(entry, False)
    return order.is_read


class _Order:
    """Goes through methods of a class for an attribute."""

    def __init__(self, kind: type, key: str) -> None:
        self.is_read = False
        """Whether a way has been found on which it is read, and not set before."""
        self.visited: set[str] = set()
        """Methods that were gone through."""
        self._kind, self._key = kind, key
        self._under: list[tuple[str, type]] = []
        self._known: dict[tuple[str, type, bool], bool] = {}

    def method(self, name: str, is_set: bool, behind: type | None = None) -> bool:
        """Go through a method; say whether the attribute is set behind it.

        Args:
            name: of the method.
            is_set: whether it is so before.
            behind: a class whose bases are asked for it, as by `super()`; None for the object's.
        """
        bases = list(self._kind.__mro__)
        bases = bases[bases.index(behind) + 1 :] if behind in bases else bases
        base = next((each for each in bases if name in vars(each)), None)
        if base is None or not is_users(base.__module__) or (name, base) in self._under:
            return is_set
        self.visited.add(name)
        if (known := self._known.get((name, base, is_set))) is not None:
            return known
        definition = parsed(inspect.unwrap(getattr(base, name)))
        if definition is None or not definition.args.args:
            self.is_read = True
            return is_set
        self._under.append((name, base))
        ways = _Ways(self, base, definition.args.args[0].arg)
        ends = ways.block(definition.body, is_set)
        self._under.pop()
        is_set_behind = all([*ways.returns, *([] if ends is None else [ends])])
        self._known[name, base, is_set] = is_set_behind
        return is_set_behind

    def note(self, key: object, is_set: bool) -> None:
        """Note that something of this name is read."""
        self.is_read |= key == self._key and not is_set

    def is_it(self, node: ast.AST, own: str) -> bool:
        """Say whether an expression is the attribute of the object."""
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=key):
                return name == own and key == self._key
        return False


class _Ways:
    """Goes the ways through a method."""

    def __init__(self, order: _Order, base: type, own: str) -> None:
        self.returns: list[bool] = []
        """Whether the attribute is set, where the method returns."""
        self._order, self._base, self._own = order, base, own

    def block(self, statements: Sequence[ast.stmt], is_set: bool) -> bool | None:
        """Go through statements; None where no way leads out of them."""
        found: bool | None = is_set
        for statement in statements:
            found = self._statement(statement, bool(found))
            if found is None:
                return None
        return found

    def _statement(self, node: ast.stmt, is_set: bool) -> bool | None:
        match node:
            case ast.If(test=test, body=body, orelse=other):
                is_set = self._value(test, is_set)
                return _joined(self.block(body, is_set), self.block(other, is_set))
            case (
                ast.For(iter=what, body=body, orelse=other)
                | ast.While(test=what, body=body, orelse=other)
            ):
                is_set = self._value(what, is_set)
                self.block(body, is_set)
                return _joined(is_set, self.block(other, is_set))
            case ast.With(items=items, body=body):
                for item in items:
                    is_set = self._value(item.context_expr, is_set)
                return self.block(body, is_set)
            case ast.Return():
                self.returns.append(self._value(node, is_set))
                return None
            case ast.Raise():
                return None
            case ast.Assign(value=value, targets=targets):
                return self._targets(targets, self._value(value, is_set))
            case ast.AnnAssign(value=ast.expr() as value, target=target):
                return self._targets([target], self._value(value, is_set))
            case ast.AugAssign(value=value, target=target):
                is_set = self._value(value, is_set)
                if self._order.is_it(target, self._own):
                    self._order.note(ast.unparse(target).rpartition(".")[2], is_set)
                return self._value(target, is_set)
            case ast.Expr(value=value) | ast.Assert(test=value):
                return self._value(value, is_set)
        return self._whatever(node, is_set)

    def _whatever(self, node: ast.AST, is_set: bool) -> bool:
        """Go through what has ways of its own: what it reads may not be set."""
        for each in ast.walk(node):
            match each:
                case ast.Attribute(attr=name) | ast.Name(id=name) | ast.Constant(value=name):
                    self._order.note(name, is_set)
                    if isinstance(each, ast.Attribute) and isinstance(name, str):
                        self._order.method(name, is_set)
        return is_set

    def _targets(self, targets: Sequence[ast.expr], is_set: bool) -> bool:
        for target in targets:
            parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
            for part in parts:
                is_it = self._order.is_it(part, self._own)
                is_set = True if is_it else self._value(part, is_set)
        return is_set

    def _value(self, node: ast.AST, is_set: bool) -> bool:
        """Go through an expression: what it is made of, then what it calls."""
        if isinstance(node, ast.IfExp | ast.BoolOp | ast.Lambda | ast.comprehension):
            return self._whatever(node, is_set)
        for inner in ast.iter_child_nodes(node):
            is_set = self._value(inner, is_set)
        match node:
            case ast.Attribute(attr=name):
                self._order.note(name, is_set)
            case ast.Constant(value=str(name)):
                self._order.note(name, is_set)
            case ast.Call(func=ast.Name(id=name)) if name == self._own:
                return self._order.method("forward", is_set)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=called)):
                return self._order.method(called, is_set) if name == self._own else is_set
            case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name("super")), attr=called)):
                return self._order.method(called, is_set, behind=self._base)
        return is_set


def _joined(one: bool | None, other: bool | None) -> bool | None:
    ways = [way for way in (one, other) if way is not None]
    return all(ways) if ways else None


@functools.cache
def parsed(function: Callable[..., object]) -> ast.FunctionDef | None:
    """Return how a function is written; None where nobody can tell."""
    try:
        written = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, TypeError, SyntaxError, ValueError, IndexError):
        return None
    return written if isinstance(written, ast.FunctionDef) else None
