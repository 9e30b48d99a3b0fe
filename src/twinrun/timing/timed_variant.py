"""What takes part in a timing: an initial state with its batches, and a timed variant for each.

Every timed variant works on copies of both, so that all of them compute the same.
"""

import copy
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import islice
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities.model_helpers import is_overridden
from pytorch_lightning.utilities.seed import isolate_rng
from torch.utils.benchmark import timer  # synchronises the device, then reads the clock

from twinrun.acceleration.compilation import empty_cache, wake_compiler
from twinrun.acceleration.placement import Place
from twinrun.acceleration.steps import (
    Prediction,
    TrainingStep,
    calls_to_warm_up,
    optimizer_of,
    with_index,
)
from twinrun.batches import copied, leaves, num_bytes, tensors
from twinrun.config.definitions import Training, Variant
from twinrun.errors import TwinrunError
from twinrun.process.determinism import SWITCHES, determinism
from twinrun.timing.trainer_loop import TrainerLoop
from twinrun.training.assemble import build

WARM_UP_CALLS = 2  # after those that compile or allocate
# What is kept of a loader, and goes round and round; each variant has a copy on its device.
BATCHES_BYTES = 2**28
MOST_BATCHES = 1000
ROUND_SECONDS = 0.1  # at least; what else a machine does for some milliseconds would drown less


class InitialState:
    """Where every variant gets the same initial weights and the same batches from."""

    def __init__(self, training: Training) -> None:
        """Build the workload; of the variant only what concerns the data counts.

        Raises:
            TwinrunError: if it cannot be built.
        """
        self._seed = training.seed
        with isolate_rng():
            self._module, self._data = build(training)
            self._data.prepare_data()
            self._data.setup("fit")
            self._data.setup("predict")
        self._found: dict[tuple[str, int], list[Any]] = {}

    def module(self) -> pl.LightningModule:
        """Return a module of one's own with the initial weights."""
        return copy.deepcopy(self._module)

    @property
    def data(self) -> pl.LightningDataModule:
        """The data module, set up."""
        return self._data

    def has(self, phase: str) -> bool:
        """Say whether the data module has a loader for a phase."""
        return is_overridden(f"{phase}_dataloader", self._data, pl.LightningDataModule)

    def batches(self, phase: str, most: int = MOST_BATCHES) -> list[Any]:
        """Return the loader's first batches, at most `most` and 256 MiB, where it leaves them.

        Raises:
            TwinrunError: if the loader gives none.
        """
        if (phase, most) not in self._found:
            with self._seeded():
                loader = getattr(self._data, f"{phase}_dataloader")()
                # ASSUME these stand for the epoch, where it has more batches than are kept.
                found = list(_while_small(islice(loader, most)))
            if not found:
                raise TwinrunError(f"{phase}_dataloader gives no batch")
            self._found[phase, most] = found
        return self._found[phase, most]

    def extent(self, phase: str) -> int | None:
        """Return how many batches the loader of a phase has, if it says so."""
        if not self.has(phase):
            return None
        try:
            return len(getattr(self._data, f"{phase}_dataloader")())
        # A dataset that is only iterated has no length.
        except TypeError:
            return None

    def moved(self, batch: object, device: torch.device) -> Any:
        """Pass a batch through the hooks of its transfer; the data module's own come first."""
        # Hooks and batches of a class of their own may change what they are given in place.
        batch = copied(batch)
        for hook, arguments in (
            ("on_before_batch_transfer", (0,)),
            ("transfer_batch_to_device", (device, 0)),
            ("on_after_batch_transfer", (0,)),
        ):
            own = is_overridden(hook, self._data, pl.LightningDataModule)
            batch = getattr(self._data if own else self._module, hook)(batch, *arguments)
        return batch

    @contextmanager
    def _seeded(self) -> Iterator[None]:
        with isolate_rng():
            pl.seed_everything(self._seed, workers=True, verbose=False)
            yield


def _while_small(batches: Iterable[Any]) -> Iterator[Any]:
    """Pass batches on until they reach the bytes that are kept; the first in any case."""
    size = 0
    for batch in batches:
        size += num_bytes(batch)
        yield batch
        if size >= BATCHES_BYTES:
            return


def _shapes(batch: object) -> tuple[Any, ...]:
    found = (leaf for _, leaf in leaves(batch))
    return tuple(x.shape if isinstance(x, torch.Tensor) else type(x) for x in found)


class TimedVariant:
    """One variant of a timing, made ready to be called under its own switches."""

    def __init__(
        self, initial: InitialState, variant: Variant, *, phases: Sequence[str], steps: int
    ) -> None:
        """Make a module of one's own and move its batches.

        Raises:
            TwinrunError: if this machine, or a loop without the Trainer, cannot run the variant.
        """
        self._switches = {key: getattr(variant, key) for key in SWITCHES}
        self._steps, self._warming_up = steps, calls_to_warm_up(variant)
        self._place = Place(variant)
        # Only what is clocked compiles in it: a training may already have compiled the rest.
        self._first_calls = nullcontext
        if variant.compile != "none":
            wake_compiler(self._place.device.type)
            self._first_calls = empty_cache
        self._loop: TrainerLoop | None = None
        if "trainer" in phases:
            # A module of its own: neither loop may train the other's weights.
            self._loop = TrainerLoop(initial.module(), initial.data, variant, self._place.device)
        self._module = self._place.module(initial.module())
        self._module.log = self._module.log_dict = _log_nothing
        self._calls: dict[str, TrainingStep | Prediction] = {}
        if "train" in phases:
            step = self._place.around(with_index(self._module.training_step))
            self._calls["train"] = TrainingStep(
                step, optimizer_of(self._module), variant, self._module
            )
        predict = self._place.around(with_index(self._module.predict_step))
        self._predict = Prediction(predict, variant)
        if "predict" in phases:
            self._calls["predict"] = self._predict
        # To compare predictions one batch is enough. Where they are timed, all are kept anyway.
        most = MOST_BATCHES if "predict" in phases else 1
        self._first = initial.batches("predict", most)[:1] if initial.has("predict") else []
        self._next = dict.fromkeys(self._calls, 0)
        started = timer()
        self._batches = {
            phase: [
                self._place.batch(initial.moved(batch, self._place.device))
                for batch in initial.batches(phase)
            ]
            for phase in self._calls
        }
        self._transfer = timer() - started
        self._first = [
            self._place.batch(initial.moved(batch, self._place.device)) for batch in self._first
        ]

    def warm_up(self) -> list[dict[str, Any]]:
        """After `output`, give the seconds of the transfer and of the first calls; then warm up.

        First calls are those that compile, allocate or capture something. Every batch shape is
        seen before the first round: a new one may cost a compilation.
        """
        # Switches belong to the process: every variant sets its own and puts the former ones back.
        with determinism(**self._switches):
            _wake_threads()
            first = self._first_prediction if "predict" in self._calls else 0.0
            if "train" in self._calls:
                with self._first_calls():
                    first += self._seconds("train", self._warming_up)
            for phase, batches in self._batches.items():
                shapes = [_shapes(batch) for batch in batches]
                # Each shape once, in the order of the batches: that of a set is left to chance.
                for shape in dict.fromkeys(shapes):
                    for _ in range(self._warming_up):
                        self._next[phase] = shapes.index(shape)
                        self._seconds(phase, 1)
                # The jumps to the shapes are undone: all variants begin their rounds with the same
                # batch.
                self._next[phase] = 0
                self._seconds(phase, WARM_UP_CALLS)
            if self._loop is not None:
                self._loop.seconds(self._warming_up + WARM_UP_CALLS)
        batches = sum(map(len, self._batches.values()))
        return [
            self._row("transfer", 0, batches, self._transfer),
            self._row("first_call", 0, 1, first),
        ]

    def output(self) -> list[torch.Tensor]:
        """Predict the first batch before any step; [] where nothing is to be predicted."""
        self._module.eval()
        with determinism(**self._switches), self._first_calls():
            _wake_threads()
            started = timer()
            results = [self._predict(batch, 0) for batch in self._first]
            self._first_prediction = timer() - started
        return [tensor.cpu() for tensor in tensors(results)]

    def round(self, phase: str, number: int) -> dict[str, Any]:
        """Measure one round of a phase: its steps, and as often again as makes it long enough."""
        seconds, steps = 0.0, 0
        with determinism(**self._switches):
            _wake_threads()
            # ASSUME a sum of short measurements is as good as a long one: each is synchronised.
            while not steps or seconds < ROUND_SECONDS:
                seconds += self._seconds(phase, self._steps)
                steps += self._steps
        return self._row(phase, number, steps, seconds)

    def compilation(self) -> list[dict[str, Any]]:
        """Return the counts of each compiled phase so far; [] of a variant in eager mode."""
        counts = {phase: call.counts() for phase, call in self._calls.items()}
        return [{"phase": phase, **found} for phase, found in counts.items() if found is not None]

    def _seconds(self, phase: str, calls: int) -> float:
        """Call a phase on the batches that come next, and give the seconds it took."""
        if phase == "trainer" and self._loop is not None:
            return self._loop.seconds(calls)
        call, batches = self._calls[phase], self._batches[phase]
        first = self._next[phase]
        # Chosen before the clock starts: only the calls themselves are inside it.
        chosen = [((first + i) % len(batches)) for i in range(calls)]
        self._next[phase] += calls
        self._module.train(phase == "train")
        started = timer()
        for index in chosen:
            call(batches[index], index)
        return timer() - started

    def _row(self, phase: str, number: int, steps: int, seconds: float) -> dict[str, Any]:
        return {
            "device": self._place.device.type,
            "phase": phase,
            "round": number,
            "steps": steps,
            "seconds": seconds,
        }


def _log_nothing(*arguments: Any, **options: Any) -> None:
    """Stand for `log` and `log_dict`, which belong to the Trainer."""


def _wake_threads() -> None:
    """Start torch's threads: after a change of their number the next operation starts new ones."""
    torch.ones(2**16).sum()
