"""The floor plan of the package: imports run one way, and no room grows into a hall."""

import ast
import re
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/twinrun"
MODULES = {
    ".".join(("twinrun", *file.relative_to(PACKAGE).with_suffix("").parts)): file
    for file in sorted(PACKAGE.rglob("*.py"))
}
ENTRIES = [p for p in PACKAGE.iterdir() if p.name[0] not in "_." or p.name == "__main__.py"]
TREES = {name: ast.parse(file.read_text()) for name, file in MODULES.items()}

# Each imports only from those after it. A new room is put where it belongs, and into README's tree.
ORDER = (
    "__main__",
    "commands",
    *("report", "gate", "figures", "verdicts", "luck"),
    *("comparison", "timing", "training", "parallel", "trace"),
    *(
        "checkpoint",
        "acceleration",
        "run_files",
        "run_records",
        "proof_records",
        "process",
        "config",
    ),
    *(
        "dataset_files",
        "artifacts",
        "held_elsewhere",
        "optimizer_attributes",
        "values_inside",
        "set_attributes",
        "copied_batches",
        "hidden_content",
        "library_objects",
        "batches",
        "parameters",
        "returned_loss",
        "generators",
        "containers",
        "plain_tensors",
        "pandas_values",
        "formatting",
        "wording",
        "errors",
        "signals",
    ),
)
# What is trained, and on what: as a user's own, they know nothing of the package.
GUESTS = ("workloads", "data")

# The longest that a module and a function may be, in lines; and which are longer, with the reason.
# Both lists hold exactly what is there: who makes one shorter takes it off.
LONGEST_MODULE, LONGEST_FUNCTION = 300, 60
LONGER_MODULES = {}
LONGER_FUNCTIONS = {
    "twinrun.timing.measure.measure": "one flat sequence, a third of it the record",
    "twinrun.training.train._train": "one flat sequence: assemble, fit, write",
}


def room_of(module: str) -> str:
    """Return the room of a module, or the module itself where it stands in the hall."""
    return module.split(".")[1]


def imports(tree: ast.Module) -> Iterator[str]:
    """List the modules of the package that a module imports, or has a fresh process import."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found = [alias.name for alias in names]
            case ast.ImportFrom(module=module, names=names, level=0):
                found = [f"{module}.{alias.name}" for alias in names]
            case ast.ImportFrom():
                pytest.fail(f"line {node.lineno}: a relative import")
            case ast.Constant(value=str() as text) if re.fullmatch(r"twinrun\.[\w.]+:\w+", text):
                found = [text.replace(":", ".")]
            case _:
                continue
        yield from (name for name in found if name.startswith("twinrun."))


def functions(tree: ast.AST, prefix: str) -> Iterator[tuple[str, int]]:
    """List all functions and methods with their lines."""
    for node in ast.iter_child_nodes(tree):
        name = prefix
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}.{node.name}"
            if not isinstance(node, ast.ClassDef):
                yield name, node.end_lineno - node.lineno + 1
        yield from functions(node, name)


def test_every_room_has_its_place():
    rooms = {path.stem for path in ENTRIES}
    assert rooms == {*ORDER, *GUESTS}


@pytest.mark.parametrize("room", ORDER)
def test_imports_run_one_way(room):
    allowed = {room, *ORDER[ORDER.index(room) :]}
    against = [
        f"{module} imports {name}"
        for module, tree in TREES.items()
        if module != "twinrun.__init__" and room_of(module) == room
        for name in imports(tree)
        if room_of(name) not in allowed
    ]
    assert against == []


@pytest.mark.parametrize("guest", GUESTS)
def test_what_is_trained_knows_nothing_of_the_package(guest):
    modules = {module: tree for module, tree in TREES.items() if room_of(module) == guest}
    assert modules
    assert {room_of(name) for tree in modules.values() for name in imports(tree)} <= {guest}


def test_an_import_anywhere_is_seen():
    """As a statement, inside of a function, of a name from a module, and by name for `launch`."""
    tree = ast.parse(
        "import twinrun.gate\n"
        "def f():\n"
        "    from twinrun.report import page\n"
        "    launch('twinrun.training.train:train', {})\n"
        "import torch\n"
    )
    found = {"twinrun.gate", "twinrun.report.page", "twinrun.training.train.train"}
    assert set(imports(tree)) == found


def test_what_is_named_for_a_fresh_process_is_there():
    sources = [*PACKAGE.rglob("*.py"), *(ROOT / "workflow").rglob("*.py")]
    sources += [*(ROOT / "workflow").rglob("*.smk"), ROOT / "config.yaml"]
    texts = {file: re.findall(r"\btwinrun\.[\w.]+:\w+", file.read_text()) for file in sources}
    named = {name for names in texts.values() for name in names}
    assert len(named) > len(GUESTS)
    for name in sorted(named):
        module, _, attribute = name.partition(":")
        assert attribute in {getattr(node, "name", None) for node in TREES[module].body}, name


def test_a_rooms_init_holds_a_docstring_only():
    """Hashes of sources follow parents: what stands there would be in every closure."""
    inits = {name: tree for name, tree in TREES.items() if name.endswith(".__init__")}
    assert len(inits) > len(GUESTS)
    for name, tree in inits.items():
        assert ast.get_docstring(tree), name
        assert len(tree.body) == 1, name


def test_no_module_is_long():
    lengths = {name: len(file.read_text().splitlines()) for name, file in MODULES.items()}
    long = {name for name, length in lengths.items() if length > LONGEST_MODULE}
    assert long == LONGER_MODULES.keys()


def test_no_function_is_long():
    lengths = [found for name, tree in TREES.items() for found in functions(tree, name)]
    long = {name for name, length in lengths if length > LONGEST_FUNCTION}
    assert long == LONGER_FUNCTIONS.keys()


def tree_of_readme() -> list[tuple[int, list[str]]]:
    """Return the lines of README's tree: depth, and the entries that its first column names."""
    text = (ROOT / "README.md").read_text().partition("## Where things are")[2]
    lines = text.partition("```")[2].partition("```")[0].strip("\n").splitlines()
    found = []
    for line in lines:
        entries = line.strip().partition("  ")[0].split(", ")
        found.append(((len(line) - len(line.lstrip())) // 2, entries))
    return found


def test_the_readmes_tree_names_every_entry_and_every_room():
    git = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    top = {file.partition("/")[0] for file in files.splitlines() if not file.startswith(".")}
    named, package = [], []
    for depth, entries in tree_of_readme():
        (package if depth else named).extend(entries)
    for entry in named:
        assert (ROOT / entry).exists(), entry
        assert entry.endswith("/") == (ROOT / entry).is_dir(), entry
    assert {entry.partition("/")[0] for entry in named} == top - {"README.md"}
    rooms = {path.name + "/" * path.is_dir() for path in ENTRIES}
    assert sorted(package) == sorted(rooms)


def test_the_readmes_tree_shows_which_way_imports_run():
    rooms = [Path(entry).stem for depth, entries in tree_of_readme() if depth for entry in entries]
    places = [ORDER.index(room) for room in rooms if room not in GUESTS]
    assert all(earlier < later for earlier, later in pairwise(places))
