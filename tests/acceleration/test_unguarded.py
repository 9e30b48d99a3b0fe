"""What torch's tracer looks at once: a compiled function computes as the plain one, also later."""

import argparse
import functools
import types

import pytest
import pytorch_lightning as pl
import torch
from example_trainings import VARIANT
from modules_that_ask import SETTINGS as OF_MODULES
from modules_that_ask import Asks, AsksOfItself, Notes
from torch.nn import functional
from torch.utils.data import DataLoader

import twinrun.acceleration.features_first  # noqa: F401  Lightning sets variables when imported
from twinrun.acceleration.compilation import Compiled, compiler_switches, traced_only
from twinrun.acceleration.under_trainer import Speed
from twinrun.config.definitions import Variant
from twinrun.errors import TwinrunError

SETTINGS = types.ModuleType("settings_of_a_test")
NAMES = ("scale", "other")


class Holder:
    """An object of a user's, whose attributes come and go."""

    def held(self):
        return 1.0

    def asked_of_its_method(self):
        return getattr(self.held, "scale", 1.0)

    @property
    def shown(self):
        return 1.0


HOLDER, SPACE = Holder(), types.SimpleNamespace()
FLAGS = argparse.Namespace()
PARTIAL = functools.partial(functional.relu)
LAYER = torch.nn.Linear(1, 1)


def flagged():
    return 1.0


def decorated(function):
    @functools.wraps(function)
    def inner():
        return function() * (5.0 if getattr(inner, "enabled", False) else 1.0)

    return inner


@decorated
def wrapped():
    return 1.0


LAMBDA = lambda: 1.0  # noqa: E731  what is asked for has no `def`
HELD = {"flagged": LAMBDA}


def of_a_module():
    return getattr(SETTINGS, "scale", 1.0)


def is_in_a_module():
    return 5.0 if hasattr(SETTINGS, "scale") else 1.0


def computed_of_a_module():
    return sum(getattr(SETTINGS, name, 0.5) for name in NAMES)


def tried_of_a_module():
    try:
        return SETTINGS.scale
    except AttributeError:
        return 1.0


def of_a_library():
    return getattr(functional, "scale", 1.0)


def of_a_function():
    return getattr(flagged, "scale", 1.0)


def is_in_a_function():
    return 5.0 if hasattr(flagged, "scale") else 1.0


def tried_of_a_function():
    try:
        return flagged.scale
    except Exception:
        return 1.0


def of_the_names_of_a_function():
    return flagged.__dict__.get("scale", 1.0)


def of_a_lambda():
    return getattr(LAMBDA, "scale", 1.0)


def of_a_function_in_a_dictionary():
    return getattr(HELD["flagged"], "scale", 1.0)


def of_a_method():
    return getattr(HOLDER.held, "scale", 1.0)


def of_a_method_in_a_method():
    return HOLDER.asked_of_its_method()


def of_a_property():
    return getattr(Holder.shown.fget, "scale", 1.0)


def in_an_object():
    return 5.0 if "scale" in HOLDER.__dict__ else 1.0


def of_an_object():
    return vars(HOLDER).get("scale", 1.0)


def of_a_namespace():
    return vars(SPACE).get("scale", 1.0)


def of_arguments():
    return vars(FLAGS).get("scale", 1.0)


def of_a_layer():
    return LAYER.__dict__.get("scale", 1.0)


def how_many():
    return 1.0 + len(vars(HOLDER))


def all_of_them():
    return 1.0 + sum(vars(HOLDER).values())


CASES = [
    (of_a_module, SETTINGS),
    (computed_of_a_module, SETTINGS),
    (is_in_a_function, flagged),
    (of_a_method, Holder.held),
    (of_an_object, HOLDER),
    (of_arguments, FLAGS),
    (of_a_layer, LAYER),
]
MORE = [
    (is_in_a_module, SETTINGS),
    (tried_of_a_module, SETTINGS),
    (of_a_library, functional),
    *((asking, flagged) for asking in (of_a_function, tried_of_a_function)),
    (of_the_names_of_a_function, flagged),
    *((asking, LAMBDA) for asking in (of_a_lambda, of_a_function_in_a_dictionary)),
    (of_a_method_in_a_method, Holder.held),
    (of_a_property, Holder.shown.fget),
    *((asking, HOLDER) for asking in (in_an_object, how_many, all_of_them)),
    (of_a_namespace, SPACE),
]


@pytest.fixture(autouse=True)
def nothing_is_set():
    with compiler_switches(), traced_only():
        yield
    for _, owner in [*CASES, *MORE, (None, wrapped), (None, PARTIAL)]:
        for name in ("scale", "enabled", "seen"):
            vars(owner).pop(name, None)


def compared(asking, changes):
    """Call it twice, compiled and plain, before all changes and after each."""
    compiled = Compiled(lambda batch, index: batch * asking())
    batch = torch.ones(2, dtype=torch.float64)
    for change in (lambda: None, *changes):
        change()
        for _ in range(2):
            compiled.step += 1
            assert torch.equal(compiled(batch, 0), batch * asking())
    return compiled


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("asking", "owner"),
    [*CASES, *(pytest.param(*case, marks=pytest.mark.exhaustive) for case in MORE)],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_a_name_that_comes_or_goes_is_compiled_for_anew(asking, owner):
    """Red before: the graph went on with what there was when it was compiled."""
    come, go = functools.partial(setattr, owner, "scale", 5.0), lambda: vars(owner).pop("scale")
    compiled = compared(asking, [come, go])
    assert compiled.compilations >= 2
    # A name that comes behind the steps of a proof raises a doubt, whoever sees it.
    assert len(compiled.of_values_after(2)) == len(compiled.of_values_after(0)) >= 1
    assert compiled.of_values_after(99) == []


def test_a_flag_of_what_a_decorator_returns_is_named():
    compiled = compared(wrapped, [lambda: setattr(wrapped, "enabled", True)])
    (reason,) = compiled.reasons
    assert reason == "the function wrapped has now a enabled"


def test_a_name_that_comes_to_a_module_is_named():
    compiled = compared(of_a_module, [lambda: setattr(SETTINGS, "scale", 5.0)])
    assert compiled.reasons == ["the module settings_of_a_test has now a scale"]


def test_an_attribute_of_a_partial_is_refused():
    """torch's tracer sees none of them, in a new graph either. Red before: it went on."""
    with pytest.raises(TwinrunError, match=r"a functools\.partial has other attributes.*scale"):
        compared(lambda: getattr(PARTIAL, "scale", 1.0), [lambda: setattr(PARTIAL, "scale", 5.0)])


def losses_of(module_class, compile_):
    """Train 9 steps in float64; give the losses, and what did it."""
    vars(OF_MODULES).pop("scale", None)
    torch.manual_seed(0)
    module = module_class()
    speed = Speed(module, Variant(**{**VARIANT, "compile": compile_}))
    trainer = pl.Trainer(
        accelerator="cpu",
        precision="64-true",
        max_epochs=3,
        callbacks=[speed],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    batches = torch.arange(9.0, dtype=torch.float64).reshape(3, 3, 1)
    trainer.fit(module, DataLoader(batches, batch_size=None))
    return module.losses, speed


@pytest.mark.one_in(2)
@pytest.mark.parametrize("module_class", [Asks, AsksOfItself])
@pytest.mark.parametrize("compile_", ["step", "module"])
def test_a_name_that_comes_behind_the_steps_of_a_proof_is_seen_in_a_training(
    module_class, compile_
):
    """Red before: from step 7 on the losses were others, and nothing said so."""
    losses, speed = losses_of(module_class, compile_)
    plain, _ = losses_of(module_class, "none")
    assert losses == pytest.approx(plain, rel=1e-12)
    (doubt,) = speed.unproven(6)
    assert "has now a scale" in doubt
    assert speed.unproven(7) == []


@pytest.mark.parametrize("compile_", ["step", "module"])
def test_what_a_step_itself_notes_is_compiled_once(compile_):
    losses, speed = losses_of(Notes, compile_)
    plain, _ = losses_of(Notes, "none")
    assert losses == pytest.approx(plain, rel=1e-12)
    assert speed.counts()["compilations"] == 1
    assert speed.unproven(0) == []
