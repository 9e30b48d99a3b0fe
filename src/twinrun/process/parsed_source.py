"""What a Python file does and imports, parsed once and remembered beside Python's own bytecode.

To parse all of Twinrun takes seconds, and each start of Snakemake asks for most of it. What is
remembered is a function of a file's bytes and is found by their hash, in a file of the minor
version of Python (whose trees are written differently) and of the code below; where it cannot be
read or written, files are parsed.
"""

import ast
import atexit
import hashlib
import sys
from contextlib import suppress
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path

import msgspec

from twinrun import artifacts

PACKAGE = Path(__file__).resolve().parents[1]
MEMORY = Path(cache_from_source(__file__)).with_suffix(".json")
MOST = 3000  # files that are remembered: some versions of all of Twinrun's

# ASSUME nothing that is computed depends on how the code is written: no library reads a comment
# (torch.jit.script reads `# type:`), a line number or the text of a function.


class Parsed(msgspec.Struct, frozen=True):
    """What is to be known of a file."""

    sha256: str
    """SHA-256 of its syntax tree without docstrings; of the bytes, where it cannot be parsed."""
    imports: tuple[tuple[int, str, tuple[str, ...]], ...]
    """For each import statement its level (leading dots), module and names."""


class _Memory(msgspec.Struct):
    code: str
    """SHA-256 of this module: another one may say something else of the same file."""
    files: dict[str, Parsed]
    """By the SHA-256 of their bytes."""


def parsed(file: Path) -> Parsed:
    """Say what a file does and imports.

    Raises:
        OSError: if it cannot be read.
    """
    source = file.read_bytes()
    # A user's own change from day to day: to remember them all would be of no use to anybody.
    if not file.resolve().is_relative_to(PACKAGE):
        return _parse(source)
    key, memory = hashlib.sha256(source).hexdigest(), _memory()
    if key not in memory.files:
        memory.files[key] = _parse(source)
        _keep_at_exit()
    return memory.files[key]


@cache  # asked for by many rules
def _parse(source: bytes) -> Parsed:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # the import of the file will say so
        return Parsed(hashlib.sha256(source).hexdigest(), imports=())
    imports: list[tuple[int, str, tuple[str, ...]]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports += [(0, alias.name, ()) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = tuple(alias.name for alias in node.names)
            imports.append((node.level, node.module or "", names))
        for statements in (getattr(node, "body", None), getattr(node, "orelse", None)):
            if isinstance(statements, list):
                statements[:] = [each for each in statements if not _is_standing_string(each)]
    code = hashlib.sha256(ast.dump(tree).encode()).hexdigest()
    return Parsed(code, imports=tuple(imports))


def _is_standing_string(node: ast.AST) -> bool:
    """Say whether a statement is a string and nothing else: a docstring, also one of a field."""
    match node:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
    return False


@cache
def _memory() -> _Memory:
    code = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    with suppress(OSError, ValueError):  # none yet, or damaged
        found = msgspec.json.decode(MEMORY.read_bytes(), type=_Memory)
        if found.code == code and len(found.files) < MOST:
            return found
    return _Memory(code, {})


@cache
def _keep_at_exit() -> None:
    if not sys.dont_write_bytecode:
        atexit.register(_keep)


def _keep() -> None:
    with suppress(OSError), artifacts.atomic(MEMORY) as temporary:  # an installation of others
        temporary.write_bytes(msgspec.json.encode(_memory()))
