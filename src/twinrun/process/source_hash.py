"""Which code a rule depends on, so that Snakemake sees a change in it.

Snakemake knows the script of a rule, not what the script imports. `package_files` follows the
import statements of a module inside its own package (and inside the folders of a search path) and
lists the files; a rule has the hash of their code as a parameter. (As inputs they would be looked
at for each of thousands of jobs.) Nothing is imported to find out.

The hash is one of what Python does, not of how it is written: it is taken over the syntax tree, so
that a changed comment, docstring or line break reruns nothing.
"""

import ast
import hashlib
import os
from collections.abc import Sequence
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path

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


def sources_hash(modules: Sequence[str], search_path: Sequence[str] = ()) -> str:
    """Return one SHA-256 of the code of modules and of what they import.

    The names of the files and their code count, not their folders, dates, comments, docstrings and
    formatting.
    """
    files = {file for module in modules for file in package_files(module, search_path)}
    files -= {os.path.relpath(file) for file in map(find_source, ONLY_WORDS) if file}
    sources = {Path(file): Path(file).read_bytes() for file in files}
    # Code that reads docstrings may read those of any file.
    are_read = any(name in source for source in sources.values() for name in DOCSTRING_READERS)
    lines = sorted(
        f"{file.name} {_code_hash(source, with_docstrings=are_read)}"
        for file, source in sources.items()
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


# ASSUME nothing else that is computed depends on how the code is written: no library reads a
# docstring, a comment (torch.jit.script reads `# type:`), a line number or the text of a function.
DOCSTRING_READERS = (b"__doc__", b"getdoc")


def code_hash(source: bytes) -> str:
    """Return the SHA-256 of what a Python file does; of the file, where it reads docstrings."""
    return _code_hash(source, with_docstrings=any(name in source for name in DOCSTRING_READERS))


@cache  # asked for by many rules of files that are the same
def _code_hash(source: bytes, *, with_docstrings: bool) -> str:
    """Return the SHA-256 of the syntax tree of a file, which knows no comments and no formatting.

    A tree is written differently by each minor version of Python; so is a result, by and large.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # whoever imports the file says so
        return hashlib.sha256(source).hexdigest()
    if not with_docstrings:
        tree = _WithoutStandingStrings().visit(tree)
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


class _WithoutStandingStrings(ast.NodeTransformer):
    """Leave out strings that are a statement by themselves: docstrings, also those of fields."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        is_string = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_string else node


def find_source(
    name: str, search_path: Sequence[str] = (), *, installed: bool = True
) -> Path | None:
    """Find the source file of a module by its dotted name without importing its parents."""
    file = _find(name, list(search_path)) if search_path else None
    return file or (_find(name, None) if installed else None)


def _find(name: str, folders: list[str] | None) -> Path | None:
    spec = None
    for depth in range(1, name.count(".") + 2):
        spec = PathFinder.find_spec(".".join(name.split(".")[:depth]), folders)
        if spec is None:
            return None
        folders = list(spec.submodule_search_locations or [])
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return Path(spec.origin)


@cache  # asked for by many rules of files that are the same
def _imports(name: str, file: Path) -> list[str]:
    """Name what a file imports; `from a import b` may mean the module a.b or the name b of a."""
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    names: list[str] = []
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):  # whoever imports the file says so
        return names
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = node.module or "" if not node.level else ".".join([*parents, node.module or ""])
            base = base.rstrip(".")
            names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return names
