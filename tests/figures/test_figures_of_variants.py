"""The figures of the studies devices and acceleration, from synthetic timings and surfaces."""

import pandas as pd
import pytest
from drawing import Drawing
from example_timings import write_summary

from twinrun import artifacts
from twinrun.figures import devices
from twinrun.figures.acceleration import speeds
from twinrun.timing import ratios

VARIANTS = ["cpu", "gpu", "eager", "compiled"]
SIZES = [100, 1000, 10000]


def write_timing(folder, seconds, *, size=None):
    """Write a timing of 6 rounds; `seconds` by (variant, phase, size)."""
    rows = [
        {"variant": v, "device": "cpu", "size": s, "phase": p, "round": r, "steps": 10}
        | {"seconds": 10 * value * (1 + 0.01 * r)}
        for (v, p, s), value in seconds.items()
        for r in range(1, 7)
    ]
    table = pd.DataFrame(rows)
    artifacts.write_csv(folder / "timing.csv", table)
    baseline = rows[0]["variant"]
    found = {"baseline": baseline, "ratios": ratios.ratios(table, baseline), "size": size}
    found["medians"] = ratios.medians(table)
    write_summary(folder / "timing.json", **found)
    return folder / "timing.json"


@pytest.fixture
def two_devices(tmp_path):
    """A CPU whose time grows with the size, and a GPU whose time does not: they cross at 1,000."""
    times = {("cpu", "train", size): 1e-6 * size for size in SIZES}
    times |= {("gpu", "train", size): 1e-3 for size in SIZES}
    return write_timing(tmp_path, times, size="points")


def test_two_devices_cross_where_their_times_are_equal(two_devices, tmp_path):
    devices.sizes(two_devices, variants=VARIANTS, output=tmp_path / "sizes.svg")
    drawing = Drawing(tmp_path / "sizes.svg")
    assert "gpu faster from 1,000 on" in drawing.texts
    assert {"cpu", "gpu", "points", "milliseconds a step"} <= set(drawing.texts)


def test_one_device_alone_crosses_nothing(tmp_path):
    timing = write_timing(
        tmp_path, {("cpu", "train", size): 1e-6 * size for size in SIZES}, size="points"
    )
    devices.sizes(timing, variants=VARIANTS, output=tmp_path / "sizes.svg")
    drawing = Drawing(tmp_path / "sizes.svg")
    assert "faster" not in drawing.text
    assert "cpu" in drawing.texts


def test_bars_carry_their_time_and_speed_up(tmp_path):
    times = {("eager", "train", None): 8e-3, ("compiled", "train", None): 4e-3}
    times |= {("eager", "predict", None): 3e-3, ("compiled", "predict", None): 1e-3}
    timing = write_timing(tmp_path, times)
    speeds(timing, variants=VARIANTS, output=tmp_path / "speeds.svg")
    drawing = Drawing(tmp_path / "speeds.svg")
    assert "Training step" in drawing.texts
    assert "2.00 times" in drawing.text
    assert "3.00 times" in drawing.text
