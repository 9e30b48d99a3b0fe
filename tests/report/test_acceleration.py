"""What the section says of a speed-up is what the verdict says."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from example_runs import CONTEXT, SECONDS
from example_timings import timing_summary
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from twinrun import formatting
from twinrun.report import acceleration
from twinrun.timing.trained import Trained
from twinrun.timing.whole_trainings import whole_trainings
from twinrun.verdicts.evidence import Evidence
from twinrun.verdicts.speed import training_speeds

FILTERS = ("count", "measure", "seconds", "conditions", "ulp", "without_empty_columns")


def median(variant, *, unstable):
    return {
        "variant": variant,
        "device": "cpu",
        "size": None,
        "phase": "train",
        "seconds_per_step": 0.1,
        "iqr_share": 0.3 if unstable else 0.02,
        "rounds": 12,
        "steps": 5,
        "unstable": unstable,
    }


@pytest.mark.parametrize("unstable", [False, True])
def test_a_ratio_says_beside_it_that_the_clock_was_unstable(unstable):
    """Red before: the section said `faster` without a word where the verdict was undecided."""
    ratio = {"variant": "fast", "size": None, "phase": "train", "time_ratio": 0.84}
    found = timing_summary(
        baseline="plain",
        ratios=[{**ratio, "low": 0.8, "high": 0.9}],
        medians=[median(name, unstable=unstable) for name in ("plain", "fast")],
    )
    [shown] = acceleration._timing(found, None)["ratios"]
    doubt = "; unstable: rounds of fast and plain spread by up to 30%, as much as the difference"
    assert shown["doubt"] == (doubt if unstable else "")
    [row] = training_speeds(Evidence(path="timings/it.json", found=found))
    assert row["answer"] == ("undecided" if unstable else "yes")
    assert row["measured"].endswith(doubt) == unstable


@pytest.mark.parametrize(("epochs", "steps"), [(-1, [50]), (3, [])])
def test_the_whole_of_a_stream_is_derived_where_its_steps_are_known(epochs, steps):
    """Red before: never, though `max_steps` says it."""
    found = timing_summary(
        baseline="plain",
        medians=[median("plain", unstable=False)],
        extents=[{"size": None, "train": None, "predict": None}],
    )
    workload = found["settings"]["workload"]
    told = replace(workload.trainer, max_steps=50)
    found["settings"]["workload"] = replace(workload, epochs=epochs, trainer=told)
    assert [whole["steps"] for whole in acceleration._timing(found, None)["wholes"]] == steps


@pytest.mark.parametrize(("tracing", "without"), [(1.4, "17.3 s"), (None, "–")])
def test_the_table_gives_a_training_without_its_fingerprints(tracing, without):
    """Red before: 18.7 s and 19.1 s side by side, and the longer one was "faster"."""
    seconds = {**SECONDS, "fit": 18.7, "tracing": tracing}
    run = {"seconds": seconds, "proof": None, "environment": {"context": CONTEXT}}
    whole = whole_trainings("fast", [run], leaves_out_tracing=False)
    row = {"variant": "fast", "whole": whole, "runs": 1, "waited": None, "answer": None}
    row |= {"ratio": None, "first_call": None, "pays": "750", "has": "at most 1,200"}
    templates = Path(__file__).parents[2] / "workflow/report"
    jinja = Environment(loader=FileSystemLoader(templates), undefined=StrictUndefined)  # noqa: S701
    # Those of the page that are not called here are stand-ins.
    jinja.filters |= {name: getattr(formatting, name, str) for name in FILTERS}
    table = jinja.get_template("parts.html.j2").module.gains({"name": "it", "gains": [row]})
    heads = re.findall(r"<th scope=\"col\"[^>]*>([^<]*)</th>", table)[1:]
    cells = dict(zip(heads, re.findall(r"<td[^>]*>([^<]*)</td>", table), strict=True))
    assert (cells["Whole training"], cells["Without fingerprints"]) == ("18.7 s", without)
    assert (cells["Pays above, steps"], cells["The training has"]) == ("750", "at most 1,200")


def test_a_training_that_ended_early_is_as_long_as_it_was():
    """Red before: of one that early stopping ended, the seconds of all that was planned."""
    found = timing_summary(
        baseline="plain",
        medians=[median("plain", unstable=False)],
        extents=[{"size": None, "train": 10, "predict": None}],
    )
    early = Trained(compiling={}, epochs=1, is_exact=True)
    assert [whole["steps"] for whole in acceleration._timing(found, early)["wholes"]] == [10]
    unlike = Trained(compiling={}, epochs=1, is_exact=False)
    assert acceleration._timing(found, unlike)["wholes"] == []
