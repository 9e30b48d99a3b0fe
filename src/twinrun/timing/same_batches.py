"""Sizes that are not what they say: the batches of one are those of another.

A batch size above the number of samples gives the batch of all samples, whatever it is. What was
measured of it is nothing of that size, and a growth with the size would be one of equal batches.
"""

from collections.abc import Iterator, Sequence
from typing import cast

from twinrun.timing.rounds import Measured

BY_SIZE = (
    "rows",
    "skipped",
    "proofs",
    "compilation",
    "extents",
    "had",
    "agreement",
    "without_epoch_hooks",
)


def judged_once(
    found: Sequence[tuple[int | None, Measured]],
    hyperparameter: str | None,
    variants: Sequence[str],
) -> Iterator[Measured]:
    """Yield what was measured of each size; of sizes with the same batches once, as the first.

    The last of them is kept, at which more is measured (see `measure`), under the name of the
    first. The others are skipped, with the reason.

    Args:
        found: what was measured by size, in the order of the config.
        hyperparameter: that the sizes are values of.
        variants: that were asked for.
    """
    first: dict[int, int | None] = {}
    last: dict[int, Measured] = {}
    for size, measured in found:
        if measured.batches is not None:
            first.setdefault(measured.batches, size)
            last[measured.batches] = measured
    for size, measured in found:
        if measured.batches is None:
            yield measured
            continue
        name = first[measured.batches]
        if measured is last[measured.batches]:
            yield _renamed(measured, name)
        if size != name:
            reason = f"{hyperparameter} {size} gives the batches of {hyperparameter} {name}"
            yield Measured(
                skipped=[
                    {"variant": variant, "size": size, "phase": None, "reason": reason}
                    for variant in variants
                ]
            )


def _renamed(measured: Measured, size: int | None) -> Measured:
    for records in BY_SIZE:
        for record in getattr(measured, records):
            cast(dict[str, object], record)["size"] = size
    return measured
