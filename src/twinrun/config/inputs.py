"""What each rule reads: from the settings and a job's wildcards to paths in `results/`.

Where a file is written, its rule says; which files another rule takes is said here. Wildcards are
mappings of text, as an input function gets them from Snakemake. Nothing looks at a disk, and
neither torch, pandas nor Snakemake is imported: planning thousands of runs takes seconds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from twinrun.config.candidates import kind_of
from twinrun.config.rule_records import StopPair

if TYPE_CHECKING:  # settings import the studies, and these import this module
    from twinrun.config.settings import Settings


Wildcards = Mapping[str, str]

RUN = "results/runs/{workload}/{variant}/seed{seed}/repeat{repeat}/run.json"
DATASET = "results/data/{dataset}.json"
COMPARISON_OF_REPEATS = "results/comparisons/{study}/{workload}/{variant}.json"
COMPARISON_OF_VARIANTS = "results/comparisons/{study}/{workload}/{variant}/against/{baseline}.json"
COMPARISON_OF_CHANGE = "results/matrix/{workload}/{cell}.json"
CONTEST = "results/contests/{workload}/{variant}.json"
LOCATION = "results/locations/{study}/{workload}/{variant}.json"
MATRIX = "results/matrix/{workload}.json"
NOISE = "results/noise/{workload}/{variant}.json"
RANKING = "results/sweeps/{workload}.json"
RESUME = "results/resumes/{workload}/{variant}.json"
SCALING = "results/scaling/{workload}.json"
TIMING = "results/timings/{timing}.json"


def filled(pattern: str, **values: Iterable[object]) -> list[str]:
    """Fill the fields of a pattern with every combination of values; the last one varies fastest.

    Values that the pattern has no field for are left aside.

    >>> filled("{a}/{b}", a=["x", "y"], b=[1, 2], c=[])
    ['x/1', 'x/2', 'y/1', 'y/2']
    """
    names = [name for name in values if f"{{{name}}}" in pattern]
    return [
        pattern.format_map(dict(zip(names, combination, strict=True)))
        for combination in product(*(values[name] for name in names))
    ]


PERTURBED = "{seed}-ulp{perturbation}"


def perturbed_seed(wildcard: str) -> tuple[int, int]:
    """Return the seed in the name of a run's folder, and the number of its perturbation.

    >>> perturbed_seed("1"), perturbed_seed(PERTURBED.format(seed=1, perturbation=3))
    ((1, 0), (1, 3))
    """
    seed, _, perturbation = wildcard.partition("-ulp")
    return int(seed), int(perturbation or 0)


@dataclass(frozen=True)
class Inputs:
    """The input functions of the rules."""

    settings: "Settings"
    """What the config asks for."""

    def of_study(self, study: str, pattern: str, **chosen: Iterable[object]) -> list[str]:
        """Fill a pattern with a study's workloads, variants, seeds and repeats, or chosen ones.

        Of a study without a variant that can run here nothing is left.
        """
        asked, variants = self.settings.config[study], self.settings.variants_of(study)
        if not variants:
            return []
        values = {
            "study": [study],
            "workload": asked["workloads"],
            "variant": variants,
            "seed": asked.get("seeds", []),
            "repeat": range(1, asked.get("repeats", 1) + 1),
        }
        return filled(pattern, **{**values, **chosen})

    def dataset_of(self, workload: str) -> str | None:
        """Return the file of a workload's dataset, made or the user's own; None if it has none."""
        name = self.settings.workloads[workload].dataset
        return None if name is None else self.file_of_dataset({"dataset": name})

    def file_of_dataset(self, wildcards: Wildcards) -> str:
        """Return the file of a dataset, made or the user's own."""
        name = wildcards["dataset"]
        return self.settings.datasets[name].file or f"results/data/{name}.npz"

    def noise_of_sweep(self) -> list[str]:
        """List how far seeds move the workloads of a sweep that has one seed itself.

        Where the study `noise` is asked for and trains them as long, under a variant of the sweep.
        """
        settings, asked = self.settings, self.settings.config["sweep"]
        if "noise" not in settings.studies or len(asked["seeds"]) > 1:
            return []
        of_noise = settings.config["noise"]["workloads"]
        alike = [
            name
            for name in asked["workloads"]
            if name in of_noise and asked["epochs"] in (None, settings.workloads[name].epochs)
        ]
        variants = [v for v in settings.variants_of("noise") if v in settings.variants_of("sweep")]
        return filled(NOISE, workload=alike, variant=variants)

    # One training, or one timing

    def dataset_of_run(self, wildcards: Wildcards) -> list[str]:
        """List the dataset of a workload, if it has one."""
        return [file] if (file := self.dataset_of(wildcards["workload"])) else []

    def dataset_of_timing(self, wildcards: Wildcards) -> list[str]:
        """List the dataset of a timing's workload, if it has one."""
        workload = self.settings.timings[wildcards["timing"]].workload
        return self.dataset_of_run({"workload": workload})

    # Runs to compare

    def runs_of_repeats(self, wildcards: Wildcards) -> list[str]:
        """List the repeats of a variant, seed by seed."""
        names = {key: [wildcards[key]] for key in ("workload", "variant")}
        return self.of_study(wildcards["study"], RUN, **names)

    def runs_of_variants(self, wildcards: Wildcards) -> list[str]:
        """List the first run of each seed: of the baseline, then of the variant."""
        variants = [wildcards["baseline"], wildcards["variant"]]
        names = {"workload": [wildcards["workload"]], "variant": variants, "repeat": [1]}
        return self.of_study(wildcards["study"], RUN, **names)

    def runs_of_change(self, wildcards: Wildcards) -> list[str]:
        """List the run of the matrix's baseline, then that of a cell."""
        pair = self.settings.pair_of_cell(wildcards["cell"])
        return [RUN.format(workload=wildcards["workload"], **run) for run in pair]

    def pairs_of_resume(self, wildcards: Wildcards) -> list[StopPair]:
        """Return the pairs of a resumed and an uninterrupted run, each run by its run.json."""
        workload, seed = wildcards["workload"], self.settings.config["resume"]["seed"]

        def run_of(variant: str) -> str:
            return RUN.format(workload=workload, variant=variant, seed=seed, repeat=1)

        return [
            {**pair, "whole": run_of(pair["whole"]), "stopped": run_of(pair["stopped"])}
            for pair in self.settings.stops_of(wildcards["variant"])
        ]

    def runs_of_resume(self, wildcards: Wildcards) -> list[str]:
        """List the runs of these pairs, each once."""
        pairs = self.pairs_of_resume(wildcards)
        return sorted({run for pair in pairs for run in (pair["whole"], pair["stopped"])})

    # Runs to sum up

    def cells_of_matrix(self, wildcards: Wildcards) -> list[str]:
        """List the comparisons of the cells that can run here."""
        cells = self.settings.cells_that_run()
        return filled(COMPARISON_OF_CHANGE, workload=[wildcards["workload"]], cell=cells)

    def runs_of_scaling(self, wildcards: Wildcards) -> list[str]:
        """List the runs whose epochs are timed, by the number of workers."""
        return self.of_study("parallel", RUN, workload=[wildcards["workload"]])

    def runs_of_sweep(self, wildcards: Wildcards) -> list[str]:
        """List the runs of a workload's trials."""
        trials = self.settings.trials_of(wildcards["workload"])
        return self.of_study("sweep", RUN, workload=trials, repeat=[1])

    def contested(self) -> list[str]:
        """Name the workloads that contests are about: of two candidates the first."""
        asked = self.settings.config["contest"]
        return [asked["a"]] if kind_of(self.settings.config) == "workloads" else asked["workloads"]

    def contests(self) -> list[str]:
        """List the contests, each called after its first candidate; none where one cannot run."""
        asked, named = self.settings.config["contest"], self.contested()
        if kind_of(self.settings.config) == "workloads":
            return self.of_study("contest", CONTEST, workload=named)
        if {asked["a"], asked["b"]} & {*self.settings.not_run}:
            return []
        return self.of_study("contest", CONTEST, workload=named, variant=[asked["a"]])

    def candidates(self, wildcards: Wildcards) -> dict[str, str]:
        """Return both candidates of a contest, the first one first: their labels by their names."""
        asked = self.settings.config["contest"]
        key = "variant" if wildcards["variant"] == asked["a"] else "workload"
        candidates = ({**wildcards, key: asked[letter]} for letter in ("a", "b"))
        return {f"{of['workload']}/{of['variant']}": of[key] for of in candidates}

    def runs_of_contest(self, wildcards: Wildcards) -> list[str]:
        """List the runs of both candidates of a contest."""
        names = (name.split("/") for name in self.candidates(wildcards))
        seeds = self.settings.config["contest"]["seeds"]
        return [
            run
            for workload, variant in names
            for run in filled(RUN, workload=[workload], variant=[variant], seed=seeds, repeat=[1])
        ]

    # What figures are drawn from

    def runs_of_workload(self, wildcards: Wildcards) -> list[str]:
        """List the runs of a workload in the study reproducibility."""
        return self.of_study("reproducibility", RUN, workload=[wildcards["workload"]])

    def first_run_of_workload(self, wildcards: Wildcards) -> str:
        """Return the first of them."""
        return self.runs_of_workload(wildcards)[0]

    def runs_of_first_seed(self, wildcards: Wildcards) -> list[str]:
        """List the runs of the pairs that are drawn: of the lowest seed."""
        seeds = [min(self.settings.config["reproducibility"]["seeds"])]
        return self.of_study("reproducibility", RUN, workload=[wildcards["workload"]], seed=seeds)

    def comparisons_of_workload(self, wildcards: Wildcards) -> list[str]:
        """List the comparisons of a workload's repeats, one of each variant."""
        workload = [wildcards["workload"]]
        return self.of_study("reproducibility", COMPARISON_OF_REPEATS, workload=workload)

    def locations_of_workload(self, wildcards: Wildcards) -> list[str]:
        """List where a workload's repeats diverge, one file for each variant."""
        return self.of_study("reproducibility", LOCATION, workload=[wildcards["workload"]])

    def first_runs_of_devices(self, wildcards: Wildcards) -> list[str]:
        """List a run of each device, all of the first seed."""
        seeds = self.settings.config["devices"]["seeds"][:1]
        names = {"workload": [wildcards["workload"]], "seed": seeds, "repeat": [1]}
        return self.of_study("devices", RUN, **names)

    # What a study compared

    def with_baseline(self, study: str) -> list[str]:
        """List the comparisons of each variant of a study with its first, the baseline."""
        # Where the baseline cannot run here, the first that can is the baseline.
        baseline, *others = self.settings.variants_of(study) or [None]
        names = {"variant": others, "baseline": [baseline]}
        return self.of_study(study, COMPARISON_OF_VARIANTS, **names)

    def matrices(self) -> list[str]:
        """List the matrix of each workload; it is made even of a baseline that cannot run here."""
        return filled(MATRIX, workload=self.settings.config["matrix"]["workloads"])

    # The gate

    def runs_of_fingerprint(self, _: Wildcards) -> list[str]:
        """List the runs whose weights are expected."""
        variants = self.settings.fingerprinted_variants()
        return self.of_study("reproducibility", RUN, variant=variants, repeat=[1])

    def expected_fingerprint(self, _: Wildcards) -> list[str]:
        """List the user's file of expected weights, if there is one yet."""
        file = self.settings.config["require"].get("fingerprint")
        # Not there yet, it must not stop the workflow: the gate says how to make it.
        return [file] if file and Path(file).exists() else []

    def matrices_of_gate(self, _: Wildcards) -> list[str]:
        """List the matrices that something is required of."""
        return self.matrices() if "matrix" in self.settings.config["require"] else []

    def timings_of_gate(self, _: Wildcards) -> list[str]:
        """List the timings of determinism if their ratio is required."""
        if "determinism_cost" not in self.settings.config["require"]:
            return []
        return filled(TIMING, timing=self.settings.timings_of("reproducibility"))
