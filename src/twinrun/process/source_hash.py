"""Which code a rule depends on, so that Snakemake sees a change in it.

Snakemake knows the script of a rule by its time alone, and not what the script imports.
`package_files` follows the import statements of a module inside its own package (and inside the
folders of a search path) and lists the files; a rule has the hash of their code and of its script
as a parameter. (As inputs they would be looked at for each of thousands of jobs.) Nothing is
imported to find out.

The hash is one of what Python does, not of how it is written: it is taken over the syntax tree, so
that a changed comment or line break reruns nothing. A docstring of Twinrun's does not count either.
One of a user's does: a library may read it (a parser its grammar, a language model its prompt).
"""

import ast
import hashlib
import os
from collections.abc import Sequence
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path

from twinrun.process.parsed_source import PACKAGE, parsed

# In every closure, and in no result but as the sentence of a failure: another wording reruns
# nothing. A test holds that the modules do nothing else.
ONLY_WORDS = frozenset({"twinrun.errors", "twinrun.wording"})


def package_files(module: str, search_path: Sequence[str] = ()) -> list[str]:
    """List the source files of `module` and of what it imports, relative to the working directory.

    Followed are imports of the same top-level package and of modules in `search_path`. A module
    without a Python source file (compiled, or missing) has no files.

    Args:
        module: its dotted name.
        search_path: folders looked in before the installed packages.
    """
    found: dict[str, Path] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        file = find_source(name, search_path)
        if file is None:
            continue
        found[name] = file
        waiting += [
            imported
            for imported in _imports(name, file)
            if imported.split(".")[0] == module.split(".")[0]
            or (search_path and find_source(imported, search_path, installed=False))
        ]
        waiting += [name.rpartition(".")[0]] if "." in name else []
    return sorted({os.path.relpath(file) for file in found.values()})


def sources_hash(
    modules: Sequence[str], search_path: Sequence[str] = (), scripts: Sequence[Path] = ()
) -> str:
    """Return one SHA-256 of the code of modules, of what they import, and of scripts.

    The names of the files and their code count, not their folders, dates, comments and formatting;
    docstrings do outside of Twinrun, whose own code reads none.
    """
    files = {file for module in modules for file in package_files(module, search_path)}
    files -= {os.path.relpath(file) for file in map(find_source, ONLY_WORDS) if file}
    files |= {os.path.relpath(script) for script in scripts}
    ours = {os.path.relpath(script) for script in scripts}
    lines = []
    for file in map(Path, files):
        is_ours = str(file) in ours or file.resolve().is_relative_to(PACKAGE)
        code = parsed(file).sha256 if is_ours else code_hash(file.read_bytes())
        lines.append(f"{file.name} {code}")
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


@cache
def code_hash(source: bytes) -> str:
    """Return the SHA-256 of a Python file without its comments and formatting."""
    try:
        return hashlib.sha256(ast.dump(ast.parse(source)).encode()).hexdigest()
    except (SyntaxError, ValueError):
        return hashlib.sha256(source).hexdigest()


def find_source(
    name: str, search_path: Sequence[str] = (), *, installed: bool = True
) -> Path | None:
    """Find the source file of a module by its dotted name without importing its parents."""
    file = _find(name, tuple(map(os.path.abspath, search_path))) if search_path else None
    return file or (_find(name, None) if installed else None)


@cache  # thousands of names, most of them no modules; no file appears while rules are read
def _find(name: str, search_path: tuple[str, ...] | None) -> Path | None:
    folders = None if search_path is None else list(search_path)
    spec = None
    for part in name.split("."):
        # By its last name: of a folder without an __init__.py inside of another one, the full name
        # would be looked up among the packages that are imported.
        spec = PathFinder.find_spec(part, folders)
        if spec is None:
            return None
        folders = list(spec.submodule_search_locations or [])
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return Path(spec.origin)


def may_name_code(name: str, search_path: Sequence[str]) -> bool:
    """Say whether a dotted text may name a module or what one defines; in doubt, yes.

    A hyperparameter `train.csv` names a file, though a `train.py` may lie on the search path: to
    import that would execute a script. Nothing is imported to find out.
    """
    module, file = name, find_source(name, search_path, installed=False)
    while file is None and "." in module:
        module = module.rpartition(".")[0]
        file = find_source(module, search_path, installed=False)
    if file is None or module == name:
        return True
    if Path(name).is_file():
        return False
    wanted = name.removeprefix(f"{module}.").partition(".")[0]
    return bool(_bound(file.read_bytes()) & {wanted, "*", "__getattr__"})


@cache
def _bound(source: bytes) -> frozenset[str]:
    """Name what a file defines, assigns or imports from elsewhere, outside of functions."""
    try:
        waiting: list[ast.AST] = [ast.parse(source)]
    except (SyntaxError, ValueError):  # the import will say so
        return frozenset("*")
    names: set[str] = set()
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        else:
            waiting += ast.iter_child_nodes(node)
    return frozenset(names)


def _imports(name: str, file: Path) -> list[str]:
    """Name what a file imports; `from a import b` may mean the module a.b or the name b of a."""
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    parts = package.split(".")
    names: list[str] = []
    for level, module, imported in parsed(file).imports:
        parents = parts[: len(parts) - level + 1] if level else []
        base = ".".join([*parents, module] if module else parents)
        names += [base, *(f"{base}.{each}" for each in imported)]
    return names
