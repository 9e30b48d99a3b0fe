"""Pairs of trainings on batches of every kind are equal, whatever the kind."""

import pytest
from auditing import compared, in_this_process, train, workload
from batch_kinds import KINDS


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch):
    with in_this_process(monkeypatch):
        yield


@pytest.mark.one_in(12)
@pytest.mark.parametrize("kind", KINDS)
def test_a_clean_training_raises_no_false_alarm(tmp_path, kind):
    settings = workload() | {"module": "batch_kinds:Reader", "data": f"batch_kinds:{kind}"}
    found = compared(tmp_path, [train(tmp_path, repeat, settings) for repeat in (1, 2)])
    assert found["answer"] == "equal"
    # Only of what nobody can look into is it said.
    assert bool(found["not_fingerprinted"]) == (kind == "Objects")
