"""What takes part in a timing: one material, and for each variant an entrant made of it.

The material is a workload's initial weights and first batches; every entrant works on copies of
both, so that all variants compute the same.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities.model_helpers import is_overridden
from pytorch_lightning.utilities.seed import isolate_rng
from torch.utils.benchmark import timer  # synchronises the device, then reads the clock

from twinrun.compilation import Watch
from twinrun.determinism import SWITCHES, determinism
from twinrun.jobs import TwinrunError
from twinrun.loading import build_data, build_module
from twinrun.steps import Stepper

WARM_UP_CALLS = 2  # after the first; a captured graph needs them


class Material:
    """Where every variant gets the same initial weights and the same batches from."""

    def __init__(
        self,
        workload: Mapping[str, Any],
        *,
        dataset: str | None,
        seed: int,
        search_path: Sequence[str] = (),
    ) -> None:
        """Build the workload.

        Raises:
            TwinrunError: if it cannot be built.
        """
        self._seed = seed
        with self._seeded():
            self._data = build_data(
                workload, seed=seed, dataset_path=dataset, search_path=search_path
            )
            self._data.prepare_data()
            self._data.setup("fit")
            self._data.setup("predict")
            self._module = build_module(workload, search_path)
        self._resident: dict[tuple[str, torch.device], list[Any]] = {}

    def module(self) -> pl.LightningModule:
        """Give a module of one's own with the initial weights."""
        return copy.deepcopy(self._module)

    def batches(self, phase: str, device: torch.device, count: int) -> list[Any]:
        """Give the loader's first batches, at most `count`, resident on a device.

        Raises:
            TwinrunError: if the loader gives none.
        """
        if (phase, device) not in self._resident:
            with self._seeded():
                loader = getattr(self._data, f"{phase}_dataloader")()
                found = [self._moved(batch, device) for batch in islice(loader, count)]
            if not found:
                raise TwinrunError(f"{phase}_dataloader gives no batch")
            self._resident[phase, device] = found
        return self._resident[phase, device]

    @contextmanager
    def _seeded(self) -> Iterator[None]:
        with isolate_rng():
            pl.seed_everything(self._seed, workers=True, verbose=False)
            yield

    def _moved(self, batch: Any, device: torch.device) -> Any:
        """Pass a batch through the hooks of its transfer; the data module's own come first."""
        for hook, arguments in (
            ("on_before_batch_transfer", (0,)),
            ("transfer_batch_to_device", (device, 0)),
            ("on_after_batch_transfer", (0,)),
        ):
            own = is_overridden(hook, self._data, pl.LightningDataModule)
            batch = getattr(self._data if own else self._module, hook)(batch, *arguments)
        return batch


class Entrant:
    """One variant of a timing, made ready to be called under its own switches."""

    def __init__(
        self, material: Material, variant: Mapping[str, Any], *, phases: Sequence[str], steps: int
    ) -> None:
        self._switches = {key: variant[key] for key in SWITCHES}
        self._steps = steps
        self._stepper = Stepper(material.module(), variant)
        device = self._stepper.device
        self._batches = {phase: material.batches(phase, device, steps) for phase in phases}
        self._calls = dict.fromkeys(phases, 0)
        self._watches = {phase: Watch() for phase in phases if variant["compile"] != "none"}

    def first_call(self) -> dict[str, Any]:
        """Measure the first call of all phases together; then warm up.

        Every batch shape is seen before the first round: a new one may cost a compilation.
        """
        with determinism(**self._switches):
            _wake_threads()
            seconds = sum(self._seconds(phase, 1) for phase in self._batches)
            for phase, batches in self._batches.items():
                self._seconds(phase, max(WARM_UP_CALLS, len(batches) - 1))
        return self._row("first_call", 0, 1, seconds)

    def round(self, phase: str, number: int) -> dict[str, Any]:
        """Measure one round of a phase."""
        with determinism(**self._switches):
            _wake_threads()
            return self._row(phase, number, self._steps, self._seconds(phase, self._steps))

    def compilation(self) -> list[dict[str, Any]]:
        """Give the calls and compilations of each phase so far; [] of a variant in eager mode."""
        return [{"phase": phase, **watch.summary()} for phase, watch in self._watches.items()]

    def _seconds(self, phase: str, calls: int) -> float:
        """Call a phase on the batches that come next, and give the seconds it took."""
        step, batches = getattr(self._stepper, phase), self._batches[phase]
        first = self._calls[phase]
        chosen = [((first + i) % len(batches)) for i in range(calls)]
        self._calls[phase] += calls
        watch = self._watches.get(phase)
        if watch:
            watch.start()
        started = timer()
        for index in chosen:
            step(batches[index], index)
            if watch:
                watch.count_call()
        return timer() - started

    def _row(self, phase: str, number: int, steps: int, seconds: float) -> dict[str, Any]:
        return {
            "device": self._stepper.device.type,
            "phase": phase,
            "round": number,
            "steps": steps,
            "seconds": seconds,
        }


def _wake_threads() -> None:
    """Start torch's threads: after a change of their number the next operation starts new ones."""
    torch.ones(2**16).sum()
