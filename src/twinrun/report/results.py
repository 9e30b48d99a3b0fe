"""What a report is made of: everything the workflow left, read and sorted by its path."""

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from markupsafe import Markup

from twinrun.artifacts import read_json
from twinrun.comparison import pair_records, study_records
from twinrun.comparison.pair_records import Comparison, Location
from twinrun.comparison.study_records import Matrix, Ranking, ResumeTable
from twinrun.report.svg import inline
from twinrun.run_files import FAILED, FailedRun, RunManifest, read_ended
from twinrun.timing import epoch_times, summary
from twinrun.timing.epoch_times import Scaling
from twinrun.timing.summary import TimingSummary
from twinrun.verdicts.rows import VerdictRow, read_rows


class ReportedRun(RunManifest):
    """A run, and where it lies."""

    folder: str
    """Its folder inside results/."""
    path: Path
    """Of its run.json."""


class ReportedFailure(FailedRun):
    """A training that failed, and where its files lie."""

    folder: str
    """Its folder inside results/."""


class ReportedComparison(Comparison):
    """The comparison of a seed, and where it lies."""

    study: str
    """The study that asked for it."""
    path: str
    """Of the JSON inside results/; it is that of all seeds."""
    tensors: Path
    """Of the table of tensors, which is that of all seeds too."""


class ReportedLocation(Location):
    """Where the runs of a seed diverge, and where that lies."""

    path: str
    """Of the JSON inside results/."""


@dataclass(frozen=True, kw_only=True)
class Results:
    """The contents of results/ as far as the config asked for them."""

    config: Mapping[str, Any]
    """The config with every default filled in."""
    not_run: Mapping[str, str]
    """Variants that the machine could not run, and why."""
    verdicts: list[VerdictRow]
    """Rows of verdicts.csv."""
    runs: list[ReportedRun]
    """Runs that left a network."""
    failed: list[ReportedFailure]
    """Trainings that failed."""
    comparisons: list[ReportedComparison]
    """The comparison of the repeats of every seed."""
    contrasts: list[ReportedComparison]
    """Every comparison of a variant with another."""
    locations: list[ReportedLocation]
    """Where the pairs of the comparisons diverge."""
    resumes: list[ResumeTable]
    """What the stops of each workload and variant lost."""
    timings: dict[str, TimingSummary]
    """Timings by name."""
    scalings: dict[str, Scaling]
    """What the epochs of one and of several workers took, by workload."""
    rankings: dict[str, Ranking]
    """The trials of a sweep, by the workload that they vary."""
    matrices: dict[str, Matrix]
    """Matrices by workload."""
    datasets: dict[str, dict[str, Any]]
    """Manifests of the datasets that were made, by name."""
    figures: dict[str, Markup]
    """Figures by their path in results/figures/ without suffix, ready to stand in a page."""

    def contrasts_of(self, study: str, workload: str) -> list[ReportedComparison]:
        """Return the comparisons of the variants of one study and workload."""
        return [
            found
            for found in self.contrasts
            if (found["study"], found["workload"]) == (study, workload)
        ]

    def repeats_of(self, study: str, workload: str) -> list[ReportedComparison]:
        """Return the comparisons of the repeats of one study and workload."""
        return [
            found
            for found in self.comparisons
            if (found["study"], found["workload"]) == (study, workload)
        ]

    def runs_of(self, workload: str, variants: Sequence[str]) -> list[ReportedRun]:
        """Return the runs of a workload under some variants."""
        return [
            run for run in self.runs if run["workload"] == workload and run["variant"] in variants
        ]

    def unfinished(
        self, workload: str, variants: Sequence[str]
    ) -> list[ReportedRun | ReportedFailure]:
        """Return the runs of a workload under some variants that failed or were broken off."""
        return [
            run
            for run in (*self.runs, *self.failed)
            if run["ended"] != "finished"
            and (run["workload"], run["variant"] in variants) == (workload, True)
        ]

    def absent(self, study: str) -> list[dict[str, str]]:
        """Return the variants of a study that the machine could not run, `name` and `reason`."""
        names = [name for name in self.config[study]["variants"] if name in self.not_run]
        return [{"name": name, "reason": self.not_run[name]} for name in names]


def read_results(
    config: Mapping[str, Any], not_run: Mapping[str, str], files: Sequence[str], *, results: Path
) -> Results:
    """Read the files of a report.

    Args:
        config: the config with every default filled in.
        not_run: variants that the machine could not run, and why.
        files: paths inside `results`.
        results: the results folder.

    Raises:
        TwinrunError: if a manifest of a run is not as the run wrote it, or another file is corrupt.
    """
    paths = {Path(file).relative_to(results).as_posix(): Path(file) for file in files}

    def matching(pattern: str) -> list[tuple[str, Path]]:
        return [item for item in paths.items() if fnmatch.fnmatchcase(item[0], pattern)]

    compared = [found for item in matching("comparisons/*.json") for found in _comparisons(*item)]
    runs, failed = _runs(matching("runs/*/run.json"))
    figures = [(name.removesuffix(".svg"), path) for name, path in matching("figures/*.svg")]
    return Results(
        config=config,
        not_run=not_run,
        verdicts=read_rows(paths["verdicts.csv"]),
        runs=runs,
        failed=failed,
        comparisons=[found for found in compared if found["against"] is None],
        contrasts=[found for found in compared if found["against"] is not None],
        locations=[
            {**found, "path": name}
            for name, path in matching("locations/*.json")
            for found in pair_records.read_locations(path)
        ],
        resumes=[study_records.read_stops(path) for _, path in matching("resumes/*.json")],
        timings={path.stem: summary.read(path) for _, path in matching("timings/*.json")},
        scalings={path.stem: epoch_times.read(path) for _, path in matching("scaling/*.json")},
        rankings={
            path.stem: study_records.read_ranking(path) for _, path in matching("sweeps/*.json")
        },
        matrices={
            path.stem: study_records.read_matrix(path) for _, path in matching("matrix/*.json")
        },
        datasets={path.stem: read_json(path) for _, path in matching("data/*.json")},
        figures={
            name.removeprefix("figures/"): inline(path, number=number)
            for number, (name, path) in enumerate(figures, start=1)
        },
    )


def _comparisons(name: str, path: Path) -> list[ReportedComparison]:
    tensors, study = path.with_suffix(".tensors.csv"), name.split("/")[1]
    return [
        {**found, "study": study, "path": name, "tensors": tensors}
        for found in pair_records.read_comparisons(path)
    ]


def _runs(
    files: Iterable[tuple[str, Path]],
) -> tuple[list[ReportedRun], list[ReportedFailure]]:
    """Read the runs that left a network, and those that failed."""
    runs: list[ReportedRun] = []
    failed: list[ReportedFailure] = []
    for name, path in files:
        manifest, folder = read_ended(path), name.removesuffix("/run.json")
        if manifest["ended"].startswith(FAILED):
            failed.append({**cast(FailedRun, manifest), "folder": folder})
        else:
            runs.append({**cast(RunManifest, manifest), "folder": folder, "path": path})
    return runs, failed
