"""What a module, its data and loaders keep in attributes: no checkpoint of Lightning's holds it.

Counters, lists of losses, queues, a teacher in a list: where they have changed since the training
began, those of the module are kept in the checkpoint and put back, if they are plain data; all
others are a reason to write none, and so are those that share memory with another one: a copy would
part them. Of the modules of torch and torchmetrics plain numbers and the states of metrics are
looked at, of all of them whether they train, and which parameters and buffers do. Of data modules,
datasets and samplers only numbers and short lists of them are looked at: they hold the data, and
caches of it.
"""

import sys
import types
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import pytorch_lightning as pl
import torch
from torchmetrics import Metric

from twinrun.checkpoint.data_attributes import LIBRARIES, had, of_data
from twinrun.checkpoint.looks import UNSEEN, Handle, handles, look
from twinrun.checkpoint.own_states import is_other
from twinrun.checkpoint.plain_data import PLAIN, class_in, given_back, is_plain, kept
from twinrun.checkpoint.refusals import generators_of, loaders_of
from twinrun.checkpoint.schedules import schedules_of
from twinrun.checkpoint.shared_metrics import OF_COLLECTIONS, shared_by_metrics
from twinrun.checkpoint.stream_position import parts_of
from twinrun.checkpoint.tensor_attributes import FLAG, of_tensor, on_tensors, tensors_of
from twinrun.checkpoint.unsaved_state import LATE, WRAPPED
from twinrun.checkpoint.users_code import attributes_seen
from twinrun.containers import attributes_of, entries, is_bar, is_container
from twinrun.set_attributes import set_by

Attributes = dict[str, dict[str, Any]]
"""Of the parts of a module, by path and name."""

_MOST_INSIDE = 1 << 12  # objects and memories of an attribute
_OF_DATA = " (its class's `state_dict` and `load_state_dict` may hold it)"
_OF_MODULE = {*vars(torch.nn.Module()), *vars(pl.LightningModule()), "_hparams_initial"}
_OF_MODULE -= {"_automatic_optimization"}  # which a module may set under way


def states_of_attributes(
    trainer: pl.Trainer, loaders: Sequence[object], left: Container[tuple[int, str]] = ()
) -> dict[str, str]:
    """Hash the attributes of the module and of its data, by part and name; see `of_data`."""
    module = trainer.lightning_module
    held = {id(tensor) for tensor in (*module.parameters(), *module.buffers())}
    # Lightning reads these itself.
    loops = (trainer.fit_loop, trainer.fit_loop.epoch_loop.val_loop)
    held |= {id(loop._combined_loader) for loop in loops}
    parts = (*schedules_of(trainer), *trainer.optimizers, *generators_of(loaders_of(trainer)))
    held |= {*map(id, parts)}
    held |= {id(callback) for callback in vars(trainer)["callbacks"]}  # which are looked at as that
    found = {}
    for path, part in module.named_modules():
        for name, value in looked_at(part).items():
            found[f"module {path} {name}"] = look(value, held)
    for key, value in of_data(trainer, loaders, left):
        found[key] = repr(value)
    return found


def changed_attributes(
    trainer: pl.Trainer, before: Mapping[str, str], after: Mapping[str, str]
) -> tuple[Attributes, list[str]]:
    """Return copies of what the module has changed since, and why the rest cannot be kept."""
    parts = dict(trainer.lightning_module.named_modules())
    plain: Attributes = {}
    refused = []
    unseen = {key: state for key, state in after.items() if state.startswith(UNSEEN)}
    changed = keys_changed(before, after)
    shared = shared_by_metrics(trainer.lightning_module)
    holders = _holders(trainer, shared) if changed else {}
    for key in dict.fromkeys([*unseen, *changed]):
        owner, _, rest = key.partition(" ")
        path, _, name = rest.rpartition(" ")
        part = parts.get(path)
        # Of data the path is a number.
        called = name if owner != "module" else f"{type(part).__name__}.{name}"
        value = looked_at(part).get(name) if part is not None and owner == "module" else None
        if key in unseen:
            refused.append(f"{called} {unseen[key]}, and it may change while the training runs")
        elif key not in after and owner != "module":
            refused.append(
                f"{called} has changed to what is no plain value, nor a short list of such"
            )
        elif key not in after:
            refused.append(f"{called} is there where the training begins, and is not any more")
        elif (path, name) not in shared and (
            sharing := _sharing(value, _named(part, path, name), holders)
        ):
            refused.append(f"{called} changes, and {sharing}")
        elif owner == "module" and is_plain(value):
            plain.setdefault(path, {})[name] = kept(value)
        else:
            more = class_in(value) or _cure_of(value)
            if owner != "module":
                more = _OF_DATA if key in before or had(before, key) else LATE
            why = "changes while the training runs, and no checkpoint holds it"
            refused.append(f"{called} {why}{more}")
    return plain, refused


def _cure_of(value: object) -> str:
    """Say how a module could hold what an object of a user's does, if it is one."""
    module = str(type(value).__module__)
    is_of_another = module.startswith((*LIBRARIES, "numpy.")) or (
        module.partition(".")[0] in sys.stdlib_module_names
    )
    if is_of_another or is_container(value) or not attributes_seen(value):
        return ""
    return " (a torch.nn.Module in its place is held, if its attributes are plain data and buffers)"


def keys_changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Name what has changed; loaders of validation data may be made under way, or not be there."""
    owners = [{key.rpartition(".")[0] for key in look} for look in (before, after)]
    return [
        key
        for key in {**after, **before}
        if is_other(before.get(key), after.get(key))
        and (key.startswith("module ") or all(key.rpartition(".")[0] in each for each in owners))
        # In an epoch it has what else it reads by, a new order, say, which follows from its state.
        and not (key.startswith(("told ", "once ")) and not (key in before and key in after))
    ]


def _holders(trainer: pl.Trainer, shared: Container[tuple[str, str]]) -> dict[Handle, list[str]]:
    """Name what holds each memory: attributes, parameters, buffers, optimizers, and others'."""
    module = trainer.lightning_module
    values: list[tuple[str, object]] = [*module.named_parameters(), *module.named_buffers()]
    for optimizer in trainer.optimizers:
        states = (*optimizer.state.values(), *optimizer.param_groups)
        values += [(type(optimizer).__name__, state) for state in states]
    values += [
        (_named(part, path, name), value)
        for path, part in module.named_modules()
        for name, value in looked_at(part).items()
        if (path, name) not in shared
    ]
    found: dict[Handle, list[str]] = {}
    for name, value in values:
        for handle in handles(value, LIBRARIES):
            found.setdefault(handle, []).append(name)
    schedules, data = schedules_of(trainer), vars(trainer).get("datamodule")
    others = [*vars(trainer)["callbacks"], *schedules, data]
    for index, owner in enumerate((*others, *parts_of(loaders_of(trainer)))):
        # Of data themselves alone: there may be much inside.
        most = _MOST_INSIDE if index < len(others) else 1
        for name, value in attributes_seen(owner).items():
            for handle in islice(handles(value, LIBRARIES), most * (name not in WRAPPED)):
                found.setdefault(handle, []).append(f"{type(owner).__name__}.{name}")
    return found


def _named(part: object, path: str, name: str) -> str:
    return f"{path or type(part).__name__}.{name}"


def _sharing(value: object, name: str, holders: Mapping[Handle, Sequence[str]]) -> str:
    """Say with what a value shares memory; nothing if with nothing."""
    for handle in handles(value, LIBRARIES):
        by = holders.get(handle, ())
        if others := [other for other in by if other != name]:
            return f"is shared with another attribute or tensor ({others[0]})"
        if len(by) > 1:
            return (
                "holds one object twice, or two tensors that share their memory (views of one): "
                "keep copies, such as `tensor.clone()`"
            )
    return ""


def unshared(
    trainer: pl.Trainer, values: Mapping[str, object], parts: Container[int]
) -> dict[str, object]:
    """Return those that share no memory with another attribute, a parameter or a buffer.

    Args:
        trainer: of the training.
        values: of attributes.
        parts: the identities of what an object may hold all the same: it is not replaced.
    """
    holders = _holders(trainer, shared_by_metrics(trainer.lightning_module))
    shared = {handle for handle, by in holders.items() if len(by) > 1}
    held = {key: () if is_plain(value) else parts for key, value in values.items()}
    return {
        key: value
        for key, value in values.items()
        if shared.isdisjoint(handles(value, LIBRARIES, held[key]))
    }


def restore_attributes(module: pl.LightningModule, saved: Attributes) -> None:
    """Put the attributes of a checkpoint into a module."""
    parts = dict(module.named_modules())
    for path, values in saved.items():
        for name, value in values.items():
            set_attribute(parts[path], name, given_back(value, module.device))


def set_attribute(part: torch.nn.Module, name: str, value: Any) -> None:
    """Set what `looked_at` calls so."""
    if isinstance(part, Metric):
        part._computed = None  # what it has computed of its states of before
    tensor, flag = of_tensor(part, name)
    if tensor is None:
        setattr(part, name, value)
    elif flag != FLAG:
        setattr(tensor, flag, value)
    elif tensor.is_leaf:
        tensor.requires_grad_(value)
    elif not value:
        tensor.detach_()  # of what was computed the flag cannot be set


def graphs_held(module: pl.LightningModule) -> Iterator[str]:
    """Name the attributes with a tensor that holds the graph of an earlier step."""
    for part in module.modules():
        for name, value in looked_at(part).items():
            values = [item for _, item in entries(value)] if is_container(value) else [value]
            if any(isinstance(v, torch.Tensor) and v.grad_fn is not None for v in values):
                yield f"{type(part).__name__}.{name}"


def looked_at(part: torch.nn.Module) -> dict[str, object]:
    """Return the attributes of a part of the module and of its tensors, and flags, by name."""
    flags = {"training": part.training, **on_tensors(part)}
    if isinstance(part, Metric):  # in double precision Lightning sets that of one that is logged
        flags["_dtype"] = part.dtype
    own = {
        name: value
        for name, value in attributes_of(part).items()
        if not (name in _OF_MODULE or _is_of_class(part, name, value) or is_bar(value))
    }
    if not type(part).__module__.startswith(LIBRARIES):
        return {**own, **flags}
    # A library's numbers may be changed by others; a metric's states are in no state_dict.
    is_metric = type(part).__module__.startswith("torchmetrics.")
    kinds = (*PLAIN, torch.Tensor) if is_metric else PLAIN
    states = {*vars(part).get("_defaults", ()), "_update_count", *OF_COLLECTIONS}
    if isinstance(part, Metric):
        # A place in a window, which no state has.
        hidden = {name for name, value in own.items() if isinstance(value, kinds)}
        states |= hidden - set_by(Metric, ("torchmetrics.",))
    plain = {
        name: value
        for name, value in own.items()
        if name in states
        or (name[0] != "_" and (isinstance(value, kinds) or _is_tuple_of_plain(value)))
        or _is_put_there(part, name, value)
    }
    return {**plain, **_scripted(part), **flags}


def _scripted(part: torch.nn.Module) -> dict[str, object]:
    """Return the attributes that TorchScript keeps of a module, of which Python shows none."""
    is_scripted = isinstance(part, torch.jit.ScriptModule)
    concrete = vars(part).get("_concrete_type") if is_scripted else None
    if concrete is None:
        return {}
    held = {"training", "_is_full_backward_hook", *tensors_of(part)}
    names = concrete.get_attributes().keys() - held
    return {name: part._c.getattr(name) for name in sorted(names)}  # pyrefly: ignore[missing-attribute]


def _is_put_there(part: torch.nn.Module, name: str, value: object) -> bool:
    """Say whether somebody has put an attribute on a layer of torch's, whose class has none such.

    Not what a hook computes of the parameters, as spectral normalisation does.
    """
    is_computed = isinstance(value, torch.Tensor) and value.grad_fn is not None
    return (
        type(part).__module__.startswith("torch.")
        and name not in set_by(type(part), LIBRARIES)
        and not is_computed
        and not callable(value)  # see `structure`
    )


def _is_tuple_of_plain(value: object) -> bool:
    """Say whether it is one, as a convolution's stride, padding and dilation are."""
    return type(value) is tuple and all(isinstance(each, PLAIN) for each in value)


def _is_of_class(part: torch.nn.Module, name: str, value: object) -> bool:
    """Say whether an attribute is the method that its class has: with several workers Lightning
    puts another `forward` in its place for each step, and then this one."""
    function = getattr(type(part), name, None)
    return (
        isinstance(value, types.MethodType)
        and value.__self__ is part
        and value.__func__ is function
    )
