"""What hooks set as a training starts, ahead of all code that reads it.

Behind a sanity check, ahead of the first step: then what the check has left there comes to nothing.
The hooks are gone through in the order in which Lightning calls them, statement by statement. Each
function that they name, or any of that name, is taken to read all that it names.
"""

import ast
from collections.abc import Iterable, Iterator, Sequence

import pytorch_lightning as pl

from twinrun.parallel.reached_code import ReachedCode
from twinrun.training.set_anew import reads, set_in, statements_of

# Of the module and its data, and what only a script's callbacks are asked.
_EARLIER = ("on_sanity_check_end", "train_dataloader")
_HOOKS = ("on_train_start", "on_train_epoch_start")
# By these code asks for any attribute.
_BY_TEXT = {"vars", "__dict__", "__getattribute__", "getmembers", "eval", "exec", "attrgetter"}


class SetBefore:
    """Goes through the hooks with which a training starts."""

    def __init__(
        self, reached: ReachedCode, module: pl.LightningModule, callbacks: Sequence[pl.Callback]
    ) -> None:
        """Read them.

        Args:
            reached: the names that functions of a user's name.
            module: whose hooks come behind those of callbacks.
            callbacks: in their order.
        """
        self._of_class = reached.names
        self._functions: dict[str, set[str]] = {}
        for functions in reached.names.values():
            for function, names in functions.items():
                self._functions.setdefault(function, set()).update(names)
        self._parts = {path.rpartition(".")[2] for path, _ in module.named_modules() if path}
        self._read: set[str] = set()  # so far, by anybody
        self.names: set[str] = set()
        """What they set: of the module by its attribute, else behind the callback's class."""
        self._note(_EARLIER)
        own_reads: dict[int, set[str]] = {}
        for hook in _HOOKS:
            for holder in (*callbacks, module):
                self._go_through(holder, hook, own_reads.setdefault(id(holder), set()))

    def _go_through(self, holder: object, hook: str, own_reads: set[str]) -> None:
        kinds, is_callback = type(holder).__mro__, isinstance(holder, pl.Callback)
        prefix = f"{type(holder).__name__}." if is_callback else ""
        has_source = False
        for statement in statements_of(type(holder), hook):
            has_source = True
            for name, is_own in self._read_in(statement.node, statement.own):
                if name in _HOOKS:  # by `super()`
                    self._note(self._named_in(kinds[1:], name))
                elif is_own and name not in self._functions:
                    own_reads.add(name)
                else:
                    self._note([name])
            arguments = (statement.own, *statement.others)
            for node in ast.walk(statement.node):
                if isinstance(node, ast.Call) and self._is_forward(node.func, arguments):
                    self._note(["forward"])
            # A backup of the weights, say, goes by them, as they are there.
            by = arguments if is_callback else (statement.own,)
            for name, value in set_in(statement):
                is_read = name in own_reads or self._read & {name, *_BY_TEXT}
                if not is_read and not reads(value, *by):
                    self.names.add(f"{prefix}{name}")
        if not has_source:
            self._note(self._named_in(kinds, hook))

    def _read_in(self, statement: ast.stmt, own: str) -> Iterator[tuple[str, bool]]:
        """Yield what a statement reads by a name, and whether of its own object."""
        for node in ast.walk(statement):
            match node:
                case (
                    ast.Attribute(value=value, attr=name, ctx=ast.Load())
                    | ast.AugAssign(target=ast.Attribute(value=value, attr=name))
                ):
                    yield name, isinstance(value, ast.Name) and value.id == own
                case ast.Call(ast.Name("getattr" | "hasattr"), [_, ast.Constant(str(name)), *_]):
                    yield name, False
                case ast.Call(ast.Name("getattr" | "vars" | "eval" | "exec")):
                    yield "__dict__", False
                # A variable may bear the name of any attribute.
                case ast.Name(name, ast.Load()) if name in self._functions:
                    yield name, False

    def _named_in(self, kinds: Sequence[type], function: str) -> Iterator[str]:
        for kind in kinds:
            yield from self._of_class.get(kind.__name__, {}).get(function, ())

    def _is_forward(self, called: ast.expr, arguments: Sequence[str]) -> bool:
        match called:
            case ast.Name(name):
                return name in arguments
            case ast.Attribute(attr=name):
                return name in self._parts
        return False

    def _note(self, names: Iterable[str]) -> None:
        """Note names, and all that functions of these names name."""
        waiting = [*names]
        while waiting:
            if (name := waiting.pop()) not in self._read:
                self._read.add(name)
                waiting += self._functions.get(name, ())
