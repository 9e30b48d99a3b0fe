"""What a workload names by import path or by `class_path`: the code that it depends on."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict

from twinrun.config.definitions import Workload
from twinrun.wording import meant_path, shown, suggestion

DOTTED = re.compile(r"[^\W\d]\w*([.][^\W\d]\w*)+")
FORM = ("class_path", "init_args", "dict_kwargs")  # of an object
# Their versions count, not what is imported of them.
FOREIGN = {"torch", "pytorch_lightning", "lightning"}


def code_of(workload: Workload) -> list[str]:
    """Name the modules of a workload, and the classes and functions that its arguments name."""
    paths = [path.partition(":")[0] for path in (workload.module, workload.data) if path]
    named = class_paths([*_arguments(workload)])
    return [*dict.fromkeys([*paths, *(p for p in named if p.split(".")[0] not in FOREIGN)])]


def _arguments(workload: Workload) -> Iterator[object]:
    """Yield what may hold objects."""
    yield workload.hyperparameters
    yield asdict(workload.trainer)
    if workload.cli is not None:
        yield {**asdict(workload.cli), "file": None}


def class_paths(value: object) -> Iterator[str]:
    """Yield all texts in a value that may name a class or a function, `package.Class`."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from class_paths(item)
    elif isinstance(value, str) and DOTTED.fullmatch(value):
        yield value


def holds_object(value: object) -> bool:
    """Say whether a value names a class of which it wants an object."""
    if isinstance(value, Mapping):
        return "class_path" in value or any(map(holds_object, value.values()))
    return isinstance(value, list | tuple) and any(map(holds_object, value))


def slip_in(value: object) -> str:
    """Say what is misspelt in the form of an object that a value holds; nothing if nothing is."""
    path = value.get("class_path") if isinstance(value, Mapping) else value
    if isinstance(path, str) and ":" in path:  # an import path, as modules are named by
        meant = re.sub(r"(\w):(\w)", r"\1.\2", meant_path(path))
        return f"{shown(path)} names no class{meant}" if meant else ""
    if isinstance(value, Mapping):
        if isinstance(path, str):
            for name in value:
                if name not in FORM:
                    near = suggestion(name, FORM, list_all=False)
                    other = near or "; arguments stand under init_args: {...}"
                    return f"{shown(name)} is no key of an object{other}"
        value = list(value.values())
    items = value if isinstance(value, list) else []
    return next(filter(None, (slip_in(i) for i in items if not isinstance(i, str))), "")
