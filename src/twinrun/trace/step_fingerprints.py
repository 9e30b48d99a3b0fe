"""Fingerprints of what a training's step holds; what lies on a GPU is hashed there.

A tensor on a GPU is hashed by `device_hash` while its hook runs, without waiting for the GPU, and
its fingerprint is pending until `fetch` copies the hashes of the whole step, 8 bytes each. On a CPU
it is the xxh3 of its bytes, at once. A tensor of 8 bytes or fewer, such as a loss or a counter, is
copied as it is: its fingerprint is the same on both.

The two hashes of other tensors say nothing of each other, so that a run on a GPU and one on a CPU
could not even tell whether they were given the same batch. Therefore one step of each run (see
`on_host`) is fingerprinted on the host, as on a CPU; its batch in both ways, and each sample of it
by the hash alone, since the batches of a run are compared with each other.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
import xxhash

from twinrun.plain_tensors import plain_tensors
from twinrun.trace.device_hash import hash_of, is_on_gpu, sums, sums_of_rows, words_of
from twinrun.trace.fingerprints import (
    Print,
    fingerprint,
    fingerprint_states,
    fingerprints_beside,
    is_plain,
    joined,
    print_of_batch,
    was_given_back,
)
from twinrun.trace.pending import Numbers, Pending, fetch, together, value_of

WORD = 8  # bytes
BY_HASH = 1  # the kind of a fingerprint that is the hash of a device; see `Pending.kind`


class _Waiting(NamedTuple):
    """Tensors of one device whose numbers are asked for together."""

    whole: list[torch.Tensor]
    """To be hashed."""
    hashes: Numbers
    """Of them."""
    small: list[torch.Tensor]
    """To be copied as they are."""
    words: Numbers
    """These."""


class StepFingerprints:
    """Takes fingerprints; called with a tensor, it takes one that `launch` must follow."""

    def __init__(self) -> None:
        self.on_host = False
        """Whether to copy what lies on a GPU, and to hash it as on a CPU."""
        self.has_copied = False
        """Whether that has happened."""
        self._waiting: dict[torch.device, _Waiting] = {}
        self._is_postponed = False

    def __call__(self, tensor: torch.Tensor | None) -> Print:
        """Return the fingerprint of a tensor; of None (no gradient), 0."""
        if tensor is None or not is_on_gpu(tensor):
            return fingerprint(tensor)
        if self.on_host:
            self.has_copied = True
            return fingerprint(tensor)
        if not is_plain(tensor):
            return joined(self(part) for part in plain_tensors(tensor))
        if not tensor.numel() or was_given_back(tensor):
            return fingerprint(torch.empty(0))
        return self._later(tensor)

    def launch(self) -> None:
        """Have the GPUs hash what was asked for, as it is now; nothing waits for them."""
        if self._is_postponed:
            return
        for whole, hashes, small, words in self._waiting.values():
            if whole:
                hashes.on_device = sums(whole)
            if small:
                words.on_device = words_of(small)
        self._waiting = {}

    @contextmanager
    def at_its_end(self) -> Iterator[None]:
        """Launch once, behind the block: what it asks for must be as it is until then.

        Each launch takes the GPU's driver the time of a hundred operations, however small.
        """
        self._is_postponed = True
        try:
            yield
        finally:
            self._is_postponed = False
        self.launch()

    def tensors(self, tensors: Mapping[str, torch.Tensor | None]) -> dict[str, Print]:
        """Return the fingerprint of each tensor."""
        found = {name: self(tensor) for name, tensor in tensors.items()}
        self.launch()
        return found

    def batch(self, batch: object) -> tuple[Print, list[str]]:
        """Return the fingerprint of a batch, and the classes that it could not look into."""
        found = print_of_batch(batch, self)
        self.launch()
        return found

    def states(
        self,
        optimizers: Sequence[torch.optim.Optimizer],
        parameters: Mapping[str, torch.Tensor],
    ) -> dict[str, Print]:
        """Return the fingerprint of the optimizers' state of each parameter, by its name."""
        found = fingerprint_states(optimizers, list(parameters.values()), self)
        self.launch()
        return dict(zip(parameters, found, strict=True))

    def beside(
        self, optimizers: Sequence[torch.optim.Optimizer], held: Sequence[torch.Tensor]
    ) -> list[Print]:
        """Return a fingerprint of what each optimizer keeps in attributes, if it keeps any."""
        found = fingerprints_beside(optimizers, held, self)
        self.launch()
        return found

    def _later(self, tensor: torch.Tensor) -> Print:
        if tensor.device not in self._waiting:
            self._waiting[tensor.device] = _Waiting([], Numbers(), [], Numbers())
        whole, hashes, small, words = self._waiting[tensor.device]
        size = tensor.numel() * tensor.element_size()
        if size <= WORD:
            index = len(small)
            small.append(tensor)
            return Pending([words], lambda: _of_bytes(words.here[index], size), kind=0)
        index = len(whole)
        whole.append(tensor)
        return Pending([hashes], lambda: hash_of(int(hashes.here[index]), size), kind=BY_HASH)


def fingerprint_at_once(tensor: torch.Tensor | None) -> int:
    """Return the fingerprint of a tensor as a step has it; waits for a GPU that computes it."""
    taken = StepFingerprints()
    found = taken(tensor)
    taken.launch()
    fetch([found])
    return value_of(found)


def rows_hashed(tensor: torch.Tensor) -> Pending[np.ndarray]:
    """Return the hash of each row of a strided tensor on a GPU, (N,) uint64; of a scalar, one."""
    rows = tensor if tensor.ndim else tensor.reshape(1)
    numbers = Numbers()
    numbers.on_device = sums_of_rows(rows)
    size = rows[:1].numel() * rows.element_size()
    constant = np.uint64(hash_of(0, size))
    return Pending([numbers], lambda: numbers.here + constant, BY_HASH)


def elements_of(tensor: torch.Tensor) -> np.ndarray | Pending[np.ndarray]:
    """Return the elements of a flat float32 or float64 tensor; of one on a GPU pending ones."""
    if not is_on_gpu(tensor):
        return tensor.detach().cpu().numpy()
    is_narrow = tensor.dtype == torch.float32
    bits = tensor.detach().view(torch.int32 if is_narrow else torch.int64)
    numbers = Numbers()
    numbers.on_device = bits.to(torch.int64)

    def made() -> np.ndarray:
        if is_narrow:
            return numbers.here.astype(np.uint32).view(np.float32)
        return numbers.here.view(np.float64)

    return Pending([numbers], made, kind=0)


def number_of(loss: torch.Tensor | None) -> float | Pending[float]:
    """Return the number that a loss is, NaN without one; of one on a GPU a pending one."""
    if loss is None:
        return float("nan")
    if not is_on_gpu(loss):
        return float(loss)
    found = elements_of(loss.detach().reshape(1).to(torch.float64))
    return together([found], lambda elements: float(elements[0][0]))


def _of_bytes(word: np.uint64, size: int) -> int:
    """Return the xxh3_64 of the first bytes of a word."""
    return xxhash.xxh3_64_intdigest(word.tobytes()[:size])
