"""What became of the jobs of a workflow, read from Snakemake where it calls `onerror`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, cast

from twinrun.report.missing import Job

if TYPE_CHECKING:  # it is there where a workflow runs, and nowhere else needed
    from snakemake.dag import DAG
    from snakemake.jobs import AbstractJob, GroupJob
    from snakemake.jobs import Job as SnakemakeJob


def ended_jobs(dag: "DAG", failed: "set[AbstractJob]") -> list[Job]:
    """Return all jobs of a workflow as they ended, those included that had nothing to do.

    Args:
        dag: of the workflow.
        failed: as the scheduler has them.
    """
    failures = set(_single(failed))

    def state_of(job: "SnakemakeJob") -> Literal["finished", "failed", "waiting"]:
        if job in failures:
            return "failed"
        # What was due and not done lies there from an earlier run, if at all.
        return "waiting" if dag.needrun(job) and not dag.finished(job) else "finished"

    return [
        Job(
            rule=job.rule.name,
            wildcards=dict(job.wildcards.items()),
            inputs=[str(path) for path in job.input],
            outputs=[str(path) for path in job.output],
            log=str(job.log[0]) if job.log else None,
            state=state_of(job),
        )
        for job in dag.jobs
    ]


def _single(jobs: "set[AbstractJob]") -> Iterator["AbstractJob"]:
    """List jobs one by one: of a group Snakemake says only that all of it failed."""
    for job in jobs:
        if job.is_group():
            yield from cast("GroupJob", job).jobs
        else:
            yield job
