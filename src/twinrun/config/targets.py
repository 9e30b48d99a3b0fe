"""What a study and the report ask for, as lists of paths in `results/`.

A study lists all that it leaves, so that whatever is missing of it is made again. Each path costs
time in a workflow of thousands of runs: rules that only read runs take `run.json` alone (see
`inputs`).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from twinrun.config.inputs import LOCATION, RUN, SCALING, TIMING, Inputs, Wildcards, filled

FILES_OF_RUN = ("weights.safetensors", "steps.csv", "fingerprints.npz")
FIGURE = "results/figures/{study}/{workload}/{figure}.svg"


@dataclass(frozen=True)
class Targets:
    """The input functions of the target rules and of the report; no wildcard changes them."""

    inputs: Inputs

    def reproducibility(self, _: Wildcards) -> list[str]:
        """List runs, comparisons, locations, timings and figures of the study."""
        files = (RUN.replace("run.json", file) for file in FILES_OF_RUN)
        return [
            *(path for file in files for path in self.inputs.of_study("reproducibility", file)),
            *self._compared("reproducibility"),
            *self.inputs.of_study("reproducibility", LOCATION),
            *self._timings("reproducibility"),
            *self._figures_of_reproducibility(),
        ]

    def devices(self, _: Wildcards) -> list[str]:
        """List runs, comparisons with the baseline, timings and figures of the study."""
        settings = self.inputs.settings
        surfaces = settings.that_show("surface", settings.config["devices"]["workloads"])
        if not settings.variants_of("devices"):
            surfaces = []
        return [
            *self._of_variants("devices"),
            *self._figures("devices", self._timed("devices"), ["sizes"]),
            *self._figures("devices", surfaces, ["surfaces"]),
        ]

    def acceleration(self, _: Wildcards) -> list[str]:
        """List runs, comparisons with the baseline, timings and figures of the study."""
        return [
            *self._of_variants("acceleration"),
            *self._figures("acceleration", self._timed("acceleration"), ["speeds"]),
        ]

    def parallel(self, _: Wildcards) -> list[str]:
        """List runs, comparisons, the epochs' times and figures of the study."""
        return [
            *self.inputs.of_study("parallel", RUN),
            *self._compared("parallel"),
            *self.inputs.of_study("parallel", SCALING),
            *self.inputs.of_study("parallel", FIGURE, figure=["speedup"]),
        ]

    def sweep(self, _: Wildcards) -> list[str]:
        """List trials, rankings and figures of the study."""
        workloads = self.inputs.settings.config["sweep"]["workloads"]
        return [
            *(run for name in workloads for run in self.inputs.runs_of_sweep({"workload": name})),
            *self._compared("sweep"),
            *self.inputs.of_study("sweep", FIGURE, figure=["trials"]),
        ]

    def matrix(self, _: Wildcards) -> list[str]:
        """List the runs of the cells that can run here, and tables and figures of the study."""
        settings = self.inputs.settings
        workloads = settings.config["matrix"]["workloads"]
        runs = [
            run
            for workload in workloads
            for cell in settings.cells_that_run()
            for run in self.inputs.runs_of_change({"workload": workload, "cell": cell})
        ]
        return [
            *dict.fromkeys(runs),
            *self._compared("matrix"),
            *self._figures("matrix", workloads, ["cells"]),
        ]

    def resume(self, _: Wildcards) -> list[str]:
        """List resumed and uninterrupted runs of the study, and what resuming lost."""
        settings = self.inputs.settings
        runs = [
            run
            for workload in settings.config["resume"]["workloads"]
            for variant in settings.variants_of("resume")
            for run in self.inputs.runs_of_resume({"workload": workload, "variant": variant})
        ]
        return [*runs, *self._compared("resume")]

    def studies(self, _: Wildcards) -> list[str]:
        """List what all chosen studies leave."""
        chosen = self.inputs.settings.studies
        return [path for study in chosen for path in getattr(self, study)({})]

    def runs(self) -> list[str]:
        """List run.json of every run that the answers of the chosen studies rest on."""
        paths = [path for path in self.read_by_report({}) if path.endswith("/run.json")]
        return list(dict.fromkeys(paths))

    def datasets(self, _: Wildcards) -> list[str]:
        """List the manifests and contact sheets of the datasets in use."""
        settings = self.inputs.settings
        named = (settings.workloads[name].dataset for name in settings.active_workloads())
        used = {name for name in named if name is not None}
        made = sorted(name for name in used if settings.datasets[name].make)
        shown = sorted(name for name in used if settings.config["datasets"][name]["shows"])
        return [
            *filled("results/data/{dataset}.json", dataset=made),
            *filled("results/figures/data/{dataset}.svg", dataset=shown),
        ]

    def read_by_report(self, _: Wildcards) -> list[str]:
        """List the results that the page reads: of thousands of runs, run.json alone."""
        read = [path for path in self.studies({}) if path.endswith((".json", ".svg"))]
        if "reproducibility" in self.inputs.settings.studies:
            read += self.inputs.of_study("reproducibility", RUN)
        return read

    def _compared(self, study: str) -> list[str]:
        return self.inputs.comparisons_of_study({"study": study})

    def _of_variants(self, study: str) -> list[str]:
        """List what a study leaves that compares its variants with the first of them."""
        return [
            *self.inputs.of_study(study, RUN),
            *self._compared(study),
            *self._timings(study),
        ]

    def _timings(self, study: str) -> list[str]:
        return filled(TIMING, timing=self.inputs.settings.timings_of(study))

    def _timed(self, study: str) -> list[str]:
        """Name the workloads of a study that are timed."""
        settings = self.inputs.settings
        timed = {settings.timings[name].workload for name in settings.timings_of(study)}
        return [name for name in settings.config[study]["workloads"] if name in timed]

    def _figures(self, study: str, workloads: Iterable[str], figures: Iterable[str]) -> list[str]:
        return filled(FIGURE, study=[study], workload=workloads, figure=figures)

    def _figures_of_reproducibility(self) -> list[str]:
        study, figures = "reproducibility", ["first_layer", "layers", "growth", "curves"]
        settings = self.inputs.settings
        if not settings.variants_of(study):
            return []
        shown = settings.that_show("images", settings.config[study]["workloads"])
        return [
            *self.inputs.of_study(study, FIGURE, figure=[*figures, "operations"]),
            *self._figures(study, self._timed(study), ["cost"]),
            *self._figures(study, shown, ["strip"]),
        ]
