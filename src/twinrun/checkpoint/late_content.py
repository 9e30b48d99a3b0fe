"""Write down what a dataset has made where it was first read, so that another process can compare.

Of what is filled entry by entry (a dictionary, or a list of nothing) each entry is written down by
its key: a resumed training has fewer of them at first, in another order. Of a file or a connection
that is opened late nothing is: it holds no data that could be seen.
"""

import collections
import functools
import io
import marshal
import types
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import PurePath
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pytorch_lightning as pl
import torch
import xxhash

from twinrun.checkpoint.data_in_place import content_of_array
from twinrun.checkpoint.late_spots import NOTHING, Before, NewSpots, Spot, key_of
from twinrun.checkpoint.late_texts import is_temporary, steady
from twinrun.checkpoint.looks import UNSEEN, look_at_users
from twinrun.checkpoint.users_code import attributes_seen, is_mapped, is_users
from twinrun.containers import (
    entries,
    holds_for_users,
    is_container,
    is_faceless,
    is_hidden_iterator,
    is_really,
    is_unordered,
    shown,
    size_of,
)
from twinrun.generators import GENERATORS
from twinrun.hidden_content import (
    ESCAPED,
    KINDS,
    NUMBERS,
    content_of,
    content_of_plain,
)
from twinrun.pandas_values import is_table

Content: TypeAlias = str | dict[str, str]
"""Of an attribute; by hashes of keys what is filled entry by entry; "" of a handle."""

MOST_ENTRIES = 1 << 14  # that are written down of what is filled, chosen by hashes of their keys
MOST_PLAIN = 1 << 20  # entries of a list of plain values, all of which are looked at
MOST_LISTED = 1 << 12  # entries of another list, evenly spaced
MOST_WHOLE = 64  # entries, of each of which an array is looked at in full
MOST_BYTES, BLOCKS = 1 << 14, 16  # of an array in an entry of more, and in how many parts
DEEPEST = 8  # containers and objects inside each other
_KIND = "kind"  # among the hashes of keys; of a list also its size
_APART = (pl.Trainer, pl.LightningModule, pl.LightningDataModule)  # looked at as what they are
_NO_DATA = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)


class UnseenError(Exception):
    """A part of it cannot be looked at; the message says why."""


class Looked(NamedTuple):
    """A look at what an attribute holds that it had not before its data were read."""

    content: Content
    """What has come; {} if nothing has."""
    spots: Mapping[str, Spot]
    """Where it lies, by the keys of the content."""
    is_all: bool
    """Whether all that has come is in the content."""


def content_of_late(
    value: Any, new: NewSpots, before: Before = NOTHING, known: Content = ""
) -> Looked:
    """Write down what an attribute holds that it did not hold before.

    Args:
        value: of the attribute.
        new: of one look at all attributes.
        before: what it held before its data were read.
        known: what it was at an earlier look.

    Raises:
        UnseenError: if something in it moves where nobody can see it.
    """
    if before.is_nothing:
        _refuse_iterator(value)
        if not is_data(value):
            return Looked("", {}, is_all=True)
    found = new.of(value, before, known if isinstance(known, dict) else ())
    if [spot.path for spot in found] == [""]:  # nothing that is filled
        return Looked(_hash_of(_written(value, DEEPEST, _Seen(new), is_whole=True)), {}, True)
    every = 1
    while len(found) > MOST_ENTRIES * every:
        every *= 2
    # A small mapping may be no cache at all: of a large array in it all is looked at too.
    is_small = len(found) <= MOST_WHOLE
    content, spots = dict[str, str](), dict[str, Spot]()
    if before.is_nothing and found:
        size = size_of(value) if is_container(value) and not is_really(value, dict) else ""
        content[_KIND] = f"{type(value).__name__}{size} "
    for spot in found:
        key = key_of(spot.path)
        if every > 1 and int(key, 16) % every:
            continue
        if key in content:
            raise UnseenError("keys of a dictionary in it cannot be told apart")
        if spot.path.endswith("#"):
            content[key] = f"{_hash_of(str(spot.value))} "
        else:
            few = _hash_of(_written(spot.value, DEEPEST, _Seen(new), is_whole=False))
            whole = _written(spot.value, DEEPEST, _Seen(new), is_whole=True) if is_small else ""
            content[key] = f"{few} {_hash_of(whole) if is_small else ''}"
        spots[key] = spot
    return Looked(content, spots, every == 1 and new.is_all)


class _Seen:
    """The identities of what is looked at elsewhere, and of what has been come to besides."""

    def __init__(self, new: NewSpots) -> None:
        self._new, self._own = new, dict[int, object]()

    def __contains__(self, key: int) -> bool:
        return key in self._own or key in self._new

    def __setitem__(self, key: int, value: object) -> None:
        self._own[key] = value


def is_data(value: object) -> bool:
    """Say whether a value may hold data that can be seen; a file or a connection holds none."""
    if is_mapped(value):
        return False
    is_seen = isinstance(value, (torch.Tensor, np.ndarray, torch.nn.Module, *NUMBERS, *GENERATORS))
    if is_seen or is_container(value) or type(value) in KINDS or is_table(value):
        return True
    if isinstance(value, (*_NO_DATA, functools.partial)) or type(value).__module__ == "builtins":
        return True
    if is_users(type(value).__module__) or holds_for_users(value):
        return True
    # What has no attributes is of a compiled library.
    is_open = isinstance(value, Mapping | io.IOBase)
    return not is_open and (bool(attributes_seen(value)) or content_of(value) is not None)


def _hash_of(text: str) -> str:
    return xxhash.xxh3_64_hexdigest(text.encode(errors=ESCAPED))


def _written(value: Any, deeper: int, seen: _Seen, *, is_whole: bool) -> str:
    """Write a value down.

    Args:
        value: it.
        deeper: how many containers and objects may lie inside each other.
        seen: is given those that have been come to; it keeps them.
        is_whole: whether all of an array is looked at.

    Raises:
        UnseenError: if it moves where nobody can see it.
    """
    kind = type(value)
    if kind in (torch.Tensor, np.ndarray):  # of most entries; memory that is mapped is a class
        return _of_array(value, is_whole=is_whole)
    if kind in KINDS or isinstance(value, NUMBERS):
        return f"{kind.__name__} {steady(value) if isinstance(value, str) else value!r}"
    if is_faceless(value):
        return ""
    if is_really(value, torch.Tensor) or is_really(value, np.ndarray) or is_table(value):
        return "mapped" if is_mapped(value) else _of_array(value, is_whole=is_whole)
    if isinstance(value, PurePath):
        return steady(str(value))
    _refuse_iterator(value)
    if id(value) in seen or isinstance(value, _APART):
        return "the same"
    if not deeper:
        raise UnseenError("it holds too many containers and objects inside each other")
    seen[id(value)] = value
    inner = functools.partial(_written, deeper=deeper - 1, seen=seen, is_whole=is_whole)
    if is_container(value) or isinstance(value, collections.deque):
        return f"{kind.__name__} {''.join(_of_container(value, inner))}"
    if isinstance(value, set | frozenset):
        if is_unordered(value):
            return f"{kind.__name__} {sorted(map(inner, value))}"
        return content_of_plain(value) or str(len(value))
    if isinstance(value, functools.partial):
        return f"partial {inner(value.func)} {inner(value.args)} {inner(value.keywords)}"
    if isinstance(value, types.MethodType | types.BuiltinMethodType) and not isinstance(
        value.__self__, types.ModuleType | None
    ):
        return f"{value.__name__} of {inner(value.__self__)}"
    if isinstance(value, _NO_DATA):
        return _of_code(value, inner)
    return _of_object(value, inner)


def _of_array(value: Any, *, is_whole: bool) -> str:
    shape = f"{type(value).__name__} {getattr(value, 'dtype', '')} {tuple(value.shape)}"
    if not is_whole and type(value) in (torch.Tensor, np.ndarray):
        with suppress(Exception):  # of a kind that NumPy does not have, say
            array = value.detach().numpy() if isinstance(value, torch.Tensor) else value
            if array.nbytes > MOST_BYTES and not array.dtype.hasobject:
                size = MOST_BYTES // BLOCKS // array.itemsize
                content = xxhash.xxh3_64()
                for start in range(0, array.size, -(-array.size // BLOCKS)):
                    content.update(array.flat[start : start + size].tobytes())
                return f"{shape} {content.hexdigest()}"
    return f"{shape} {content_of_array(value, counts_writes=False)}"


def _of_container(value: Any, inner: Any) -> Iterator[str]:
    size = len(value) if isinstance(value, collections.deque) else size_of(value)
    yield f"{size} "
    is_plain = type(value) in (list, tuple) and size <= MOST_PLAIN
    if is_plain and KINDS.issuperset(kinds := {*map(type, value)}):
        if str not in kinds or not any(is_temporary(item) for item in value if type(item) is str):
            # In this version each value as it is, however many hold it.
            yield xxhash.xxh3_64_hexdigest(marshal.dumps(value, 2))
            return
    elif size <= MOST_PLAIN and (content := content_of_plain(value)) is not None:
        yield content
        return
    if is_really(value, collections.defaultdict):
        yield inner(value.default_factory)
    pairs = list(enumerate(value)) if isinstance(value, collections.deque) else entries(value)
    for turn, (key, item) in enumerate(pairs[:: -(-size // MOST_LISTED) or 1]):
        yield f"{shown(key, turn)}: {inner(item)}, "


def _of_code(value: Any, inner: Any) -> str:
    cells = getattr(value, "__closure__", None) or ()
    held = []
    for cell in cells:
        with suppress(ValueError):  # not set yet
            held.append(inner(cell.cell_contents))
    if isinstance(value, types.FunctionType):
        held.append(inner([value.__defaults__, value.__kwdefaults__, vars(value)]))
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')} {held}"


def _of_object(value: Any, inner: Any) -> str:
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(value, torch.nn.Module):
        # Side by side, and each: a network is deeper than what else lies inside each other.
        parts = [(part, vars(module)) for part, module in value.named_modules()]
        own = [(part, k, v) for part, held in parts for k, v in held.items() if k != "_modules"]
        return f"{name} {', '.join(f'{part}.{k}: {inner(v)}' for part, k, v in own)}"
    if is_users(kind.__module__) or holds_for_users(value):
        own = attributes_seen(value)
        if holds_for_users(value) and not hasattr(value, "__dict__"):
            raise UnseenError(f"it cannot be seen what {kind.__qualname__} holds")
        base = "" if own else content_of(value) or ""
        return f"{name} {base}{inner(own)}"
    if kind.__module__ == "functools" and hasattr(value, "cache_info"):
        raise UnseenError("it cannot be seen what an `lru_cache` keeps")
    if not is_data(value):
        return name
    seen = look_at_users(value, ())
    # Of a library's object, as of an open file, what cannot be looked at holds no data.
    content = "" if seen.startswith(UNSEEN) else seen
    return f"{name} {content} {content_of(value) or ''}"


def _refuse_iterator(value: Any) -> None:
    kind = type(value)
    if isinstance(value, GENERATORS):
        raise UnseenError("it is a random number generator")
    is_file = isinstance(value, io.IOBase)
    if is_hidden_iterator(value) or (
        hasattr(kind, "__next__") and not is_file and not is_users(kind.__module__)
    ):
        raise UnseenError(f"it is an iterator ({kind.__name__}), whose position nobody can save")
