"""What a report is made of: everything the workflow left, read and sorted by its path."""

import fnmatch
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, cast

from markupsafe import Markup

from twinrun.comparison import pair_records, study_records
from twinrun.comparison.noise_records import NoiseTable, read_noise
from twinrun.comparison.pair_records import Comparison, Location
from twinrun.comparison.study_records import MatrixTable, Ranking, ResumeTable
from twinrun.config.definitions import Section
from twinrun.dataset_files import DatasetManifest, read_manifest
from twinrun.formatting import training_length
from twinrun.report.missing import Missing, unreadable
from twinrun.report.svg import inline
from twinrun.run_files import left_network, read_ended
from twinrun.run_records import FailedRun, RunManifest
from twinrun.timing import epoch_times, summary
from twinrun.timing.epoch_times import Scaling
from twinrun.timing.summary import TimingSummary
from twinrun.verdicts.rows import VerdictRow

Found = TypeVar("Found")


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
    """Path of the table of tensors, which is that of all seeds too."""


class ReportedLocation(Location):
    """Where the runs of a seed diverge, and where that lies."""

    study: str
    """That asked for it."""
    path: str
    """Of the JSON inside results/."""


@dataclass(frozen=True, kw_only=True)
class Results:
    """The contents of results/ as far as the config asked for them."""

    config: Section
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
    contests: dict[str, Ranking]
    """The candidates of a contest, by the path of its file in the results folder."""
    matrices: dict[str, MatrixTable]
    """Matrices by workload."""
    noises: dict[str, NoiseTable]
    """Scales of rounding and seeds, by the path of their file in the results folder."""
    datasets: dict[str, DatasetManifest]
    """Manifests of the datasets that were made, by name."""
    figures: dict[str, Markup | Missing]
    """Figures by their path in results/figures/ without suffix, ready to stand in a page."""
    missing: dict[str, Missing] = field(default_factory=dict)
    """What a workflow that broke off has not made, by its path; empty of one that ended well."""

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

    def runs_of(self, workload: str, variant: str) -> list[ReportedRun]:
        """Return the runs of a workload under a variant, of whichever study."""
        return [
            run for run in self.runs if (run["workload"], run["variant"]) == (workload, variant)
        ]

    def runs_of_study(self, study: str, workload: str) -> list[ReportedRun]:
        """Return the runs of a workload that a study asked for; others may share its variants."""
        return [run for run in self.runs if self._asked(run, study, workload)]

    def length_of(self, workload: str, *, epochs: int | None = None) -> str:
        """Say how long a workload is trained; of other epochs than its own, these."""
        settings = self.config["workloads"][workload]
        return training_length(epochs or settings["epochs"], settings["trainer"]["max_steps"])

    def unfinished(self, study: str, workload: str) -> list[ReportedRun | ReportedFailure]:
        """Return the runs of a study's workload that failed or were broken off."""
        return [
            run
            for run in (*self.runs, *self.failed)
            if run["ended"] != "finished" and self._asked(run, study, workload)
        ]

    def _asked(self, run: ReportedRun | ReportedFailure, study: str, workload: str) -> bool:
        asked = self.config[study]
        return (
            run["workload"] == workload
            and run["variant"] in asked["variants"]
            and run["seed"] in asked["seeds"]
            and not run["perturbation"]
            # Studies share runs: a variant and seed of one may have more repeats in another.
            and run["repeat"] <= asked.get("repeats", 1)
        )

    def absent(self, study: str) -> list[dict[str, str]]:
        """Return the variants of a study that the machine could not run, `name` and `reason`."""
        names = [name for name in self.config[study]["variants"] if name in self.not_run]
        return [{"name": name, "reason": self.not_run[name]} for name in names]

    def untimed(self, study: str, workload: str) -> list[dict[str, str]]:
        """Return the variants that no timing of a study can measure, `name` and `reason`."""
        return [
            {"name": row["variant"], "reason": row["measured"]}
            for row in self.verdicts
            if (row["study"], row["workload"], row["answer"]) == (study, workload, "not run")
            # No timing tried: of one that did, the row names its file.
            and row["key"] in ("cost", "speed")
            and not row["evidence"]
            and row["variant"] not in self.not_run
        ]


def read_results(
    config: Section,
    not_run: Mapping[str, str],
    files: Sequence[str],
    *,
    verdicts: list[VerdictRow],
    results: Path,
    missing: Mapping[str, Missing] | None = None,
) -> Results:
    """Read the files of a report.

    Args:
        config: the config with every default filled in.
        not_run: variants that the machine could not run, and why.
        files: paths inside `results`.
        verdicts: of all studies.
        results: the results folder.
        missing: what a workflow that broke off has not made; then what cannot be read is missing
            too. None for one that ended well.

    Raises:
        TwinrunError: if a manifest of a run is not as the run wrote it, or another file is corrupt.
    """
    paths = {Path(file).relative_to(results).as_posix(): Path(file) for file in files}
    reading = _Reading(paths, missing)
    each = reading.each
    compared = _joined(each("comparisons/*.json", _comparisons))
    runs, failed = _sorted(each("runs/*/run.json", _run).values())
    # Each picture gets a number: ids inside of an SVG must be unique in the whole page.
    numbered = list(fnmatch.filter(paths, "figures/*.svg"))
    figures: dict[str, Markup | Missing] = dict(
        each("figures/*.svg", lambda name, path: inline(path, number=1 + numbered.index(name)))
    )
    figures |= {name: found for name, found in reading.missing.items() if name.endswith(".svg")}
    return Results(
        config=config,
        not_run=not_run,
        verdicts=verdicts,
        runs=runs,
        failed=failed,
        # One kind of record for both: of repeats there is no other variant.
        comparisons=[found for found in compared if found["against"] is None],
        contrasts=[found for found in compared if found["against"] is not None],
        locations=_joined(each("locations/*.json", _locations)),
        resumes=list(each("resumes/*.json", lambda _, p: study_records.read_stops(p)).values()),
        timings=_by_name(each("timings/*.json", lambda _, path: summary.read(path))),
        scalings=_by_name(each("scaling/*.json", lambda _, path: epoch_times.read(path))),
        rankings=_by_name(each("sweeps/*.json", lambda _, path: study_records.read_ranking(path))),
        contests=each("contests/*.json", lambda _, path: study_records.read_ranking(path)),
        matrices=_by_name(each("matrix/*.json", lambda _, path: study_records.read_matrix(path))),
        noises=each("noise/*.json", lambda _, path: read_noise(path)),
        datasets=_by_name(each("data/*.json", lambda _, path: read_manifest(path))),
        figures={
            name.removeprefix("figures/").removesuffix(".svg"): figure
            for name, figure in figures.items()
        },
        missing=reading.missing,
    )


class _Reading:
    """Reads files; of a workflow that broke off, what cannot be read is missing too."""

    def __init__(self, paths: Mapping[str, Path], missing: Mapping[str, Missing] | None) -> None:
        self.missing = dict(missing or {})
        self._paths, self._is_strict = paths, missing is None

    def each(self, pattern: str, reader: Callable[[str, Path], Found]) -> dict[str, Found]:
        """Read the files of a kind by their path in the results folder."""
        found = {}
        for name in fnmatch.filter(self._paths, pattern):
            try:
                found[name] = reader(name, self._paths[name])
            except Exception as error:  # files of any state, and readers of five libraries
                if self._is_strict:
                    raise
                self.missing[name] = unreadable(name, error)
        return found


def _by_name(found: Mapping[str, Found]) -> dict[str, Found]:
    """Name what was read after its file."""
    return {Path(path).stem: record for path, record in found.items()}


def _joined(found: Mapping[str, list[Found]]) -> list[Found]:
    return [record for records in found.values() for record in records]


def _comparisons(name: str, path: Path) -> list[ReportedComparison]:
    tensors, study = path.with_suffix(".tensors.csv"), name.split("/")[1]
    return [
        {**found, "study": study, "path": name, "tensors": tensors}
        for found in pair_records.read_comparisons(path)
    ]


def _locations(name: str, path: Path) -> list[ReportedLocation]:
    study = name.split("/")[1]
    return [{**found, "study": study, "path": name} for found in pair_records.read_locations(path)]


def _run(name: str, path: Path) -> ReportedRun | ReportedFailure:
    manifest, folder = read_ended(path), name.removesuffix("/run.json")
    if left_network(manifest):
        run: ReportedRun = {**manifest, "folder": folder, "path": path}
        return run
    failure: ReportedFailure = {**manifest, "folder": folder}
    return failure


def _sorted(
    found: Iterable[ReportedRun | ReportedFailure],
) -> tuple[list[ReportedRun], list[ReportedFailure]]:
    """Return the runs that left a network, and those that failed."""
    runs: list[ReportedRun] = []
    failed: list[ReportedFailure] = []
    for run in found:
        if "path" in run:
            runs.append(cast(ReportedRun, run))
        else:
            failed.append(cast(ReportedFailure, run))
    return runs, failed
