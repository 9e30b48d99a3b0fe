"""The report: one self-contained page for a reader who was not there.

`write_report` reads what the workflow left in results/, lets the module of each study turn it into
what that study's template needs, and fills the page's template. The page has no script, asks for
nothing outside itself and escapes every text that is not ours: names, settings and metrics come
from configs and modules. A study has a module here, with a function `section`, and a template of
its name in workflow/report/sections.

What of a workload cannot be told leaves its reason in its place: no page is lost for it.
"""

import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from twinrun import formatting
from twinrun.artifacts import write_text
from twinrun.comparison.conditions import conditions
from twinrun.comparison.ulps import MOST_ULP
from twinrun.config.definitions import Section
from twinrun.config.studies import STUDIES
from twinrun.errors import JobError, sentence_of
from twinrun.process.import_path import import_object
from twinrun.report import runs, verdicts
from twinrun.report.advice import advice
from twinrun.report.definitions import definitions
from twinrun.report.missing import Failure, Missing, by_cause
from twinrun.report.results import Results, read_results
from twinrun.report.tables import without_empty_columns
from twinrun.report.used_settings import as_yaml, used
from twinrun.timing import ratio_words
from twinrun.verdicts.rows import read_rows


@dataclass(frozen=True, kw_only=True)
class BrokenOff:
    """Why a page is not whole."""

    ended: str
    """When the workflow broke off."""
    failures: Sequence[Failure]
    """The jobs that failed."""
    answers: Mapping[str, Sequence[Missing]]
    """By study what its missing verdicts would rest on."""
    whole_page: bool
    """Whether a page of an earlier run lies beside."""
    is_page_due: bool
    """Whether the whole page is among what this start was asked for."""
    config: Section
    """As resolved, with the studies too that this start of the workflow was not asked for."""


def write_report(
    *,
    config: Section,
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
    results = Path(output).parent
    table = next(file for file in files if Path(file) == results / "verdicts.csv")
    found = read_results(config, not_run, files, verdicts=read_rows(table), results=results)
    write_page(found, templates=templates, output=output)


def write_page(
    results: Results,
    *,
    templates: str | Path,
    output: str | Path,
    broken_off: BrokenOff | None = None,
) -> None:
    """Write the page of some results.

    Args:
        results: as read.
        templates: as for `write_report`.
        output: path of the page, in the results folder.
        broken_off: why the page is not whole; None if it is.
    """
    config = results.config
    jinja = Environment(
        loader=FileSystemLoader(templates),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("count", "measure", "percent", "plural", "seconds", "verb"):
        jinja.filters[name] = getattr(formatting, name)
    for name in ("interval_of_speed", "interval_of_time", "meaning"):
        jinja.filters[name] = getattr(ratio_words, name)
    jinja.filters["conditions"] = conditions
    jinja.filters["code"] = _code
    jinja.filters["ulp"] = _ulp
    jinja.filters["without_empty_columns"] = without_empty_columns
    studies = [study for study in STUDIES if study in config["studies"]]
    page = jinja.get_template("page.html.j2").render(
        style=Markup(Path(templates, "style.css").read_text(encoding="utf-8")),  # noqa: S704 our own
        broken_off=broken_off,
        missing=results.missing,
        verdicts=verdicts.rows(results),
        answers=verdicts.answers(results.verdicts),
        **_advice(results),
        number=len(results.verdicts),
        sections={study: _section(study, results, jinja) for study in studies},
        definitions=definitions(config, studies),
        left_out=[study for study in STUDIES if study not in studies],
        runs=runs.table(results),
        environments=runs.environments(results),
        datasets=runs.datasets(results),
        unidentified=runs.without_dataset(results),
        data_gaps=_data_gaps(results),
        settings=as_yaml(used(broken_off.config if broken_off else config)),
    )
    write_text(output, page)


def _advice(results: Results) -> dict[str, object]:
    """Return the advice, or why there is none."""
    try:
        return {"advice": advice(results), "without_advice": None}
    except Exception as error:
        traceback.print_exc()
        return {"advice": [], "without_advice": sentence_of(error)}


def _code(text: str) -> Markup:
    """Escape a text, and mark as code what stands between backticks in it."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704 escaped


def _ulp(steps: int | float | None) -> str:
    """Write a distance in units in the last place; beyond a million it says nothing.

    >>> _ulp(747021), _ulp(1.2e9), _ulp(float("nan"))
    ('747,021', '–', '–')
    """
    return "–" if steps is None or not steps < MOST_ULP else formatting.count(int(steps))


def _section(study: str, results: Results, jinja: Environment) -> dict[str, object]:
    """Return a section: its title, its text, and of which workloads it tells nothing, and why."""
    names = results.config[study]["workloads"]
    broken: dict[str, str] = {}
    try:
        text = _text(study, results, jinja, names)
    except JobError:  # names a corrupt file, to be made again
        raise
    except Exception:
        # One after the other, so that what breaks one takes no other with it.
        for name in names:
            try:
                _text(study, results, jinja, [name])
            except Exception as error:
                traceback.print_exc()
                broken[name] = sentence_of(error)
        text = _text(study, results, jinja, [name for name in names if name not in broken])
    # Both candidates of a contest have one part.
    parts = [n for n in names if n in broken or f'id="{escape(f"{study}-{n}")}"' in text]
    return {"title": STUDIES[study].question, "workloads": parts, "text": text, "broken": broken}


def _text(study: str, results: Results, jinja: Environment, workloads: Sequence[str]) -> Markup:
    """Return the text of a section about some of its workloads.

    The section's module is named in a text, not imported here: the rule that makes the page depends
    on the modules of the studies that are asked for, and on no others.
    """
    of_study: Callable[[Results], dict[str, object]]
    of_study = import_object(f"twinrun.report.{study}:section")
    asked = {**results.config[study], "workloads": list(workloads)}
    section = of_study(replace(results, config={**results.config, study: asked}))
    gaps = {name: _gaps(study, results, name) for name in workloads}
    parts = jinja.get_template("parts.html.j2").module
    template = jinja.get_template(f"sections/{study}.html.j2")
    # Escaped by the template.
    return Markup(  # noqa: S704
        template.render(section=section, parts=parts, gaps=gaps, missing=results.missing)
    )


def _data_gaps(results: Results) -> list[tuple[Missing, list[str]]]:
    """Return what is missing of the datasets, by cause."""
    # Where there is a run, the place of a dataset's figure says that it is missing.
    folders = ("data/",) if results.runs else ("data/", "figures/data/")
    return by_cause([gap for path, gap in results.missing.items() if path.startswith(folders)])


def _gaps(study: str, results: Results, workload: str) -> list[tuple[Missing, list[str]]]:
    """Return what is missing of a workload in a study, by cause; figures say so in their places."""
    return by_cause(
        [
            found
            for found in results.missing.values()
            if found.is_of(workload)
            and study in (found.studies or (study,))
            and not found.is_figure
        ]
    )
