"""Which variants of a study a timing cannot measure, and why.

All variants of a timing share one process, in which each does whole steps in its turn. A ratio is
to the study's own baseline: where that one cannot be timed none of the others is, since another
baseline would answer another question.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields

from twinrun.config.definitions import Variant

# Batches are loaded before the clock starts, or in the process itself; nothing is kept or shown.
LEFT_OUT = {"data_workers", "persistent_workers", "validation", "checkpointing", "logging", "trace"}
LEFT_OUT |= {"resume"}


def untimed(names: Sequence[str], variants: Mapping[str, Variant]) -> dict[str, str]:
    """Say of each variant of a study that no timing measures why.

    Args:
        names: its variants that can run here; the first is the baseline.
        variants: all variants by name.
    """
    reasons = {name: why for name in names if (why := why_untimed(variants[name])) is not None}
    if not names or names[0] not in reasons:
        for name in names[1:]:
            if name not in reasons and (changed := _left_out(variants[names[0]], variants[name])):
                reasons[name] = f"a timing leaves out {' and '.join(changed)}, and nothing else is "
                reasons[name] += f"other than under {names[0]}"
        return reasons
    of_baseline = f"the baseline, {names[0]}, cannot be timed: {reasons[names[0]]}"
    return {name: reasons.get(name, of_baseline) for name in names}


def _left_out(baseline: Variant, variant: Variant) -> list[str]:
    """Return what a variant changes, if a timing does none of it."""
    changed = [
        field.name
        for field in fields(variant)
        if getattr(variant, field.name) != getattr(baseline, field.name)
    ]
    return changed if set(changed) <= LEFT_OUT else []


def why_untimed(variant: Variant) -> str | None:
    """Say in the config's own terms why no timing can measure a variant."""
    found = [
        # Variables may be many and long: their names stand in the config.
        *(["environment"] if variant.environment else []),
        *([f"accumulate: {variant.accumulate}"] if variant.accumulate != 1 else []),
        *([f"stop: {variant.stop}"] if variant.stop != "none" else []),
        *([f"devices: {variant.devices}"] if variant.devices != 1 else []),
    ]
    if not found:
        return None
    return f"a timing is one process that does whole steps, without {' and '.join(found)}"
