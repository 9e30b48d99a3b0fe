# Where jobs fail: a page of what is finished, with the reasons in the place of the rest.

import atexit

from twinrun.verdicts.failed_runs import failed_runs, kept_failures

# Here, as Snakemake calls no hook where nothing is to be done.
FAILED_BEFORE = failed_runs(TARGETS.runs()) if workflow.is_main_process else []
for line in kept_failures(FAILED_BEFORE):
    print(line, file=sys.stderr)


def discard_page_of_earlier_start():
    """Remove the incomplete page of an earlier start."""
    twinrun.artifacts.remove("results/incomplete.html")


def write_page_of_what_is_there():
    """Write results/incomplete.html, and say so; the exit code of the workflow stays what it is."""
    # Here, as they import pandas and matplotlib, which no parse should wait for.
    from twinrun.report.ended_jobs import ended_jobs
    from twinrun.report.incomplete import only_the_gate_failed, write_incomplete_page

    try:
        templates = os.path.commonpath(TEMPLATES)
        jobs = ended_jobs(workflow.dag, workflow.scheduler.failed)
        if only_the_gate_failed(jobs):
            end_with_answer_of_gate()
        page = write_incomplete_page(SETTINGS, TARGETS, jobs=jobs, templates=templates)
    except Exception as error:  # a full disk takes no page either
        print(f"no page of what is finished could be made: {error}", file=sys.stderr)
        return
    if page is not None:
        text = f"\nwhat is finished, and why the rest is missing: {page}\n"
        print(text, file=sys.stderr)


def show_failures_of_this_start():
    """Print which trainings failed and are kept."""
    failed = [run for run in failed_runs(TARGETS.runs()) if run not in FAILED_BEFORE]
    for line in kept_failures(failed):
        print(line, "", sep="\n", file=sys.stderr)


def end_with_answer_of_gate():
    """Print the gate's lines as the last ones, behind Snakemake's own about a failed job."""
    from twinrun.gate.gate import answer

    text = answer("results/gate.json", PARAMS.hash_of_config())
    atexit.register(lambda: print("", text, sep="\n", file=sys.stderr, flush=True))
