"""What the loaders of a training are: the contents of what they hold, in words that another process
would write too.

They may be made from anything that a training has by then: a count of steps, what was logged, a
callback's state, what the network says. Those that a resumed training makes must be like them.
"""

import datetime
import types
import uuid
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any, TypeAlias

import numpy as np
import pytorch_lightning as pl
import torch
import xxhash
from lightning_fabric.utilities.data import sized_len
from torch.utils.data import DataLoader, Sampler

from twinrun.checkpoint.data_in_place import MOST_TEXTS, content_of_array
from twinrun.checkpoint.found import Found, Holder, Length, Order
from twinrun.checkpoint.of_process import content_without_process, without_process
from twinrun.checkpoint.reached import held_by_data_module, reached
from twinrun.checkpoint.replayed_data import training_loaders
from twinrun.checkpoint.stream_position import parts_of
from twinrun.checkpoint.told_parts import Told
from twinrun.containers import entries, is_container, is_really, shown, size_of
from twinrun.hidden_content import PLAIN, content_of_plain
from twinrun.pandas_values import is_table
from twinrun.pandas_values import parts_of as parts_of_table

MOST_ENTRIES = 1 << 20  # plain values of a list that are all looked at; of rows a sample is

Made: TypeAlias = dict[str, tuple[str, str, bool, bool]]
"""By name: the content, also without what of it belongs to the process; whether a cache may not
come into its place, and whether it is new."""


def held_before(trainer: pl.Trainer) -> dict[int, object]:
    """Return what loaders and data hold, by identity: a part of loaders to come may be older."""
    seen: dict[int, object] = {id(part): part for part in trainer.lightning_module.modules()}
    for _ in reached(trainer, training_loaders(trainer), seen=seen):
        pass
    for _ in held_by_data_module(trainer, seen):
        pass
    return seen


def made_loaders(trainer: pl.Trainer, before: Mapping[int, object]) -> Made:
    """Write down what the training loaders are.

    Args:
        trainer: of the training.
        before: as of `held_before`, just before they were made. A dictionary of it may be a cache,
            which a resumed training fills anew. Nothing where they are made once.
    """
    loaders, module = training_loaders(trainer), trainer.lightning_module
    tensors = [*module.named_parameters(), *module.named_buffers()]
    # Which a checkpoint holds.
    own = {id(tensor): f"{name} of the module" for name, tensor in tensors}
    parts = parts_of(loaders)
    kinds = [type(part).__qualname__ for part in parts]
    made: Made = {"the kinds of loaders, samplers and datasets": (repr(kinds), "", True, True)}
    lengths = [sized_len(each) for each in parts if isinstance(each, DataLoader)]
    made["the length of a loader"] = repr(lengths), "", True, True
    found = [each for part in parts for each in _numbers_of_sampler(part)]
    seen: dict[int, object] = {id(part): part for part in module.modules()}
    counts, told = dict[str, int](), Told(parts)
    for each in (*found, *reached(trainer, loaders, seen=seen)):
        held = _held(each)
        is_new = id(each.owner) not in before and id(held) not in before
        text = str(each.value.sample.plain) if isinstance(each.value, Length) else ""
        content, is_whole = _content(each, own, text)
        # What says itself where it is is told so later; if it is kept, it may be elsewhere by now.
        if content is not None and ((before and is_new) or not told.says(each)):
            name = without_process(each.name)  # a key may be a path
            turn = counts[name] = counts.get(name, 0) + 1
            kind = type(each.value).__name__ if held is not None else ""
            made[f"{name} {kind} {turn}"] = content, _alike(each, text), is_whole, is_new
    return made


def unlike(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Name what is other in loaders that are made again.

    >>> made = {"A.rows  1": ("5", "", True, True), "A.known  1": ("{}", "", False, False)}
    >>> unlike(made, {"A.rows  1": ("5", "", True, True)})
    >>> unlike(made, {"A.rows  1": ("6", "", True, True)})
    'A.rows'
    >>> unlike(made, {})
    'A.rows'
    """
    for key, (content, alike, is_whole, is_new) in before.items():
        found, found_alike, is_found_whole, _ = now.get(key, (None, "", False, False))
        is_other = found != content and (not alike or found_alike != alike)
        if is_other and (is_new or (is_whole and is_found_whole)):
            return key if key.startswith("the ") else key.rsplit(" ", 2)[0]
    return None


def _numbers_of_sampler(part: object) -> Iterator[Found]:
    """Yield the private ones, which a walk leaves to a library: how many are drawn."""
    if isinstance(part, Sampler) and type(part).__module__.startswith("torch."):
        for name, value in vars(part).items():
            if name[0] == "_" and isinstance(value, PLAIN):
                yield Found(part, f"{type(part).__name__}.{name}", value)


def _held(found: Found) -> object:
    value = found.value
    if isinstance(value, Length):
        return value.container
    return value.value if isinstance(value, Holder) else None


def _content(found: Found, own: Mapping[int, str], sample: str) -> tuple[str | None, bool]:
    """Write down what was found, and say whether a cache may not come into its place.

    Args:
        found: it.
        own: names of what a checkpoint holds, by identity.
        sample: the text of its entries, if it is a long container.
    """
    value = found.value
    if isinstance(value, Holder):
        if is_really(value.value, PurePath):
            return str(value.value), True
        return _kind_of(value.value), False
    if isinstance(value, Length):
        is_whole = not is_really(value.container, dict) and all(value.sample.plain)
        whole = content_of_plain(value.container) if _is_flat(value) else None
        return f"{value.entries} {whole or _hash_of(sample)}", is_whole
    if isinstance(value, Order):
        return repr([shown(key, turn) for turn, key in enumerate(value.keys)]), False
    if is_really(value, torch.Tensor) or is_really(value, np.ndarray) or is_table(value):
        return own.get(id(value)) or content_of_array(value, counts_writes=False), True
    if isinstance(value, PLAIN):
        return repr(value), value is not None
    return None, False


def _alike(found: Found, sample: str) -> str:
    """Write down what was found without what belongs to the process; nothing if nothing does."""
    value = found.value
    if isinstance(value, Holder) and is_really(value.value, PurePath):
        return without_process(str(value.value))
    if isinstance(value, Length):
        if (alike := without_process(sample)) == sample:
            return ""
        whole = content_of_plain(_texts_alike(value.container)) if _is_flat(value) else None
        return f"{value.entries} {whole or _hash_of(alike)}"
    if isinstance(value, Order):
        return without_process(repr([shown(key, turn) for turn, key in enumerate(value.keys)]))
    if is_table(value) or (is_really(value, np.ndarray) and value.dtype.kind in "UO"):
        return content_of_plain(_texts_alike(value)) or ""
    if isinstance(value, PLAIN):
        # What is no plain value is its own owner, and found as a text.
        is_own = isinstance(found.owner, datetime.date | uuid.UUID)
        is_inside = found.name.endswith("]")
        return content_without_process(found.owner if is_own else value, is_inside=is_inside)
    return ""


def _is_flat(found: Length) -> bool:
    """Say whether entries are plain values, so that all of them are soon looked at."""
    held: Any = found.container
    if found.entries > MOST_ENTRIES or not (is_really(held, dict) or type(held) in (list, tuple)):
        return False
    first = next(iter(dict.values(held) if is_really(held, dict) else held), None)
    return type(first) in PLAIN


def _hash_of(text: str) -> str:
    return xxhash.xxh3_64_hexdigest(text.encode(errors="replace"))


def _texts_alike(value: Any) -> Any:
    """Return texts in containers, arrays and tables without what belongs to the process."""
    if isinstance(value, str | PurePath):
        return without_process(str(value))
    if is_table(value):
        return [(name, _texts_alike(part)) for name, part in parts_of_table(value) or ()]
    if is_really(value, np.ndarray):
        if value.dtype.kind not in "UO":
            return content_of_array(value, counts_writes=False)
        every = -(-value.size // MOST_TEXTS) or 1
        return [value.shape, *_texts_alike(value.reshape(-1)[::every].tolist())]
    if is_container(value):
        inside = [_texts_alike(item) for _, item in entries(value)]
        return [*dict.keys(value), inside] if is_really(value, dict) else inside
    return value


def _kind_of(value: Any) -> str:
    if is_really(value, list) or is_really(value, tuple):
        return f"{type(value).__qualname__} {size_of(value)}"
    if isinstance(value, types.FunctionType):
        return f"{value.__qualname__} {value.__code__.co_firstlineno}"
    named = (type, types.BuiltinFunctionType, types.MethodType)
    # Any other may refuse to be asked for a name.
    return str(value.__qualname__ if issubclass(type(value), named) else type(value).__qualname__)
