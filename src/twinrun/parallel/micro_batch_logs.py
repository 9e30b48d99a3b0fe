"""What a module logs at each micro-batch, joined to what it would have logged of the mini-batch.

Lightning keeps the last value of a step, which would be that of the last micro-batch. So values
that `training_step` logs are noted, and handed on once for a mini-batch: a mean over its samples, a
sum, or an extreme, as `reduce_fx` says. Metrics of torchmetrics join by themselves over an epoch;
their value of a step is that of the last micro-batch.
"""

import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytorch_lightning as pl
import torch
from torchmetrics import Metric

from twinrun.parallel.log_arguments import log_arguments, reduction_of
from twinrun.parallel.logged_sizes import LoggedSizes
from twinrun.parallel.micro_batches import MicroBatches
from twinrun.parallel.seen_of_parts import Aggregated

# Hooks that are called for each micro-batch, of those in which Lightning allows to log.
EACH = ("training_step", "on_before_backward", "backward")
# Those that are called once for a mini-batch.
ONCE = (
    *("on_train_batch_start", "on_train_batch_end", "on_after_backward", "on_before_zero_grad"),
    *("on_before_optimizer_step", "optimizer_step", "optimizer_zero_grad"),
    *("configure_gradient_clipping", "clip_gradients"),
)


@dataclass(frozen=True, kw_only=True)
class _Noted:
    """One call of `log`, at each micro-batch that came to it."""

    name: str
    """Of the value."""
    options: dict[str, Any]
    """What `log` was given behind the value, by name."""
    values: list[Any] = field(default_factory=list)
    """Tensors, or the metric of torchmetrics."""
    shards: list[int] = field(default_factory=list)
    """Samples of the micro-batches."""
    sizes: list[float | None] = field(default_factory=list)
    """The `batch_size` that each was given, where it was."""
    is_number: bool
    """Whether Lightning is to make the tensor."""


class MicroBatchLogs:
    """Stands between a module and its log."""

    def __init__(
        self, module: pl.LightningModule, made: Sequence[MicroBatches], sizes: LoggedSizes
    ) -> None:
        """Note what `module` logs from now on, in place of its `log`."""
        self._module, self._made, self._sizes = module, made, sizes
        self._log: Callable[..., None] = module.log
        self._noted: dict[tuple[str, str, int], _Noted] = {}
        self._seen: list[tuple[str, str, int]] = []
        self._of_parts: set[str] = set()
        self.aggregated = Aggregated(module)
        """What joins numbers of micro-batches."""
        module.log = self._note

    @property
    def of_parts(self) -> list[str]:
        """Names of metrics of torchmetrics that are logged at each step."""
        return sorted(self._of_parts)

    def begin(self) -> None:
        """Note a micro-batch that begins: the calls of `log` of each hook are counted anew."""
        self._seen.clear()
        self.aggregated.begin()
        if self._made[0].part == 0:
            self._noted.clear()

    def end(self, *hooks: str) -> None:
        """Hand on what the last micro-batch has not logged, and earlier ones have."""
        before = self._module._current_fx_name
        self.aggregated.end()
        try:
            for key in [key for key in self._noted if key[0] in hooks]:
                # Lightning keeps values by the hook in which they were logged.
                self._module._current_fx_name = key[0]
                self._hand_on(key)
        finally:
            self._module._current_fx_name = before

    # A module may compile the step that logs.
    @torch.compiler.disable
    def _note(self, name: str, value: Any, *flags: Any, **options: Any) -> None:
        options = log_arguments(self._module, flags, options)
        hook = self._module._current_fx_name
        if hook in ONCE and options.get("batch_size") is None:
            options["batch_size"] = self._made[0].size  # Lightning would take the micro-batch's
        is_number = isinstance(value, numbers.Number)
        is_one = isinstance(value, torch.Tensor) and value.numel() == 1
        is_metric = isinstance(value, Metric)
        # Lightning has a sentence of its own for what is none of these.
        if hook not in EACH or not (is_number or is_one or is_metric):
            self._log(name, value, **options)
            return
        index = 0
        while (hook, name, index) in self._seen:
            index += 1
        key = hook, name, index
        self._seen.append(key)
        of = _Noted(name=name, options=options, is_number=is_number)
        noted = self._noted.setdefault(key, of)
        if is_metric:
            self.aggregated.note(name, value)
            if options.get("on_step") is not False and value._forward_cache is not None:
                self._of_parts.add(name)
        else:  # a copy, as of now: a step may change the tensor later
            value = torch.as_tensor(value, dtype=_dtype(value)).detach().clone()
            self.aggregated.note_number(name, reduction_of(options))
        noted.values.append(value)
        noted.shards.append(self._made[0].shard)
        size = options.get("batch_size")
        # A tensor or a scalar of NumPy's would be no plain data in a checkpoint.
        noted.sizes.append(None if size is None else float(size))
        # At once, where the plain training has it too.
        if self._made[0].is_last:
            self._hand_on(key)

    def _hand_on(self, key: tuple[str, str, int]) -> None:
        noted = self._noted.pop(key)
        others = self._made[0].number - len(noted.shards)  # have not logged it
        given = [*noted.sizes, *[None] * others]
        weights, size = self._sizes.weights(key, given, [*noted.shards, *[0] * others])
        joined = _joined(noted, weights[: len(noted.shards)])
        self._log(noted.name, joined, **{**noted.options, "batch_size": size})


def aggregated_by(module: pl.LightningModule) -> Aggregated:
    """Return what joins numbers of each micro-batch that a module logs."""
    logs = getattr(module.log, "__self__", None)
    return logs.aggregated if isinstance(logs, MicroBatchLogs) else Aggregated(module)


def logged_of_parts(module: pl.LightningModule) -> list[str]:
    """Name what a module has logged of a step as of its last micro-batch alone."""
    logs = getattr(module.log, "__self__", None)
    return logs.of_parts if isinstance(logs, MicroBatchLogs) else []


def _joined(noted: _Noted, weights: Sequence[float]) -> Any:
    if isinstance(noted.values[-1], Metric):
        return noted.values[-1]
    values = torch.stack([value.squeeze() for value in noted.values])
    match reduction_of(noted.options):
        case "min":
            joined = values.min()
        case "max":
            joined = values.max()
        case "sum":
            joined = values.sum()
        case _:
            parts = values.new_tensor([weight / sum(weights) for weight in weights])
            has_part = parts > 0  # a mean over no samples may be NaN
            joined = (values[has_part] * parts[has_part]).sum()
    return float(joined) if noted.is_number else joined


def _dtype(value: Any) -> torch.dtype:
    """Return in what a value is joined: what Lightning keeps it in, a number in float64."""
    if not isinstance(value, torch.Tensor):
        return torch.float64
    is_kept = value.dtype in (torch.float32, torch.float64)
    return value.dtype if is_kept else torch.get_default_dtype()
