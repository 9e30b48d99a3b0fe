"""Tensors and arrays of the data: whether they are written to while it is read.

Labels that a dataset smooths as it goes, rows that it caches in an array: a resumed training would
read them as they were made. Of large ones a part is looked at, evenly spaced, and how often torch
has written to them.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pytorch_lightning as pl
import torch
import xxhash

from twinrun.checkpoint.reached import PLAIN, held_by_data_module, reached
from twinrun.checkpoint.stream_position import Stateful, is_stream, parts_of
from twinrun.checkpoint.unsaved_state import OURS

MOST_BYTES, BLOCKS = 1 << 26, 64  # that are looked at, of each, and in how many places


class DataLooks:
    """A look at the tensors, arrays and numbers that the making of batches reaches."""

    def __init__(self, trainer: pl.Trainer, loaders: Sequence[object]) -> None:
        parts = parts_of(loaders)
        # These say where they are, and are asked for it.
        tell = [part for part in parts if isinstance(part, Stateful)]
        told = {id(value) for part in tell for value in getattr(part, "__dict__", {}).values()}
        # A user's own parts are seen as attributes (see `plain_attributes`).
        own = {
            f"{type(part).__name__}.{name}"
            for part in parts
            if not type(part).__module__.startswith((*OURS, "torch."))
            for name in getattr(part, "__dict__", {})
        }
        is_told = any(isinstance(part, Stateful) or is_stream(part) for part in parts)
        self.arrays: dict[int, tuple[object, str, str]] = {}
        self.numbers: dict[tuple[int, str], tuple[object, object]] = {}
        self.seen: dict[int, object] = {}
        for owner, name, value in reached(trainer, loaders, in_workers=False, seen=self.seen):
            if isinstance(value, torch.Tensor | np.ndarray) and id(value) not in told:
                # Kept, so that no other one gets its number.
                self.arrays[id(value)] = (value, name, _content(value))
            elif isinstance(value, PLAIN) and name not in own and not is_told:
                self.numbers[id(owner), name] = (owner, value)
        for owner, name, value in held_by_data_module(trainer, self.seen):
            if isinstance(value, torch.Tensor | np.ndarray) and id(value) not in told:
                self.arrays[id(value)] = (value, name, _content(value))
            elif isinstance(value, PLAIN):
                self.numbers[id(owner), name] = (owner, value)

    def changed(self, now: "DataLooks") -> Iterator[str]:
        """Name what has been written to since."""
        why = "changes while the training runs, and no checkpoint holds it"
        for key, (_, name, content) in now.arrays.items():
            if key in self.arrays and self.arrays[key][2] != content:
                yield f"{name} {why}"
        for key, (_, value) in now.numbers.items():
            # What an object has only now it was given under way; as text, as a NaN is not itself.
            known = repr(self.numbers[key][1]) if key in self.numbers else None
            if known != repr(value) and (known is not None or key[0] in self.seen):
                yield f"{key[1]} {why}"


def _content(value: torch.Tensor | np.ndarray) -> str:
    if isinstance(value, torch.Tensor):
        is_plain = value.layout is torch.strided and not (value.is_nested or value.is_quantized)
        version = "" if value.is_inference() else str(value._version)
        if not is_plain or value.is_meta or value.device.type != "cpu":
            return version
        try:
            array = value.detach().resolve_conj().resolve_neg().numpy()
        except TypeError:  # bfloat16 and others that NumPy does not have
            array = value.detach().contiguous().view(torch.uint8).numpy()
    else:
        version, array = "", value
    if array.dtype.hasobject:
        return version
    content = xxhash.xxh3_64(version.encode() if array.nbytes > MOST_BYTES else b"")
    if array.nbytes <= MOST_BYTES:
        content.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    elif array.flags.c_contiguous:  # it may be a file, of which no more is to be read
        flat, size = array.reshape(-1).view(np.uint8), MOST_BYTES // BLOCKS
        for start in range(0, flat.size, flat.size // BLOCKS):
            content.update(flat[start : start + size].data)
    return content.hexdigest()
