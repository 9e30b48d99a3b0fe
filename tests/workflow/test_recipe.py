"""The recipe of CONTRIBUTING.md: a study is added in its four places, and runs."""

import csv
import re
import textwrap

import pytest

from .conftest import ROOT

PEAKS = {"epochs": 5, "hyperparameters": {"points": 100}}
CONFIG = {"studies": ["versus"], "workloads": {"peaks": PEAKS}}


def snippets():
    """Return the code of the recipe: settings, class, verdicts, section, template."""
    page = (ROOT / "CONTRIBUTING.md").read_text()
    recipe = page.partition("## To add a study")[2].partition("\n## ")[0]
    blocks = re.findall(r"^   ```\w+\n(.*?)^   ```", recipe, re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(block) for block in blocks]


def insert(file, *pairs):
    """Put texts before others, each of which is in the file once."""
    text = file.read_text()
    for before, new in pairs:
        assert text.count(before) == 1, (file, before)
        text = text.replace(before, new + before)
    file.write_text(text)


def test_the_recipe_of_a_study_has_four_places():
    recipe = (ROOT / "CONTRIBUTING.md").read_text().partition("## To add a study")[2]
    assert len(re.findall(r"^\d\. ", recipe.partition("\n## ")[0], re.MULTILINE)) == 4
    assert len(snippets()) == 5  # the section of the page is a module and a template


@pytest.mark.exhaustive  # minutes, and changes with the docs alone
def test_a_study_added_by_the_recipe_runs_and_is_reported(project):
    settings, kind, verdicts, section, template = snippets()
    package = project.source / "src/twinrun"
    schema = project.source / "workflow/schemas/config.schema.yaml"
    insert(schema, ("  require:\n", textwrap.indent(settings, "  ")))
    schema.write_text(schema.read_text().replace("resume, noise]", "resume, noise, versus]", 1))
    insert(
        package / "config/studies.py",
        ("# In the order in which the page tells them.\n", f"{kind}\n\n"),
        ('    "resume": Resume,\n', '    "versus": Versus,\n'),
    )
    insert(
        package / "verdicts/studies.py",
        ("def _one(", f"{verdicts}\n\n"),
        ('    "resume": _study(', '    "versus": _study(versus, read_comparisons, _timing),\n'),
    )
    (package / "report/versus.py").write_text(section)
    sections = project.source / "workflow/report/sections"
    (sections / "versus.html.j2").write_text(template)

    ours = {"PYTHONPATH": str(project.source / "src")}  # not the installed package
    project.snakemake("versus", "results/report.html", config=CONFIG, check=0, **ours)
    results = project.directory / "results"
    with (results / "verdicts.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (row["study"], row["key"]) == ("versus", "same_parameters")
    assert row["answer"] in ("equal", "differs")
    page = (results / "report.html").read_text()
    assert "Do the variants learn the same?" in page
    assert 'id="versus-peaks"' in page
    assert (
        "versus (Study: Do the variants learn the same?)" in project.snakemake("--list-rules").text
    )
