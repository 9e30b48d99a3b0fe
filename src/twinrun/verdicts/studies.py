"""The verdicts of each study: which files it reads, and which questions it asks of them.

A new study needs a function here and an entry in STUDIES, with the readers of its files.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from twinrun.comparison.noise_records import NoiseTable, read_noise
from twinrun.comparison.pair_records import read_comparisons
from twinrun.comparison.study_records import (
    MatrixTable,
    Ranking,
    ResumeTable,
    read_matrix,
    read_ranking,
    read_stops,
)
from twinrun.run_files import read_ended
from twinrun.timing import epoch_times, summary
from twinrun.timing.epoch_times import Scaling
from twinrun.timing.trained import trained_of
from twinrun.verdicts import contest as contests
from twinrun.verdicts import noise as noises
from twinrun.verdicts import sweep as sweeps
from twinrun.verdicts.computation import agreements, computations
from twinrun.verdicts.equality import REPEATS, Compared, repeats, same_parameters
from twinrun.verdicts.evidence import Evidence, Record, VariantNotRun, read
from twinrun.verdicts.matrix import baseline_repeats, seed_matters, withstands_changes
from twinrun.verdicts.resume import resumes
from twinrun.verdicts.rows import Verdict, not_run
from twinrun.verdicts.speed import (
    COSTS,
    Timing,
    costs,
    epoch_speeds,
    prediction_speeds,
    trainer_costs,
    training_speeds,
)
from twinrun.verdicts.whole_speed import Ended, whole_speeds

FirstKind = TypeVar("FirstKind")
SecondKind = TypeVar("SecondKind")

# Where nothing was timed, so that no baseline is known.
COSTS_TIME = "Does it cost time?"
IS_FASTER = "Does it train faster?"
PREDICTS = "Does it predict faster?"


@dataclass(frozen=True, kw_only=True)
class StudyFiles:
    """What the rule `judge` is given for one study."""

    comparisons: Sequence[str]
    """JSON of its comparisons, or of what it has in their place: a matrix, a ranking, stops."""
    timings: Sequence[str]
    """JSON of its timings, or of the epochs of its runs."""
    missing: Sequence[VariantNotRun]
    """Its variants that could not run here, for each workload."""
    untimed: Sequence[VariantNotRun]
    """Its variants that run here and that no timing measures, likewise."""
    runs: Sequence[str] = ()
    """run.json of its whole trainings, where it asks how long they took; the baseline's first."""
    results: Path
    """The results folder, in which all files lie."""


def reproducibility(
    comparisons: Sequence[Compared],
    timings: Sequence[Timing],
    missing: Sequence[VariantNotRun],
    untimed: Sequence[VariantNotRun] = (),
    runs: Sequence[Ended] = (),
) -> list[Verdict]:
    """Say for each workload and variant whether it repeats, and what determinism costs."""
    rows = [*repeats(comparisons), *not_run(missing, "repeats", REPEATS)]
    rows += [row for timing in timings for of in (costs, computations) for row in of(timing)]
    baselines = {timing.found["workload"]: timing.found["baseline"] for timing in timings}
    for found in (*missing, *untimed):
        baseline = baselines.get(found["workload"])
        question = COSTS.format(baseline=baseline) if baseline else COSTS_TIME
        rows += not_run([found], "cost", question)
    return rows


def devices(
    contrasts: Sequence[Compared],
    timings: Sequence[Timing],
    missing: Sequence[VariantNotRun],
    untimed: Sequence[VariantNotRun] = (),
    runs: Sequence[Ended] = (),
) -> list[Verdict]:
    """Say for each variant and size whether it is faster than the baseline, and what it changes."""
    trained = trained_of(run.found for run in runs)
    rows = []
    for timing in timings:
        rows += training_speeds(timing, trained.get(timing.found["workload"]))
        rows += [row for of in (trainer_costs, computations, agreements) for row in of(timing)]
    rows += not_run([*missing, *untimed], "speed", IS_FASTER)
    return [*rows, *whole_speeds(runs), *same_parameters(contrasts)]


def acceleration(
    contrasts: Sequence[Compared],
    timings: Sequence[Timing],
    missing: Sequence[VariantNotRun],
    untimed: Sequence[VariantNotRun] = (),
    runs: Sequence[Ended] = (),
) -> list[Verdict]:
    """Say for each variant whether it trains and predicts faster, and what it changes."""
    trained = trained_of(run.found for run in runs)
    rows = []
    for timing in timings:
        rows += training_speeds(timing, trained.get(timing.found["workload"]))
        others = (prediction_speeds, trainer_costs, computations, agreements)
        rows += [row for of in others for row in of(timing)]
    rows += not_run([*missing, *untimed], "speed", IS_FASTER)
    rows += not_run(untimed, "prediction_speed", PREDICTS)
    return [*rows, *whole_speeds(runs), *same_parameters(contrasts)]


def parallel(
    comparisons: Sequence[Compared],
    scalings: Sequence[Evidence[Scaling]],
    missing: Sequence[VariantNotRun],
) -> list[Verdict]:
    """Say for each variant whether it repeats, whether it is faster, and what it changes."""
    # Both kinds come in one list: only a comparison across variants has another one's name.
    contrasts = [compared for compared in comparisons if compared.found["against"]]
    return [
        *repeats([compared for compared in comparisons if not compared.found["against"]]),
        *not_run(missing, "repeats", REPEATS),
        *[row for scaling in scalings for row in epoch_speeds(scaling)],
        *not_run(missing, "speed", IS_FASTER),
        *same_parameters(contrasts),
    ]


def sweep(
    rankings: Sequence[Evidence[Ranking]],
    noises_of_it: Sequence[Evidence[NoiseTable]],
    missing: Sequence[VariantNotRun],
) -> list[Verdict]:
    """Say of each sweep whether its trials finished, and whether its winner is more than luck."""
    rows: list[Verdict] = []
    for ranking in rankings:
        tables = [of.found for of in noises_of_it]
        rows += [sweeps.finished(ranking), *sweeps.best(ranking, tables)]
    return [*rows, *not_run(missing, "finished", sweeps.FINISHED)]


def contest(
    rankings: Sequence[Evidence[Ranking]],
    timings: Sequence[Timing],
    missing: Sequence[VariantNotRun],
) -> list[Verdict]:
    """Say of two candidates whether the first is better than the second."""
    rows = [contests.verdict(ranking) for ranking in rankings]
    return [*rows, *not_run(missing, "contest", contests.BETTER)]


def matrix(
    matrices: Sequence[Evidence[MatrixTable]],
    timings: Sequence[Timing],
    missing: Sequence[VariantNotRun],
) -> list[Verdict]:
    """Say whether the baseline repeats, and which changes leave it as it was.

    What a machine cannot run stands in the matrix itself.
    """
    return [
        row
        for found in matrices
        for row in (baseline_repeats(found), withstands_changes(found), *seed_matters(found))
    ]


def resume(
    tables: Sequence[Evidence[ResumeTable]],
    timings: Sequence[Timing],
    missing: Sequence[VariantNotRun],
) -> list[Verdict]:
    """Say for each type of checkpoint whether it leads to the bits of an uninterrupted run."""
    return resumes(tables, missing)


def noise(
    tables: Sequence[Evidence[NoiseTable]],
    timings: Sequence[Timing],
    missing: Sequence[VariantNotRun],
) -> list[Verdict]:
    """Say how much is luck, what each change is worth beside it, and which seed is an outlier."""
    rows = [row for table in tables for row in noises.verdicts(table)]
    return [*rows, *not_run(missing, "seed_or_rounding", noises.SEED_OR_ROUNDING)]


def _one(reader: Callable[[str], Record]) -> Callable[[str], list[Record]]:
    """Read a file of one record as a list of it."""
    return lambda path: [reader(path)]


def _study(
    verdicts: Callable[
        [Sequence[Evidence[FirstKind]], Sequence[Evidence[SecondKind]], Sequence[VariantNotRun]],
        list[Verdict],
    ],
    comparisons: Callable[[str], list[FirstKind]],
    timings: Callable[[str], list[SecondKind]],
) -> Callable[[StudyFiles], list[Verdict]]:
    """Read the files of a study, each kind by its reader, and draw the verdicts from them."""

    def judged(files: StudyFiles) -> list[Verdict]:
        return verdicts(
            read(files.comparisons, comparisons, results=files.results),
            read(files.timings, timings, results=files.results),
            files.missing,
        )

    return judged


def _timed_study(
    verdicts: Callable[
        [
            Sequence[Compared],
            Sequence[Timing],
            Sequence[VariantNotRun],
            Sequence[VariantNotRun],
            Sequence[Ended],
        ],
        list[Verdict],
    ],
) -> Callable[[StudyFiles], list[Verdict]]:
    """Do likewise for a study with timings, which may leave some of its variants out.

    Where it also asks how long its whole trainings took, they are among its files.
    """

    def judged(files: StudyFiles) -> list[Verdict]:
        return verdicts(
            read(files.comparisons, read_comparisons, results=files.results),
            read(files.timings, _timing, results=files.results),
            files.missing,
            files.untimed,
            read(files.runs, _one(read_ended), results=files.results),
        )

    return judged


def _of_sweep(files: StudyFiles) -> list[Verdict]:
    """Read the rankings of a sweep apart from the study `noise` of its workloads."""
    of_noise = [p for p in files.comparisons if Path(p).is_relative_to(files.results / "noise")]
    rankings = [path for path in files.comparisons if path not in of_noise]
    return sweep(
        read(rankings, _one(read_ranking), results=files.results),
        read(of_noise, _one(read_noise), results=files.results),
        files.missing,
    )


_timing, _scaling = _one(summary.read), _one(epoch_times.read)
# One signature for all: a study without timings or whole trainings gets an empty list of them.
STUDIES: Mapping[str, Callable[[StudyFiles], list[Verdict]]] = {
    "reproducibility": _timed_study(reproducibility),
    "devices": _timed_study(devices),
    "acceleration": _timed_study(acceleration),
    "parallel": _study(parallel, read_comparisons, _scaling),
    "sweep": _of_sweep,
    "contest": _study(contest, _one(read_ranking), _timing),
    "matrix": _study(matrix, _one(read_matrix), _timing),
    "resume": _study(resume, _one(read_stops), _timing),
    "noise": _study(noise, _one(read_noise), _timing),
}
