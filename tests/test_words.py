"""One word has one meaning: what is read by users keeps to the words of CONTRIBUTING.md."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROSE = [
    *[ROOT / "README.md", ROOT / "CONTRIBUTING.md"],  # the CHANGELOG names what was
    *ROOT.glob("docs/*.md"),
    *ROOT.glob("workflow/report/**/*.rst"),
    *ROOT.glob("workflow/report/**/*.j2"),
    *ROOT.glob("workflow/rules/**/*.smk"),
    *ROOT.glob("tests/configs/*.yaml"),
    *[ROOT / "config.yaml", ROOT / "workflow/schemas/config.schema.yaml"],
]
# What is not said, and the word for it.
INSTEAD = {
    r"yardsticks?": "baseline",
    r"(held|holds?|holding) (\w+ ){0,4}against": "compared with",
    r"random (streams?|states?)": "RNG state",
    r"entrants?": "timed variant",
    r"(the runs|they|runs|pair) part(s|ed)?": "diverge",
    r"(goes|go|went|going) on (from|to|with)": "resume",
    r"whoever|whatsoever|by its place|not all there": "a plain word",
    r"how-manieth": "a number that counts",
    r"settl(es?|ed|ing)": "decide; of a clock, warm up",
    r"shar(es?|ed|ing) of (a|the|its|each) (mini-)?batch(es)?": "shard",
    r"(?<!in )place (in|of) (the|a|your|the user's) (code|source|batch)": "line, path or index",
    r"(the )?way (to|of) resum(e|ing)": "checkpoint type",
    r"(?-i:None) of (a|an|runs|steps|what|one|fewer|too|anything|repeats|neither)\b": "None for",
}
# What no name in the code is made of: one word each had several meanings.
NO_NAMES = {"place", "places", "streams", "yardstick", "entrant", "entrants"}
ROOMS = sorted(file.parent.name for file in ROOT.glob("src/twinrun/*/__init__.py"))


@pytest.mark.parametrize("file", PROSE, ids=lambda file: str(file.relative_to(ROOT)))
def test_prose_keeps_to_the_words(file):
    text = re.sub(r"\s+", " ", file.read_text())
    found = {
        match[0]: better
        for word, better in INSTEAD.items()
        for match in re.finditer(rf"\b{word}\b", text, re.IGNORECASE)
    }
    assert found == {}


@pytest.mark.parametrize("room", ["", *ROOMS])
def test_docstrings_comments_and_messages_keep_to_the_words(room):
    found = []
    for file in ROOT.glob(f"src/twinrun/{room and room + '/'}*.py"):
        text = re.sub(r"\n\s*(# )?", " ", file.read_text())
        found += [
            f"{file.relative_to(ROOT)}: {match[0]} ({better})"
            for word, better in INSTEAD.items()
            for match in re.finditer(rf"\b{word}\b", text, re.IGNORECASE)
        ]
    assert found == []


def names_in(tree):
    """What is defined, assigned or passed, and keys of records."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.Dict(keys=keys):
                yield from (key.value for key in keys if isinstance(key, ast.Constant))
            case ast.Subscript(slice=ast.Constant(value=str(key))):
                yield key


@pytest.mark.parametrize("room", ["", *ROOMS])
def test_names_keep_to_the_words(room):
    found = {
        f"{file.relative_to(ROOT)}: {name}"
        for file in ROOT.glob(f"src/twinrun/{room and room + '/'}*.py")
        for name in names_in(ast.parse(file.read_text()))
        if NO_NAMES & set(re.findall("[a-z]+", str(name).lower().replace("in_place", "")))
    }
    assert found == set()


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_say_what_is_returned(room):
    """As PEP 257 has it, in the imperative; Give was our own word for it."""
    trees = [ast.parse(file.read_text()) for file in ROOT.glob(f"src/twinrun/{room}/*.py")]
    functions = [n for tree in trees for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    assert functions or room == "data"
    named = {function.name: ast.get_docstring(function) or "" for function in functions}
    assert [name for name, text in named.items() if text.startswith("Give")] == []


@pytest.mark.parametrize("room", ROOMS)
def test_a_sentence_bids_no_command_that_needs_a_snakefile_in_the_folder(room):
    """Who installed Twinrun beside code of his own has none there: `twinrun` brings it along."""
    bidden = [
        (file.name, text.value)
        for file in (ROOT / "src/twinrun" / room).glob("*.py")
        for text in ast.walk(ast.parse(file.read_text()))
        if isinstance(text, ast.Constant) and isinstance(text.value, str)
        if re.search(r"\bsnakemake -", text.value) and "\n" not in text.value
    ]
    assert bidden == []
