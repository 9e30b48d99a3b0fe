"""Which variants of a study a timing cannot measure, and why.

All variants of a timing share one process, in which each does whole steps in its turn. A ratio is
to the study's own baseline: where that one cannot be timed none of the others is, since another
baseline would answer another question.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields

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


def timed_without(name: str, baseline: str, variants: Mapping[str, Variant]) -> str | None:
    """Say what a timing leaves out of that in which a variant differs from its baseline.

    Args:
        name: of a variant that is timed.
        baseline: the name of its baseline.
        variants: by name; None is said of one that is not among them.
    """
    if not {name, baseline} <= variants.keys():
        return None
    variant, other = variants[name], variants[baseline]
    found = []
    for key in _changed(other, variant):
        if key in LEFT_OUT:
            own, of_other = (json.dumps(getattr(v, key), default=asdict) for v in (variant, other))
            found.append(f"{key} ({own}, under {baseline} {of_other})")
    return f"timed without {' and '.join(found)}" if found else None


def _left_out(baseline: Variant, variant: Variant) -> list[str]:
    """Return what a variant changes, if a timing does none of it."""
    changed = _changed(baseline, variant)
    return changed if set(changed) <= LEFT_OUT else []


def _changed(baseline: Variant, variant: Variant) -> list[str]:
    names = [field.name for field in fields(variant)]
    return [name for name in names if getattr(variant, name) != getattr(baseline, name)]


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
