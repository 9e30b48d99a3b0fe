"""Tensors, arrays and numbers that no checkpoint holds: whether they change while a training runs.

Labels that a dataset smooths as it goes, rows that it caches in an array, a generator in a global
that a step draws from: a resumed training would find them as they were made. Of large arrays a part
is looked at, evenly spaced, and how often torch has written to them.
"""

import itertools
from collections.abc import Container, Iterator, Sequence
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
import xxhash

from twinrun.checkpoint.found import Found, Holder, Length, Order
from twinrun.checkpoint.held_objects import HeldObjects
from twinrun.checkpoint.looks import digest, look
from twinrun.checkpoint.made_with_loaders import MadeAnew
from twinrun.checkpoint.own_states import is_other
from twinrun.checkpoint.reached import (
    CUT_SHORT,
    attributes_held,
    cut_short,
    held_by_steps,
    reached,
)
from twinrun.checkpoint.refusals import generators_of
from twinrun.checkpoint.stream_position import parts_of, told_alone
from twinrun.checkpoint.told_parts import Told
from twinrun.checkpoint.users_code import is_computed_once, is_mapped
from twinrun.containers import is_hidden_iterator, is_really
from twinrun.generators import GENERATORS, global_generators, state_in_a_word
from twinrun.hidden_content import ESCAPED, PLAIN, content_of_plain
from twinrun.pandas_values import is_table
from twinrun.pandas_values import parts_of as parts_of_table
from twinrun.plain_tensors import bare

MOST_OBJECTS = 1 << 12  # of an array of them, evenly spaced
MOST_TEXTS = 1 << 16  # of a column of them, evenly spaced
MOST_BYTES, BLOCKS = 1 << 26, 64  # that are looked at, of each, and in how many places


class DataLooks:
    """A look at what the making of batches and of steps reaches."""

    def __init__(
        self,
        trainer: pl.Trainer,
        loaders: Sequence[object],
        *,
        is_of_batches_alone: bool = False,
        left: Container[tuple[int, str]] = (),
    ) -> None:
        """Look.

        Args:
            trainer: of the training.
            loaders: whose data are looked at.
            is_of_batches_alone: look neither at the data module nor at what steps reach.
            left: attributes that are looked at elsewhere (see `late_attributes`).
        """
        parts = parts_of(loaders)
        told = Told(parts)
        # Owners and values are kept, so that no others get their numbers.
        self.arrays: dict[tuple[int, str], tuple[object, str]] = {}
        self.numbers: dict[tuple[int, str], tuple[object, object]] = {}
        self.orders: dict[tuple[int, str], tuple[object, dict[object, None]]] = {}
        self.lengths: dict[tuple[int, str], tuple[object, Length]] = {}
        self.held = HeldObjects()
        # What `set_epoch` sets is compared where the epoch has begun (see `told_epochs`).
        self._told_anew = told_alone(loaders)
        self._of_library: set[tuple[int, str]] = set()
        self._mapped: set[tuple[int, str]] = set()
        self._filled, self._said = set[tuple[int, str]](), set[tuple[int, str]]()
        self.sets: set[str] = set()
        """What sets are called."""
        self.beside_loaders = set[str]()
        """What a data module has that the making anew of its loaders does not set."""
        self.unseen: list[str] = []
        self.seen: dict[int, object] = {}
        module = trainer.lightning_module
        tensors = [*module.named_parameters(), *module.named_buffers()]
        # What a checkpoint holds is what it is, whatever its values, as long as it is there.
        self._contents = {id(tensor): f"{name} of the module" for name, tensor in tensors}
        self._look_at_loaders(trainer, loaders, told, left)
        if not is_of_batches_alone:
            self._look_at_data_module(trainer, told.values, left)
            self._look_at_steps(trainer, loaders, left)
        plain = {key: (owner, of.sample.plain) for key, (owner, of) in self.lengths.items()}
        self.held.know(self.numbers, self.arrays, plain)

    def _look_at_loaders(
        self,
        trainer: pl.Trainer,
        loaders: Sequence[object],
        told: Told,
        left: Container[tuple[int, str]],
    ) -> None:
        for found in reached(trainer, loaders, seen=self.seen, left=left):
            self.held.note(found)
            if is_really(found.owner, set):
                self.sets.add(found.name)
            is_told, may_fill = told.tells(found), told.may_fill(found)
            if may_fill:
                self._filled.add((id(found.owner), found.name))
            is_array = is_really(found.value, torch.Tensor) or is_really(found.value, np.ndarray)
            if is_array and told.holds(found):
                self._said.add((id(found.owner), found.name))
            if isinstance(found.value, Holder):
                if not told.says(found):
                    self.held.add(found, may_come_late=is_told or may_fill, is_of_data=True)
            elif isinstance(found.value, Length) and told.says(found):
                continue
            elif not (is_told and isinstance(found.value, PLAIN)):
                self._add(found, told.values)

    def _look_at_data_module(
        self, trainer: pl.Trainer, told: Container[int], left: Container[tuple[int, str]]
    ) -> None:
        made, data = MadeAnew(trainer), vars(trainer).get("datamodule")
        for name, found in attributes_held(trainer, self.seen, left):
            if not made.may_exchange(name, is_inside=found.owner is not data):
                self.held.add(found, may_come_late=True, is_of_data=True)
                if made.is_any:
                    self.beside_loaders.add(found.name)
            self._add(found, told)

    def _look_at_steps(
        self,
        trainer: pl.Trainer,
        loaders: Sequence[object],
        left: Container[tuple[int, str]],
    ) -> None:
        known = {*global_generators(), *map(id, generators_of(loaders))}
        for found in held_by_steps(trainer, self.seen, left):
            self.held.add(found)
            self._add(found, known)
            if isinstance(found.value, GENERATORS) and id(found.value) not in known:
                if (state := state_in_a_word(found.value)) is None:
                    self.unseen.append(f"{found.name} is a generator without a state")
                self.numbers[id(found.owner), found.name] = found.owner, state
            elif isinstance(found.value, itertools.count):  # says where it is
                self.numbers[id(found.owner), found.name] = found.owner, repr(found.value)
            elif is_hidden_iterator(found.value):
                kind = type(found.value).__name__
                why = f"is an iterator ({kind}), whose position nobody can save"
                self.unseen.append(f"{found.name} {why}")
            elif found.value is CUT_SHORT:
                self.unseen.append(cut_short(found.name))

    def _add(self, found: Found, told: Container[int]) -> None:
        owner, name, value = found.owner, found.name, found.value
        if (id(owner), name.rpartition(".")[2]) in self._told_anew:
            return
        is_array = is_really(value, torch.Tensor) or is_really(value, np.ndarray) or is_table(value)
        if is_array and id(value) not in told:
            self.seen[id(value)] = value
            content = self._contents.get(id(value)) or content_of_array(value)
            self._contents[id(value)] = content
            self.arrays[id(owner), name] = owner, content
            if found.is_of_library:
                self._of_library.add((id(owner), name))
            if is_mapped(value):
                self._mapped.add((id(owner), name))
        elif isinstance(value, PLAIN):
            self.numbers[id(owner), name] = owner, value
        elif isinstance(value, Length):
            self.lengths[id(owner), name] = owner, value
        elif isinstance(value, Order):
            self.orders[id(owner), name] = owner, value.keys

    def _was_there(self, key: tuple[int, str], owner: object) -> bool:
        """Say whether an object was: what it has only later it was given under way."""
        is_there = key[0] in self.seen or key in self.held.held
        return is_there and not is_computed_once(owner, key[1])

    def written_to(self, now: "DataLooks") -> Iterator[str]:
        """Name what was there and is another value now; what was None is what is made late."""
        for before, after in ((self.arrays, now.arrays), (self.numbers, now.numbers)):
            for key in before.keys() & after.keys():
                value = before[key][1]
                if value is not None and repr(value) != repr(after[key][1]):
                    yield key[1]
        for key in self.lengths.keys() & now.lengths.keys():
            if self.lengths[key][1].is_other(now.lengths[key][1]):
                yield key[1]

    def changed(self, now: "DataLooks") -> Iterator[str]:
        """Name what has been written to since, or exchanged, and what may have been."""
        yield from now.unseen
        why = "changes while the training runs, and no checkpoint holds it"
        for key, (owner, content) in now.arrays.items():
            # In the place of a plain value it was put there under way.
            known = self.arrays[key][1] if key in self.arrays else None
            # ASSUME that what a library's object has only later is what it computes once.
            is_late = key in now._of_library or key in now._mapped or key in now._said
            is_new = known is None and not is_late and self._was_there(key, owner)
            is_there = known is not None or key in self.numbers
            if is_new or (is_there and known != content):
                yield f"{key[1]} {why}"
            elif known is None and is_computed_once(owner, key[1]):  # a cache, from now on
                self.arrays[key] = owner, content
        for key, (owner, value) in now.numbers.items():
            # As text, as a NaN is not itself.
            known = repr(self.numbers[key][1]) if key in self.numbers else None
            is_new = known is None and key not in now._filled and self._was_there(key, owner)
            if (is_new or known is not None) and is_other(known, repr(value)):
                yield f"{key[1]} {why}"
        for key, (_, keys) in now.orders.items():
            known = self.orders[key][1] if key in self.orders else {}
            if [each for each in keys if each in known] != [each for each in known if each in keys]:
                yield f"{key[1]} {why}"
        for key, (_, length) in now.lengths.items():
            known, is_filled = self.lengths.get(key), key in now._filled
            if known is None:  # it was a shorter one
                is_changed = not is_filled and id(length.container) in self.seen
            else:
                is_collected = is_filled and known[1].entries != length.entries
                is_changed = not is_collected and known[1].is_other(length)
            if is_changed:
                yield f"{key[1]} {why}"
        for name in self.held.exchanged(now.held, self.seen):
            yield f"{name} {why}"


def _content_on_gpu(value: torch.Tensor, version: str) -> str:
    """Hash a tensor, of a large one a part: a GPU may have no room for a copy."""
    if value.nbytes <= MOST_BYTES:
        return digest(value)
    if not value.is_contiguous():
        return version
    every = -(-value.nbytes // MOST_BYTES)
    return f"{version} {digest(value.detach().reshape(-1)[::every])}"


def _content_in_table(part: object) -> str:
    if is_table(part) or (isinstance(part, np.ndarray) and not part.dtype.hasobject):
        return content_of_array(part)
    is_array = isinstance(part, np.ndarray)
    values = part[:: -(-part.size // MOST_TEXTS) or 1].tolist() if is_array else part
    return content_of_plain(values) or look(values, ())


def content_of_array(value: Any, *, counts_writes: bool = True) -> str:
    """Hash one, of a large one a part.

    Args:
        value: the tensor, the array, or an object of pandas.
        counts_writes: whether a large tensor is another one when it has been written to.
    """
    if isinstance(value, np.ma.MaskedArray):
        parts = value.data, np.ma.getmaskarray(value)
        return " ".join(content_of_array(part, counts_writes=counts_writes) for part in parts)
    if is_table(value):
        found = [(name, _content_in_table(part)) for name, part in parts_of_table(value) or ()]
        return xxhash.xxh3_64_hexdigest(repr(found).encode(errors=ESCAPED))
    if isinstance(value, torch.Tensor):
        value = bare(value)
        is_counted = counts_writes and not value.is_inference()
        version = str(value._version) if is_counted else ""
        is_plain = value.layout is torch.strided and not (value.is_nested or value.is_quantized)
        if not is_plain or value.is_meta:
            return version if counts_writes else digest(value)
        if not value.is_cpu:
            # A tensor that was put in another's place has the version of a new one.
            return _content_on_gpu(value, version)
        try:
            array = value.detach().resolve_conj().resolve_neg().numpy()
        except TypeError:  # bfloat16 and others that NumPy does not have
            array = value.detach().contiguous().view(torch.uint8).numpy()
    else:
        version, array = "", value
    if array.dtype.hasobject:
        every = -(-array.size // MOST_OBJECTS) or 1
        return look(array.reshape(-1)[::every].tolist(), ())
    content = xxhash.xxh3_64(version.encode() if array.nbytes > MOST_BYTES else b"")
    if array.nbytes <= MOST_BYTES:
        content.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    elif array.flags.c_contiguous:  # it may be a file, of which no more is to be read
        flat, size = array.reshape(-1).view(np.uint8), MOST_BYTES // BLOCKS
        for start in range(0, flat.size, flat.size // BLOCKS):
            content.update(flat[start : start + size].data)
    return content.hexdigest()
