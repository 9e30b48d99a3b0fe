"""What a workload names by import path or by `class_path`: the code that it depends on."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict

from twinrun.config.definitions import Workload

DOTTED = re.compile(r"[^\W\d]\w*([.][^\W\d]\w*)+")
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
