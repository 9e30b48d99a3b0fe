"""Which fingerprints of two runs can be compared: those of a GPU and of a CPU are of two hashes.

One step of each run has those of a CPU (see `trace.step_fingerprints`), so that a run on a GPU and
one on a CPU are compared there in everything but single samples; at others in what is hashed alike
everywhere, such as losses and RNG states, and in the sampled elements of the parameters. A batch
that is the shards of several workers, which nobody could put together, is compared with the shards
of as many workers alone. Does without torch.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from twinrun.trace.hash_kinds import are_of_shards, batch_on_host, kinds_of

Arrays = Mapping[str, np.ndarray]
BATCH = "batch"


def are_comparable(first: Arrays, second: Arrays, column: str, steps: np.ndarray) -> np.ndarray:
    """Say of each step whether the fingerprints of a quantity were taken alike, (S,) bool.

    Args:
        first: fingerprints.npz of a run.
        second: and of another one.
        column: the quantity's in steps.csv.
        steps: their numbers, ascending.
    """
    alike = kinds_of(first, column, steps) == kinds_of(second, column, steps)
    if column == BATCH:
        ways = (_known_on_host(arrays, steps) for arrays in (first, second))
        alike |= np.logical_and(*ways)
    return alike


def are_shards_apart(first: Arrays, second: Arrays, steps: np.ndarray) -> np.ndarray:
    """Say of each step whether batches cannot be compared since one is shards, (S,) bool."""
    kinds = [are_of_shards(kinds_of(arrays, BATCH, steps)) for arrays in (first, second)]
    return np.logical_or(*kinds) & ~are_comparable(first, second, BATCH, steps)


def batches(first: Arrays, second: Arrays, steps: pd.DataFrame, others: pd.DataFrame) -> np.ndarray:
    """Return whether the batches of two runs are equal at each step, if that is known, (S,) bool.

    Args:
        first: fingerprints.npz of a run.
        second: and of another one.
        steps: steps.csv of the first.
        others: as many rows of the second's.
    """
    numbers = steps["step"].to_numpy()
    equal = steps[BATCH].to_numpy() == others[BATCH].to_numpy()
    alike = kinds_of(first, BATCH, numbers) == kinds_of(second, BATCH, numbers)
    sides = [_on_host(*side, numbers) for side in ((first, steps), (second, others))]
    return np.where(alike, equal, sides[0] == sides[1])


def _known_on_host(arrays: Arrays, steps: np.ndarray) -> np.ndarray:
    beside = np.array(list(batch_on_host(arrays, steps)), dtype=np.int64)
    return (kinds_of(arrays, BATCH, steps) == 0) | np.isin(steps, beside)


def _on_host(arrays: Arrays, table: pd.DataFrame, steps: np.ndarray) -> np.ndarray:
    """Return the fingerprints that a CPU has of batches; of others those that there are."""
    found = table[BATCH].to_numpy(copy=True)
    for step, value in batch_on_host(arrays, steps).items():
        found[steps == step] = value
    return found


def equal_as_far_as_known(
    equal: np.ndarray, known: np.ndarray, apart: np.ndarray | None = None
) -> np.ndarray:
    """Return which steps are equal in a quantity: where that is unknown, as the one before.

    Args:
        equal: whether the fingerprints are, (S,) bool.
        known: whether they can be compared.
        apart: distances of sampled elements, NaN without a sample.
    """
    if known.all():
        return equal
    # ASSUME what has differed once differs where nobody can say.
    differs = ~equal & known if apart is None else np.where(known, ~equal, apart > 0)
    return ~np.where(known, differs, np.maximum.accumulate(differs))


def with_gaps(steps: pd.DataFrame, known: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Return a table of steps with nothing where a quantity could not be compared.

    Args:
        steps: a row each; its columns are `<quantity>_equal`.
        known: of each quantity, whether it could, (S,) bool.
    """
    gaps = {
        f"{name}_equal": steps[f"{name}_equal"].astype(object).where(of)
        for name, of in known.items()
        # Of these the sampled elements speak, and figures need a word.
        if not of.all() and name != "parameters"
    }
    return steps.assign(**gaps) if gaps else steps


def whole_steps(known: Mapping[str, np.ndarray]) -> np.ndarray:
    """Say of each step whether all of it could be compared, (S,) bool."""
    return np.logical_and.reduce([*known.values()])
