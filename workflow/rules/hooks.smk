# What is done before the first job and after the last one, in Snakemake itself.

# The folder of our rules: another workflow may give them other names, but no other scripts.
RULES = workflow.current_basedir


def of_script(script, jobs):
    """Return those of some jobs that execute one of our scripts."""
    names = (f"../scripts/{script}.py", RULES)
    return [job for job in jobs if (job.rule.script, job.rule.basedir) == names]


def check_environment():
    """Refuse an environment in which no job could be started, or no training work."""
    # Where software is deployed, a job has another Python.
    if not workflow.deployment_settings.deployment_method:
        try:
            check_python(sys.executable)
            check_own()
        except TwinrunError as error:
            raise WorkflowError(str(error)) from None


def check_threads():
    """Refuse to begin where a training would be given fewer threads than its bits depend on."""
    # Snakemake lowers what a job asks for to its own cores; a cluster's machines have others.
    if workflow.executor_plugin.name != "local":
        return
    trainings = of_script("train", workflow.dag.needrun_jobs())
    job = max(trainings, key=lambda job: job.params.run["cores"], default=None)
    if job is None:
        return
    name = " ".join(
        [job.rule.name, *(f"{k}={v}" for k, v in job.wildcards_dict.items())]
    )
    try:
        require_threads(job.params.run["cores"], granted=workflow.cores, of=name)
    except TwinrunError as error:
        raise WorkflowError(str(error)) from None


def rehearse_workloads():
    """Take one step of all that the config's workloads do; on Slurm on a node, as they will."""
    trainings = of_script("train", workflow.dag.jobs)[:1]
    resources = None
    if workflow.executor_plugin.name == "slurm":
        resources = dict(trainings[0].resources.items()) if trainings else {}
    try:
        if SETTINGS.config["rehearsal"]:
            rehearse(SETTINGS, SEARCH_PATH, resources=resources)
        for job in trainings:
            job.attempt = job.attempt  # asked anew what it needs, measured by now
    except TwinrunError as error:
        discard_judgement()
        raise WorkflowError(str(error)) from None


def check_gate():
    """Discard what is judged anew, as jobs may fail; refuse a gate that would pass in any case."""
    is_asked = of_script("require", workflow.dag.jobs)
    is_refused = is_asked and not SETTINGS.config["require"]
    if is_refused or of_script("require", workflow.dag.needrun_jobs()):
        discard_judgement()
    if is_refused:
        raise WorkflowError(
            "require: the gate has nothing to judge; name what must hold, such as "
            "{deterministic_pair: equal}"
        )


def show_verdicts():
    """Print the verdicts where the workflow made them, and where the page is."""
    # Here, as it imports pandas, which no parse should wait for.
    from twinrun.verdicts.judge import summary_lines

    verdicts, page = Path("results/verdicts.csv"), Path("results/report.html")
    # One that asks for a run alone is not told what another config has left here.
    is_asked = of_script("verdicts", workflow.dag.jobs) and verdicts.exists()
    lines = summary_lines(verdicts) if is_asked else []
    if of_script("report", workflow.dag.jobs):
        lines += ["", f"Report: {page}"]
    print("", *lines, "", sep="\n", file=sys.stderr)
