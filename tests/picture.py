"""The README's picture: the first screen of a report, and of which page it is.

`make picture` runs this file on results/report.html. Pixels differ from machine to machine, so no
test compares them: the picture holds the hash of the part of an example's page that it would show,
and a test compares that with the same part as it is now.
"""

import hashlib
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from example_results import (
    ACTUAL,
    VARIANTS,
    initial_tensors,
    with_differences,
    write_comparison,
    write_digits,
    write_location,
    write_run,
    write_timing,
)
from example_runs import seal
from markupsafe import Markup
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from selenium import webdriver
from standard_config import resolved

from twinrun.artifacts import read_json, write_json
from twinrun.dataset_files import manifest_of
from twinrun.report.page import write_page
from twinrun.report.results import Results, read_results
from twinrun.verdicts.judge import verdicts_of
from twinrun.verdicts.rows import VerdictRow

ROOT = Path(__file__).parents[1]
PICTURE, TEMPLATES = ROOT / "docs/report.png", ROOT / "workflow/report"
WIDTH, HEIGHT = 1280, 1100  # pixels
KEY = "page"  # of the text in the picture
EQUAL = {"answer": "equal", "compared": 15, "differing": 0, "measured": "0 of 15 values differ"}

CHROMIUM, CHROMEDRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def chromium(profile: str | Path) -> Iterator[webdriver.Chrome]:
    """Start Chromium without a window and without a network; end it afterwards."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(CHROMEDRIVER))
    try:
        driver.set_page_load_timeout(60)
        yield driver
    finally:
        driver.quit()


def pictured() -> str:
    """Return what the picture shows of a page: its style, and all down to the last study's name.

    The page is one of the standard config, whose first study has found something of each kind. Its
    verdicts are drawn as in the workflow, so that each word of them is a real one. The first study
    counts as unfolded, as on a page of one study. Left out is what lies below, and what is folded;
    of the style all counts.
    """
    with tempfile.TemporaryDirectory() as folder:
        found = _example(Path(folder, "results"))
        page = Path(folder, "results/report.html")
        # The sections lie below the picture: nothing is made for them.
        with patch("twinrun.report.page._text", return_value=Markup("")):
            write_page(found, templates=TEMPLATES, output=page)
        _, _, text = page.read_text(encoding="utf-8").partition("<style>")
    before, first, *others = text.split('<details class="study"')
    first, end, _ = first.partition("</tbody>")
    assert end
    first = re.sub("(<details><summary>.*?</summary>).*?</details>", r"\1", first, flags=re.DOTALL)
    return "".join([before, first, *(study.partition("</summary>")[0] for study in others)])


def _example(results: Path) -> Results:
    """Write runs, comparisons and a timing, and read them as a report does, with their verdicts."""
    workload = "denoiser"
    first, runs, comparisons = initial_tensors(workload), [], []
    for variant in VARIANTS:
        second = first if variant == "deterministic" else with_differences(first)
        for repeat, tensors in enumerate((first, second), start=1):
            names = {"workload": workload, "variant": variant, "repeat": repeat}
            run = write_run(results, tensors, **names)
            actual = ACTUAL | {"deterministic": variant == "deterministic"}
            write_json(run, read_json(run) | {"actual": actual})
            seal(run.parent)
            runs.append(run)
        path = write_comparison(results, first, second, workload=workload, variant=variant)
        outputs = {"logged": EQUAL, "metrics": EQUAL, "predictions": EQUAL}
        write_json(path, [summary | outputs for summary in read_json(path)])
        comparisons.append(path)
    timing, locations = write_timing(results, workload=workload), map(write_location, comparisons)
    files = [*map(str, comparisons)], [str(timing)], [*map(str, locations)]
    rows = [
        *_verdicts("reproducibility", results, *files, {"on_gpu": "no GPU on this machine"}),
        # Below the picture, but with one study alone no row would name it.
        *_verdicts("devices", results, [], [], [], {"on_gpu": "no GPU on this machine"}),
    ]
    dataset = manifest_of(write_digits(results))
    all_files = [*map(str, [dataset, *runs]), *(file for kind in files for file in kind)]
    return read_results(resolved().config, {}, all_files, verdicts=rows, results=results)


def _verdicts(
    study: str,
    results: Path,
    comparisons: list[str],
    timings: list[str],
    locations: list[str],
    not_run: dict[str, str],
) -> list[VerdictRow]:
    return verdicts_of(
        study,
        comparisons=comparisons,
        timings=timings,
        not_run=not_run,
        untimed={},
        workloads=["denoiser"],
        locations=locations,
        results=results,
    )


def page_hash() -> str:
    """Return the hash of what is pictured."""
    return hashlib.sha256(pictured().encode()).hexdigest()


def hash_in(picture: Path) -> str | None:
    """Return the hash that a picture holds."""
    with Image.open(picture) as image:
        return image.info.get(KEY)


def take(report: Path, picture: Path) -> None:
    """Save the first screen of a report as a PNG."""
    with tempfile.TemporaryDirectory() as folder:
        screen = Path(folder, "screen.png")
        with chromium(folder) as driver:
            metrics = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
            light = {"name": "prefers-color-scheme", "value": "light"}
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [light]})
            driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
            driver.get(report.resolve().as_uri())
            driver.save_screenshot(str(screen))
        text = PngInfo()
        text.add_text(KEY, page_hash())
        with Image.open(screen) as image:
            image.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE).save(
                picture, optimize=True, pnginfo=text
            )


if __name__ == "__main__":
    if not (CHROMIUM and CHROMEDRIVER):
        sys.exit("make picture needs chromium and chromedriver on the path")
    take(Path(sys.argv[1]), PICTURE)
