"""Which installed packages do not fit together: what a failed import may well be due to."""

import re
import traceback
from collections.abc import Collection, Iterator
from importlib import metadata
from typing import TYPE_CHECKING

from twinrun.errors import TwinrunError

if TYPE_CHECKING:
    from packaging.requirements import Requirement

OWN = "twinrun"
TRAIN = ("pytorch-lightning", "torch")  # of these no other versions are tried


def unmet(error: BaseException, imported: str) -> str:
    """Say what a package on the way to a failure asks for and does not find; nothing if all is met.

    Args:
        error: of an import.
        imported: name of the module that was to be imported.

    Returns:
        The end of a sentence.
    """
    frames = [
        frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)
    ]
    modules = [imported, *frames, getattr(error, "name", None) or ""]
    names = dict.fromkeys(name.partition(".")[0] for name in modules)
    providers = metadata.packages_distributions()
    found = dict.fromkeys(each for name in names for each in providers.get(name, ()))
    reasons = [reason for name in found for reason in _reasons(name)]
    return f"; {' and '.join(reasons)}" if reasons else ""


def check_own() -> None:
    """Refuse an environment whose Lightning or torch is no version that a training works with.

    Raises:
        TwinrunError: naming what is wanted and what is installed.
    """
    try:
        reasons = list(_reasons(OWN, TRAIN))
    except metadata.PackageNotFoundError:  # a clone that is used where it is
        return
    if reasons:
        raise TwinrunError(
            f"{' and '.join(reasons)}; install a version of that kind, or use another environment"
        )


def is_wanted(name: str, version: str) -> bool:
    """Say whether Twinrun works with this version of a distribution; True where nothing says so."""
    try:
        wanted = [asked for _, asked in _asked(OWN) if asked.name == name]
    except metadata.PackageNotFoundError:
        return True
    return all(asked.specifier.contains(version, prereleases=True) for asked in wanted)


def _reasons(name: str, among: Collection[str] | None = None) -> Iterator[str]:
    """Yield what a distribution asks for and does not find.

    Args:
        name: of the distribution.
        among: the only ones that are looked at; all of them where none are named.
    """
    own = metadata.version(name)
    for wants, asked in _asked(name):
        if among is not None and asked.name not in among:
            continue
        try:
            installed = metadata.version(asked.name)
        except metadata.PackageNotFoundError:
            yield f"{name} {own} wants {wants}, which is not installed"
            continue
        if not asked.specifier.contains(installed, prereleases=True):
            yield f"{name} {own} wants {wants}, where {installed} is installed"


def _asked(name: str) -> Iterator[tuple[str, "Requirement"]]:
    """Yield what a distribution asks for here, as it says it, and read.

    Raises:
        importlib.metadata.PackageNotFoundError: if it is not installed.
    """
    from packaging.requirements import InvalidRequirement, Requirement  # only where it is needed

    for line in metadata.requires(name) or ():
        try:
            asked = Requirement(line)
        except InvalidRequirement:  # of a very old package
            continue
        # Extras are asked for by who needs them.
        if asked.marker is None or asked.marker.evaluate({"extra": ""}):
            yield re.sub(r"\s*;.*", "", line), asked
