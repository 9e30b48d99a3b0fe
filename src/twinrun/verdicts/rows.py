"""What a verdict is, and the table of verdicts: one reader, one writer.

Programs choose a verdict by its `key`, never by the text of its question: the gate, the report and
scripts that read verdicts.csv. Questions are for readers, and their words may change.
"""

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypedDict, get_args

import msgspec

from twinrun import artifacts
from twinrun.errors import TwinrunError
from twinrun.verdicts.evidence import VariantNotRun

Key = Literal[
    "repeats",  # do runs of the same settings and seed leave the same bits?
    "repeats_logged",  # do they log the same values in every epoch, validation included?
    "repeats_metrics",  # do they measure the same on test data?
    "repeats_predictions",  # do they predict the same after training?
    "seed_matters",  # does another seed lead to another training?
    "first_operation",  # from which operation of the step does the difference flow?
    "cost",  # does a training step take longer than the baseline's? (reproducibility)
    "speed",  # is training faster than under the baseline? (devices, acceleration, parallel)
    "whole_speed",  # was the whole training faster, as it ran? (devices, acceleration)
    "prediction_speed",  # is prediction faster than under the baseline?
    "trainer_cost",  # does Lightning's Trainer add time to the bare training step?
    "same_computation",  # does a fast training step compute what the plain one does, to rounding?
    "same_predictions",  # are predictions those of the baseline, except for rounding?
    "same_parameters",  # does training end in the bits that the baseline's training ends in?
    "finished",  # did every trial of a sweep finish?
    "best",  # is one choice of a sweep better than all others by more than the luck of seeds?
    "contest",  # is the first of two candidates better by more than the luck of seeds?
    "withstands_changes",  # do the bits stay the same when one setting is changed?
    "resumes_lightning",  # does Lightning's checkpoint lead to the uninterrupted run's bits?
    "resumes_twinrun",  # does Twinrun's?
    "seed_or_rounding",  # does another seed change the result more than rounding does?
    "worth",  # what is a change worth, on the scale of rounding and seeds?
    "lucky_seed",  # is one of the seeds an outlier among the others?
]
Answer = Literal[
    "equal",  # every bit is the same
    "differs",  # at least one bit is not
    "yes",
    "no",
    "better",  # of two candidates, the first, by more than the luck of seeds
    "worse",
    "not worse",  # of two candidates, the first, by less than a margin, if at all
    "no more than rounding",  # a change moves the result as one unit in the last place does
    "no more than another seed",  # more than that, and no more than another seed does
    "more than another seed",
    "not run",  # this machine or this training lacks what it takes
    "not comparable",  # the runs are no pair
    "undecided",  # it was looked at, and what was measured allows neither yes nor no
]
KEYS: tuple[Key, ...] = get_args(Key)


class Verdict(TypedDict):
    """What one study says of one workload and variant."""

    key: Key
    """Which question it is, for programs."""
    workload: str
    """Its name in the config."""
    variant: str
    """The variant's name in the config; empty where a question is about several."""
    question: str
    """The question in plain words."""
    answer: Answer
    """The answer in one word or two."""
    measured: str
    """What the answer rests on, in words with numbers; why, where there is none."""
    evidence: str
    """Path of the file it is drawn from, in the results folder; empty where nothing was run."""


class VerdictRow(Verdict):
    """A verdict in the table of all studies."""

    study: str
    """Name of the study that it belongs to."""


# The order of the table's columns, which is not that of the fields: readers begin with the study.
# fmt: off
COLUMNS = (
    "study", "key", "workload", "variant", "question", "answer", "measured", "evidence",
)
# fmt: on


def write_rows(path: str | Path, rows: Iterable[VerdictRow]) -> None:
    """Write verdicts as CSV, a line each."""
    # An unknown key or answer shows here, where it is made, and not where the table is read.
    checked = [msgspec.convert(row, VerdictRow) for row in rows]
    # newline="": the csv module ends its lines itself, and a cell may hold line breaks.
    with (
        artifacts.atomic(path) as temporary,
        temporary.open("w", encoding="utf-8", newline="") as file,
    ):
        table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows(checked)


def read_rows(path: str | Path) -> list[VerdictRow]:
    """Read verdicts as `write_rows` wrote them.

    Raises:
        TwinrunError: if a column is missing or unknown, or a row has a key or an answer that no
            verdict has; if it is empty, or no UTF-8.
    """
    try:
        with Path(path).open(encoding="utf-8", newline="") as file:
            table = csv.DictReader(file)
            # Inside of `with`, since the reader takes a line at a time; first the names, since it
            # would look for them in the closed file of an empty one.
            names = tuple(table.fieldnames or ())
            rows = list(table)
    except (UnicodeDecodeError, csv.Error) as error:
        raise _corrupt(path, str(error)) from None
    if names != COLUMNS:
        found = ", ".join(names) or "none"
        raise _corrupt(path, f"its columns are {found}, not {', '.join(COLUMNS)}")
    try:
        # A line with too few cells has None in the last ones, and one with too many a key None.
        return msgspec.convert(rows, list[VerdictRow])
    except msgspec.ValidationError as error:
        raise _corrupt(path, str(error)) from None


def _corrupt(path: str | Path, what: str) -> TwinrunError:
    return TwinrunError(f"{path} is no table of verdicts ({what}): delete it and it is made again")


def not_run(missing: Iterable[VariantNotRun], key: Key, question: str) -> list[Verdict]:
    """Return a verdict for each variant that could not run here: the question stays open."""
    return [
        {
            "key": key,
            "workload": found["workload"],
            "variant": found["variant"],
            "question": question,
            "answer": "not run",
            "measured": found["reason"],
            "evidence": "",
        }
        for found in missing
    ]
