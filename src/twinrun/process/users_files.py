"""Which files may be those of a user's code: not those of Python, of packages, of a cache."""

import os
import site
import sysconfig
import tempfile

from twinrun.process.opened_log import OpenedLog

_CODE = (".py", ".pyc", ".so", ".pyd", ".dylib", ".dll")  # is known as that, where it is imported


def is_theirs(file: str, log: OpenedLog) -> bool:
    """Say whether a file may be one of a user's code."""
    if file.endswith(_CODE) or "\n" in file or "\t" in file:
        return False
    if f"{os.sep}__pycache__{os.sep}" in file:  # what is compiled of code, as by Numba
        return False
    if file.startswith("/dev/") and not file.startswith("/dev/shm/"):  # noqa: S108
        return False
    inside = f"{file}{os.sep}"  # of a folder that is left out, itself too
    if inside.startswith(log.left_out):
        return log.watched is not None and inside.startswith(log.watched)
    return f"{os.sep}." not in file.removeprefix(log.folder)


def left_out(folder: str) -> tuple[str, ...]:
    """Return what no user's code writes to, by how paths begin."""
    paths = sysconfig.get_paths()
    installed = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    installed |= {*site.getsitepackages()}
    # Of this package's own, and what torch's compiler keeps for all processes of a user.
    made = [f"{tempfile.gettempdir()}{os.sep}{name}" for name in ("twinrun-", "torchinductor_")]
    several = ["/proc/", "/sys/", *made, *(f"{each}{os.sep}" for each in sorted(installed))]
    # A project may lie in any folder, as in one of a temporary name.
    return tuple(each for each in several if not f"{folder}{os.sep}".startswith(each))
