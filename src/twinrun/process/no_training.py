"""A training that an import begins, as a script does without `if __name__ == "__main__":`.

What is imported to see which classes it has would be trained to its end, be it for hours, and once
more in each process. So a Trainer that is called during an import ends the import. One that has no
part in it, as a loop of torch alone, is not seen.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NoReturn

METHODS = ("fit", "validate", "test", "predict")
# Where Lightning's two packages have it; imported already or not.
TRAINERS = ("pytorch_lightning.trainer.trainer", "lightning.pytorch.trainer.trainer")


class TrainsAtImportError(Exception):
    """A Trainer was called by what was to be imported."""


@contextmanager
def without_training() -> Iterator[None]:
    """Have calls of a Trainer fail in the body, which imports.

    Raises:
        TrainsAtImportError: from inside the import, naming its line and what to do.
    """
    replaced: list[tuple[Any, str, object]] = []

    def refuse_in(module: ModuleType) -> None:
        # None yet where it is being imported itself.
        trainer: Any = getattr(module, "Trainer", None)
        for name in METHODS if trainer is not None else ():
            replaced.append((trainer, name, vars(trainer)[name]))
            setattr(trainer, name, _refusing(vars(trainer)[name]))

    for name in TRAINERS:
        if name in sys.modules:
            refuse_in(sys.modules[name])
    finder = _Later(refuse_in)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for trainer, name, original in reversed(replaced):
            setattr(trainer, name, original)


class _Later:
    """Finds the Trainer's module where it has not been imported yet, to do something with it."""

    def __init__(self, then: Callable[[ModuleType], None]) -> None:
        self._then = then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find the module of the Trainer; None for any other name."""
        spec = PathFinder.find_spec(fullname, path) if fullname in TRAINERS else None
        loader: Any = spec.loader if spec is not None else None
        if loader is None:
            return None
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            self._then(module)

        loader.exec_module = exec_module
        return spec


def _refusing(method: Any) -> Callable[..., NoReturn]:
    @wraps(method)
    def refuse(*_: object, **__: object) -> NoReturn:
        frame = _importing()
        line = f"{Path(frame.f_code.co_filename).name}, line {frame.f_lineno}"
        raise TrainsAtImportError(
            f"importing {frame.f_globals.get('__name__')} calls Trainer.{method.__name__} ({line}),"
            f' as a script does; put what the script does under `if __name__ == "__main__":`'
        )

    return refuse


def _importing() -> FrameType:
    """Return where the module is that is being imported, not a function that it calls."""
    frame = sys._getframe()
    while frame.f_code.co_name != "<module>" and frame.f_back is not None:
        frame = frame.f_back
    return frame
