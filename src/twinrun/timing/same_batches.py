"""Sizes of a timing that give the same batches: they are judged once.

Every batch size above the number of samples gives one and the same batch. A time measured there
says nothing of the size, and would hide how the time grows with it.
"""

from collections.abc import Iterator, Sequence
from typing import cast

from twinrun.timing.measured import Measured

# The lists of `Measured` whose records name their size.
BY_SIZE = (
    "rows",
    "skipped",
    "proofs",
    "compilation",
    "compiled",
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
    """Yield what was measured at each size, and of sizes with the same batches only one.

    That is the largest of them, as more is measured at the largest size (see `measure`); it is
    given the smallest one's name. The others are skipped, with the reason.

    Args:
        found: what was measured by size, in the order of the config.
        hyperparameter: that the sizes are values of.
        variants: that were asked for.
    """
    sizes: dict[int, dict[int, Measured]] = {}
    for size, measured in found:
        if measured.batches is not None and size is not None:
            sizes.setdefault(measured.batches, {})[size] = measured
    for size, measured in found:
        if measured.batches is None or size is None:
            yield measured
            continue
        same = sizes[measured.batches]
        name = min(same)
        if measured is same[max(same)]:
            yield _renamed(measured, name)
        if size != name:
            reason = f"{hyperparameter} {size} gives the batches of {hyperparameter} {name}"
            yield Measured(
                skipped=[
                    {"variant": variant, "size": size, "phase": None, "reason": reason}
                    for variant in variants
                ]
            )


def _renamed(measured: Measured, size: int) -> Measured:
    for records in BY_SIZE:
        for record in getattr(measured, records):
            cast(dict[str, object], record)["size"] = size
    return measured
