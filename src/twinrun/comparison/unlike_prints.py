"""What of a pair was not compared, since the fingerprints of its runs were not taken alike."""

from collections.abc import Iterator, Sequence

import numpy as np

from twinrun.comparison.comparable import are_shards_apart, whole_steps
from twinrun.comparison.tables import Run, known_of
from twinrun.comparison.trace_words import HASHED_APART, SHARDS_APART
from twinrun.formatting import plural


def apart_clauses(tables: Sequence[Run], *, differs: bool) -> Iterator[str]:
    """Say what was not compared of runs and the first of them.

    Args:
        tables: of the runs.
        differs: whether a step is named in which they differ: it tells of hashes by itself.
    """
    others = [(other, min(len(tables[0].steps), len(other.steps))) for other in tables[1:]]
    if not differs and not all(_are_hashed_alike(tables[0], *other) for other in others):
        yield HASHED_APART
    apart = max((int(_are_shards(tables[0], *other).sum()) for other in others), default=0)
    if apart:
        yield SHARDS_APART.format(steps=plural(apart, "step"))


def _are_hashed_alike(first: Run, second: Run, size: int) -> bool:
    known = known_of(first, second, size)
    known["batch"] |= _are_shards(first, second, size)
    return bool(whole_steps(known).all())


def _are_shards(first: Run, second: Run, size: int) -> np.ndarray:
    steps = first.steps["step"].to_numpy()[:size]
    return are_shards_apart(first.fingerprints, second.fingerprints, steps)
