"""Put the state of a checkpoint back, where an epoch starts and in mid-epoch."""

from collections.abc import Mapping
from typing import Any

import pytorch_lightning as pl

from twinrun.checkpoint import left_out, mid_epoch
from twinrun.checkpoint.at_start import AtStart, made_anew, other_key, put_back_start, remove
from twinrun.checkpoint.begun_attributes import left_alone
from twinrun.checkpoint.followed_names import names_behind
from twinrun.checkpoint.gradients import put_back_gradients
from twinrun.checkpoint.kept_beside import KeptBeside
from twinrun.checkpoint.loaded import put_back_metrics
from twinrun.checkpoint.own_states import SAID
from twinrun.checkpoint.plain_attributes import restore_attributes
from twinrun.checkpoint.refusals import generators_of, loaders_of
from twinrun.checkpoint.replayed_data import read_again, training_loaders
from twinrun.checkpoint.stream_position import put_back, put_back_in_epoch
from twinrun.checkpoint.together import Together
from twinrun.checkpoint.told_epochs import put_back_told
from twinrun.checkpoint.whole_state import unlike, whole_state
from twinrun.process.determinism import restore_rng_states

ELSEWHERE = "data: the data does not go on where it was"
SETS_ALL = "its load_state_dict has to set all that its state_dict gives"


def restore(
    trainer: pl.Trainer,
    module: pl.LightningModule,
    state: Mapping[str, Any],
    together: Together,
    *,
    is_compared: bool,
) -> str | None:
    """Put back what a checkpoint holds that was taken where an epoch starts.

    Args:
        trainer: of the training.
        module: that is trained.
        state: of the checkpoint.
        together: the workers.
        is_compared: whether training data are compared where their first batch comes.

    Returns:
        What is not as it was, if anything.
    """
    what = state["loaded"].put_back(trainer, module)
    # Several workers make loaders together, also where one of them has to say something.
    _have_validation_data(trainer, state)
    if what is not None:
        return what
    compared, loaders = training_loaders(trainer) if is_compared else (), loaders_of(trainer)
    told, what = state["begun"].positions(trainer, loaders, state["positions"], is_in_epoch=False)
    if what is not None:
        return what
    if (name := put_back(loaders, told, compared)) is not None:
        return _says_elsewhere(name)
    put_back_told(trainer, state.get("told_values", {}))  # older versions have none
    # A callback may monitor what was logged before the stop.
    put_back_metrics(trainer, state["metrics"], module.device)
    _restore(trainer, module, state)
    together.load(state["worker"])
    return _elsewhere(trainer, module, state)


def begin_as_before(
    trainer: pl.Trainer, state: Mapping[str, Any], found: KeptBeside, constructed: AtStart
) -> str | None:
    """Put back what the training began with, where loading it or first hooks made it otherwise.

    Args:
        trainer: of the training.
        state: of the checkpoint.
        found: a look behind these hooks; it is told what there was in the first process.
        constructed: what this process had before it loaded anything, and before any hook.

    Returns:
        What cannot be put back, if anything.
    """
    start, made = _whole_start(state["at_start"], found.made, constructed), found.made
    changed = state["attributes"]
    before = {**constructed["looks"], **state["loaded"].beside_states}
    new = made_anew(made, start["looks"], before, changed, _may_be_there(trainer, start))
    if (what := remove(trainer, new)) is not None:
        return what
    found.of_data = {*start["of_data"]} if "of_data" in start else set()
    # What had changed by the last checkpoint has changed by the next one, too.
    found.made = start["looks"]
    anew = found.attributes.keys() - left_alone(trainer, start["values"])
    looks = start["looks"].items()
    found.attributes |= {k: v for k, v in looks if k in anew and not v.startswith(SAID)}
    found.attributes = {k: v for k, v in found.attributes.items() if k not in new}
    if (what := found.put_back(trainer, state)) is None:
        what, own = put_back_start(trainer, made, start, changed, before, found.clocks)
        found.keep_own(trainer, own)
    found.look_again(trainer)
    return what


def _may_be_there(trainer: pl.Trainer, start: AtStart) -> set[str] | None:
    """Name what there may be in the data module where a training is resumed; None if all.

    Validation loaders may be made here ahead of the first step, and in the first process later.
    """
    if "of_data" not in start:  # of older versions
        return None
    owners = (trainer.lightning_module, vars(trainer).get("datamodule"))
    return {*start["of_data"], *names_behind(owners, "val_dataloader")}


def _whole_start(start: AtStart, now: Mapping[str, str], constructed: AtStart) -> AtStart:
    """Return what a training began with, also what has changed in this process alone since.

    Hooks may ask whether they are resumed, or go by the weights, which are the checkpoint's: a
    sanity check, which Lightning makes once more.
    """
    begun = start["looks"]
    looks = {
        key: look
        for key, look in constructed["looks"].items()
        if key not in begun
        and (now.get(key, look) != look or _is_displaced(key, now, begun, constructed["looks"]))
    }
    # A text that the constructor has set here as in the first process is no name of a process.
    same = constructed["looks"].items() & start["looks"].items()
    known = {*looks, *(key for key, _ in same)}
    values = {key: value for key, value in constructed["values"].items() if key in known}
    return AtStart(
        **(start | {"looks": looks | start["looks"], "values": values | start["values"]})
    )


def _is_displaced(
    key: str, now: Mapping[str, str], begun: Mapping[str, str], constructed: Mapping[str, str]
) -> bool:
    """Say whether what can be called is in the place of what cannot be, or the other way round."""
    other = other_key(key)
    is_there = key not in now and other in now
    return is_there and not (other in begun or other in constructed)


def begin_anew(trainer: pl.Trainer) -> None:
    """Have Lightning begin the epoch as any other one."""
    # It made the iterator before the hooks that begin one; now it makes it again, after them.
    trainer.fit_loop._resuming_from_checkpoint = False
    # With `max_steps` it takes the epoch before for one that was broken off, however whole.
    trainer.fit_loop._restarting = trainer.fit_loop.epoch_loop.restarting = False


def begin_epoch(trainer: pl.Trainer, module: pl.LightningModule, state: Mapping[str, Any]) -> None:
    """Put back what the hooks that begin an epoch may need, where a later moment of it follows."""
    state["loaded"].put_back(trainer, module)  # what did not come back is told at that moment
    positions = state["epoch"]["order"]["positions"]
    state["epoch"]["positions"], _ = state["begun"].positions(
        trainer, read_again(trainer), positions, is_in_epoch=True
    )
    # Those of the first epoch are as they were: a training begins with them.
    if trainer.current_epoch > 0:
        restore_attributes(module, state["attributes"])


def restore_mid_epoch(
    trainer: pl.Trainer,
    module: pl.LightningModule,
    state: Mapping[str, Any],
    before: KeptBeside,
    together: Together,
) -> str | None:
    """Put back what a checkpoint holds that was taken in mid-epoch.

    Args:
        trainer: of the training; its loaders are where they were.
        module: that is trained.
        state: of the checkpoint.
        before: a look at what the training began with.
        together: the workers.

    Returns:
        What is not as it was, if anything.
    """
    what = state["loaded"].put_back(trainer, module)
    with together.as_one():  # all make the same, also where one of them has to say something
        _have_validation_data(trainer, state)
    if what is not None:
        return what
    mid_epoch.put_back_logged(trainer, state["metrics"], state["epoch"]["unlogged"])
    trained = training_loaders(trainer)
    loaders = loaders_of(trainer)
    told, _ = state["begun"].positions(
        trainer, loaders, state["positions"], is_in_epoch=True, under_way=trained
    )
    name = put_back_in_epoch(loaders, told, trained)
    if name is not None:
        return _says_elsewhere(name)
    put_back_told(trainer, state.get("told_values", {}))
    _restore(trainer, module, state)
    mid_epoch.put_back(trainer, state["loops"])
    for callback in vars(trainer)["callbacks"]:
        if callable(go_on := getattr(callback, "go_on_in_epoch", None)):
            go_on()
    restore_rng_states(state["random"])
    together.load(state["worker"])
    other = before.not_as_it_was(trainer, state["attributes"], is_begun=False)
    return other or _elsewhere(trainer, module, state)


def _says_elsewhere(name: str) -> str:
    return f"{ELSEWHERE}: datasets or samplers say that they are elsewhere ({name}: {SETS_ALL})"


def _elsewhere(
    trainer: pl.Trainer, module: pl.LightningModule, state: Mapping[str, Any]
) -> str | None:
    # Checkpoints of older versions have none.
    other = unlike(state.get("whole", {}), whole_state(trainer, module))
    return None if other is None else f"{other} is not what it was where the checkpoint was taken"


def _have_validation_data(trainer: pl.Trainer, state: Mapping[str, Any]) -> None:
    """Have the validation loaders be there if they were, and be made anew where they would be.

    Lightning makes them for the first validation; where every second epoch has one, say, a resumed
    training may have made them already, or not yet.
    """
    loop = trainer.fit_loop.epoch_loop.val_loop
    if not state["has_validation"]:
        loop._combined_loader = None
    elif trainer.val_dataloaders is None:
        trainer.validating = True
        loop.setup_data()
        trainer.training = True
    made = state.get("validation_made", loop._last_val_dl_reload_epoch)
    loop._last_val_dl_reload_epoch = made


def _restore(trainer: pl.Trainer, module: pl.LightningModule, state: Mapping[str, Any]) -> None:
    found = generators_of(loaders_of(trainer))
    for generator, saved in zip(found, state["generators"], strict=True):
        generator.set_state(saved)
    trainer.should_stop = state.get("should_stop", False)
    # Most checkpoints have none that were left out.
    left_out.put_back_tensors(module, state["buffers"], state.get("left_out", {}))
    left_out.put_back_averages(trainer, state["averages"])
    put_back_gradients(module, state["gradients"])
    restore_attributes(module, state["attributes"])
    restore_rng_states(state["random"])
