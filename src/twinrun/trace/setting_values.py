"""The settings of the optimizers at a step, read from a run's trace. Does without torch."""

from collections.abc import Mapping

import numpy as np


def settings_at(arrays: Mapping[str, np.ndarray], index: int) -> dict[str, float]:
    """Return the settings in use at a step, by name; empty where the trace has none, or no more.

    Args:
        arrays: of fingerprints.npz.
        index: of the step, from 0.
    """
    if "setting_changes" not in arrays:
        return {}
    if "settings_until" in arrays and (arrays["settings_until"] <= index).any():
        return {}
    found = {}
    for (step, position), value in zip(
        arrays["setting_changes"], arrays["setting_values"], strict=True
    ):
        if step > index:
            break
        found[str(arrays["setting_names"][position])] = float(value)
    return found
