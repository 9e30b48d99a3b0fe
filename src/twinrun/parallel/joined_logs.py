"""What several workers log in a training, joined once at the end of each step and of each hook.

A module may log under a condition: at the first worker alone, or where a shard's loss is large. So
a call of `log` exchanges nothing. It is noted, and all notes are exchanged where every worker
comes, with one exchange more where not all of them noted the same. Then each of them hands on the
same names in the same order, since Lightning's sums at the end of an epoch meet in that order.

A value that only some workers logged is that of their shards: a mean is taken over their samples, a
sum or an extreme over what they logged.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import pytorch_lightning as pl
import torch
import xxhash
from torchmetrics import Metric

from twinrun.errors import TwinrunError
from twinrun.parallel.log_arguments import reduction_of
from twinrun.parallel.logged_sizes import LoggedSizes, number
from twinrun.parallel.seen_of_parts import Aggregated
from twinrun.parallel.workers import Workers

# How a value is joined: a step's mean here, all else by Lightning, and metrics by torchmetrics.
Kind = Literal["mean", "epoch mean", "hook mean", "min", "max", "sum", "metric"]
# A value that changes nothing in what is made of it and others.
NEUTRAL = {"min": float("inf"), "max": float("-inf")}
LIBRARIES = ("pytorch_lightning", "twinrun")


@dataclass(frozen=True, kw_only=True)
class Note:
    """One call of `log`, as other workers are told of it."""

    hook: str | None
    """Lightning's name of the hook that logged; None outside of all."""
    name: str
    """Of the value."""
    index: int
    """How many calls of this hook had the name before, since the last exchange."""
    kind: Kind
    """How it is joined."""
    dtype: torch.dtype | None
    """Of a tensor; None for a number, of which Lightning makes a tensor."""
    options: dict[str, Any]
    """What `log` was given behind the value, by name."""

    @property
    def key(self) -> tuple[object, ...]:
        """What must be the same at all workers."""
        return self.hook, self.name, self.index, self.kind


@dataclass(frozen=True, kw_only=True)
class _Value:
    value: Any
    """This worker's, detached."""
    size: float
    """For how many samples it stands."""
    given: float | None = None
    """The `batch_size` that `log` was given, if it was."""


class JoinedLogs:
    """Notes what this worker logs, and hands it on to Lightning joined with the others'."""

    def __init__(
        self, workers: Workers, module: pl.LightningModule, log: Callable[..., None]
    ) -> None:
        """Note for `module`, whose own log is `log`."""
        self._workers = workers
        self._module = module
        self._log = log
        self._noted: dict[tuple[object, ...], tuple[Note, _Value | None]] = {}
        # Of what some workers alone noted, for how many samples of the mini-batch it stands.
        self._partial: dict[tuple[object, ...], int] = {}
        self._counted = 0
        self._kinds: dict[tuple[object, ...], Kind] = {}
        self.sizes = LoggedSizes()
        """What every worker has seen of each `batch_size`, the same at all."""
        self.aggregated = Aggregated(module)
        """What joins numbers of shards."""

    # A module may compile the step that logs.
    @torch.compiler.disable
    def note(self, name: str, value: Any, options: dict[str, Any], in_step: bool) -> None:
        """Note a call of `log` as of now: a step may change the tensor later."""
        kind = _kind(value, options, in_step)
        self.aggregated.note_number(name, kind)
        given = options.get("batch_size")
        dtype, size = None, 1 if given is None else given
        if kind == "mean":
            value = torch.as_tensor(value)
        if isinstance(value, torch.Tensor):
            keeps = kind != "mean" and options.get("enable_graph")
            value, dtype = value if keeps else value.detach().clone(), value.dtype
        if in_step:
            size = self._workers.shard
            if isinstance(value, Metric):
                self.aggregated.note(name, value)
                if options.get("on_step") is not False and value._forward_cache is not None:
                    self.aggregated.at_steps.add(name)
        note = Note(
            hook=self._module._current_fx_name,
            name=name,
            index=0,
            kind=kind,
            dtype=dtype,
            options=options,
        )
        while note.key in self._noted:
            note = replace(note, index=note.index + 1)
        self._noted[note.key] = note, _Value(value=value, size=size, given=given)

    def fingerprint(self) -> int:
        """Return a fingerprint of what is noted, values aside."""
        return xxhash.xxh3_64_intdigest(repr(list(self._noted)).encode())

    def notes(self) -> list[Note]:
        """Return what other workers need to know to log the same."""
        return [note for note, _ in self._noted.values()]

    def complete(self, everyones: Sequence[Sequence[Note]]) -> None:
        """Note what only other workers noted, as of no samples, and all in one order.

        Args:
            everyones: what `notes` gave at each worker.

        Raises:
            TwinrunError: at every worker, if it is a metric of torchmetrics that some left out.
        """
        known = {note.key: note for notes in everyones for note in notes}
        partial = [key for key in known if any(key not in map(_key, n) for n in everyones)]
        for note in (known[key] for key in partial):
            if note.kind == "metric":
                raise TwinrunError(
                    f"devices: only some workers log {note.name} in {note.hook}, a metric of "
                    f"torchmetrics, for which they wait for each other; log it at all workers, or "
                    f"train with devices: 1"
                )
        self._partial = {
            key: sum(
                size
                for notes, size in zip(everyones, self._workers.sizes, strict=True)
                if key in map(_key, notes)
            )
            for key in partial
        }
        # Lightning forgets the first step's values of a hook that it thinks has begun again.
        hooks = [key[0] for key in known]
        in_order = sorted(known, key=lambda key: hooks.index(key[0]))
        self._noted = {key: self._noted.get(key, (known[key], None)) for key in in_order}

    def means(self) -> torch.Tensor:
        """Return what the means that are joined here are made of, (3k,) float64.

        Of each the value, for how many samples it stands (0 if it was not logged), and the
        `batch_size` that `log` was given (-1 without one).
        """
        found: list[float] = []
        for note, noted in self._noted.values():
            if note.kind == "mean":
                # What stands for no sample may be NaN.
                of = noted if noted is not None and noted.size else None
                given = -1.0 if of is None or of.given is None else float(of.given)
                found += [0.0, 0.0, -1.0] if of is None else [float(of.value), of.size, given]
        return torch.tensor(found, dtype=torch.float64)

    def hand_on(self, means: torch.Tensor, counted: int = 0) -> None:
        """Log all that is noted.

        Args:
            means: what `means` gave at each worker, (N, 3k).
            counted: what Lightning takes for the size of the mini-batch; 0 where that is not known.

        Raises:
            TwinrunError: at every worker, if a mean is given a `batch_size` at some calls alone.
        """
        self._counted = counted or sum(self._workers.sizes)
        before, of_means = self._module._current_fx_name, iter(means.split(3, dim=1))
        try:
            for note, noted in self._noted.values():
                # The one is joined here and the other by Lightning, which would call it two logs.
                call = note.hook, note.name, note.index
                if {self._kinds.setdefault(call, note.kind), note.kind} == {"mean", "epoch mean"}:
                    raise TwinrunError(
                        f"devices: {note.hook} logs {note.name} with a batch_size at some calls "
                        f"and without one at others, where on_step=False; give it at all or at "
                        f"none, or train with devices: 1"
                    )
                # Lightning keeps values by the hook in which they were logged.
                self._module._current_fx_name = note.hook
                if note.kind == "mean":
                    self._hand_on_mean(note, noted, next(of_means))
                else:
                    self._hand_on_own(note, noted)
        finally:
            self._module._current_fx_name = before
            self._noted, self._partial = {}, {}

    def _hand_on_mean(self, note: Note, noted: _Value | None, means: torch.Tensor) -> None:
        values, shards, given = means.T.tolist()
        if not any(shards):  # logged where no sample of the mini-batch is
            return
        known = [None if size < 0 else size for size in given]
        weights, size = self.sizes.weights(note.key, known, shards)
        if not any(size is not None for size in known):
            # Of all mini-batches Lightning takes the mean by what it takes for their sizes.
            size = number(self._counted * size / sum(self._workers.sizes))
        # A mean over nothing may be NaN.
        parts = [value * of for value, of in zip(values, weights, strict=True) if of]
        value = self._tensor(sum(parts) / sum(weights), note, noted)
        options = {**note.options, "batch_size": size, "sync_dist": False}
        self._log(note.name, value, **options)

    def _hand_on_own(self, note: Note, noted: _Value | None) -> None:
        """Log what Lightning joins, at a step or where the epoch ends."""
        options = {**note.options, "sync_dist": True}
        if noted is not None and not noted.size and note.kind != "metric":
            noted = None  # of a sample that counts nothing, which may be NaN
        samples = sum(self._workers.sizes)
        if note.kind == "epoch mean" and self._counted != samples:
            self._hand_on_counted(note, noted, samples)
            return
        is_sized = note.key in self._partial or note.options.get("batch_size") is not None
        if note.kind == "epoch mean" or (note.kind == "hook mean" and is_sized):
            # Of an epoch's values Lightning takes the mean weighted by these sizes, whose
            # sum over the workers it divides by their number as an integer.
            size = 0 if noted is None else noted.size
            options["batch_size"] = size * self._workers.count
        value: Any = NEUTRAL.get(note.kind, 0.0) if noted is None else noted.value
        if noted is None and note.dtype is not None:
            value = self._tensor(value, note, noted)
        self._log(note.name, value, **options)

    def _hand_on_counted(self, note: Note, noted: _Value | None, samples: int) -> None:
        """Log a part of a mean of which Lightning would count something else than samples."""
        of = self._partial.get(note.key, samples)
        # A whole number, and the same at all workers: they divide its sum by their number.
        size = round(self._counted * of / samples) if of else 0
        value = 0.0 if noted is None else noted.value * (noted.size * self._workers.count / of)
        if noted is None and note.dtype is not None:
            value = self._tensor(value, note, noted)
        self._log(note.name, value, **{**note.options, "sync_dist": True, "batch_size": size})

    def _tensor(self, value: float, note: Note, noted: _Value | None) -> torch.Tensor:
        is_floating = note.dtype is not None and note.dtype.is_floating_point
        dtype = note.dtype if is_floating else torch.get_default_dtype()
        device = self._module.device if noted is None else noted.value.device
        return torch.tensor(value, dtype=dtype, device=device)


@contextmanager
def not_synchronised(module: torch.nn.Module) -> Iterator[None]:
    """Keep the torchmetrics of a module, itself included, to what this worker has seen."""
    metrics = [metric for metric in module.modules() if isinstance(metric, Metric)]
    before = [metric.distributed_available_fn for metric in metrics]
    for metric in metrics:
        metric.distributed_available_fn = _no_others
    try:
        yield
    finally:
        for metric, found in zip(metrics, before, strict=True):
            metric.distributed_available_fn = found


def _no_others() -> bool:
    return False


def is_users(hook: Callable[..., object]) -> bool:
    """Say whether a hook is code of the user's, which may log."""
    return (getattr(hook, "__module__", None) or "").split(".")[0] not in LIBRARIES


def _kind(value: object, options: dict[str, Any], in_step: bool) -> Kind:
    if isinstance(value, Metric):
        return "metric"
    match reduction_of(options):
        # ASSUME Lightning joins sums and extremes of a training as a user means them.
        case "min" | "max" | "sum" as kind:
            return kind
        case _:
            if not in_step:
                return "hook mean"
            # Lightning takes a batch_size for the weight, whatever it counts.
            is_later = options.get("on_step") is False and options.get("batch_size") is None
            return "epoch mean" if is_later else "mean"


def _key(note: Note) -> tuple[object, ...]:
    return note.key
