"""The section of the study reproducibility."""

import pytest

from twinrun.report.reproducibility import _divergences

OP = {"op": "aten::add", "phase": "forward", "module": "", "parameter": "", "source": "m.py:3"}
OP |= {"differs_in": "outputs"}
SEED = {
    "seed": 1,
    "answer": "not located",
    "cause": "forward",
    "step": 3,
    "op": None,
    "likely": None,
    "others": [],
}


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        ({}, True),
        # Red before: one of 2 seeds whose runs diverge there.
        ({"step": 4}, False),
        ({"likely": OP}, False),
        ({"op": OP}, False),
    ],
)
def test_seeds_that_diverge_elsewhere_are_not_put_together(other, is_same):
    seeds = [SEED | {"sentence": "At step 3."}, SEED | other | {"sentence": "Another."}]
    found = _divergences(seeds)
    assert found[0] == {"seed": 1, "sentence": "At step 3.", "seeds": 2 if is_same else 1}
    assert len(found) == (1 if is_same else 2)


@pytest.mark.parametrize("key", ["op", "likely"])
def test_seeds_that_diverge_at_the_same_operation_are_one_line(key):
    seeds = [SEED | {key: OP, "sentence": "It.", "step": step} for step in (3, 4)]
    assert _divergences(seeds) == [{"seed": 1, "sentence": "It.", "seeds": 2}]
