"""The parameters of two runs, read for a figure a part at a time.

A figure of gigabytes of weights needs no more memory than one of few.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twinrun.artifacts import StoredTensors
from twinrun.comparison.distances import Distances, differing_elements, values
from twinrun.comparison.tensors import distance_of
from twinrun.run_files import failure_of, read_ended, read_run, verified
from twinrun.run_records import TensorEntry


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two runs of one variant, parameter by parameter."""

    variant: str
    """Name of the variant."""
    repeats: tuple[int, int]
    """Their two repeats, the lower one first."""
    parameters: dict[str, TensorEntry]
    """By name, in the module's order."""
    first: StoredTensors
    """Tensors of the lower repeat."""
    second: StoredTensors
    """Tensors of the higher repeat."""

    def parts(self, name: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the same elements of both, flat, so many as are read at once."""
        return zip(self.first.parts(name), self.second.parts(name), strict=True)

    def differences(self, name: str) -> Iterator[np.ndarray]:
        """Yield second minus first, flat, float64; 0 where it is no number in either run."""
        dtype = self.parameters[name]["dtype"]
        for first, second in self.parts(name):
            with np.errstate(invalid="ignore", over="ignore"):
                apart = values(second, dtype) - values(first, dtype)
            # ASSUME that a NaN has no size: drawn as 0, but counted among those that differ.
            yield np.nan_to_num(apart, nan=0, posinf=0, neginf=0)

    def distances(self, name: str) -> Distances:
        """Measure how far a tensor of both is apart, as the comparison does."""
        return distance_of(self.parameters[name], self.first, self.second).distances()

    def largest(self, name: str) -> float:
        """Return the largest |difference| that is a number."""
        return largest_of(self.differences(name))

    def is_equal(self) -> bool:
        """Tell whether all parameters are equal, bit for bit."""
        both = (parts for name in self.parameters for parts in self.parts(name))
        return not any(differing_elements(*parts).any() for parts in both)


def largest_of(parts: Iterable[np.ndarray]) -> float:
    """Return the largest size of an element; 0 where there is none."""
    return max((float(np.abs(part).max(initial=0)) for part in parts), default=0.0)


def read_pairs(runs: Sequence[str | Path]) -> tuple[list[Pair], dict[str, str]]:
    """Read the two lowest repeats of the lowest seed of each variant, variants in given order.

    Returns:
        The pairs, and by variant why it has none.

    Raises:
        JobError: if a file of a run is corrupt.
    """
    pairs, reasons = [], {}
    by_variant: dict[str, list[tuple[int, int, Path]]] = {}
    for path in map(Path, runs):
        run = read_ended(path)
        by_variant.setdefault(run["variant"], []).append((run["seed"], run["repeat"], path))
    for variant, found in by_variant.items():
        # By seed, then by repeat. ASSUME at least two repeats of a seed, as the schema demands.
        chosen = [path for *_, path in sorted(found)[:2]]
        failure = next(filter(None, map(failure_of, chosen)), None)
        if failure is not None:
            reasons[variant] = f"not run: {failure}"
        elif (pair := _pair(variant, chosen)) is None:
            reasons[variant] = "not comparable: its runs are not two of the same parameters"
        else:
            pairs.append(pair)
    return pairs, reasons


def _pair(variant: str, runs: Sequence[Path]) -> Pair | None:
    """Read two runs; None if there are not two, or they hold different parameters."""
    manifests = [read_run(run) for run in runs]
    # Of other names or shapes no element has a counterpart.
    if len(runs) < 2 or manifests[0]["tensors"] != manifests[1]["tensors"]:
        return None
    first, second = (StoredTensors(verified(run, "weights.safetensors")) for run in runs)
    return Pair(
        variant=variant,
        repeats=(manifests[0]["repeat"], manifests[1]["repeat"]),
        parameters={t["name"]: t for t in manifests[0]["tensors"] if t["kind"] == "parameter"},
        first=first,
        second=second,
    )
