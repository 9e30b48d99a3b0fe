"""What the loaders of this process have executed of a user's code, as it was when they did.

A file may be edited, a module replaced or forgotten after its import: what is there later need not
be what ran. So from `record_imports` on the loaders keep the very bytes that they compile or load.
A user's source is compiled each time: cached bytecode is trusted by the time and size of its
source alone.
"""

import functools
import hashlib
import json
import os
import re
import sysconfig
import zipimport
from collections.abc import Callable
from dataclasses import dataclass
from importlib.machinery import (
    ExtensionFileLoader,
    ModuleSpec,
    SourceFileLoader,
    SourcelessFileLoader,
)
from pathlib import Path
from types import CodeType, ModuleType

from twinrun.process.compiler_cache import FOLDERS
from twinrun.process.importable import folders_of, modules_in
from twinrun.process.source_hash import code_hash

PACKAGE = Path(__file__).resolve().parents[1]
HASH = re.compile(r"[A-Za-z0-9]{40,}")  # 52 letters and digits of Inductor and Triton
INSTALLED = ("site-packages", "dist-packages")
LOG = "TWINRUN_IMPORT_LOG"  # the variable that names the file of `import_log`


@dataclass(frozen=True)
class Executed:
    """A file that a loader has executed."""

    name: str
    """Of the module."""
    file: str
    """Its path, absolute; of a module in a ZIP archive that of the archive."""
    content: bytes
    """What was compiled or loaded."""


_executed: list[Executed] = []
_started_in: list[str] = []


def executed() -> list[Executed]:
    """Return what was executed since `record_imports`, in that order."""
    return list(_executed)


def relative(file: str) -> str:
    """Return a path as seen from where the process started: a module may change its folder."""
    return os.path.relpath(file, *_started_in)


def from_start(path: str) -> str:
    """Return a path that leads, also where a module has changed its folder, where it led before.

    As long as none has, it is the same text: a module may look at it.
    """
    is_moved = bool(_started_in) and str(Path.cwd()) != _started_in[0]
    return str(Path(_started_in[0], path)) if is_moved else path


def is_outside(file: str) -> bool:
    """Say whether a file belongs neither to Python, nor to an installed package, nor to us.

    Nor is it code that torch's compiler has generated, which it imports from its cache: that
    follows from the rest, and the cache of a run is deleted with its processes.
    """
    # A process asks of thousands of files, which lie in hundreds of folders.
    if os.path.islink(file):  # noqa: PTH114
        file = str(Path(file).resolve())
    if not file.startswith(os.sep):
        file = str(Path.cwd() / file)
    folder, separator, name = file.rpartition(os.sep)
    folder = folder or separator
    return _is_outside(folder) and not _is_generated(_resolved(folder) / name)


@functools.cache
def _resolved(folder: str) -> Path:
    return Path(folder).resolve()


@functools.cache
def _is_outside(folder: str) -> bool:
    path = _resolved(folder)
    if path.is_relative_to(PACKAGE) or set(INSTALLED) & set(path.parts):
        return False
    return not any(path.is_relative_to(library) for library in _libraries())


def _is_generated(path: Path) -> bool:
    """Say whether a compiler wrote a file: below its cache, with a hash for a name or a folder.

    The cache alone says too little: a shell may put it where the user's code lies, too.
    """
    # torch sets the first variable for itself, where nobody has. Triton has a folder of its own,
    # where it builds what it needs to know of a GPU before torch tells it another one:
    # https://github.com/triton-lang/triton/blob/v3.6.0/python/triton/knobs.py
    home = os.environ.get("TRITON_HOME") or os.path.expanduser("~")  # noqa: PTH111  a user may have none
    of_triton = Path(home, ".triton")
    for folder in (*(os.environ[name] for name in FOLDERS if name in os.environ), of_triton):
        if path.is_relative_to(cache := Path(folder).resolve()):
            return any(HASH.match(part) for part in path.relative_to(cache).parts)
    return False


def record_imports() -> None:
    """Begin to record; once in a process, before anything of a user's is imported."""
    if _started_in:
        return
    _started_in.append(str(Path.cwd()))
    _libraries()  # imports a module of its own, which from Python 3.13 on cannot be asked about
    source, bytecode = SourceFileLoader.get_code, SourcelessFileLoader.get_code
    extension, archived = ExtensionFileLoader.create_module, zipimport.zipimporter.get_code

    def of_source(self: SourceFileLoader, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        if _is_known(path):
            return source(self, fullname)
        content = self.get_data(path)
        code: CodeType = self.source_to_code(content, path)
        _note(fullname, path, content)
        return code

    def of_bytecode(self: SourcelessFileLoader, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        if not _is_known(path):
            _note(fullname, path, Path(path).read_bytes())
        return bytecode(self, fullname)

    def of_extension(self: ExtensionFileLoader, spec: ModuleSpec) -> ModuleType:
        if spec.origin is not None and not _is_known(spec.origin):
            _note(spec.name, spec.origin, Path(spec.origin).read_bytes())
        return extension(self, spec)

    def of_archive(self: zipimport.zipimporter, fullname: str) -> CodeType:
        if not _is_known(self.archive):
            _note(fullname, self.archive, Path(self.archive).read_bytes())
        return archived(self, fullname)

    _replace(SourceFileLoader, "get_code", of_source)
    _replace(SourcelessFileLoader, "get_code", of_bytecode)
    _replace(ExtensionFileLoader, "create_module", of_extension)
    _replace(zipimport.zipimporter, "get_code", of_archive)


def _replace(loader: type, name: str, method: Callable[..., object]) -> None:
    setattr(loader, name, functools.wraps(getattr(loader, name))(method))


def _note(name: str, file: str, content: bytes) -> None:
    path = str(Path(file).absolute())
    _executed.append(Executed(name, path, content))
    if LOG in os.environ:
        entry = {
            "name": name,
            "file": relative(path),
            "sha256": hash_of_source(path, content),
            "beside": [_modules_at_first(folder) for folder in folders_of(name, path)],
        }
        # At once and appended: what is forked from here, a data worker, ends without notice.
        with open(os.environ[LOG], "ab", buffering=0) as log:  # noqa: PTH123  (one write a line)
            log.write(f"{json.dumps(entry)}\n".encode())


_modules_at_first = functools.cache(modules_in)  # one that comes later may have been missed


@functools.lru_cache(maxsize=4096)  # a run looks at the same ones several times
def hash_of_source(file: str | Path, content: bytes) -> str:
    """Return the SHA-256 of what a file with this content does; of a library, of its bytes."""
    if Path(file).suffix == ".py":
        return code_hash(content)
    return hashlib.sha256(content).hexdigest()


def _is_known(file: str) -> bool:
    """Say whether a file is no user's, mostly without a look at the disk: there are thousands."""
    inside = (*_libraries(), f"{PACKAGE}{os.sep}")
    folders = [f"{os.sep}{name}{os.sep}" for name in INSTALLED]
    if file.startswith(inside) or any(folder in file for folder in folders):
        return True
    return not is_outside(file)


@functools.cache
def _libraries() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple(dict.fromkeys(paths[name] for name in ("stdlib", "platstdlib")))
