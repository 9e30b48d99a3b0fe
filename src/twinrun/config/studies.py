"""What each study asks for: one class per study, and its entry in STUDIES.

A study lists the files in `results/` that its verdicts rest on (comparisons, timings, locations),
and all others that it leaves, so that whatever is missing of them is made again. `Study` itself is
the plain case: it compares the variants of its workloads with the first of them, the baseline.
Rules make what is listed; a new kind of file needs a new rule. CONTRIBUTING.md has the recipe.

Each path costs time in a workflow of thousands of runs: where a comparison lists `run.json`, the
study need not.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

from twinrun.config import noise_runs
from twinrun.config.inputs import (
    COMPARISON_OF_REPEATS,
    LOCATION,
    NOISE,
    RANKING,
    RESUME,
    RUN,
    SCALING,
    TIMING,
    Inputs,
    Wildcards,
    filled,
)
from twinrun.errors import TwinrunError

FILES_OF_RUN = ("weights.safetensors", "steps.csv", "fingerprints.npz")
FIGURE = "results/figures/{study}/{workload}/{figure}.svg"

FIGURE_OF_VARIANT = "results/figures/{study}/{workload}/{variant}/{figure}.svg"


@dataclass(frozen=True)
class Study:
    """Compares the variants of its workloads with the first of them, and may time them."""

    name: str
    """Its key in the config."""
    inputs: Inputs
    """The rules' input functions, with the settings."""
    question: ClassVar[str]
    """The question that it answers: the title of its section, and of its target."""
    timing: ClassVar[str | None] = None
    """Its timings are called so, with `_` and a workload's name behind; None times nothing."""
    phases: ClassVar[Sequence[str]] = ()
    """What is measured in them."""

    def compared(self) -> list[str]:
        """List what the verdicts rest on: comparisons, or what sums them up."""
        return self.inputs.with_baseline(self.name)

    def timed(self) -> list[str]:
        """List the times that the verdicts rest on."""
        return filled(TIMING, timing=self.inputs.settings.timings_of(self.name))

    def located(self) -> list[str]:
        """List where the repeats diverge, if the study looks for the operation."""
        return []

    def clocked(self) -> list[str]:
        """List the runs whose seconds the verdicts tell, those of the baseline first."""
        return []

    def runs(self) -> list[str]:
        """List files of the runs."""
        return self.inputs.of_study(self.name, RUN)

    def figures(self) -> list[str]:
        """List the figures."""
        return []

    def results(self, _: Wildcards) -> list[str]:
        """List all that the study leaves, as the input function of its target.

        Raises:
            TwinrunError: if the config does not list the study. Its part of the config was then
                neither checked nor rehearsed, and leads to no cells, stops or timings.
        """
        listed = self.inputs.settings.studies
        if self.name not in listed:
            raise TwinrunError(
                f"studies: is [{', '.join(listed)}], and the target {self.name} is a study that is "
                f"not among them; list it to run it, studies: [{', '.join([*listed, self.name])}]"
            )
        found = [self.runs(), self.compared(), self.timed(), self.located(), self.figures()]
        return [path for paths in found for path in paths]

    def reported(self) -> list[str]:
        """List what the page reads: of thousands of runs, run.json alone."""
        return [path for path in self.results({}) if path.endswith((".json", ".svg"))]

    def _figures(self, workloads: Iterable[str], *figures: str) -> list[str]:
        return filled(FIGURE, study=[self.name], workload=workloads, figure=figures)

    def _timed_workloads(self) -> list[str]:
        settings = self.inputs.settings
        timed = {settings.timings[name].workload for name in settings.timings_of(self.name)}
        return [name for name in self._workloads() if name in timed]

    def _workloads(self) -> list[str]:
        return self.inputs.settings.config[self.name]["workloads"]


class Reproducibility(Study):
    """Compares the repeats of each variant, and finds where they diverge."""

    question = "Does it repeat?"
    timing = "determinism"
    phases = ("train",)

    def compared(self) -> list[str]:
        return self.inputs.of_study(self.name, COMPARISON_OF_REPEATS)

    def located(self) -> list[str]:
        return self.inputs.of_study(self.name, LOCATION)

    def runs(self) -> list[str]:
        files = (RUN.replace("run.json", file) for file in FILES_OF_RUN)
        return [path for file in files for path in self.inputs.of_study(self.name, file)]

    def reported(self) -> list[str]:
        return [*super().reported(), *self.inputs.of_study(self.name, RUN)]

    def figures(self) -> list[str]:
        settings = self.inputs.settings
        if not settings.variants_of(self.name):
            return []
        always = ("first_layer", "layers", "growth", "curves", "operations")
        return [
            *self._figures(self._workloads(), *always),
            *self._figures(self._timed_workloads(), "cost"),
            *self._figures(settings.that_show("images", self._workloads()), "strip"),
        ]


class Devices(Study):
    """Times the variants at several sizes."""

    question = "Which device is faster, and from which size on?"
    timing = "devices"
    phases = ("train", "trainer")

    def clocked(self) -> list[str]:
        return self.runs()

    def figures(self) -> list[str]:
        settings = self.inputs.settings
        if not settings.variants_of(self.name):
            return []
        return [
            *self._figures(self._timed_workloads(), "sizes"),
            *self._figures(settings.that_show("surface", self._workloads()), "surfaces"),
        ]


class Acceleration(Study):
    """Times training and prediction of the variants."""

    question = "Does acceleration make training or prediction faster?"
    timing = "acceleration"
    phases = ("train", "trainer", "predict")

    def clocked(self) -> list[str]:
        return self.runs()

    def figures(self) -> list[str]:
        return self._figures(self._timed_workloads(), "speeds")


class Parallel(Study):
    """Compares repeats and variants, and takes the times of the runs' own epochs."""

    question = "Are several workers faster, and do they learn the same?"

    def compared(self) -> list[str]:
        return [*self.inputs.of_study(self.name, COMPARISON_OF_REPEATS), *super().compared()]

    def timed(self) -> list[str]:
        return self.inputs.of_study(self.name, SCALING)

    def figures(self) -> list[str]:
        return self.inputs.of_study(self.name, FIGURE, figure=["speedup"])


class Sweep(Study):
    """Trains every trial, and ranks them."""

    question = "Which hyperparameters do best?"

    def compared(self) -> list[str]:
        return [*self.inputs.of_study(self.name, RANKING), *self.inputs.noise_of_sweep()]

    def runs(self) -> list[str]:
        workloads = [{"workload": name} for name in self._workloads()]
        return [run for workload in workloads for run in self.inputs.runs_of_sweep(workload)]

    def figures(self) -> list[str]:
        return self.inputs.of_study(self.name, FIGURE, figure=["trials"])


class Contest(Study):
    """Trains two candidates, and compares their means."""

    question = "Which of two is better, or just luckier?"

    def compared(self) -> list[str]:
        return self.inputs.contests()

    def runs(self) -> list[str]:
        return self.inputs.of_study(self.name, RUN) if self.compared() else []


class Matrix(Study):
    """Trains every change of a baseline; made even of a baseline that cannot run here."""

    question = "Which changes of a setting change the result?"

    def compared(self) -> list[str]:
        return self.inputs.matrices()

    def runs(self) -> list[str]:
        cells = self.inputs.settings.cells_that_run()
        changes = [{"workload": name, "cell": cell} for name in self._workloads() for cell in cells]
        runs = (run for change in changes for run in self.inputs.runs_of_change(change))
        return [*dict.fromkeys(runs)]  # every cell is compared with the same run

    def figures(self) -> list[str]:
        return self._figures(self._workloads(), "cells")


class Noise(Study):
    """Trains a baseline from several seeds, and with a smallest change; weighs all changes."""

    question = "How much is luck?"

    def compared(self) -> list[str]:
        return self.inputs.of_study(self.name, NOISE)

    def runs(self) -> list[str]:
        settings = self.inputs.settings
        pairs = product(self._workloads(), settings.variants_of(self.name))
        return [run["run"] for pair in pairs for run in noise_runs.scale(settings, *pair)]

    def figures(self) -> list[str]:
        return self.inputs.of_study(self.name, FIGURE_OF_VARIANT, figure=["ladder", "divergence"])


class Resume(Study):
    """Trains each variant without interruption and with each kind of stop."""

    question = "Does a resumed training end in the same bits?"

    def compared(self) -> list[str]:
        return self.inputs.of_study(self.name, RESUME)

    def runs(self) -> list[str]:
        variants = self.inputs.settings.variants_of(self.name)
        pairs = [{"workload": w, "variant": v} for w in self._workloads() for v in variants]
        return [run for pair in pairs for run in self.inputs.runs_of_resume(pair)]


# In the order in which the page tells them.
STUDIES: Mapping[str, type[Study]] = {
    "reproducibility": Reproducibility,
    "devices": Devices,
    "acceleration": Acceleration,
    "parallel": Parallel,
    "sweep": Sweep,
    "contest": Contest,
    "matrix": Matrix,
    "resume": Resume,
    "noise": Noise,
}
