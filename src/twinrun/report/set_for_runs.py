"""What an answer rests on beside its comparison: what Twinrun sets for the runs behind it.

A script of one's own calls `seed_everything` and makes a Trainer. What a run sets beyond that is a
condition of its answer. Where the training said what it really had, that is read, else its
settings; what the shell had set already is no doing of ours.
"""

from collections.abc import Iterable, Sequence
from typing import TypedDict

from twinrun.comparison.trace_words import traced_clause
from twinrun.process.cached_sources import files_known
from twinrun.process.environment import VARIABLE
from twinrun.process.machine import THREADS
from twinrun.report.results import ReportedRun
from twinrun.run_files import variant_of, workload_of
from twinrun.wording import some

# Of every run, in `training.assemble` and `process.launching`.
OF_EVERY_RUN = (
    "a fresh process for each run",
    "data workers seeded too (seed_everything with workers=True), the data module given the seed "
    "if it takes one",
    "no sampler replaced (use_distributed_sampler=False)",
)
REHEARSED = (
    "one step rehearsed in a process of its own before the first run (rehearsal: true): what the "
    "module writes to the disk there, every run finds"
)
UNIDENTIFIED = "data not identified"


class SetForRuns(TypedDict):
    """The conditions of an answer."""

    summary: str
    """The ones that may change an answer, in a line."""
    clauses: list[str]
    """All of them."""


def set_for_runs(runs: Sequence[ReportedRun], *, is_rehearsed: bool) -> SetForRuns | None:
    """Return what was set for some runs of one workload and variant; None if none has trained.

    Args:
        runs: with what each of them really had.
        is_rehearsed: whether the config has its workloads rehearsed before any run.
    """
    started = [run for run in runs if run["actual"] is not None]
    if not started:
        return None
    variables = list(dict.fromkeys(name for run in started for name in _set(run)))
    switches = list(dict.fromkeys(clause for run in started for clause in _switches(run)))
    unknown = any(run["data"] is None for run in runs)
    fixed = [name for name in variables if name not in THREADS]
    short = [f"{' and '.join(fixed)} fixed"] if fixed else []
    short += [*switches, *([UNIDENTIFIED] if unknown else [])]
    clauses = [f"{name}={_values(name, started)}" for name in variables]
    if unknown:
        clauses.append(
            f"{UNIDENTIFIED}: the workload names no dataset, so that nobody can say whether its "
            f"data module would read the same bytes again{_but(started)}; the batches of the runs "
            f"are compared"
        )
    return {
        "summary": ", ".join(short),
        "clauses": [*clauses, *switches, *_of_trainer(started), *OF_EVERY_RUN]
        + list(dict.fromkeys(map(_of_trace, started)))
        + ([REHEARSED] if is_rehearsed else []),
    }


def _but(runs: Iterable[ReportedRun]) -> str:
    """Name the files that are known all the same, as Python opened them."""
    several = [files_known(run["read_files"]) for run in runs if "read_files" in run]
    if not (files := set[str]().union(*several)):
        return ""
    return (
        f", but for {some(sorted(files))}, known by what {'it' if len(files) == 1 else 'they'} held"
    )


def _of_trace(run: ReportedRun) -> str:
    """Say at which steps a run took fingerprints."""
    return (
        traced_clause(variant_of(run).traced, run["steps"]) or "a fingerprint taken at every step"
    )


def _set(run: ReportedRun) -> dict[str, str]:
    """Return the environment variables that the run had from us, not from the shell."""
    actual = run["actual"]
    if actual is None:
        return {}
    inherited = run["environment"]["identity"]
    return {
        name: value
        for name, value in actual["variables"].items()
        if inherited.get(f"{VARIABLE}{name}") != value
    }


def _values(name: str, runs: Iterable[ReportedRun]) -> str:
    return " or ".join(dict.fromkeys(_set(run).get(name, "unset") for run in runs))


def _switches(run: ReportedRun) -> list[str]:
    """Name torch's switches that are not as torch has them by itself."""
    actual, variant = run["actual"], variant_of(run)
    if actual is None:
        return []
    found = []
    if actual["deterministic"]:
        # `determinism` sets these together.
        filled = ", unwritten memory filled" if variant.fill_uninitialized_memory else ""
        found.append(f"reproducible algorithms{filled}")
    threads = actual["threads"]
    found.append(f"{threads} thread{'' if threads == 1 else 's'}")
    precision = actual["matmul_precision"]
    if precision != "highest":
        is_older = precision in ("high", "medium")
        found.append(f"float32 products in {precision} precision" if is_older else precision)
    return found


def _of_trainer(runs: Sequence[ReportedRun]) -> list[str]:
    """Name what the Trainer is given that a plain one has otherwise."""
    found = []
    for run in runs:
        variant, told = variant_of(run), workload_of(run).trainer
        if not told.num_sanity_val_steps:
            found.append("no sanity check before the training (num_sanity_val_steps=0)")
        if not variant.logging:
            found.append("no progress bar" if told.logger else "no logger and no progress bar")
        if not variant.checkpointing:
            but = " but of the workload's own callbacks" if told.callbacks else ""
            found.append(f"no checkpoints of Lightning{but}")
        found += ["no validation"] if not variant.validation else []
        if variant.compile != "none":
            found.append("compiled with Python numbers as constants (specialize_float)")
    return list(dict.fromkeys(found))
