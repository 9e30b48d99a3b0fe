"""Callbacks and loggers that a workload's `trainer` names by `class_path`, made for each training.

Callbacks come by way of the module's `configure_callbacks`, so that runs, timings and proofs treat
them as those that a module brings. What they and loggers write to a folder goes to the Trainer's
own, which is temporary.
"""

import difflib
import inspect
import shutil
import tempfile
import types
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pytorch_lightning as pl
from pytorch_lightning.loggers import Logger
from pytorch_lightning.utilities.seed import isolate_rng

from twinrun.config.definitions import TrainerArguments, Workload
from twinrun.config.keys import with_keys
from twinrun.errors import TwinrunError
from twinrun.process.import_path import import_object
from twinrun.trace.fingerprints import fingerprint_rng_states
from twinrun.training.objects import class_path_of, read, wrong
from twinrun.training.remedies import TARGET
from twinrun.wording import shown, suggestion

# Names of arguments that say where a callback or a logger of Lightning's writes.
FOLDERS = ("dirpath", "save_dir")
_MADE: WeakKeyDictionary[pl.LightningModule, list[pl.Callback]] = WeakKeyDictionary()


def made_first(given: TrainerArguments) -> list[pl.Callback]:
    """Make the callbacks of a command of LightningCLI: before all else, as jsonargparse does.

    One that draws when it is made draws before the weights. What they write lies in a folder that
    goes with the first of them.
    """
    if not given.callbacks:
        return []
    root = tempfile.mkdtemp(prefix="twinrun-callbacks-")
    try:
        made = [_made(key, entry, root) for key, entry in _callbacks(given)]
    except BaseException:
        shutil.rmtree(root)
        raise
    weakref.finalize(made[0], shutil.rmtree, root, ignore_errors=True)
    return made


def bring_callbacks(
    module: pl.LightningModule, given: TrainerArguments, made: Sequence[pl.Callback] = ()
) -> None:
    """Have a module bring the callbacks of its workload, where it brings none of their kind.

    Args:
        module: of the workload.
        given: the workload's arguments of the Trainer.
        made: the callbacks, where they had to be made before the module.
    """
    if not given.callbacks:
        return
    if made:
        _MADE[module] = [*made]

    def configure_callbacks(self: pl.LightningModule) -> list[pl.Callback]:
        own = type(self).configure_callbacks(self)
        own = list(own) if isinstance(own, Sequence) else [own]
        # A test attaches them once more: they are the same as in the training.
        if self not in _MADE:
            root = self.trainer.default_root_dir
            _MADE[self] = [_made(key, entry, root) for key, entry in _callbacks(given)]
        # As of the Trainer's: https://lightning.ai/docs/pytorch/stable/extensions/callbacks.html
        rest = [c for c in _MADE[self] if not any(isinstance(each, type(c)) for each in own)]
        return [*rest, *own]

    # Bound, so that a copy of the module asks itself.
    module.configure_callbacks = types.MethodType(configure_callbacks, module)


def loggers_in(given: TrainerArguments, root: str) -> list[Logger]:
    """Make the loggers of a workload; what they write lies in a folder."""
    return [_made(key, entry, root) for key, entry in _loggers(given)]


def drawn_after_module(workload: Workload, root: str) -> Iterator[str]:
    """Yield a sentence for each callback or logger that draws when it is made, after the module.

    Those of a command of LightningCLI are made as there, but for its loggers.

    Args:
        workload: whose they are; each is made once, and the generators are put back.
        root: a folder for what they write.
    """
    of_callbacks = _callbacks(workload.trainer) if workload.cli is None else ()
    for key, entry in (*of_callbacks, *_loggers(workload.trainer)):
        before = fingerprint_rng_states(cuda=False)
        with isolate_rng(include_cuda=False):
            _made(key, entry, root)
            has_drawn = fingerprint_rng_states(cuda=False) != before
        if has_drawn:
            yield (
                f"{key}: {entry['class_path']} draws random numbers when it is made, which is "
                f"after the module; a script that makes it first starts from other weights"
            )


def wrong_in_trainer(given: TrainerArguments) -> Iterator[str]:
    """Yield a sentence for each callback or logger that cannot be made of what is given."""
    for key, entry in [*_callbacks(given), *_loggers(given)]:
        if (reason := _shape(entry)) is not None:
            yield f"{key}{reason}"
            continue
        for _, reason in wrong(_kind(key), {"it": entry}):
            yield f"{key}: {_unknown(key, entry) or reason}"


def _unknown(key: str, entry: Mapping[str, Any]) -> str:
    """Say what a name without a package, which none of Lightning's classes has, may have meant."""
    package = pl.callbacks if key.startswith("trainer.callbacks") else pl.loggers
    known, path = package.__all__, entry["class_path"]
    if {*".:"} & {*path} or path in known:
        return ""
    within = next((name for name in known if path.casefold() in name.casefold()), path)
    near = difflib.get_close_matches(within, known, n=1)
    other = f"; a class of your own is package.module.{path}"
    if near:
        other = f", did you mean {_written(getattr(package, near[0]), entry)}?"
    return f"no class of Lightning's is called {shown(path)}{other}"


def _written(kind: type, entry: Mapping[str, Any]) -> str:
    """Write an entry of a class, with the arguments that it needs where it is given none."""
    taken = inspect.signature(kind).parameters
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = [(name, p) for name, p in taken.items() if p.kind not in several]
    needed = [f"{name}: ..." for name, p in named if p.default is p.empty]
    if not needed or "init_args" in entry:
        return kind.__name__
    return f"{{class_path: {kind.__name__}, init_args: {{{', '.join(needed)}}}}}"


def blamed(error: BaseException) -> str | None:
    """Name the callback or logger of a workload's `trainer` that raised an error, if one did."""
    found, traceback = None, error.__traceback__
    while traceback is not None:
        owner = traceback.tb_frame.f_locals.get("self")
        for made in _MADE.values():
            for index, callback in enumerate(made):
                if callback is owner:
                    found = f"trainer.callbacks.{index}: {type(callback).__name__}"
        if isinstance(owner, Logger) and not isinstance(owner, pl.loggers.TensorBoardLogger):
            found = f"trainer.logger: {type(owner).__name__}"
        traceback = traceback.tb_next
    return found


def _callbacks(given: TrainerArguments) -> Iterator[tuple[str, Any]]:
    for index, entry in enumerate(given.callbacks):
        yield f"trainer.callbacks.{index}", _in_full(entry)


def _loggers(given: TrainerArguments) -> Iterator[tuple[str, Any]]:
    if isinstance(given.logger, list | tuple):
        for index, entry in enumerate(given.logger):
            yield f"trainer.logger.{index}", _in_full(entry)
    elif given.logger:
        yield "trainer.logger", _in_full(given.logger)


def _shape(entry: Any) -> str | None:
    """Say what an entry lacks to be one of a class and its arguments."""
    form = "write {class_path: package.Class, init_args: {...}}"
    if not isinstance(entry, Mapping):
        return f": {shown(entry)} names no class; {form}"
    if "class_path" not in entry:
        for name in entry:
            if near := suggestion(name, ["class_path"], list_all=False):
                return f": {shown(name)} is no key of an object{near}"
        of_hydra = ""
        if TARGET in entry:
            meant = f"{{class_path: {entry[TARGET]}, init_args: {{...}}}}"
            of_hydra = f"; {TARGET} is Hydra's, write {meant}"
        return f": class_path is missing, which names the class{of_hydra}"
    if not isinstance(entry["class_path"], str):
        return f".class_path: {shown(entry['class_path'])} names no class; {form}"
    arguments = entry.get("init_args")
    if not isinstance(arguments, Mapping | None):
        return f".init_args: {shown(arguments)} is no mapping of arguments; {form}"
    return None


def _in_full(entry: Any) -> Any:
    return {"class_path": entry} if isinstance(entry, str) else with_keys(entry)


def _made(key: str, entry: dict[str, Any], root: str) -> Any:
    for _, reason in wrong(_kind(key), {"it": entry}):
        raise TwinrunError(f"{key}: {reason}")
    try:
        return read(_kind(key), {"it": _in_folder(key, entry, root)})["it"]
    except Exception as error:  # a user's constructor may raise anything
        # jsonargparse puts some errors into one of its own.
        is_wrapped = error.__cause__ and str(error).startswith("Problem with given class_path")
        cause = error.__cause__ if is_wrapped else error
        raise TwinrunError(
            f"{key}: making {entry['class_path']} failed with {type(cause).__name__}: "
            f"{' '.join(str(cause).split())}"
        ) from error


def _in_folder(key: str, entry: dict[str, Any], root: str) -> dict[str, Any]:
    """Have what is made write below a folder."""
    arguments: Mapping[str, Any] = entry.get("init_args") or {}
    # As LightningCLI's configs have them, the classes of Lightning need no package.
    module, _, name = class_path_of(_kind(key), "it", entry).rpartition(".")
    taken = inspect.signature(import_object(f"{module}:{name}")).parameters
    moved = {
        # The anchor of an absolute path would have the last word.
        name: str(Path(root, str(arguments.get(name) or "").lstrip("/")))
        for name in FOLDERS
        if name in taken and (arguments.get(name) or name == "save_dir")
    }
    return {**entry, "init_args": {**arguments, **moved}} if moved else entry


def _kind(key: str) -> Any:
    return _of_callback if key.startswith("trainer.callbacks") else _of_logger


def _of_callback(it: pl.Callback) -> None:
    """Take a callback: what jsonargparse reads one by."""


def _of_logger(it: Logger) -> None:
    """Take a logger."""
