"""A workflow that breaks off: its page holds what is finished, and the reason for the rest.

The jobs are those that Snakemake plans for the demo; the results are made from plain arrays. Each
rule and each figure in turn is taken away. At the end a workflow breaks off for real.
"""

import contextlib
import html
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from example_results import TEMPLATES, write_results
from standard_config import merged, resolved

from twinrun.config.inputs import Inputs
from twinrun.config.studies import STUDIES
from twinrun.config.targets import Targets
from twinrun.report.incomplete import write_incomplete_page
from twinrun.report.missing import Job

from .conftest import ROOT, Project, copied

RULES = (
    *("prepare", "train", "compare_repeats", "locate", "timing"),
    *("first_layer", "layers", "operations", "growth", "curves", "strip", "cost"),
    *("contact_sheet", "judge", "verdicts", "report"),
)
FIGURES = [
    *(f"denoiser/{name}" for name in RULES[5:12]),
    *(f"factorization/{name}" for name in RULES[5:12] if name != "strip"),
]
FIGURE_RULES = (*RULES[5:12], "contact_sheet")
SENTENCE = "the planted reason, with <b>tags</b> & a key"
NOT_MADE = "could not be written"


def planned(tmp_path_factory, config):
    """Return the jobs that a workflow would start from nothing, by what a dry run prints."""
    folder = tmp_path_factory.mktemp("planned")
    (folder / "work").mkdir()
    project = Project(copied(folder / "clone"), folder / "work")
    done = project.snakemake("--dry-run", config=config, check=0, CUDA_VISIBLE_DEVICES="")
    blocks = re.findall(r"^(?:local)?rule (\w+):\n((?:    .*\n)+)", done.text, flags=re.MULTILINE)
    return [_job(rule, dict(re.findall(r"^    (\w+): (.*)$", body, re.M))) for rule, body in blocks]


def _job(rule, fields):
    def listed(name):
        return fields[name].split(", ") if fields.get(name) else []

    return Job(
        rule=rule,
        wildcards=dict(pair.split("=", 1) for pair in listed("wildcards")),
        inputs=listed("input"),
        outputs=listed("output"),
        log=fields.get("log"),
        state="finished",
    )


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    return planned(tmp_path_factory, yaml.safe_load((ROOT / "tests/configs/demo.yaml").read_text()))


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    results = tmp_path_factory.mktemp("example") / "results"
    write_results(results)
    # What the example leaves out of what the demo leaves.
    shutil.copy(results / "data/digits.json", results / "data/ratings.json")
    (results / "verdicts").mkdir()
    shutil.copy(results / "verdicts.csv", results / "verdicts/reproducibility.csv")
    (results / "report.html").write_text("the page of an earlier run")
    return results


@pytest.fixture
def work(example, tmp_path, monkeypatch):
    """A working directory with a copy of the results."""
    shutil.copytree(example, tmp_path / "results")
    monkeypatch.chdir(tmp_path)


def broken_off(jobs, failed):
    """Return the jobs as they end where some fail, and write the logs of these."""
    states, ended = {}, []
    for job in jobs:  # a dry run prints them in the order of their needs
        states[job.name] = "finished"
        if any(
            path in other.outputs and states[other.name] != "finished"
            for path in job.inputs
            for other in jobs
            if other.name in states
        ):
            states[job.name] = "waiting"
        elif failed(job):
            states[job.name] = "failed"
            if job.log:
                Path(job.log).parent.mkdir(parents=True, exist_ok=True)
                Path(job.log).write_text(f"Traceback\n  ...\n{job.name}: {SENTENCE}\n")
        ended.append(replace(job, state=states[job.name]))
    return ended


def incomplete_page(ended, **sections):
    """Write the page of what is there; return its source and its words."""
    settings = resolved(**sections)
    targets = Targets(settings, {name: s(name, Inputs(settings)) for name, s in STUDIES.items()})
    page = write_incomplete_page(settings, targets, jobs=ended, templates=TEMPLATES)
    assert page == Path("results/incomplete.html")
    source = page.read_text(encoding="utf-8")
    words = html.unescape(re.sub(r"<[^>]*>", " ", source.partition("</style>")[2]))
    return source, re.sub(r"\s+", " ", words)


def test_the_rules_are_those_of_the_demo(jobs):
    assert {job.rule for job in jobs} == {*RULES, "all"}


@pytest.mark.one_in(9)
@pytest.mark.parametrize("rule", RULES)
def test_without_any_one_rule_the_page_is_made(jobs, work, rule):
    ended = broken_off(jobs, lambda job: job.rule == rule)
    source, words = incomplete_page(ended, studies=["reproducibility"])
    assert "This page is incomplete" in words
    assert NOT_MADE not in words
    failed = [job for job in ended if job.state == "failed"]
    for job in failed:
        assert f"{job.name} {SENTENCE}" in words
        assert f'href="{job.log.removeprefix("results/")}"' in source
    # What waits lies there from an earlier run, and is not taken for a result of this one.
    figures = [job for job in ended for path in job.outputs if path.endswith(".svg")]
    drawn = [job for job in figures if job.state == "finished"]
    places = re.findall(r"The figure [\w ]+ is missing\.", words)
    if rule in ("prepare", "train"):  # of no run it is known which dataset it has read
        assert source.count("<svg") == len([job for job in drawn if job.rule != "contact_sheet"])
        lost = [job for job in figures if job not in drawn and job.rule != "contact_sheet"]
        assert len(places) == len(lost)
        assert "figures/data/digits.svg" in words or rule == "train"
    else:
        assert source.count("<svg") == len(drawn)
        assert len(places) == len(figures) - len(drawn)
    answers = ("compare_repeats", "timing", "locate")
    missing = [job for job in ended if job.rule in answers and job.state != "finished"]
    assert source.count('badge">missing<') == (0 if rule == "judge" else len(missing))
    trained = [job for job in ended if job.rule == "train" and job.state == "finished"]
    assert f"{len(trained)} runs of training led to" in words
    # The whole page is another one.
    assert Path("results/report.html").read_text() == "the page of an earlier run"
    assert "is of an earlier run" in words


@pytest.mark.one_in(3)
@pytest.mark.parametrize("figure", FIGURES)
def test_without_any_one_figure_its_place_says_why(jobs, work, figure):
    path = f"results/figures/reproducibility/{figure}.svg"
    source, words = incomplete_page(
        broken_off(jobs, lambda job: path in job.outputs), studies=["reproducibility"]
    )
    assert source.count("<svg") == 13
    name = figure.partition("/")[2].replace("_", " ")
    place = words.index(f"The figure {name} is missing. {figure.partition('/')[2]} workload=")
    assert SENTENCE in words[place : place + 200]
    # In the section of its workload.

    assert NOT_MADE not in words


def test_of_two_variants_one_failed_the_other_ones_answer_stands(jobs, work):
    ended = broken_off(
        jobs,
        lambda job: (
            job.rule == "train"
            and job.wildcards
            == {"workload": "denoiser", "variant": "deterministic", "seed": "1", "repeat": "2"}
        ),
    )
    source, words = incomplete_page(ended, studies=["reproducibility"])
    assert "7 runs of training" in words
    assert "1,251 of 1,256 parameters differ" in words
    assert source.count('badge">missing<') == 2  # whether it repeats, and where it diverges
    assert "train workload=denoiser variant=deterministic seed=1 repeat=2 failed: the pl" in words


def test_a_file_that_cannot_be_read_is_missing(jobs, work):
    corrupt = Path("results/runs/denoiser/deterministic/seed1/repeat1/run.json")
    corrupt.write_text("{")
    ended = broken_off(jobs, lambda job: job.rule == "report")
    _, words = incomplete_page(ended, studies=["reproducibility"])
    assert "7 runs of training" in words
    assert f"Missing: {corrupt.relative_to('results')} . It cannot be read:" in words


def test_a_job_that_was_killed_has_no_last_words(jobs, work):
    ended = broken_off(jobs, lambda job: job.rule == "cost")
    first, second = (Path(job.log) for job in ended if job.rule == "cost")
    first.unlink()
    second.write_text(f"{'#' * 5000} cost loss: 0.5\n")
    _, words = incomplete_page(ended, studies=["reproducibility"])
    assert "it ended before its log began" in words
    assert "as a job that is killed does; its log ends with: " in words
    assert "cost loss: 0.5" in words
    assert "#" * 200 not in words


def test_many_failed_jobs_of_which_some_are_a_users_own_stay_readable(jobs, work):
    own = [
        Job(
            rule="own",
            wildcards={"number": str(number)},
            inputs=[],
            outputs=[f"own/{number}"],
            log=f"own/{number}.log",
            state="failed",
        )
        for number in range(100)
    ]
    ended = [*broken_off(jobs, lambda job: job.rule == "cost"), *own]
    source, words = incomplete_page(ended, studies=["reproducibility"])
    assert "102 jobs failed" in words
    assert "and 42 more" in words
    assert 'href="../own/1.log"' in source


def of_gate(jobs, **gate):
    """Return the jobs of the target `gate`, which asks for no figure and no page."""
    asked = [job for job in jobs if not (job.rule in FIGURE_RULES or job.rule in ("report", "all"))]
    none = {"wildcards": {}, "log": None}
    require = Job(
        rule="require", inputs=[], outputs=["results/gate.json"], state="finished", **none
    )
    return [
        *asked,
        require,
        Job(rule="audit_gate", inputs=["results/gate.json"], outputs=[], **{**none, **gate}),
    ]


@pytest.mark.parametrize("is_whole", [True, False])
def test_where_nothing_but_the_gate_failed_no_page_is_made(jobs, work, is_whole):
    """Red at 3a8023a without figures: "6 results are missing. Mend the fault"."""
    for path in [] if is_whole else Path("results/figures").rglob("*.svg"):
        path.unlink()
    settings = resolved(studies=["reproducibility"])
    targets = Targets(settings, {name: s(name, Inputs(settings)) for name, s in STUDIES.items()})
    ended = of_gate(jobs, state="failed")
    assert write_incomplete_page(settings, targets, jobs=ended, templates=TEMPLATES) is None


def test_what_no_target_asked_for_is_not_counted_as_missing(jobs, work):
    for path in Path("results/figures").rglob("*.svg"):
        path.unlink()
    ended = broken_off(of_gate(jobs, state="finished"), lambda job: job.rule == "timing")
    _, words = incomplete_page(ended, studies=["reproducibility"])
    assert "2 jobs failed, and 3 results are missing" in words  # two timings, the verdicts
    assert "it makes what is missing." in words
    assert "No target of this start asks for it" in words
    assert "It is gone" not in words


@pytest.mark.exhaustive
def test_of_all_studies_nothing_is_there(tmp_path_factory, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ended = broken_off(planned(tmp_path_factory, None), lambda job: job.rule == "prepare")
    source, words = incomplete_page(ended)
    assert NOT_MADE not in words
    for study in STUDIES:
        assert f'<section id="{study}"' in source
    assert "No run was made." in words
    # What is not known is not said.
    assert "a timing needs at least two variants" not in words
    assert "data not identified" not in words


@contextlib.contextmanager
def replaced(project, scripts):
    """Replace scripts of rules, and put them back."""
    files = {project.source / f"workflow/scripts/{name}.py": code for name, code in scripts.items()}
    before = {file: file.read_text() for file in files}
    try:
        for file, code in files.items():
            file.write_text(code)
        yield
    finally:
        for file, code in before.items():
            file.write_text(code)


@pytest.mark.exhaustive  # minutes; what it leaves is shown above of each rule
def test_a_workflow_that_breaks_off_leaves_its_page_and_the_next_run_the_whole_one(
    demo, demo_config
):
    page, whole = (demo.directory / f"results/{name}.html" for name in ("incomplete", "report"))
    before = whole.read_bytes()
    failing = (
        "from twinrun.process.job import job\nwith job(snakemake):\n    raise ValueError('planted')"
    )
    killed = "import os\nos.kill(os.getpid(), 9)"
    with replaced(demo, {"cost": failing, "growth": killed}):
        done = demo.snakemake(config=merged(demo_config, {}), check=1)
    assert "why the rest is missing: results/incomplete.html" in done.text
    source = page.read_text(encoding="utf-8")
    assert "cost workload=denoiser failed: ValueError: planted" in source
    assert "growth workload=denoiser failed: it ended" in source
    assert NOT_MADE not in source
    assert "Are all learnable parameters equal" in source
    assert whole.read_bytes() == before
    demo.snakemake(config=demo_config, check=0)
    assert not page.exists()
    assert "This page is incomplete" not in whole.read_text(encoding="utf-8")
