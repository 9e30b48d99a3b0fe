"""Which code a rule depends on."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from twinrun.process.source_hash import (
    ONLY_WORDS,
    code_hash,
    find_source,
    package_files,
    sources_hash,
)

CODE = '''"""What the module is for."""

import math
from functools import cache


@cache
def area(radius: float = 1.0) -> float:
    """Return the area of a circle."""
    # Archimedes.
    return math.pi * radius**2


class Circle:
    """A circle."""

    radius: float = 2.0
    """In metres."""

    def name(self):
        return "circle"
'''


def names(files):
    return {Path(file).name for file in files}


def test_imports_are_followed_inside_the_package():
    assert names(package_files("twinrun.training.load_workload")) == {
        "__init__.py",
        "constructors.py",
        "definitions.py",
        "errors.py",
        "import_cures.py",
        "import_path.py",
        "keys.py",
        "load_workload.py",
        "no_training.py",
        "one_lightning.py",
        "signals.py",
        "traced_steps.py",
        "unmet_requirements.py",
        "trainer_arguments.py",
        "unsupported.py",
        "wording.py",
    }


def test_training_depends_on_tracing_and_not_on_the_report():
    files = names(package_files("twinrun.training.train"))
    assert {"step_tracer.py", "determinism.py", "artifacts.py"} <= files
    assert not files & {"page.py", "pairs.py", "settings.py"}


def test_users_modules_beside_the_config_are_followed(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import torch\nfrom helper import layer\nfrom pack import deep\n"
    )
    (tmp_path / "helper.py").write_text("layer = 1\n")
    (tmp_path / "unused.py").write_text("")
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack/__init__.py").write_text("raise RuntimeError('nothing is imported')\n")
    (tmp_path / "pack/deep.py").write_text("from . import sibling\n")
    (tmp_path / "pack/sibling.py").write_text("")
    files = package_files("mine", [str(tmp_path)])
    assert names(files) == {"mine.py", "helper.py", "__init__.py", "deep.py", "sibling.py"}


def test_a_parent_package_is_followed_and_what_it_imports(tmp_path):
    """Importing a.b runs a/__init__.py first, and so what that imports."""
    (tmp_path / "pack/inner").mkdir(parents=True)
    (tmp_path / "pack/__init__.py").write_text("from pack import patches\n")
    (tmp_path / "pack/patches.py").write_text("")
    (tmp_path / "pack/inner/__init__.py").write_text("")
    (tmp_path / "pack/inner/model.py").write_text("")
    files = package_files("pack.inner.model", [str(tmp_path)])
    assert sorted(
        Path(file).relative_to(os.path.relpath(tmp_path / "pack")).as_posix() for file in files
    ) == [
        "__init__.py",
        "inner/__init__.py",
        "inner/model.py",
        "patches.py",
    ]


def test_nested_folders_without_an_init_file_are_packages(tmp_path):
    (tmp_path / "proj/models/vision").mkdir(parents=True)
    (tmp_path / "proj/models/vision/net.py").write_text("from proj.models import layers\n")
    (tmp_path / "proj/models/layers.py").write_text("")
    files = package_files("proj.models.vision.net", [str(tmp_path)])
    assert names(files) == {"net.py", "layers.py"}
    assert find_source("proj.models.missing.net", [str(tmp_path)]) is None


def test_a_broken_or_missing_module_has_no_imports(tmp_path):
    (tmp_path / "broken.py").write_text("def :")
    assert names(package_files("broken", [str(tmp_path)])) == {"broken.py"}
    assert package_files("absent", [str(tmp_path)]) == []


def test_the_hash_sees_names_and_contents_but_not_folders_and_dates(tmp_path):
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text("import helper\n")
        (tmp_path / folder / "helper.py").write_text("layer = 1\n")
    os.utime(tmp_path / "there/helper.py", (0, 0))
    here, there = ([str(tmp_path / folder)] for folder in ("here", "there"))
    expected = sources_hash(["mine"], here)
    assert expected == sources_hash(["mine"], there) == sources_hash(["helper", "mine"], there)
    (tmp_path / "there/helper.py").write_text("layer = 2\n")
    assert sources_hash(["mine"], there) != expected
    (tmp_path / "here/mine.py").rename(tmp_path / "here/yours.py")
    assert sources_hash(["yours"], here) != expected


@pytest.fixture
def edited_hash(tmp_path, monkeypatch):
    """Return a function: the hash of CODE after replacing some of it, of a file of Twinrun's."""

    def edited_hash(old="", new="", code=CODE, *, is_ours=True):
        ours = tmp_path if is_ours else tmp_path / "elsewhere"
        monkeypatch.setattr("twinrun.process.source_hash.PACKAGE", ours.resolve())
        assert old in code
        (tmp_path / "shapes.py").write_text(code.replace(old, new, 1))
        return sources_hash(["shapes"], [str(tmp_path)])

    return edited_hash


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("What the module is for.", "What it is for."),
        ('"""What the module is for."""\n', ""),
        ("Return the area", "Give the area"),
        ('    """A circle."""\n', ""),
        ("In metres.", "In feet."),
        ('    """In metres."""\n', ""),
        ("    # Archimedes.\n", ""),
        ("Archimedes", "Euclid"),
        ("math.pi * radius**2", "(\n        math.pi * radius ** 2\n    )"),
        ('"circle"', "'circle'"),
        ("\n\n\n", "\n"),
    ],
)
def test_a_change_of_comments_docstrings_and_formatting_is_not_seen(edited_hash, old, new):
    assert edited_hash(old, new) == edited_hash()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"circle"', '"a circle"'),
        ("float = 1.0", "float = 1"),  # equal, and another type
        ("radius**2", "radius*2"),
        ("radius**2", "radius**-2"),
        ("@cache\n", ""),
        ("-> float", "-> int"),
        ("radius: float = 2.0", "radius: float = 3.0"),
        ("class Circle", "class Disc"),
        ("import math", "import cmath as math"),
        ("        return", "        yield"),
    ],
)
def test_a_change_of_what_the_code_does_is_seen(edited_hash, old, new):
    assert edited_hash(old, new) != edited_hash()


BRANCHES = """
if a:
    b = 1
else:
    b = 2
for c in b:
    d = 3
else:
    d = 4
while e:
    f = 5
else:
    f = 6
try:
    g = 7
except OSError:
    g = 8
else:
    g = 9
finally:
    g = 10
match h:
    case 11:
        i = 12
with j:
    k = 13
async def l():
    async for m in n:
        o = 14
    else:
        o = 15
    async with p:
        q = 16
"""


@pytest.mark.parametrize("number", range(1, 17))
def test_code_in_every_branch_counts(edited_hash, number):
    assert edited_hash(f" {number}", f" {number}0", BRANCHES) != edited_hash(code=BRANCHES)


@pytest.mark.parametrize("branch", [1, 2, 3, 4, 5, 6, 7, 9])
def test_a_comment_written_as_a_string_counts_in_no_branch(edited_hash, branch):
    old = f" = {branch}\n"
    assert edited_hash(old, f'{old}    "Why."\n', BRANCHES) == edited_hash(code=BRANCHES)


@pytest.mark.parametrize(
    "old", ["What the module is for.", "Return the area", "A circle.", "In metres."]
)
def test_a_docstring_of_a_users_is_code(edited_hash, old):
    """A library may read it, or a file that no import statement leads to."""
    assert edited_hash(old, "1.0", is_ours=False) != edited_hash(is_ours=False)
    assert code_hash(CODE.replace(old, "1.0").encode()) != code_hash(CODE.encode())


def test_a_users_comments_and_formatting_are_no_code(edited_hash):
    for old, new in (("Archimedes", "Euclid"), ('"circle"', "'circle'"), ("\n\n\n", "\n")):
        assert edited_hash(old, new, is_ours=False) == edited_hash(is_ours=False)
        assert code_hash(CODE.replace(old, new).encode()) == code_hash(CODE.encode())


@pytest.mark.parametrize("module", ["twinrun.training.train", "twinrun.report.page"])
def test_nothing_of_ours_reads_docstrings(module):
    """They do not count there."""
    for file in package_files(module):
        source = Path(file).read_text(encoding="utf-8")
        assert "__doc__" not in source, file
        assert "getdoc" not in source, file


def test_a_file_that_does_not_parse_counts_as_it_is_written(edited_hash):
    assert edited_hash("Archimedes", "Euclid", f"{CODE}def :") != edited_hash(code=f"{CODE}def :")


def test_a_module_that_does_not_count_only_words_failures():
    """An edit of it reruns nothing; so nothing that a result rests on may stand there."""
    for module in ONLY_WORDS:
        tree = ast.parse(find_source(module).read_bytes())
        for node in tree.body:
            match node:
                case ast.Expr(ast.Constant(str())) | ast.Import() | ast.ImportFrom():
                    pass
                case ast.Assign(value=ast.Constant(int())):
                    pass
                case ast.ClassDef(
                    bases=[ast.Name("Exception" | "TwinrunError")], body=[ast.Expr()]
                ):
                    pass
                case ast.FunctionDef(returns=ast.Name("str")):
                    pass
                case _:
                    pytest.fail(f"{module}, line {node.lineno}: {ast.unparse(node)}")


def test_the_wording_of_failures_does_not_count(monkeypatch):
    before = sources_hash(["twinrun.training.train"])
    assert "errors.py" in names(package_files("twinrun.training.train"))
    monkeypatch.setattr("twinrun.process.source_hash.ONLY_WORDS", ())
    assert sources_hash(["twinrun.training.train"]) != before


def test_nothing_is_imported():
    code = (
        "import sys; from twinrun.process.source_hash import package_files;"
        "package_files('twinrun.training.train');"
        "assert not {'torch', 'pytorch_lightning'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_find_source_prefers_the_search_path(tmp_path):
    (tmp_path / "json.py").write_text("")
    assert find_source("json", [str(tmp_path)]) == tmp_path / "json.py"
    assert find_source("json.decoder") is not None
