"""The README's picture: the first screen of a report, and of which page it is.

`make picture` runs this file on results/report.html. Pixels differ from machine to machine, so no
test compares them: the picture holds the hash of what its page is made from, without the results,
and a test compares that with the page as it is now.
"""

import hashlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

from PIL import Image
from PIL.PngImagePlugin import PngInfo
from selenium import webdriver
from standard_config import resolved

from twinrun.report.page import write_report
from twinrun.verdicts.rows import Answer, Key, write_rows

ROOT = Path(__file__).parents[1]
PICTURE, TEMPLATES = ROOT / "docs/report.png", ROOT / "workflow/report"
WIDTH, HEIGHT = 1280, 1100  # pixels
KEY = "page"  # of the text in the picture

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


def page_hash() -> str:
    """Return the hash of a page's style and first section, as made from one verdict of each kind.

    What a study found is not in it: another result is no other page.
    """
    answers = get_args(Answer)
    rows = [
        {
            "study": "reproducibility",
            "key": key,
            "workload": "workload",
            "variant": "variant",
            "question": key,
            "answer": answers[number % len(answers)],
            "measured": "measured",
            "evidence": "",
        }
        for number, key in enumerate(get_args(Key))
    ]
    with tempfile.TemporaryDirectory() as folder:
        table, page = Path(folder, "verdicts.csv"), Path(folder, "report.html")
        write_rows(table, rows)
        write_report(
            config={**resolved().config, "studies": []},
            not_run={},
            files=[str(table)],
            templates=TEMPLATES,
            output=page,
        )
        head, end, _ = page.read_text(encoding="utf-8").partition("</section>")
    assert end
    return hashlib.sha256(head.encode()).hexdigest()


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
