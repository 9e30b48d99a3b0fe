"""What steps move in a module: once for each micro-batch, where one batch moves it once.

The vectors of spectral norm, a queue of keys, a codebook, an average of weights that a training
step or a hook of the backward pass keeps: of micro-batches they become others. What an update
changes does not count, nor do the statistics of batch normalisation, of which the advice speaks.
"""

import functools
from collections.abc import Mapping, Sequence

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities.types import STEP_OUTPUT
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parameter import is_lazy

from twinrun.parallel.micro_batches import MicroBatches
from twinrun.parameters import tensors_of_module
from twinrun.trace.fingerprints import settings_of
from twinrun.trace.step_fingerprints import fingerprint_at_once
from twinrun.wording import some

# Tensors by name, torch's count of what was written to each, fingerprints of some, and settings of
# the optimizers.
_Seen = tuple[dict[str, torch.Tensor], dict[str, int], dict[str, int], dict[str, list[object]]]


class MovedTensors:
    """Looks at parameters and buffers from micro-batch to micro-batch, and keeps names."""

    def __init__(self, module: pl.LightningModule, made: Sequence[MicroBatches]) -> None:
        """Exchange the step of a module for one that is looked at."""
        self._module, self._made = module, made
        self._names: set[str] = set()
        self._suspects: set[str] = set()
        # Of these, written once and not again: nobody has looked at the bytes.
        self._unsure: set[str] = set()
        self._epoch = self._steps = -1
        self._batches = 0
        self._is_thorough = False
        self._before: _Seen | None = None
        step = module.training_step

        # Lightning reads the signature of `training_step` to choose what it hands over.
        @functools.wraps(step)
        def training_step(*arguments: object, **options: object) -> STEP_OUTPUT:
            is_own = module._current_fx_name == "training_step"  # a module may evaluate by it
            if is_own:
                self._look()
            outputs = step(*arguments, **options)
            if is_own and self._made[0].is_last:
                self._end_of_last()
            return outputs

        module.training_step = training_step

    @property
    def sentence(self) -> str | None:
        """Say what has moved; None if nothing has."""
        names = self._names | self._unsure
        if not names:
            return None
        return (
            f"in part, accumulate has each micro-batch move what the whole mini-batch would move "
            f"once: {some(sorted(names))}"
        )

    def _look(self) -> None:
        """Compare with what was seen where the micro-batch before this one began."""
        # Behind the last one comes what moves once for a mini-batch. An update within one is of a
        # training that Lightning has resumed between two micro-batches.
        steps, self._steps = self._steps, self._module.trainer.global_step
        if self._made[0].part != 0 and self._before is not None and steps == self._steps:
            self._end(self._before)
        is_whole = self._made[0].is_last and self._made[0].part == 0
        self._before = None if is_whole else self._begin()

    def _end_of_last(self) -> None:
        """Compare with where the last micro-batch began, before what moves once comes.

        What counts its calls, to move at every second one, may move in the last ones alone.
        """
        if self._before is not None:
            self._end(self._before)
            self._before = None

    def _begin(self) -> _Seen:
        if self._made[0].part == 0:
            # What is written to `.data` is not counted: bytes are looked at in the first step of
            # each epoch, and in steps 1, 2, 4, 8 and so on.
            self._batches += 1
            is_power = self._batches & (self._batches - 1) == 0
            self._is_thorough = is_power or self._epoch != self._module.current_epoch
            self._epoch = self._module.current_epoch
        tensors = self._tensors()
        looked_at = tensors if self._is_thorough else self._suspects & tensors.keys()
        prints = {name: fingerprint_at_once(tensors[name]) for name in looked_at}
        counts = {name: _count(tensor) for name, tensor in tensors.items()}
        return tensors, counts, prints, self._settings()

    def _end(self, before: _Seen) -> None:
        tensors, counts, prints, settings = before
        # A schedule that a training step steps, say.
        now = self._settings()
        self._names |= {name for name in settings if now.get(name) != settings[name]}
        for name, tensor in self._tensors().items():
            is_written = name in tensors and (
                tensor is not tensors[name] or _count(tensor) != counts[name]
            )
            if name in prints:
                if fingerprint_at_once(tensor) != prints[name]:
                    self._names.add(name)
                elif is_written:
                    self._unsure.discard(name)  # it is written as it was
            # The same bytes may have been written: the next micro-batches tell.
            elif is_written:
                self._suspects.add(name)
                self._unsure.add(name)

    def state(self) -> dict[str, list[str]]:
        """Return what was found so far, as plain data."""
        found = {"names": self._names, "suspects": self._suspects, "unsure": self._unsure}
        return {key: sorted(names) for key, names in found.items()}

    def load(self, state: Mapping[str, Sequence[str]]) -> None:
        """Take what `state` gave."""
        self._names, self._suspects = {*state["names"]}, {*state["suspects"]}
        self._unsure = {*state["unsure"]}

    def _tensors(self) -> dict[str, torch.Tensor]:
        parameters, buffers = tensors_of_module(self._module)
        return {
            name: tensor
            for name, tensor in {**parameters, **buffers}.items()
            if name not in self._names and not is_lazy(tensor) and not self._is_statistic(name)
        }

    def _settings(self) -> dict[str, list[object]]:
        found: dict[str, list[object]] = {}
        for optimizer in self._module.trainer.optimizers:
            for group in settings_of(optimizer):
                for key, value in group.items():
                    is_tensor = isinstance(value, torch.Tensor)
                    seen = (id(value), _count(value)) if is_tensor else repr(value)
                    found.setdefault(f"{key} of {type(optimizer).__name__}", []).append(seen)
        return found

    def _is_statistic(self, name: str) -> bool:
        if not name.endswith(("running_mean", "running_var", "num_batches_tracked")):
            return False
        owner = self._module.get_submodule(name.rpartition(".")[0])
        return isinstance(owner, _BatchNorm)


def _count(tensor: torch.Tensor) -> int:
    """Return how often a tensor was written to, as torch counts it; one of inference mode, -1."""
    return -1 if tensor.is_inference() else tensor._version
