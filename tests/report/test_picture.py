"""The README's picture is of the page as it is."""

import shutil

import picture
import pytest
from example_results import write_results
from PIL import Image

from twinrun.config.studies import STUDIES
from twinrun.report import advice_repeats, set_for_runs
from twinrun.verdicts import equality, speed, studies


def test_the_picture_is_of_the_page_as_it_is():
    found = picture.hash_in(picture.PICTURE)
    assert found == picture.page_hash(), "the page has changed since: make picture"


@pytest.fixture
def templates(tmp_path, monkeypatch):
    """A copy of the templates, which the picture's page is made from; it is the same page."""
    before = picture.page_hash()
    shutil.copytree(picture.TEMPLATES, tmp_path / "report")
    monkeypatch.setattr(picture, "TEMPLATES", tmp_path / "report")
    assert picture.page_hash() == before
    return tmp_path / "report", before


def change(file, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("style.css", "{", "{ --planted: 0;"),
        ("page.html.j2", "Verdicts</h2>", "Answers</h2>"),
        ("page.html.j2", "of training led to", "gave"),
        ("page.html.j2", '<li><a href="#{{ study }}">{{ section.title }}</a>', "<li>{{ study }}"),
        ("page.html.j2", 'class="answers"', 'class="other"'),
        ("page.html.j2", "{{ found.says | code }}", "{{ found.says }}"),
        ("page.html.j2", '{% if row.is_file %}<a href="{{ row.evidence }}">', "{% if 1 %}<a>"),
        ("parts.html.j2", "badge badge-", "chip chip-"),
        ("parts.html.j2", "Rests on:", "Given:"),
    ],
)
def test_a_changed_template_of_what_is_pictured_has_another_hash(templates, file, old, new):
    folder, before = templates
    change(folder / file, old, new)
    assert picture.page_hash() != before


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("page.html.j2", "Evidence is given as a path", "The evidence is a path"),
        ("page.html.j2", "Each run is a fresh process.", ""),
        ("parts.html.j2", "Set for these runs", "What was set"),  # folded
        ("sections/reproducibility.html.j2", "<", "<p></p><"),
    ],
)
def test_what_is_not_pictured_leaves_the_hash_as_it_is(templates, file, old, new):
    folder, before = templates
    change(folder / file, old, new)
    assert picture.page_hash() == before


@pytest.mark.one_in(3)
@pytest.mark.parametrize("study", STUDIES)
def test_the_title_of_every_study_is_pictured(monkeypatch, study):
    before = picture.page_hash()
    monkeypatch.setattr(STUDIES[study], "question", "Another title?")
    assert picture.page_hash() != before


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("module", "name", "is_pictured"),
    [
        (equality, "REPEATS", True),
        (equality, "FIRST_OPERATION", True),
        (speed, "COSTS", True),
        (advice_repeats, "MENDED", True),
        (set_for_runs, "UNIDENTIFIED", False),
        (studies, "IS_FASTER", False),  # of another study
    ],
)
def test_the_words_of_what_is_asked_and_advised_are_pictured(
    monkeypatch, module, name, is_pictured
):
    before = picture.page_hash()
    monkeypatch.setattr(module, name, "Other words than before?")
    assert (picture.page_hash() != before) == is_pictured


@pytest.mark.parametrize("output", equality.OUTPUTS)
def test_the_questions_about_outputs_are_pictured(monkeypatch, output):
    before = picture.page_hash()
    key, _ = equality.OUTPUTS[output]
    monkeypatch.setitem(equality.OUTPUTS, output, (key, "Other words than before?"))
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
