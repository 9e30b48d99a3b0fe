"""Files that a training names: a library may open one by itself, and close it before the steps.

Of `pandas.read_parquet(self.path)` by pyarrow, `with h5py.File("data/train.h5")` or `cv2.imread`
Python tells nothing, and nothing is held open where steps begin. Named is a file by a text or a
path in an attribute of the module, the data module or a dataset, or in the code of their classes.
"""

import os
import types
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePath

import pytorch_lightning as pl
from torch.utils._pytree import tree_leaves

from twinrun.checkpoint.users_code import attributes_seen
from twinrun.containers import entries, is_container, is_really, size_of
from twinrun.process.users_code import functions_in, is_users, names_in

MOST = 10_000  # files, and folders' files
_MOST_SEEN = 50_000  # values, of each owner
_LONGEST = 1024  # characters
_FOLDERS = 4  # of an owner, in which its texts may be names


def named_files(trainer: pl.Trainer) -> list[str]:
    """Return the absolute paths of those that are there, sorted; no more than `MOST`.

    Args:
        trainer: where its first epoch starts.
    """
    loaders = tree_leaves([trainer.train_dataloader, trainer.val_dataloaders])
    owners = [trainer.lightning_module, vars(trainer).get("datamodule")]
    owners += [attributes_seen(loader).get("dataset") for loader in loaders]
    found = set[str]()
    for owner in {id(each): each for each in owners if each is not None}.values():
        with suppress(Exception):  # of whatever class: what they hold may answer anything
            texts = [*dict.fromkeys([*_texts_of_class(type(owner)), *_texts_in(owner)])]
            folders = [each for each in texts if os.path.isdir(each)][:_FOLDERS]  # noqa: PTH112
            paths = (_joined(at, text) for text in texts for at in ("", *folders))
            for path in paths:
                found |= _files_at(path)
                if len(found) >= MOST:
                    break
    return sorted(found)[:MOST]


def _joined(folder: str, text: str) -> str:
    """Return what may be the path of a file, also of `f"{folder}/train.h5"`."""
    return f"{folder}{text}" if text.startswith(os.sep) else os.path.join(folder, text)  # noqa: PTH118


def _files_at(path: str) -> set[str]:
    """Return a file with an ending, or those in a folder of such a name (`data.zarr`), if any."""
    if not os.path.splitext(path)[1]:  # noqa: PTH122
        return set()
    path = os.path.abspath(path)  # noqa: PTH100
    if os.path.isfile(path):  # noqa: PTH113
        return {path}
    if Path.cwd().is_relative_to(path):  # the project itself is no data
        return set()
    inside = (os.path.join(at, name) for at, _, names in os.walk(path) for name in names)  # noqa: PTH118
    return {file for file, _ in zip(inside, range(MOST), strict=False)}


def _as_text(value: object) -> str | None:
    """Return a text, or a path as one, that may name a file; else None."""
    text = str(value) if is_really(value, PurePath) else value
    is_name = is_really(text, str) and 0 < len(text) <= _LONGEST and text.isprintable()
    return str(text) if is_name else None


def _texts_in(owner: object) -> Iterator[str]:
    """Yield the texts in the attributes of an object, in containers and objects of a user's."""
    left, seen = deque(attributes_seen(owner).values()), {id(owner): owner}
    while left and len(seen) < _MOST_SEEN:
        value = left.popleft()
        if (text := _as_text(value)) is not None:
            yield text
        elif id(value) in seen:
            continue
        elif is_container(value):
            left += [item for _, item in entries(value)] if size_of(value) <= _MOST_SEEN else []
        elif is_users(type(value).__module__):
            left += attributes_seen(value).values()
        seen[id(value)] = value


def _texts_of_class(kind: type) -> Iterator[str]:
    """Yield the texts in the code of a user's class, and of what that names of a user's."""
    left, of_name = deque[object](), dict[str, object]()
    for base in kind.__mro__:
        for name, value in vars(base).items() if is_users(base.__module__) else ():
            hiding = of_name.setdefault(name, value)
            code = getattr(hiding, "__code__", None)
            # What a subclass hides is asked for by `super` alone.
            if hiding is value or (code is not None and "super" in code.co_names):
                left.append(value)
    seen = dict[int, object]()
    while left and len(seen) < _MOST_SEEN:
        value = left.popleft()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        if (text := _as_text(value)) is not None:
            yield text
        elif is_really(value, types.CodeType):
            left += value.co_consts
        elif is_really(value, types.FunctionType):
            if is_users(value.__module__):
                known = value.__globals__
                # What a constructor was given is in attributes.
                given = () if value.__name__ == "__init__" else value.__defaults__ or ()
                left += [value.__code__, *given]
                left += [known[name] for name in {*names_in(value.__code__)} & known.keys()]
        elif is_container(value):
            left += [item for _, item in entries(value)] if size_of(value) <= _MOST_SEEN else []
        else:
            left += [each for each in functions_in(value) if each is not value and each is not None]
