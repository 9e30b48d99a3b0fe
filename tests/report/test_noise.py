"""The study noise from its table to verdicts, figures and page, in planted cases."""

import html
import re
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from drawing import Drawing
from standard_config import resolved

from twinrun import artifacts
from twinrun.comparison.noise_records import write_noise
from twinrun.comparison.noise_steps import STEP_COLUMNS
from twinrun.config.resume_variants import of_stop
from twinrun.figures.noise import divergence, ladder
from twinrun.report import resume
from twinrun.report.page import write_report
from twinrun.report.worths import contrasts
from twinrun.verdicts.evidence import Evidence
from twinrun.verdicts.judge import verdicts_of
from twinrun.verdicts.noise import verdicts
from twinrun.verdicts.rows import write_rows

ROOT = Path(__file__).parents[2]
SEEDS = {1: (0.900, 0.0), 2: (0.912, 0.686), 3: (0.890, 0.671), 4: (0.905, 0.702), 5: (0.896, 0.69)}
ULPS = {
    1: (0.905, 0.391),
    2: (0.896, 0.385),
    3: (0.902, 0.402),
    4: (0.907, 0.378),
    5: (0.893, 0.395),
}
CHANGES = {
    "threads: 2": (0.899, 0.385),
    "layout: channels_last": (0.915, 0.39),
    "precision: bf16-mixed": (0.902, 0.55),
    "a learning rate too large": (0.9, 0.97),
    "a class dropped": (0.6, 0.69),
}


def run(kind, label, found, *, answer="differs", reason=None, lacks=None):
    accuracy, scores = found or (None, None)
    values = {"test_accuracy": accuracy, "scores": scores, "parameters": scores}
    return {
        "kind": kind,
        "label": label,
        "study": "matrix" if kind == "change" else "noise",
        "run": f"results/runs/{label}/run.json",
        "answer": answer,
        "reason": reason,
        "values": {} if found is None else values,
        "lacks": lacks or {},
        "not_finite": [],
    }


def table(*, seeds=SEEDS, ulps=ULPS, changes=CHANGES, reason=None):
    first, *others = seeds.items()
    return {
        "workload": "digits-few",
        "variant": "serial",
        "seed": first[0],
        "steps": 60,
        "reason": reason,
        "measures": [
            {"name": "test_accuracy", "kind": "metric", "floor": 0.0},
            {"name": "scores", "kind": "rows", "floor": 0.0005},
            {"name": "parameters", "kind": "parameters", "floor": 2.0**-24},
        ],
        "runs": [
            run("reference", f"seed {first[0]}", first[1], answer="equal"),
            run("repeat", "repeat", first[1], answer="equal"),
            *(run("perturbation", f"one ULP {k}", found) for k, found in ulps.items()),
            *(run("seed", f"seed {k}", found) for k, found in others),
            *(run("change", label, found) for label, found in changes.items()),
            run("change", "logging: true", first[1], answer="equal"),
            run("change", "gpu", None, answer="not run", reason="no GPU on this machine"),
            run("change", "diverged", (None, 0.9), lacks={"test_accuracy": "it is nan"})
            | {"values": {"scores": 0.9}},
        ],
        "not_measured": {},
        "left_out": ["parallel, whose baseline is one-worker, seed 1"],
        "other_data": [],
        "samples": [1000],
        "half_a_seed": 12,
    }


def test_a_step_of_which_those_before_it_have_no_sample_is_not_said_to_be_the_first():
    """Red before: "after step 20 of 60", of a trace of every tenth step."""
    said = [
        row["measured"]
        for row in verdicts(
            Evidence(path="x", found=table() | {"half_a_seed": 20, "half_since": 11})
        )
    ]
    assert "after step 20 of 60, if not since step 11, rounding has moved the param" in said[0]


NOTES = [
    # The answers of the runs, the steps that have a distance, and what is said where none is seen.
    (["equal", "equal"], [1, 2], "every run is equal to the reference, after every step kept"),
    (["equal", "equal"], [], "every run is equal to the reference, at the end"),
    (["equal", "differs"], [1, 2], "no step that was kept shows a distance"),
    (["equal", "differs"], [], "no step that was kept shows a distance"),
    (["not run", "not run"], [], "no run was compared"),
]


@pytest.mark.parametrize(("answers", "steps", "note"), NOTES)
def test_the_figure_of_divergence_says_what_it_rests_on(tmp_path, answers, steps, note):
    """Red before: "every run is equal to the reference after every step", of each."""
    found = table()
    runs = [found["runs"][0], *(run("seed", a, (0.9, 0.5), answer=a) for a in answers)]
    path = tmp_path / "noise.json"
    write_noise(path, found | {"runs": runs, "half_a_seed": None})
    rows = [{"kind": "seed", "label": "x", "step": step, "relative_l2": 0.0} for step in steps]
    by_step = pd.DataFrame(rows, columns=list(STEP_COLUMNS))
    artifacts.write_csv(path.with_suffix(".steps.csv"), by_step)
    divergence(path, output=tmp_path / "divergence.svg")
    assert note in Drawing(tmp_path / "divergence.svg").texts


def test_the_figure_of_divergence_marks_steps_that_nobody_looked_at(tmp_path):
    """Red before: a line at the first step that was seen, as if it began there."""
    path = tmp_path / "noise.json"
    rows = [{"kind": "seed", "label": "x", "step": n, "relative_l2": 0.1} for n in (10, 20)]
    artifacts.write_csv(path.with_suffix(".steps.csv"), pd.DataFrame(rows))
    write_noise(path, table() | {"half_a_seed": 20})
    divergence(path, output=tmp_path / "divergence.svg")
    assert "it may be, before" not in Drawing(tmp_path / "divergence.svg").texts
    write_noise(path, table() | {"half_a_seed": 20, "half_since": 11})
    divergence(path, output=tmp_path / "divergence.svg")
    assert "it may be, before" in Drawing(tmp_path / "divergence.svg").texts


class Page:
    """A page that was read back."""

    def __init__(self, path):
        self.source = path.read_text(encoding="utf-8")
        text = re.sub("<(style|svg).*?</(style|svg)>|<[^>]+>", "", self.source, flags=re.DOTALL)
        self.text = re.sub(r"\s+", " ", html.unescape(text))


def page_of(folder, found):
    """Write the table, its figures, its verdicts and the page; give both of the last."""
    results = folder / "results"
    path = results / "noise/digits-few/serial.json"
    write_noise(path, found)
    steps = pd.DataFrame(
        [
            {"kind": run["kind"], "label": run["label"], "step": step, "relative_l2": far * step}
            for run, far in zip(found["runs"][2:], (1e-7, 2e-7, 1e-2, 2e-2), strict=False)
            for step in range(1, 31)
        ],
        columns=list(STEP_COLUMNS),
    )
    artifacts.write_csv(path.with_suffix(".steps.csv"), steps)
    figures = []
    for draw in (ladder, divergence):
        figures.append(results / f"figures/noise/digits-few/serial/{draw.__name__}.svg")
        draw(path, output=figures[-1])
    rows = verdicts_of(
        "noise",
        comparisons=[str(path)],
        timings=[],
        locations=[],
        not_run={},
        untimed={},
        workloads=["digits-few"],
        results=results,
    )
    write_rows(results / "verdicts.csv", rows)
    write_report(
        config=resolved(studies=["noise"]).config,
        not_run={},
        files=[str(path) for path in (results / "verdicts.csv", path, *figures)],
        templates=ROOT / "workflow/report",
        output=results / "report.html",
    )
    return rows, Page(results / "report.html")


def test_every_difference_of_a_section_says_what_it_is_worth():
    """Red before: those of variants and of resumed trainings said so among the verdicts alone."""
    found = table()
    stop = of_stop("mid_epoch", "lightning")
    for study, label in [("devices", "threads: 2"), ("resume", "a class dropped")]:
        (of,) = (of for of in found["runs"] if of["label"] == label)
        of["study"], of["label"] = study, stop if study == "resume" else "two"
    compared = [
        {"variant": "two", "against": "serial", "seed": seed, "answer": "differs"}
        for seed in (1, 2)
    ]
    stopped = {"stop": "mid_epoch", "resume": "lightning", "answer": "differs"}
    results = SimpleNamespace(
        noises={"noise/digits-few/serial.json": found},
        contrasts_of=lambda study, workload: compared,
        resumes=[{"workload": "digits-few", "variant": "serial", "steps": 60, "stops": [stopped]}],
        config={"resume": {"workloads": ["digits-few"]}},
        length_of=lambda workload: "3 epochs",
        absent=lambda study: [],
    )
    shown = contrasts(results, "devices", "digits-few")
    # The scale is of one seed, and so is the difference on it.
    assert [of["worth"] for of in shown] == ["no more than rounding", None]
    ((variant,),) = (of["variants"] for of in resume.section(results)["workloads"])
    assert variant["stops"][0]["by"]["lightning"]["worth"] == "more than another seed"


def test_each_planted_case_has_its_sentence(tmp_path):
    rows, page = page_of(tmp_path, table())
    answers = {row["answer"]: row["measured"] for row in rows if row["key"] == "worth"}
    assert list(answers) == [
        "no more than rounding",
        "no more than another seed",
        "more than another seed",
        "undecided",
        "not comparable",
    ]
    assert answers["no more than rounding"].startswith("threads: 2 (rounding: p = 1 by")
    assert answers["no more than another seed"].startswith(
        "precision: bf16-mixed (rounding: p < 0.001"
    )
    more = answers["more than another seed"]
    assert re.findall(r"(a [a-z ]+) \(", more) == ["a learning rate too large", "a class dropped"]
    assert "by scores" in more
    assert "by test_accuracy" in more
    assert re.search(r"layout: channels_last .* perturbations would prob", answers["undecided"])
    assert "no GPU on this machine" in page.text
    assert "Not run:" not in page.text
    assert answers["not comparable"] == "diverged (test_accuracy: it is nan)"
    (first,) = (row for row in rows if row["key"] == "seed_or_rounding")
    assert first["answer"] == "yes"
    assert "39.1% by one unit in the last place, 68.8% by another seed" in first["measured"]
    said = "with one run a side, differences of test_accuracy below 0.033 (3.3 points) are luck"
    assert said in first["measured"]
    assert "after step 12 of 60 rounding has moved the parameters half as far" in first["measured"]
    assert f"digits-few: {said}; 5 seeds a side tell 0." in page.text  # the advice
    assert "Left out: the changes of parallel, whose baseline is one-worker, seed 1" in page.text
    assert "Equal to the reference, bit for bit: logging: true" in page.text
    assert page.source.count("<svg ") == 2
    for label in CHANGES:
        assert label in page.text


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"reason": "the training failed: no memory"}, "not run, the training failed: no memory"),
        ({"seeds": {1: SEEDS[1]}}, "list more under noise.seeds"),
        ({"seeds": {1: SEEDS[1]}, "ulps": {1: ULPS[1]}, "changes": {}}, "list more"),
        ({"ulps": {}, "changes": {"threads: 2": (0.9, 0.3)}}, "fewer than two perturbed runs"),
        ({"seeds": {**SEEDS, 4: (0.2, 0.7)}}, "seed 4 with test_accuracy 0.2"),
        ({"ulps": dict.fromkeys(range(1, 6), (0.9, 0.0))}, "68.8% by another seed"),
    ],
)
def test_the_page_is_made_of_whatever_there_is(tmp_path, changes, expected):
    rows, page = page_of(tmp_path, table(**changes))
    assert rows
    assert expected in page.text
    assert "could not be" not in page.text
    has_floor = "reason" not in changes and len(changes.get("seeds", SEEDS)) > 2
    assert ("5 seeds a side tell" in page.text) == has_floor


def test_the_ladder_is_drawn_by_what_shows_rounding(tmp_path):
    """Red before: where rounding changed no class, it and all changes stood at 0 %."""
    found = table(ulps=dict.fromkeys(range(1, 6), (0.9, 0.0)))
    of_numbers = "scores (as numbers)"
    found["measures"].insert(2, {"name": of_numbers, "kind": "numbers", "floor": 1e-7})
    for entry in found["runs"]:
        far = {"perturbation": 1e-6, "change": 0.01, "seed": 0.5}.get(entry["kind"], 0.0)
        entry["values"] |= {of_numbers: far} if entry["values"] else {}
    _, page = page_of(tmp_path, found)
    drawn = tmp_path / "results/figures/noise/digits-few/serial/ladder.svg"
    assert "relative L2 distance of scores (as numbers)" in drawn.read_text(encoding="utf-8")
    assert "by scores (as numbers)" in page.text  # the answer's own reason


def test_a_baseline_that_does_not_repeat_is_said_to(tmp_path):
    found = table()
    found["runs"][1] |= {"answer": "differs"}
    rows, _ = page_of(tmp_path, found)
    assert "the baseline does not repeat" in rows[0]["measured"]


def test_without_any_measure_the_page_says_so(tmp_path):
    found = table()
    found["measures"], found["half_a_seed"] = [], None
    found["runs"] = [entry | {"values": {}} for entry in found["runs"]]
    rows, page = page_of(tmp_path, found)
    assert rows[0]["answer"] == "undecided"
    assert "there is nothing to compare" in page.text


def test_the_contents_of_a_contest_lead_somewhere(tmp_path):
    """Red before: the second candidate was listed, and its section is that of the first."""
    write_rows(tmp_path / "verdicts.csv", [])
    write_report(
        config=resolved(studies=["contest"]).config,
        not_run={},
        files=[str(tmp_path / "verdicts.csv")],
        templates=ROOT / "workflow/report",
        output=tmp_path / "report.html",
    )
    source = Page(tmp_path / "report.html").source
    leads = set(re.findall(r'href="#([^"]+)"', source))
    assert "contest-digits-few" in leads
    assert leads <= set(re.findall(r' id="([^"]+)"', source))
