"""The page of a workflow that broke off: what is finished, and why the rest is missing.

It is a page of its own beside the whole one, whose place it never takes. Only what the workflow has
finished stands in it: of a study whose verdicts were not judged they are drawn from the comparisons
and timings that are there.
"""

import traceback
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from twinrun.config.settings import Settings
from twinrun.config.studies import Study
from twinrun.config.targets import Targets
from twinrun.errors import sentence_of
from twinrun.report.missing import Job, Missing, failures_of, missing_results
from twinrun.report.page import BrokenOff, write_page
from twinrun.report.results import read_results
from twinrun.verdicts.judge import verdicts_of
from twinrun.verdicts.rows import VerdictRow, read_rows

RESULTS = Path("results")
PAGE, WHOLE_PAGE = RESULTS / "incomplete.html", RESULTS / "report.html"
GATE = str(RESULTS / "gate.json")


def write_incomplete_page(
    settings: Settings, targets: Targets, *, jobs: Sequence[Job], templates: str | Path
) -> Path | None:
    """Write the page from what is there; return its path, None where it would tell nothing.

    That is where no job failed, where no verdict was asked for (of a run alone, say), where all
    that the page reads is there, and where the gate alone failed, whose answer is no.

    Args:
        settings: of the config.
        targets: what its studies ask for.
        jobs: all of the workflow, as they ended.
        templates: as for `page.write_report`.
    """
    if only_the_gate_failed(jobs):
        return None
    made = {output for job in jobs for output in job.outputs}
    studies = {
        name: targets.studies[name]
        for name in settings.studies
        if f"{RESULTS}/verdicts/{name}.csv" in made
    }
    asked: dict[str, list[str]] = {path: [] for path in targets.datasets({}) if path in made}
    for name, study in studies.items():
        for path in (_table_of(name), *study.reported()):
            asked.setdefault(path, []).append(name)
    failures, missing = failures_of(jobs, RESULTS), missing_results(asked, jobs, RESULTS)
    is_due = any(str(WHOLE_PAGE) in job.outputs for job in jobs if job.state != "finished")
    if not failures or not (any(gap.is_asked for gap in missing.values()) or is_due):
        return None
    rows: list[VerdictRow] = []
    answers: dict[str, list[Missing]] = {}
    for name, study in studies.items():
        found, without = _judged(name, study, settings, missing)
        rows += found
        answers[name] = without
    results = read_results(
        {**settings.config, "studies": list(studies)},
        settings.not_run,
        [path for path in asked if _in_results(path) not in missing],
        verdicts=rows,
        results=RESULTS,
        missing=missing,
    )
    broken_off = BrokenOff(
        ended=datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
        failures=failures,
        answers=answers,
        whole_page=WHOLE_PAGE.is_file(),
        is_page_due=is_due,
        config=settings.config,
    )
    write_page(results, templates=templates, output=PAGE, broken_off=broken_off)
    return PAGE


def only_the_gate_failed(jobs: Sequence[Job]) -> bool:
    """Say whether all else was done: then nothing broke off, and the gate has answered."""
    left = [job for job in jobs if job.state != "finished"]
    # Known by what it reads: another workflow may give the rule another name.
    return [(job.inputs, job.outputs) for job in left] == [([GATE], [])]


def _table_of(study: str) -> str:
    return f"{RESULTS}/verdicts/{study}.csv"


def _in_results(path: str) -> str:
    return Path(path).relative_to(RESULTS).as_posix()


def _judged(
    name: str, study: Study, settings: Settings, missing: Mapping[str, Missing]
) -> tuple[list[VerdictRow], list[Missing]]:
    """Return the verdicts of a study that can be given, and what the others would rest on."""
    table = _in_results(_table_of(name))
    if table not in missing:
        return read_rows(_table_of(name)), []
    paths = study.compared(), study.timed(), study.located(), study.clocked()
    without = [missing[key] for kind in paths for key in map(_in_results, kind) if key in missing]
    there = [[path for path in kind if _in_results(path) not in missing] for kind in paths]
    try:
        rows = verdicts_of(
            name,
            comparisons=there[0],
            timings=there[1],
            locations=there[2],
            runs=there[3],
            not_run=settings.not_run_of(name),
            untimed=settings.untimed_of(name),
            workloads=settings.config[name]["workloads"],
            results=RESULTS,
        )
    except Exception as error:  # as of the rule `judge`, whose failure may be the reason
        traceback.print_exc()
        cause = f"The verdicts cannot be drawn: {sentence_of(error)}"
        return [], [*without, Missing(path=table, rule="judge", cause=cause, studies=(name,))]
    return rows, without
