"""The study resume with two workers: each kind of stop, from Twinrun's checkpoint.

All trainings are in the same two processes, which no stop ends: to start these takes longer.
"""

import os

import pytest
from example_trainings import FILES, HERE, VARIANT, WORKLOAD, arguments

from twinrun import artifacts
from twinrun.comparison.resume_loss import diagnose
from twinrun.comparison.study_records import read_stops
from twinrun.config.resume_variants import STOPS, pairs
from twinrun.process.launching import environment_of, launch
from twinrun.verdicts.evidence import Evidence
from twinrun.verdicts.resume import resumes

TOLD = {"kill": 0, "shift": 0.0, "is_slow": False}
KINDS = [stop for stop in STOPS if stop != "mid_accumulation"]  # which one worker alone can have
# By Lightning's checkpoint two of them, between two batches and between two epochs.
OF_LIGHTNING = ("mid_epoch", "epoch_end")
PAIRS = [
    pair
    for pair in pairs("two-workers", KINDS)
    if pair["resume"] == "twinrun" or pair["stop"] in OF_LIGHTNING
]


def asked(folder, **stop):
    workload = {
        **WORKLOAD,
        "module": "in_a_team:Unwatched",
        "hyperparameters": {"size": 71},
        "epochs": 3,
    }
    return arguments(folder, workload, {**VARIANT, "threads": 1, "devices": 2, **stop})["run"]


pytestmark = pytest.mark.exhaustive  # minutes; test_agreed_checkpoints ends workers, too


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Train whole, and with each stop; return what the study finds."""
    folder = tmp_path_factory.mktemp("study")
    runs, told = [asked(folder / "two-workers")], [{**TOLD, "is_stopped": False}]
    for pair in PAIRS:
        stopped = asked(folder / pair["stopped"], stop=pair["stop"], resume=pair["resume"])
        runs += [stopped, stopped]
        told += [{**TOLD, "is_stopped": True}, {**TOLD, "is_stopped": False}]
    launch(
        "in_a_team:train_each",
        {"runs": runs, "told": told, "found": str(folder)},
        environment_of(seed=1, deterministic=True, threads=1)
        | {"PYTHONPATH": os.pathsep.join([HERE, os.environ.get("PYTHONPATH", "")])},
        workers=2,
    )
    for rank in range(2):
        errors = artifacts.read_json(folder / f"{rank}.json")["errors"]
        assert errors == ["", *["killed", ""] * len(PAIRS)]
    for pair in PAIRS:
        for which in ("whole", "stopped"):
            pair[which] = str(folder / pair[which] / FILES["manifest"])
    diagnose(
        PAIRS,
        workload="small",
        variant="two-workers",
        seed=1,
        folder=folder / "comparisons",
        table=folder / "stops.csv",
        summary=folder / "stops.json",
    )
    return read_stops(folder / "stops.json")


def test_twinruns_checkpoint_loses_nothing_wherever_two_workers_stop(study):
    at = {"mid_epoch": 6, "last_batch": 9}
    found = {row["stop"]: row for row in study["stops"] if row["resume"] == "twinrun"}
    assert {stop: (row["answer"], row["resumed_at"]) for stop, row in found.items()} == {
        stop: ("equal", at.get(stop, 7)) for stop in KINDS
    }
    # Behind it stands what a training with several workers is not as its variant says.
    assert {row["lost"].partition(";")[0] for row in found.values()} == {"nothing was lost"}


def test_lightnings_checkpoint_loses_what_it_does_not_hold(study):
    found = [row for row in study["stops"] if row["resume"] == "lightning"]
    assert {row["answer"] for row in found} == {"differs"}
    for row in found:
        assert row["lost"], row


def test_the_verdicts_count_the_stops(study):
    lightning, twinrun = resumes([Evidence(path="stops.json", found=study)], [])
    assert twinrun["answer"] == "equal"
    assert twinrun["measured"] == "5 of 5 kinds of stop lose nothing"
    assert lightning["answer"] == "differs"
    assert lightning["measured"].startswith("0 of 2 kinds of stop lose nothing; differs: ")
