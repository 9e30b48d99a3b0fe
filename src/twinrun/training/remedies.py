"""By which key of a config a training has what a user's code misses in it."""

import traceback
from collections.abc import Mapping, Sequence

# What a plain Trainer has by default, and a run has where a config says so.
REMEDIES = {
    ".logger": "a run has no logger but what `trainer.logger` names",
    ".checkpoint_callback": "a run has no ModelCheckpoint but what `trainer.callbacks` names",
    ".progress_bar_callback": "a run has no progress bar unless its variant says logging: true",
}

OWN_TRAINER = (
    "; a run has Lightning's own Trainer, and what a package's own one has beside it a callback of "
    "`trainer.callbacks` can set (in its `setup`)"
)

NO_LOGGER = "; say logging: true in the variants"

WITHOUT_LOADERS = (
    "; name what has one as `data` of the workload: a LightningDataModule, or a function that "
    "returns one (`LightningDataModule.from_datasets(...)`)"
)

OWN_LOADERS = "; {1} is to have one; leave `data` out where the module brings its loaders"

# What one process has made all later ones find: the rehearsal comes first.
THERE_ALREADY = (
    "; the rehearsal and all runs have one working directory: let it be there (exist_ok=True), or "
    "write below self.trainer.default_root_dir, which each run has for itself"
)

OF_HPARAMS = "; what `hparams` holds is given to the constructor: hyperparameters."

OF_MAPPINGS = (
    "; a mapping is a dict, unless its argument is annotated with another class "
    "(omegaconf.DictConfig, argparse.Namespace)"
)

WITH_NONE = "the loaders do with 0 workers too (`persistent_workers=n > 0`)"
# A loader with persistent_workers or a prefetch_factor.
WITHOUT_WORKERS = (
    "; a run gives a data module the variant's `data_workers`, 0 by default, as its number of "
    "workers, and the rehearsal, a proof and a timing give it 0: have "
    f"{WITH_NONE}, or leave the number to the data module (`from_run: {{data_workers: null}}`)"
)

TARGET = "_target_"  # https://hydra.cc/docs/advanced/instantiate_objects/overview/
OBJECT = "an object is {class_path: package.Class, init_args: {...}}"


def remedy_of_config(
    error: BaseException, text: str, given: Mapping[str, object], constructors: Sequence[str]
) -> str:
    """Name the key of a config by which a training has what the code misses.

    Args:
        error: what was raised.
        text: the first line of its message.
        given: the hyperparameters.
        constructors: import paths of the module and, if there is one, of the data module.
    """
    if remedy := remedy_of_workers(text):
        return remedy
    if isinstance(error, FileExistsError):
        return THERE_ALREADY
    # What Lightning says of callbacks such as LearningRateMonitor names no key of a config.
    if "no logger" in text:
        return NO_LOGGER
    if "`train_dataloader` must be implemented" in text:
        return WITHOUT_LOADERS if len(constructors) < 2 else OWN_LOADERS.format(*constructors)
    if text.startswith("'dict' object"):
        of_hydra = next((name for name, value in given.items() if _has_target(value)), None)
        if of_hydra is not None:
            return (
                f"; hyperparameters.{of_hydra} has {TARGET}, of which Hydra would make an object "
                f"and a run hands on a mapping; {OBJECT}"
            )
    if isinstance(error, AttributeError) and text.startswith("'dict' object"):
        return OF_MAPPINGS
    if isinstance(error, AttributeError) and text.startswith("'AttributeDict' object"):
        return f"{OF_HPARAMS}{error.name}" if error.name else ""
    if isinstance(error, AttributeError) and text.startswith("'Trainer' object has no attribute"):
        return OWN_TRAINER
    if isinstance(error, AttributeError) and text.startswith("'NoneType' object"):
        # The innermost: what is None is looked at there.
        *_, frame = [None, *traceback.extract_tb(error.__traceback__)]
        line = frame.line or "" if frame else ""
        return next((f"; {remedy}" for word, remedy in REMEDIES.items() if word in line), "")
    return ""


def remedy_of_workers(text: str) -> str:
    """Say what a loader does without that lacks data workers; nothing of another failure."""
    return WITHOUT_WORKERS if "num_workers > 0" in text else ""


def _has_target(value: object) -> bool:
    """Say whether a value of a config holds an object as Hydra writes one."""
    if isinstance(value, Mapping):
        return TARGET in value or any(map(_has_target, value.values()))
    return isinstance(value, list) and any(map(_has_target, value))
