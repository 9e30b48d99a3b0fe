"""The report as a browser shows it: opened from a file, in Chromium without a network."""

import json
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
from example_results import write_results
from picture import CHROMEDRIVER, CHROMIUM, chromium
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

PHONE, DESKTOP, PAPER = 390, 1280, 680  # pixels; A4 within its margins

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not (CHROMIUM and CHROMEDRIVER), reason="needs chromium and chromedriver"),
]


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    return write_results(tmp_path_factory.mktemp("browser") / "results")


@pytest.fixture(scope="module")
def address(example):
    return example.report().as_uri()


@pytest.fixture
def browser(tmp_path):
    with chromium(tmp_path) as driver:
        yield driver


@pytest.fixture
def show(browser, address):
    """Open the page at a width, under a theme and for a medium."""

    def show(width, *, theme="light", medium="screen"):
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": theme}
        browser.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"media": medium, "features": [scheme]}
        )
        browser.get(address)
        return browser

    return show


def brightness(colour):
    """Give the mean of a CSS colour's red, green and blue, 0 to 255."""
    numbers = colour[colour.index("(") + 1 : -1].split(",")[:3]
    return sum(map(float, numbers)) / 3


def style_of(driver, selector, name):
    return driver.find_element(By.CSS_SELECTOR, selector).value_of_css_property(name)


def requests_of(driver, address):
    """List what a page asked for; the browser's own first page asks for things, too."""
    messages = [json.loads(e["message"])["message"] for e in driver.get_log("performance")]
    requests = [
        message["params"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]
    urls = [r["request"]["url"] for r in requests if r["documentURL"] == address]
    return [url for url in urls if not url.startswith("data:")]


def test_no_request_leaves_the_page_and_the_console_is_silent(show, address):
    driver = show(DESKTOP)
    assert requests_of(driver, address) == [address]
    assert driver.execute_script("return performance.getEntriesByType('resource')") == []
    assert driver.get_log("browser") == []


def test_a_request_would_be_seen_and_refused(browser, address, tmp_path):
    source = Path(url2pathname(urlsplit(address).path)).read_text(encoding="utf-8")
    planted = '<img src="http://127.0.0.1:9/planted.png">'
    with_policy, without = tmp_path / "with.html", tmp_path / "without.html"
    with_policy.write_text(source.replace("</main>", planted), encoding="utf-8")
    without.write_text(planted, encoding="utf-8")
    browser.get(without.as_uri())
    assert "http://127.0.0.1:9/planted.png" in requests_of(browser, without.as_uri())
    browser.get_log("browser")
    browser.get(with_policy.as_uri())
    # The browser writes it down a while after the page has come.
    logged = WebDriverWait(browser, 10).until(lambda asked: asked.get_log("browser"))
    assert "Content Security Policy" in logged[0]["message"]


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
class TestLayout:
    def test_verdicts_are_visible(self, show, width):
        driver = show(width)
        rows = driver.find_elements(By.CSS_SELECTOR, ".verdicts tbody tr")
        assert len(rows) == 6
        assert all(row.is_displayed() for row in rows)
        assert "differs" in rows[0].text
        assert "1,251 of 1,256 parameters differ (2 repeats)" in rows[0].text
        for cell in rows[0].find_elements(By.XPATH, "./*"):
            assert cell.rect["x"] >= 0
            assert cell.rect["x"] + cell.rect["width"] <= width

    def test_every_figure_is_drawn_and_legible(self, show, width):
        driver = show(width)
        figures = driver.execute_script(
            """return [...document.querySelectorAll("figure svg")].map(svg => {
                const box = svg.getBoundingClientRect();
                const drawn = svg.querySelector("g").getBBox();
                const scale = box.width / svg.viewBox.baseVal.width;
                const texts = [...svg.querySelectorAll("text")];
                return {
                    box: Math.min(box.width, box.height),
                    drawn: Math.min(drawn.width, drawn.height),
                    letters: Math.min(...texts.map(
                        text => scale * parseFloat(getComputedStyle(text).fontSize))),
                    cut: texts.filter(text => {
                        const own = text.getBoundingClientRect();
                        return own.left < box.left - 2 || own.right > box.right + 2
                            || own.top < box.top - 2 || own.bottom > box.bottom + 2;
                    }).map(text => text.textContent),
                };
            })"""
        )
        assert len(figures) == 14
        for figure in figures:
            assert figure["box"] > 80
            assert figure["drawn"] > 80
            assert figure["letters"] > 7.5
            assert figure["cut"] == []

    def test_nothing_is_wider_than_the_window(self, show, width):
        driver = show(width)
        driver.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width
        outside = driver.execute_script(
            """return [...document.querySelectorAll("main *:not(.scroll *):not(svg *):not(pre *)")]
                .filter(e => e.getBoundingClientRect().right > innerWidth + 1)
                .map(e => e.outerHTML.slice(0, 80))"""
        )
        assert outside == []

    def test_dark_theme_reaches_the_figures(self, show, width):
        driver = show(width, theme="dark")
        assert brightness(style_of(driver, "body", "background-color")) < 40
        assert brightness(style_of(driver, "p", "color")) > 130
        assert brightness(style_of(driver, "figure svg text", "fill")) > 200
        driver = show(width)
        assert brightness(style_of(driver, "body", "background-color")) > 240
        assert brightness(style_of(driver, "figure svg text", "fill")) < 60


def test_contents_lead_to_the_sections(show):
    driver = show(DESKTOP)
    driver.execute_script("document.documentElement.style.scrollBehavior = 'auto'")
    links = driver.find_elements(By.CSS_SELECTOR, "nav a")
    assert len(links) == 9
    for link in links[:-1]:  # nothing below the last one to scroll to
        link.click()
        target = driver.find_element(By.ID, link.get_attribute("hash")[1:])
        top = driver.execute_script("return arguments[0].getBoundingClientRect().top", target)
        assert -1 <= top < 120


def test_print_leaves_out_the_contents_and_opens_what_is_folded(show):
    driver = show(PAPER, theme="dark", medium="print")
    assert driver.execute_script("return document.documentElement.scrollWidth") <= PAPER
    assert not driver.find_element(By.TAG_NAME, "nav").is_displayed()
    assert brightness(style_of(driver, "body", "background-color")) == 255
    assert brightness(style_of(driver, "figure svg text", "fill")) == 0
    folded = driver.find_elements(By.CSS_SELECTOR, "details:not([open]) table")
    assert folded
    heights = [
        driver.execute_script("return arguments[0].getBoundingClientRect().height", table)
        for table in folded
    ]
    assert min(heights) > 40
