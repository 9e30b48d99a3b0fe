"""What tracing keeps is on the disk, has a bound, and is found again after a stop."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinrun.config.traced_steps import traced_steps
from twinrun.config.variant_consistency import traced_unlike
from twinrun.errors import TwinrunError
from twinrun.run_records import PER_STEP
from twinrun.trace import step_tables
from twinrun.trace.step_row import RECORD
from twinrun.trace.step_tables import EVERY, MOST_SAMPLES, StepTables

NAMES = ("a", "b", "c")


def add_step(tables, step, names=NAMES, samples=4):
    rows = {
        key: tables.row(of, {name: step * 10 + i for i, name in enumerate(names)})
        for key, of in PER_STEP.items()
    }
    tables.add_details(step, rows)
    if tables.has_sample():
        tables.add_sample(step, np.full(5, step, dtype=np.float32))
    tables.add_samples(np.arange(samples, dtype=np.uint64))
    tables.settings._of_step = {"learning rate": 1 / step}
    tables.settings._fingerprints = [step]
    tables.settings.end_step(step - 1, [])
    tables.add((step, 1, 0.5, *[step] * (len(RECORD) - 3)))


def filled(steps, folder=None, most=60, **options):
    tables = StepTables(folder)
    tables.begin(most=most)
    for step in range(1, steps + 1):
        add_step(tables, step, **options)
    return tables


def as_lists(tables):
    return {name: array.tolist() for name, array in tables.arrays().items()}


def test_single_tensors_are_kept_of_the_first_steps_and_then_of_every_thousandth():
    tables = filled(2 * EVERY + 5)  # 60 fingerprints, 18 a step
    arrays = tables.arrays()
    assert arrays["detail_steps"].tolist() == [1, 2, 3, EVERY, 2 * EVERY]
    assert arrays["parameters"][3].tolist() == [10 * EVERY, 10 * EVERY + 1, 10 * EVERY + 2]
    assert filled(20, most=0).arrays()["gradients"].shape == (0, 3)
    assert sum(len(part) for part in tables.table()) == 2 * EVERY + 5


def test_tensors_that_come_late_count_too(tmp_path):
    """Red before: where a step had few at the start, those of thousands were kept of every step."""
    many = [f"late{i}" for i in range(100)]
    tables = filled(2, tmp_path, most=500)
    for step in (3, 4):
        add_step(tables, step, names=many)
    assert tables.arrays()["detail_steps"].tolist() == [1, 2, 3]
    resumed = StepTables(tmp_path)
    resumed.begin(most=500)
    resumed.load(tables.state())
    for step in range(5, 9):
        add_step(resumed, step, names=many)
    assert resumed.arrays()["detail_steps"].tolist() == [1, 2, 3]
    assert filled(3, most=1).arrays()["detail_steps"].tolist() == [1]


def test_samples_of_parameters_are_kept_of_the_first_steps_and_then_now_and_then(monkeypatch):
    assert step_tables.SAMPLED == 4096
    monkeypatch.setattr(step_tables, "SAMPLED", 5)
    tables = filled(11, most=0)
    kept = [1, 2, 3, 4, 5, 10]
    assert tables.arrays()["sample_steps"].tolist() == kept
    assert tables.arrays()["sample"][:, 0].tolist() == kept


def test_a_column_that_came_later_is_nothing_before():
    tables = filled(2, most=1000)
    add_step(tables, 3, names=("a", "d"))
    add_step(tables, 4)
    arrays = tables.arrays()
    assert list(arrays["names"]) == ["a", "b", "c", "d"]
    assert arrays["gradients"].tolist() == [
        [10, 11, 12, 0],
        [20, 21, 22, 0],
        [30, 0, 0, 31],
        [40, 41, 42, 0],
    ]


def test_single_samples_are_kept_until_there_is_no_room():
    size = MOST_SAMPLES // 2 - 1
    tables = filled(4, samples=size)
    arrays = tables.arrays()
    assert arrays["num_samples"].tolist() == [size, size, 0, 0]
    assert len(arrays["samples_of_steps"]) == 2 * size


@pytest.mark.parametrize("in_folder", [False, True])
def test_a_resumed_training_goes_on_where_its_checkpoint_was_taken(tmp_path, in_folder):
    folder = tmp_path / "trace" if in_folder else None
    tables = filled(7, folder)
    state = tables.state()
    for step in (8, 9):  # of these the checkpoint knows nothing
        add_step(tables, step)
    tables.close()
    again = StepTables(folder)
    again.begin(most=60)
    again.load(state)
    for step in (8, 9, 10):
        add_step(again, step)
    whole = filled(10)
    assert as_lists(again) == as_lists(whole)
    assert [len(part) for part in again.table()] == [10]


@pytest.mark.parametrize("damage", [lambda raw: raw[:-1], lambda raw: raw[:-1] + b"?", None])
def test_a_trace_that_is_not_the_checkpoints_is_refused(tmp_path, damage):
    tables = filled(5, tmp_path / "trace")
    state = tables.state()
    tables.close()
    file = tmp_path / "trace" / "steps"
    if damage is None:
        file.unlink()
    else:
        file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(TwinrunError, match="not the trace that belongs to the checkpoint"):
        StepTables(tmp_path / "trace").load(state)


def test_an_earlier_attempt_leaves_nothing_in_the_tables(tmp_path):
    filled(5, tmp_path).close()
    assert as_lists(filled(3, tmp_path)) == as_lists(filled(3))


def test_the_memory_of_a_trace_does_not_grow_with_its_steps(tmp_path):
    """As lists they took 57 bytes a tensor and step."""
    names = tuple(f"tensor{i}" for i in range(100))
    tables = StepTables(tmp_path)
    tables.begin(most=6000)
    peaks = []
    for steps in (range(1, 100), range(100, 400)):
        tracemalloc.start()
        try:
            for step in steps:
                add_step(tables, step, names=names)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0] + 100_000
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 300_000


@given(every=st.none() | st.integers(1, 12), first=st.integers(0, 30), steps=st.integers(0, 60))
def test_traced_steps_are_counted(every, first, steps):
    traced = traced_steps({"every": every, "first": first})
    assert traced.number(steps) == sum(step in traced for step in range(1, steps + 1))


def test_variants_that_are_compared_and_not_traced_alike_are_said():
    config = {
        "studies": ["parallel", "matrix"],
        "variants": {"one": {"trace": {"every": 1}}, "two": {"trace": None}},
        "parallel": {"variants": ["one", "one", "two"]},
        "matrix": {"changes": [{"threads": 1}, {"trace": None}]},
    }
    assert list(traced_unlike(config)) == [
        "variants.two.trace: parallel compares two with one, which is not traced alike; give both "
        "the same trace",
        "matrix.changes.1.trace: a cell is compared with the baseline, and both must be traced "
        "alike; change the trace of the baseline",
    ]
