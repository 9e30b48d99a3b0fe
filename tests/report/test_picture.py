"""The README's picture is of the page as it is."""

import shutil

import picture
import pytest
from example_results import write_results
from PIL import Image


def test_the_picture_is_of_the_page_as_it_is():
    found = picture.hash_in(picture.PICTURE)
    assert found == picture.page_hash(), "the page has changed since: make picture"


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("style.css", "{", "{ --planted: 0;"),
        ("page.html.j2", "Verdicts</h2>", "Answers</h2>"),
        ("parts.html.j2", "badge badge-", "chip chip-"),
    ],
)
def test_a_changed_page_has_another_hash(tmp_path, monkeypatch, file, old, new):
    before = picture.page_hash()
    shutil.copytree(picture.TEMPLATES, tmp_path / "report")
    monkeypatch.setattr(picture, "TEMPLATES", tmp_path / "report")
    assert picture.page_hash() == before
    changed = (tmp_path / "report" / file).read_text()
    assert old in changed
    (tmp_path / "report" / file).write_text(changed.replace(old, new))
    assert picture.page_hash() != before


@pytest.mark.browser
@pytest.mark.skipif(
    not (picture.CHROMIUM and picture.CHROMEDRIVER), reason="needs chromium and chromedriver"
)
def test_a_picture_is_taken(tmp_path):
    report = write_results(tmp_path / "results").report()
    picture.take(report, tmp_path / "report.png")
    with Image.open(tmp_path / "report.png") as image:
        assert image.size == (picture.WIDTH, picture.HEIGHT)
        assert len(image.convert("L").getcolors()) > 10  # not a blank page
    assert picture.hash_in(tmp_path / "report.png") == picture.page_hash()
