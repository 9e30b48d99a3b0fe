"""Ratios that compare nothing: a setting in which two variants differ never took effect.

The module has set threads or algorithms by itself, as in its runs. What was timed is then true of
each variant, and their ratio is not one of the settings that were to be compared.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from twinrun.config.definitions import Variant
from twinrun.timing.summary import Had, Ratio, Skipped


def ratios_in_effect(
    ratios: Sequence[Ratio],
    had: Sequence[Had],
    variants: Mapping[str, Variant],
) -> tuple[list[Ratio], list[Skipped]]:
    """Divide ratios into those of settings that took effect, and what to say of the others.

    Args:
        ratios: of variants over the baseline.
        had: what torch was set to under each.
        variants: by name; the first is the baseline.
    """
    kept: list[Ratio] = []
    skipped: list[Skipped] = []
    for ratio in ratios:
        reason = _reason(ratio, had, variants)
        if reason is None:
            kept.append(ratio)
        # The Trainer's steps are also compared with the variant's own, which stands.
        elif ratio["phase"] != "trainer":
            skipped.append(
                {
                    "variant": ratio["variant"],
                    "size": ratio["size"],
                    "phase": ratio["phase"],
                    "reason": reason,
                }
            )
    return kept, skipped


def _reason(ratio: Ratio, had: Sequence[Had], variants: Mapping[str, Variant]) -> str | None:
    """Say which setting one of the two variants did not have."""
    names = (ratio["variant"], *list(variants)[:1])
    for name in names:
        for found in had:
            if (found["variant"], found["size"]) != (name, ratio["size"]):
                continue
            asked, known = (asdict(variants[name]) for name in names)
            for departure in found["departures"]:
                if asked[departure["setting"]] != known[departure["setting"]]:
                    return f"under {name}, {departure['sentence']}"
    return None
