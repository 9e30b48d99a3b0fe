"""What every rule must have, for all rules that Snakemake finds."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
import yaml

from twinrun.config.studies import STUDIES
from twinrun.process.source_hash import find_source, package_files

from .conftest import ROOT

FILES = [
    ROOT / "Snakefile",
    ROOT / "workflow/Snakefile",
    *sorted((ROOT / "workflow").rglob("*.smk")),
]
LONGEST_FILE = 150  # lines

# Rules with a script and no benchmark, and why; all others that compute have one.
NOT_BENCHMARKED = {
    "prepare": "Snakemake refuses it together with `cache`",
    "timing": "sampling its memory takes 11 ms of a core, twice a second, and locks its memory map",
    "gate": "leaves no file: it reads the judgement and fails or not",
}


def rules_of(file: Path) -> dict[str, str]:
    """Return the body of each rule in a file."""
    blocks = re.split(r"^(?:rule|checkpoint) (\w+):\n", file.read_text(), flags=re.MULTILINE)[1:]
    bodies = (re.split(r"^\S", block, maxsplit=1, flags=re.MULTILINE)[0] for block in blocks[1::2])
    return dict(zip(blocks[::2], bodies, strict=True))


RULES = {name: body for file in FILES for name, body in rules_of(file).items()}


def directive(rule: str, name: str) -> str | None:
    """Return what stands in a directive of a rule; None if it has none."""
    found = re.search(rf"^    {name}:(.*\n(?:(?:     .*)?\n)*)", RULES[rule], flags=re.MULTILINE)
    return found and found[1].strip()


COMPUTING = [rule for rule in RULES if directive(rule, "script")]


def test_the_rules_are_those_that_snakemake_finds(project):
    listed = project.snakemake("--list-rules", check=0).stdout.splitlines()
    names = [line.split()[0] for line in listed if line and line[0].isalpha()]
    assert sorted(names) == sorted([*RULES, *STUDIES])  # a target for each study, in a loop


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_begins_with_a_sentence(rule):
    assert re.match(r'    """[A-Z][^"]*[.?]"""\n', RULES[rule])


@pytest.mark.parametrize("rule", COMPUTING)
def test_what_a_rule_is_given_its_script_hands_on(rule):
    """Red before: a contest's margin was a reason to rank anew, and no ranking was told of it."""
    script = (ROOT / f"workflow/scripts/{rule}.py").read_text()
    named = re.findall(r"^ *(\w+)=", directive(rule, "params"), flags=re.MULTILINE)
    unread = {name for name in named if f"snakemake.params.{name}" not in script}
    assert unread <= RERUN_ALONE


@pytest.mark.parametrize("rule", COMPUTING)
def test_a_rule_that_computes_names_all_that_snakemake_asks_for(rule):
    names = ["input", "output", "log", "benchmark", "conda", "threads", "resources", "params"]
    missing = {name for name in names if directive(rule, name) is None}
    exceptions = {"prepare": {"input"}, "gate": {"output"}}.get(rule, set())
    if rule in NOT_BENCHMARKED:
        exceptions.add("benchmark")
    assert missing == exceptions
    for resource in ("mem_mb", "runtime"):
        assert f"{resource}=" in directive(rule, "resources")


@pytest.mark.parametrize("rule", COMPUTING)
def test_one_name_leads_from_a_rule_to_its_script_log_and_benchmark(rule):
    script = re.fullmatch(rf'"((?:\.\./)+scripts/{rule}\.py)"', directive(rule, "script"))
    (file,) = (file for file in FILES if rule in rules_of(file))
    assert (file.parent / script[1]).is_file()
    assert re.match(rf'"results/logs/{rule}[/.]', directive(rule, "log"))
    if rule not in NOT_BENCHMARKED:
        log = directive(rule, "log").rstrip(",")
        expected = log.replace("results/logs/", "results/benchmarks/").replace(".log", ".tsv")
        assert directive(rule, "benchmark").rstrip(",") == expected


@pytest.mark.parametrize("rule", RULES)
def test_every_input_and_output_has_a_name(rule):
    for name in ("input", "output"):
        entries = re.findall(r"(?:^|\n {8})([^\s)#].*)", directive(rule, name) or "")
        assert [entry for entry in entries if not re.match(r"\w+=", entry)] == []


# What a rule's script imports and its `source` leaves out, and why; what a rule has no `source`.
SHAPES_NO_RESULT = {
    "process/__init__.py": "holds a docstring only",
    "wording.py": "words of failures: see `source_hash.ONLY_WORDS`",
    "training/trial_metric.py": "says something on the terminal and writes no file",
    "process/job.py": "redirects output and ends the process; what it refuses leaves no result",
    "process/side_by_side.py": "lets trainings wait for each other, and has them watch files",
    "process/parent.py": "ends the process with who started it; what it ends leaves no result",
}
RERUN_ALONE = {"source", "versions", "data"}  # where they change, a result is made anew
WITHOUT_SOURCE = {"gate": "leaves no file: it judges anew whenever it is asked for"}


@cache
def files_behind(module: str) -> frozenset[str]:
    """Return the package's files that a module imports or has a fresh process import."""
    found, waiting = set(), [module]
    while waiting:
        for file in map(Path, package_files(waiting.pop())):
            name = file.resolve().relative_to(ROOT / "src/twinrun").as_posix()
            if name not in found:
                found.add(name)
                waiting += modules_named(file)
    return frozenset(found)


@cache
def modules_named(file: Path) -> list[str]:
    """Return the modules of the package that a file names, in imports or in strings."""
    found = []
    for node in ast.walk(ast.parse(file.read_bytes())):
        match node:
            case ast.ImportFrom(module=str() as module):
                found.append(module)
            case ast.Constant(value=str() as text):
                found.append(text.partition(":")[0])
    return [name for name in found if re.fullmatch(r"twinrun(\.\w+)+", name) and find_source(name)]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("rule", [rule for rule in COMPUTING if rule not in WITHOUT_SOURCE])
def test_the_source_of_a_rule_is_all_that_its_script_imports(rule):
    """What is left out reruns nothing when it changes: results would be those of older code."""
    params = directive(rule, "params")
    hashed = re.findall(r'"(twinrun\.[\w.]+)"', params.partition("source=")[2])
    known = {file for module in hashed for file in names_of(package_files(module))}
    script = ROOT / f"workflow/scripts/{rule}.py"
    needed = {file for module in modules_named(script) for file in files_behind(module)}
    assert needed
    assert sorted(needed - known - SHAPES_NO_RESULT.keys()) == []


@pytest.mark.parametrize("rule", [rule for rule in COMPUTING if rule not in WITHOUT_SOURCE])
def test_the_source_of_a_rule_holds_its_script(rule):
    """Snakemake's own look at scripts is switched off in the profiles: it goes by their times."""
    source = directive(rule, "params").partition("source=")[2]
    assert re.search(r'hash_of\(\s*"([^"]+)"', source)[1] == f"scripts/{rule}.py"


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_has_no_code_but_its_script(rule):
    """With the trigger `code` off, a changed command would go unseen."""
    ways = ("shell", "run", "notebook", "wrapper", "cwl", "template_engine")
    assert [way for way in ways if directive(rule, way)] == []


@pytest.mark.parametrize("profile", sorted((ROOT / "profiles").glob("*/*.yaml")), ids=str)
def test_a_profile_leaves_the_code_to_the_params(profile):
    settings = yaml.safe_load(profile.read_text())
    assert sorted(settings["rerun-triggers"]) == ["input", "mtime", "params", "software-env"]
    assert settings["max-checksum-file-size"] >= 10**9  # by date above


# What is expensive: these rules must not hang on how a config is read and checked.
EXPENSIVE = ("train", "timing", "compare_repeats", "compare_variants", "compare_change", "locate")
# The dataclasses; and where the schema lies, which says what a variant has that says nothing.
OF_CONFIG = {
    *("config/__init__.py", "config/definitions.py", "config/shipped.py"),
    *("config/class_paths.py", "config/keys.py", "config/rule_records.py"),
    *("config/trainer_arguments.py", "config/traced_steps.py"),
}


@pytest.mark.parametrize("rule", [*EXPENSIVE, "tabulate", "diagnose", "scaling", "rank"])
def test_what_is_computed_hangs_on_the_definitions_of_the_config_alone(rule):
    """Another sentence about a wrong config, or another title of a study, repeats nothing."""
    source = directive(rule, "params").partition("source=")[2]
    hashed = re.findall(r'"(twinrun\.[\w.]+)"', source)
    files = {file for module in hashed for file in names_of(package_files(module))}
    assert hashed
    assert {file for file in files if file.startswith("config/")} <= OF_CONFIG


def names_of(files: list[str]) -> set[str]:
    return {Path(file).resolve().relative_to(ROOT / "src/twinrun").as_posix() for file in files}


def test_a_module_named_for_a_fresh_process_is_seen(tmp_path):
    (tmp_path / "script.py").write_text(
        "from twinrun.process.launching import launch\nlaunch('twinrun.timing.measure:measure')\n"
    )
    named = modules_named(tmp_path / "script.py")
    assert named == ["twinrun.process.launching", "twinrun.timing.measure"]
    assert "process/fresh_process.py" in files_behind("twinrun.process.launching")


def test_every_script_is_a_rules():
    scripts = {file.stem for file in (ROOT / "workflow/scripts").glob("*.py")}
    assert scripts == {*COMPUTING}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_file_of_rules_is_short(file):
    assert len(file.read_text().splitlines()) <= LONGEST_FILE


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_file_holds_rules_or_functions_not_both(file):
    text = file.read_text()
    assert not (rules_of(file) and re.search(r"^\s*(def|class) ", text, flags=re.MULTILINE))
