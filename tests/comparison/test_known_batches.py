"""Where mini-batches that may be others are seen to be equal, nobody is told that they may be."""

import pandas as pd
import pytest
from example_runs import MANIFEST
from example_trainings import VARIANT

from twinrun.comparison.known_batches import departures_left

MAY_BE = {"setting": "accumulate", "sentence": "a", "in_part": True, "of_batches": True}
OTHER = {"setting": "accumulate", "sentence": "b", "in_part": True}


def manifest(accumulate):
    return MANIFEST | {"settings": MANIFEST["settings"] | {"variant": VARIANT | accumulate}}


@pytest.mark.parametrize(
    ("parts", "equal", "more", "left"),
    [
        # Red before: said whatever the mini-batches were.
        ((1, 2), [True, True], {}, [OTHER]),
        ((1, 2), [True, False], {}, [MAY_BE, OTHER]),
        ((1, 2), [True, None], {}, [MAY_BE, OTHER]),
        # Two that are cut alike say nothing of one that is not.
        ((2, 2), [True, True], {}, [MAY_BE, OTHER]),
        ((1, 2), [True, True], {"traced": "every tenth step"}, [MAY_BE, OTHER]),
        ((1, 2), [True, True], {"not_fingerprinted": ["Graph"]}, [MAY_BE, OTHER]),
    ],
)
def test_only_what_is_not_known_is_said(parts, equal, more, left):
    found = {"departures": [MAY_BE, OTHER], "not_fingerprinted": [], **more}
    manifests = [manifest({"accumulate": number}) for number in parts]
    table = pd.DataFrame({"batch_equal": pd.array(equal, dtype="object")})
    assert departures_left(found, manifests, [table]) == left
