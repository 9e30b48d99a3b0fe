"""A mistake names the section of the docs that explains it."""

import ast
import re
from pathlib import Path

import pytest

from twinrun.config.schema_check import listed
from twinrun.config.shipped import PACKAGE
from twinrun.config.where_explained import SECTIONS, sections

ROOT = Path(__file__).parents[2]


def anchors(file):
    """Return a page's headings as links name them."""
    headings = re.findall(r"^#+ (.+)$", file.read_text(), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("place", sorted({place for _, place in SECTIONS}))
def test_every_section_is_there(place):
    file, _, section = place.partition("#")
    assert not section or section in anchors(ROOT / file)


@pytest.mark.parametrize(
    ("mistake", "section"),
    [
        ("workloads.a.trainer.callbacks.0: has no class", "callbacks-and-loggers"),
        ("workloads.a.trainer.precision: say it in a variant", "your-trainers-settings"),
        ("workloads.a.cli: train.yaml is no mapping", "a-lightningcli-config"),
        ("workloads.a.hyperparameters.net: class_path x.Y is not there", "objects-as-"),
        ("workloads.a.module: w belongs to a lazy layer; give it sizes", "which-features-"),
        ("workloads.a.data: gives no batch", "#data"),
        ("workloads.a.data: train_dataloader of D gives no batch", "#data"),
        ("workloads.a: x failed with E: No `train_dataloader()` method", "without-a-data-module"),
        ("workloads.a: x: `train_dataloader` must be implemented", "without-a-data-module"),
        ("workloads.a.module: no module is called x", "what-the-classes-need"),
        ("require.matrix.0: no cell is called x", "gate.md"),
        ("studys: unknown key", "config.md"),
    ],
)
def test_a_mistake_leads_to_its_section(mistake, section):
    (place,) = sections([mistake])
    assert section in place
    assert place.startswith(str(PACKAGE.parents[1]))


def test_a_list_of_mistakes_ends_in_their_sections_each_once():
    lines = listed(["studys: unknown", "studys: twice", "require.a: unknown"]).split("\n")
    assert len(lines) == 5
    assert lines[-1].count("config.md") == lines[-1].count("gate.md") == 1


def test_what_has_no_key_leads_nowhere():
    assert listed(["mine.yaml is empty"]) == "1 error in the config:\n  mine.yaml is empty"


def sentence(node):
    """Return a literal sentence of the code, with x for each of its values; "" for another node."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(v.value if isinstance(v, ast.Constant) else "x" for v in node.values)
    return ""


def refusals():
    """Yield each sentence by which the code refuses a config, and the place that has it."""
    for file in sorted((PACKAGE / "config").glob("*.py")):
        # What a file of LightningCLI says stands behind the key that names it.
        before = "workloads.x.cli: x: " if file.stem.startswith("lightning_") else ""
        for node in ast.walk(ast.parse(file.read_text())):
            said = None
            if isinstance(node, ast.Yield):
                said = node.value
            elif isinstance(node, ast.Call) and node.args:
                name = ast.unparse(node.func)
                if name == "TwinrunError" or name.endswith("mistakes.append"):
                    said = node.args[0]
            # A single word is a name, not a sentence.
            if " " in (text := sentence(said)):
                yield f"{file.name}:{node.lineno}", before + text


def test_every_refusal_of_a_config_leads_to_a_section():
    found = dict(refusals())
    assert len(found) > 50
    assert [place for place, text in found.items() if not [*sections([text])]] == []
