"""One Lightning, whichever of its two packages a module imports.

Lightning is published twice with the same code: as `lightning` (`import lightning as L`) and as
`pytorch_lightning`. Their classes are different ones, so that a module of one is no module for the
Trainer of the other. `unite` makes `lightning.pytorch` another name of `pytorch_lightning`, whether
`lightning` is installed or not: a user's module, its callbacks and this package then mean the same
classes. Where `lightning.pytorch` alone has been imported before, it is the other way round; where
both have been, nothing can be done.
"""

import importlib
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

from twinrun.process.unmet_requirements import is_wanted

OURS = {"lightning.pytorch": "pytorch_lightning", "lightning.fabric": "lightning_fabric"}
THEIRS = {alias: name for name, alias in OURS.items()}
DISTRIBUTIONS = ("lightning", "pytorch-lightning")
# What `import lightning as L` gives, by the packages that have it.
TOP = {
    "pytorch_lightning": ("Callback", "LightningDataModule", "LightningModule", "Trainer"),
    "lightning_fabric": ("Fabric", "seed_everything"),
}


class _Alias(MetaPathFinder, Loader):
    """Imports a module under another name: there is one module, with two names."""

    def __init__(self, names: Mapping[str, str]) -> None:
        """Take the packages that are other names, with what they are names of."""
        self._names = names
        self._specs: dict[str, ModuleSpec | None] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find what a name is another name of; None for any other name."""
        real = self._real(fullname)
        if real is None or find_spec(real) is None:
            return None
        _check_versions()
        return ModuleSpec(fullname, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module itself."""
        module = importlib.import_module(self._real(spec.name) or spec.name)
        self._specs[spec.name] = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Put its own spec back, which the import system has replaced."""
        module.__spec__ = self._specs.pop(module.__spec__.name if module.__spec__ else "", None)

    def _real(self, name: str) -> str | None:
        for alias, real in self._names.items():
            if name == alias or name.startswith(f"{alias}."):
                return real + name.removeprefix(alias)
        return None


class _Top(MetaPathFinder, Loader):
    """Stands for the package `lightning` itself, where it is not installed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find `lightning`."""
        return ModuleSpec(fullname, self, is_package=True) if fullname == "lightning" else None

    def exec_module(self, module: ModuleType) -> None:
        """Set the names that the real one has."""
        for package, names in TOP.items():
            found = importlib.import_module(package)
            vars(module).update({name: getattr(found, name) for name in names})
        # Its submodules come along: `L.pytorch.callbacks` needs no import of its own.
        for name in OURS:
            importlib.import_module(name)
        vars(module)["__version__"] = metadata.version("pytorch-lightning")


def unite() -> None:
    """Make one of Lightning's two packages another name of the other, for all later imports."""
    if any(isinstance(finder, _Alias) for finder in sys.meta_path):
        return
    loaded = {*OURS, *THEIRS} & sys.modules.keys()
    if loaded & OURS.keys() and loaded & THEIRS.keys():
        return
    if loaded & OURS.keys():
        sys.meta_path.insert(0, _Alias(THEIRS))
        return
    sys.meta_path.insert(0, _Alias(OURS))
    if find_spec("lightning") is None:
        sys.meta_path.append(_Top())


def _check_versions() -> None:
    """Refuse two packages of different versions: one of them would train as the other.

    Raises:
        ImportError: naming both.
    """
    found = {}
    for name in DISTRIBUTIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            return
    if len({*found.values()}) > 1:
        both = " and ".join(f"{name} {version}" for name, version in found.items())
        # The same version of both, and one that Twinrun works with.
        theirs, ours = DISTRIBUTIONS
        other, kept = (ours, theirs) if is_wanted(ours, found[theirs]) else (theirs, ours)
        raise ImportError(
            f"{both} are installed: the same code in two versions, of which one would train what "
            f"was written for the other; install one version of both "
            f"(pip install {other}=={found[kept]})"
        )
