"""What failed in a rehearsal, in one sentence that begins with its key in the config."""

import re
import traceback

from twinrun.config.class_paths import code_of
from twinrun.config.trainer_arguments import TrainerArguments
from twinrun.errors import TwinrunError
from twinrun.process.import_path import first_line, user_line
from twinrun.training.constructors import Parameters
from twinrun.training.explain_failure import explained_failure
from twinrun.training.rehearsal_plan import Part
from twinrun.training.remedies import NO_LOGGER
from twinrun.training.trainer_objects import blamed

Takers = dict[str, Parameters]
BETWEEN = ("on_fit_start", "on_train_start", "on_train_epoch_start", "on_train_epoch_end")
# What a message of Lightning's or torch's means here.
MEANINGS = {
    "does not require grad": (
        "the loss of the first training step has no gradient; training_step must return a loss "
        "that is computed from the module's parameters"
    ),
    "No `training_step()` method defined": "the module has no training_step",
    "No `configure_optimizers()` method defined": "the module has no configure_optimizers",
}
ONE_EPOCH = (
    "; a rehearsal trains one epoch, of few steps: where code needs what later ones leave, set "
    "`rehearsal: false`"
)


def failure(what: str, error: Exception, part: Part, takers: Takers) -> str:
    """Say in one sentence what failed, why, and which hyperparameter it is likely due to."""
    cause = error.__cause__ if isinstance(error, TwinrunError) else error
    if isinstance(error, TwinrunError) and str(error).startswith("trainer."):
        return str(error)  # one that could not be made, with its cause
    if cause is not None and "iter(combined_loader)" in str(cause):  # Lightning's, tidying up
        cause = cause.__context__ or cause
    if cause is None:  # the sentence says all there is to say
        return str(error)
    for words, meaning in MEANINGS.items():
        if words in str(cause):
            return f"module: {meaning}"
    if (argument := _argument_in(cause, part)) is not None:
        return f"trainer.{argument}: {first_line(cause)}"
    behind_validation = what == "what follows validation"
    if (owner := blamed(cause)) is not None:
        said = f"{owner} failed in {what} with {type(cause).__name__}: {cause}"
        said = f"{said.rstrip('.')}{NO_LOGGER}" if "no logger" in said else said
    else:
        workload = part.training.workload
        where = user_line(cause, code_of(workload))
        what = _hook_of(cause) or what
        said = explained_failure(what, cause, workload.hyperparameters, takers, where)
    if behind_validation and isinstance(cause, LookupError | OSError):
        said = f"{said.rstrip('.')}{ONE_EPOCH}"
    # Those of the built-in variants are in no config of the user's.
    without = [key.removeprefix("variants.") for key, v in part.used.items() if not v.logging]
    return f"{said} {', '.join(without)}" if said.endswith(NO_LOGGER) and without else said


def _argument_in(error: BaseException, part: Part) -> str | None:
    """Name the argument of the Trainer that the workload sets and Lightning itself refuses."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    raised_in = frames[-1].f_globals.get("__name__", "") if frames else ""
    if not raised_in.startswith(("pytorch_lightning.", "lightning_fabric.", "lightning.")):
        return None
    given, default = part.training.workload.trainer, TrainerArguments()
    names = (name for name in vars(default) if getattr(given, name) != getattr(default, name))
    return next((name for name in names if re.search(rf"`{name}\b", str(error))), None)


def _hook_of(error: BaseException) -> str | None:
    """Name the hook in which it was raised, of those that are called between two phases."""
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    names = {frame.f_locals.get("hook_name") for frame in frames}  # Lightning's, where it calls one
    return next((hook for hook in BETWEEN if hook in names), None)


def placed(part: Part, mistake: str) -> str:
    """Begin a sentence with its key in the config; say which workload, where the key does not."""
    workload = re.split("~| with ", part.label)[0]  # of a trial, of a size
    if re.match("(sweep|contest|devices)[.]", mistake):
        return f"{mistake} ({workload})"
    if part.key.startswith("workloads."):
        is_key = re.match(r"(module|data|dataset): |(hyperparameters|from_run|trainer)[.]", mistake)
        return f"{part.key}.{mistake}" if is_key else f"{part.key}: {mistake}"
    is_shown = mistake.startswith("hyperparameters.")  # with its value
    return f"{part.key}: {mistake} ({workload if is_shown else part.label})"
