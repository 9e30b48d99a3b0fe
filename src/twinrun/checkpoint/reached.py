"""What the functions and objects reach that make batches and steps: a closure, a global.

Of loaders, samplers and datasets all is walked, and the hooks that move batches; of a data module
what lies in its containers and objects; of what makes the steps only functions.
"""

import itertools
import sys
import types
from collections.abc import Container, Iterator, Sequence

import pytorch_lightning as pl
import torch

from twinrun.checkpoint import walk
from twinrun.checkpoint.found import Found, Holder
from twinrun.checkpoint.schedules import schedules_of
from twinrun.checkpoint.state_code import names_of_state
from twinrun.checkpoint.stateful import Stateful
from twinrun.checkpoint.step_walk import StepWalk
from twinrun.checkpoint.stream_position import telling_data
from twinrun.checkpoint.unsaved_generators import unheld
from twinrun.checkpoint.used_by_steps import BATCH_HOOKS, used_by_steps
from twinrun.checkpoint.users_code import attributes_seen, is_users
from twinrun.checkpoint.walk import (
    DEEPEST,
    LOADED,
    MOST_NAMED,
    Walk,
)
from twinrun.containers import is_hidden_iterator
from twinrun.generators import GENERATORS, global_generators
from twinrun.hidden_content import PLAIN

ITERATORS = (types.GeneratorType, itertools.count, itertools.cycle, itertools.islice, zip, map)
CUT_SHORT = object()  # in the place of what was not walked any more


def reached(
    trainer: pl.Trainer,
    loaders: Sequence[object],
    *,
    seen: dict[int, object] | None = None,
    left: Container[tuple[int, str]] = (),
) -> Iterator[Found]:
    """Yield what the making of batches reaches, each once.

    Args:
        trainer: of the training.
        loaders: of the training.
        seen: is given all that is come to, by identity.
        left: as of `Walk`.
    """
    walked = Walk({} if seen is None else seen, left=left)
    for loader in loaders:
        yield from walked.part(loader, DEEPEST)
    for owner in (trainer.lightning_module, vars(trainer).get("datamodule")):
        for name in BATCH_HOOKS:
            hook = vars(type(owner)).get(name)
            if isinstance(hook, types.FunctionType) and is_users(hook.__module__):
                yield from walked.function(hook, DEEPEST)


def held_by_data_module(
    trainer: pl.Trainer,
    seen: dict[int, object] | None = None,
    left: Container[tuple[int, str]] = (),
) -> Iterator[Found]:
    """Yield what `attributes_held` does, without the names."""
    for _, found in attributes_held(trainer, {} if seen is None else seen, left):
        yield found


def attributes_held(
    trainer: pl.Trainer, seen: dict[int, object], left: Container[tuple[int, str]] = ()
) -> Iterator[tuple[str, Found]]:
    """Yield what the attributes of a data module hold, beside plain values, loaders and datasets.

    Datasets are among it that steps use, and no loader. Each with the name of the attribute. Of a
    class with a `state_dict` of its own what the code of that does not name.

    Args:
        trainer: of the training.
        seen: is given all that is come to, by identity; nothing is that is there already.
        left: as of `Walk`.
    """
    owner = vars(trainer).get("datamodule")
    told = names_of_state(owner) if telling_data(trainer) is not None else set()
    if owner is None or told is None:
        return
    # A part of the module has attributes that others look at: whether it is trained, say.
    seen |= {id(part): part for part in (*trainer.lightning_module.modules(), *trainer.optimizers)}
    walked = Walk(seen, most=MOST_NAMED, without=LOADED, left=left)
    # No loader has what a step uses: a dataset of noise, say, or a loader of such.
    whole, used = Walk(seen, most=MOST_NAMED, left=left), used_by_steps(trainer)
    for name, value in attributes_seen(owner).items():
        is_left = name in told or (id(owner), name) in left
        if not isinstance(value, PLAIN) and not is_left:
            by = whole if name in used else walked
            for found in by.value(owner, value, f"{type(owner).__name__}.{name}", DEEPEST):
                yield name, found


def held_by_steps(
    trainer: pl.Trainer, seen: dict[int, object], left: Container[tuple[int, str]] = ()
) -> Iterator[Found]:
    """Yield what the functions reach that make the steps; see `held_by_data_module`."""
    module = trainer.lightning_module
    schedulers = schedules_of(trainer)
    parts = [*module.modules(), *trainer.optimizers, *schedulers, *vars(trainer)["callbacks"]]
    parts += module.parameters()
    seen |= {
        id(part): part for part in (*parts, *module.buffers(), vars(trainer).get("datamodule"))
    }
    for part in module.modules():
        if isinstance(part, torch.jit.ScriptModule):  # its functions hold what it was made of
            methods = (getattr(value, "__wrapped__", value) for value in vars(part).values())
            owners = (getattr(method, "__self__", None) for method in methods)
            made_of = [each for each in owners if isinstance(each, torch.nn.Module)]
            seen |= {id(inner): inner for each in made_of for inner in each.modules()}
    # The module that is trained has been seen; a teacher in a global, say, has not.
    walked = StepWalk(seen, most=sys.maxsize, also=(pl.LightningModule,), left=left)
    # Another one in its place has another identity, and what it holds has another owner.
    for name, part in [
        *((f"{path} of {type(module).__name__}", part) for path, part in module.named_modules()),
        *((f"{type(part).__name__}[{turn}]", part) for turn, part in enumerate(trainer.optimizers)),
        *((f"{type(part).__name__}[{turn}]", part) for turn, part in enumerate(schedulers)),
    ]:
        yield Found(trainer, name, Holder(part))
    for part in parts:
        yield from walked.functions_of(part)
    # A step may call a method of it.
    yield from walked.class_of(type(vars(trainer).get("datamodule")), DEEPEST)
    if walked.is_cut_short:
        yield Found(trainer, "what makes steps", CUT_SHORT)


def generators_reached(
    trainer: pl.Trainer, loaders: Sequence[object], saved: Sequence[torch.Generator]
) -> Iterator[str]:
    """Name the generators and iterators whose states no checkpoint holds.

    Args:
        trainer: of the training.
        loaders: of the training.
        saved: generators that the checkpoint holds.
    """
    known = {*global_generators(), *map(id, saved)}
    seen: dict[int, object] = {}
    found = itertools.chain(
        reached(trainer, loaders, seen=seen), held_by_data_module(trainer, seen)
    )
    for owner, name, value, _ in found:
        if isinstance(value, GENERATORS) and id(value) not in known:
            yield unheld(name, value)
        elif isinstance(value, ITERATORS) or (
            is_hidden_iterator(value) and not isinstance(owner, Stateful)
        ):
            # A database's, which is begun anew by each query.
            cure = " (`__getitem__` may make one each time)" if hasattr(value, "execute") else ""
            kind = type(value).__name__
            yield f"{name} is an iterator ({kind}), whose position nobody can save{cure}"
    if len(seen) >= walk.MOST:
        yield cut_short("what makes batches")


def cut_short(what: str) -> str:
    """Say that a walk came to more objects than are looked at."""
    return f"{what} reaches {walk.MOST:,} objects, and no more of them are looked at"
