"""The report: one self-contained page for a reader who was not there.

`write_report` reads what the workflow left in results/, lets the module of each study turn it into
what that study's template needs, and fills the page's template. The page has no script, asks for
nothing outside itself and escapes every text that is not ours: names, settings and metrics come
from configs and modules. A study has a module here, with a function `section`, and a template of
its name in workflow/report/sections.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from twinrun import formatting
from twinrun.artifacts import write_text
from twinrun.comparison.conditions import conditions
from twinrun.config.studies import STUDIES
from twinrun.process.import_path import import_object
from twinrun.report import runs, verdicts
from twinrun.report.results import Results, read_results
from twinrun.timing import ratio_words


def write_report(
    *,
    config: Mapping[str, Any],
    not_run: Mapping[str, str],
    files: Sequence[str],
    templates: str | Path,
    output: str | Path,
) -> None:
    """Write the page.

    Args:
        config: the config with every default filled in.
        not_run: variants that the machine could not run, and why.
        files: everything that belongs to the report, by its position in results/: verdicts.csv, the
            JSON of runs, comparisons, timings and datasets, the figures. Their tables lie beside.
        templates: folder of page.html.j2, sections/{study}.html.j2 and style.css.
        output: path of the page, in the results folder.
    """
    results = read_results(config, not_run, files, results=Path(output).parent)
    jinja = Environment(
        loader=FileSystemLoader(templates),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("count", "measure", "percent", "plural", "seconds"):
        jinja.filters[name] = getattr(formatting, name)
    for name in ("interval_of_speed", "interval_of_time", "meaning"):
        jinja.filters[name] = getattr(ratio_words, name)
    jinja.filters["conditions"] = conditions
    studies = [study for study in STUDIES if study in config["studies"]]
    page = jinja.get_template("page.html.j2").render(
        style=Markup(Path(templates, "style.css").read_text(encoding="utf-8")),  # noqa: S704 our own
        verdicts=verdicts.rows(results),
        summary=verdicts.summary(results.verdicts),
        sections={study: _section(study, results) for study in studies},
        left_out=[study for study in STUDIES if study not in studies],
        runs=runs.table(results),
        environments=runs.environments(results),
        datasets=runs.datasets(results),
        settings=yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True, width=88),
    )
    write_text(output, page)


def _section(study: str, results: Results) -> dict[str, object]:
    """Return what a section's template needs: its title, and what the module of the study finds.

    A function of text, not of names imported here: the rule that makes the page depends on the
    modules of the studies that are asked for, and on no others.
    """
    section: Callable[[Results], dict[str, object]]
    section = import_object(f"twinrun.report.{study}:section")
    return {"title": STUDIES[study].question, **section(results)}
