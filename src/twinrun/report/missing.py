"""What a workflow that broke off has not made, and why: for the page of what it has made.

A result counts as there only if the workflow says so: the file of a job that was to be done again
may still lie in the results folder, and is of another training.
"""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from twinrun.errors import sentence_of

MOST_LETTERS = 200  # of a log's last line
MOST_NAMED = 3  # failed jobs that are named where a result waits for more
GONE = "It is gone since it was made"
NOT_ASKED = "No target of this start asks for it"


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job, as Snakemake left it."""

    rule: str
    """Name of its rule."""
    wildcards: Mapping[str, str]
    """Their values by name."""
    inputs: Sequence[str]
    """Paths, from the working directory; likewise below."""
    outputs: Sequence[str]
    """What it makes, or would have made."""
    log: str | None
    """None for a rule without a log."""
    state: Literal["finished", "failed", "waiting"]
    """`finished` too where nothing had to be done; `waiting` of one that was never started."""

    @property
    def name(self) -> str:
        """Its name, as the job itself prints it."""
        return " ".join([self.rule, *(f"{key}={value}" for key, value in self.wildcards.items())])


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A job that failed."""

    name: str
    """See `Job`."""
    sentence: str
    """Why."""
    log: str | None
    """Path of its log, from the results folder."""


@dataclass(frozen=True, kw_only=True)
class Missing:
    """A result that is not there."""

    path: str
    """In the results folder."""
    cause: str
    """Why it is not there, in a sentence without its full stop."""
    rule: str | None = None
    """What would have made it; None where that is not what is wrong."""
    failures: tuple[Failure, ...] = ()
    """The failed jobs behind it."""
    studies: tuple[str, ...] = ()
    """Those that ask for it; empty where none is known."""
    is_asked: bool = True
    """Whether this start of the workflow was to make it."""

    @property
    def is_figure(self) -> bool:
        """Whether it is a figure."""
        return self.path.endswith(".svg")

    def is_of(self, workload: str) -> bool:
        """Say whether it is a result of a workload, by its path."""
        *folders, name = Path(self.path).with_suffix("").parts[1:]
        # A trial is called after its workload, `name~key~value`; a timing `study_name`.
        named = [part.partition("~")[0] for part in (*folders, name)]
        return workload in named or name.endswith(f"_{workload}")


def failures_of(jobs: Iterable[Job], results: Path) -> list[Failure]:
    """Return the jobs that failed, with their sentences."""
    return [_failure(job, results) for job in jobs if job.state == "failed"]


def missing_results(
    asked: Mapping[str, Sequence[str]], jobs: Sequence[Job], results: Path
) -> dict[str, Missing]:
    """Return what is missing of some results, by its path in the results folder.

    Args:
        asked: paths of results, from the working directory, and the studies that ask for each.
        jobs: of the workflow.
        results: the results folder.
    """
    makers = {output: job for job in jobs for output in job.outputs}
    behind = _failures_behind(jobs, makers, results)
    found: dict[str, Missing] = {}
    for path, studies in asked.items():
        job = makers.get(path)
        is_due = job is not None and job.state != "finished"
        if not is_due and Path(path).is_file():
            continue
        failures = behind[job.name] if job is not None and is_due else ()
        name = Path(path).relative_to(results).as_posix()
        found[name] = Missing(
            path=name,
            rule=None if job is None else job.rule,
            cause=_cause(failures) if is_due else GONE if job else NOT_ASKED,
            failures=failures,
            studies=tuple(studies),
            is_asked=job is not None,
        )
    return found


def unreadable(path: str, error: Exception) -> Missing:
    """Return what stands for a result that is there and cannot be read."""
    return Missing(path=path, cause=f"It cannot be read: {sentence_of(error)}")


def _cause(failures: Sequence[Failure]) -> str:
    if not failures:
        return "Its job was not done when the workflow ended"
    named = [f"{failure.name} failed: {failure.sentence}" for failure in failures[:MOST_NAMED]]
    more = len(failures) - MOST_NAMED
    return "; ".join(named) + (f"; and {more} more failed" if more > 0 else "")


def _failures_behind(
    jobs: Sequence[Job], makers: Mapping[str, Job], results: Path
) -> dict[str, tuple[Failure, ...]]:
    """Return for each unfinished job which failed jobs it waits for, itself included."""
    unfinished = {job.name: job for job in jobs if job.state != "finished"}
    known: dict[str, dict[str, Failure]] = {}

    def behind(job: Job) -> dict[str, Failure]:
        if job.name not in known:
            found: dict[str, Failure] = {}
            if job.state == "failed":
                found[job.name] = _failure(job, results)
            else:
                makers_of_inputs = (makers.get(path) for path in job.inputs)
                for maker in makers_of_inputs:
                    if maker is not None and maker.name in unfinished:
                        found |= behind(maker)
            known[job.name] = found
        return known[job.name]

    return {name: tuple(behind(job).values()) for name, job in unfinished.items()}


def _failure(job: Job, results: Path) -> Failure:
    log = None if job.log is None else Path(job.log)
    # A workflow that uses ours may have rules of its own, whose logs lie elsewhere.
    path = None if log is None else Path(os.path.relpath(log, results)).as_posix()
    return Failure(name=job.name, sentence=_sentence(job.name, log), log=path)


def _sentence(name: str, log: Path | None) -> str:
    """Return the sentence that ends a log; say so if there is none.

    A process that is killed has no last words, and one that fails before its script begins (an
    environment without the package) no log.
    """
    if log is None or not log.is_file():
        return "it ended before its log began"
    text = log.read_text(encoding="utf-8", errors="replace").strip()
    # As `process.job` ends a log: the job's whole name, since a module may print "train loss: 0.5".
    _, found, sentence = f"\n{text}".rpartition(f"\n{name}: ")
    if found:
        return sentence
    ended = "it ended without a sentence, as a job that is killed does"
    # The last letters of it: a progress bar is a line without an end.
    return f"{ended}; its log ends with: {text.splitlines()[-1][-MOST_LETTERS:]}" if text else ended


def by_cause(missing: Collection[Missing]) -> list[tuple[Missing, list[str]]]:
    """Group what is missing for one cause: the first of each group, and the paths of all."""
    groups: dict[str, tuple[Missing, list[str]]] = {}
    for found in missing:
        groups.setdefault(found.cause, (found, []))[1].append(found.path)
    return list(groups.values())
