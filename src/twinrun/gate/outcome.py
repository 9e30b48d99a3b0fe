"""What the gate decided: the record that lies in results/gate.json, its reader and its writer."""

from pathlib import Path
from typing import Literal, TypedDict

from twinrun import artifacts
from twinrun.gate.expected_fingerprints import Entry

Outcome = Literal[
    "pass",  # everything required holds
    "fail",  # something was compared or measured, and does not hold
    "not comparable",  # nothing failed, but something could not be judged
]
Judged = tuple[Outcome, str]  # and why
SEVEREST_FIRST: tuple[Outcome, ...] = ("fail", "not comparable", "pass")


class GateLine(TypedDict):
    """One thing that is required, judged by one result."""

    requirement: str
    """As the config has it, `name: value`."""
    outcome: Outcome
    """Whether it holds."""
    why: str
    """What was compared with it, in words."""


class GateOutcome(TypedDict):
    """Everything that is required, judged."""

    outcome: Outcome
    """The severest one of the lines."""
    lines: list[GateLine]
    """In the order of the config."""
    fingerprint: str | None
    """Path of the file with the expected fingerprints; None if the config names none."""
    rests_on: list[str]
    """The run.json of every run that the answers rest on, relative to the working directory."""
    timings: list[str]
    """The JSON of every timing that they rest on, likewise."""
    judged: dict[str, str]
    """SHA-256 of the results that were judged, and of what is behind them, by path, likewise."""
    configs: dict[str, str]
    """Hashes of what the config files said, by their paths, likewise."""
    config: str
    """Hash of the whole config, with what the command line and the schema add to the files."""
    beside: dict[str, list[str]]
    """The modules in each folder that the users' modules were imported from, likewise."""
    found: list[Entry]
    """The fingerprints of the runs as they are now, which `--accept` makes the expected ones."""


def severest(lines: list[GateLine]) -> Outcome:
    """Return the outcome of all lines together."""
    outcomes = {line["outcome"] for line in lines}
    # There always is a line: `require` refuses to judge nothing.
    return next(outcome for outcome in SEVEREST_FIRST if outcome in outcomes)


def shown(line: GateLine) -> str:
    """Say a line.

    >>> shown({"requirement": "resume: equal", "outcome": "fail", "why": "digits: differs"})
    'fail: resume: equal: digits: differs'
    """
    return f"{line['outcome']}: {line['requirement']}: {line['why']}"


def write_outcome(path: str | Path, outcome: GateOutcome) -> None:
    """Write gate.json."""
    artifacts.write_record(path, outcome, GateOutcome)


def folder_of(gate: str | Path) -> Path:
    """Return the working directory of results/gate.json, to which paths of runs are relative."""
    # By its path: results/ may be a link to another disk.
    return Path.cwd().joinpath(gate).parents[1]


def read_outcome(path: str | Path) -> GateOutcome:
    """Read gate.json.

    Raises:
        TwinrunError: if it is not what `write_outcome` writes.
    """
    return artifacts.read_record(path, GateOutcome)
