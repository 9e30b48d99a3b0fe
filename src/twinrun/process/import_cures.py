"""What a user can do where his module cannot be imported, or has not what was asked for."""

import ast
import inspect
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from twinrun.wording import as_module

# What only IPython has: the lines of a notebook's magics, as they are exported.
OF_NOTEBOOKS = ("get_ipython", "display")


def cure_of(error: Exception, module: str, search_path: Sequence[str]) -> str:
    """Say what to do about an import that failed, as the end of a sentence; nothing if unknown.

    Args:
        error: what it failed with.
        module: what was to be imported.
        search_path: folders with the user's own modules.
    """
    if isinstance(error, ModuleNotFoundError):
        package = str(error.name).partition(".")[0]
        return shadowed(package, search_path) or _elsewhere(package, search_path)
    if isinstance(error, NameError) and error.name in OF_NOTEBOOKS:
        return "; only a notebook has it: take its lines out of the exported file"
    if isinstance(error, ImportError) and "no known parent package" in str(error):
        return (
            f"; a relative import needs a package: name its folder too, say package.{module}, "
            f"from the folder above, or import without the dot"
        )
    return ""


def _elsewhere(package: str, search_path: Sequence[str]) -> str:
    """Say where a package lies that is not found: one folder below, as in a src layout.

    A notebook of its name has the code, and is no module.
    """
    for folder in map(Path, search_path):
        if (notebook := folder / f"{package}.ipynb").is_file():
            return as_module(str(notebook))
        for found in (*folder.glob(f"*/{package}"), *folder.glob(f"*/{package}.py")):
            if found.is_dir() or found.is_file():
                return (
                    f"; it is in {found.parent}: install its project (pip install -e .), or set "
                    f"PYTHONPATH={shlex.quote(str(found.parent))}"
                )
    return ""


def shadowed(name: str, search_path: Sequence[str]) -> str:
    """Say that a file of a user's has the name of a module that was imported in its place.

    Nothing if none has.
    """
    if name not in sys.modules:
        return ""
    found = getattr(sys.modules[name], "__file__", None)
    for folder in search_path:
        path = Path(folder, *name.split("."))
        for own in (path.with_name(f"{path.name}.py"), path / "__init__.py"):
            if own.is_file() and (found is None or own.resolve() != Path(found).resolve()):
                theirs = found or "Python itself"
                return (
                    f"; {theirs} was looked into, which has the name of {own}: give that another "
                    f"name"
                )
    return ""


def hidden(module: ModuleType, name: str) -> str:
    """Say that a name is defined where only the program itself gets to; nothing if it is not."""
    try:
        tree = ast.parse(inspect.getsource(module))
    except (OSError, TypeError, SyntaxError):  # it has no source
        return ""
    for block in ast.walk(tree):
        if isinstance(block, ast.If) and "__main__" in ast.dump(block.test):
            defined = (each for part in block.body for each in ast.walk(part))
            kinds = (ast.ClassDef, ast.FunctionDef)
            if any(isinstance(each, kinds) and each.name == name for each in defined):
                return '; move it out of `if __name__ == "__main__":`, where only a script gets to'
    return ""
