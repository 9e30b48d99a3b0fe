"""What torch's tracer takes for granted of classes and containers: seen when it changes later."""

import builtins
import collections
import dataclasses
import importlib

import pytest
import torch

import twinrun.acceleration.features_first  # noqa: F401  Lightning sets variables when imported
from twinrun.acceleration.compilation import Compiled, compiler_switches, traced_only
from twinrun.errors import TwinrunError

HIDDEN = max.__name__


class Equal:
    """Found by what it holds."""

    def __init__(self, value):
        self.value = value

    def __hash__(self):
        return hash(self.value)

    def __eq__(self, other):
        return self.value == other.value


@dataclasses.dataclass(frozen=True)
class Task:
    name: str


class Holder:
    """What a step asks, and a training changes."""


def holder_of(**held):
    holder = Holder()
    vars(holder).update(held)
    return holder


def an_attribute_of_the_derived_class():
    class Base:
        aux = 1.0

    class Derived(Base):
        pass

    held = Derived()
    return lambda: held.aux, lambda: setattr(Derived, "aux", 2.0)


def an_attribute_of_a_derived_layer():
    class Base(torch.nn.Module):
        aux = 1.0

        def forward(self):
            return self.aux

    class Middle(Base):
        pass

    class Derived(Middle):
        pass

    held = Derived()
    return held, lambda: setattr(Derived, "aux", 2.0)


def a_property_of_the_derived_class():
    class Base:
        aux = 1.0

    class Derived(Base):
        pass

    held = Derived()
    return lambda: held.aux, lambda: setattr(Derived, "aux", property(lambda _: 2.0))


def an_exchanged_method():
    class Plain:
        def aux(self):
            return 1.0

    held = Plain()
    return lambda: held.aux(), lambda: setattr(Plain, "aux", lambda _: 2.0)


def an_exchanged_method_of_what_the_step_makes():
    class Plain:
        def aux(self):
            return 1.0

    return lambda: Plain().aux(), lambda: setattr(Plain, "aux", lambda _: 2.0)


def an_empty(kind, **held):
    def case():
        holder = holder_of(memory=kind(**held))
        return lambda: 2.0 if holder.memory else 1.0, lambda: holder.memory.update(a=1)

    case.__name__ = f"an_empty_{kind.__name__}"
    return case


def one_that_replaces_an_empty_one():
    holder = holder_of(memory=collections.OrderedDict())

    def change():
        holder.memory = collections.OrderedDict()
        holder.memory["a"] = 1

    return lambda: 2.0 if holder.memory else 1.0, change


def one_that_is_moved():
    held = collections.OrderedDict(a=1.0, b=2.0)
    return lambda: next(iter(held.values())), lambda: held.move_to_end("a")


def a_loop_over_one_that_is_moved():
    held = collections.OrderedDict(a=1.0, b=2.0)

    def ask():
        found = 0.0
        for value in held.values():
            found = 2 * found + value
        return found

    return ask, lambda: held.move_to_end("b", last=False)


def a_map_of_a_chain():
    own = {}
    held = collections.ChainMap(own, {"k": 1.0})
    return lambda: held["k"], lambda: own.update(k=2.0)


def a_set_of_equal_objects():
    held = {Equal(1)}
    return lambda: 2.0 if Equal(2) in held else 1.0, lambda: held.add(Equal(2))


def an_empty_set_of_equal_objects():
    held = set()
    return lambda: 2.0 if Equal(2) in held else 1.0, lambda: held.add(Equal(2))


def a_dictionary_of_equal_objects():
    held = {Equal(1): 1.0}
    return lambda: held.get(Equal(2), 1.0), lambda: held.update({Equal(2): 2.0})


def a_set_of_dataclasses():
    held = {Task("main")}
    return lambda: 2.0 if Task("aux") in held else 1.0, lambda: held.add(Task("aux"))


def a_global_that_hides_a_builtin():
    here = importlib.import_module(__name__)

    def larger(_first, _second):
        return 2.0

    # Its name stands in no text, which might be one that code asks for.
    return lambda: max(1.0, 0.5), lambda: vars(here).update({HIDDEN: larger})


CASES = [
    an_attribute_of_the_derived_class,
    an_attribute_of_a_derived_layer,
    an_exchanged_method,
    an_empty(collections.OrderedDict),
    an_empty(collections.defaultdict),
    one_that_is_moved,
    a_map_of_a_chain,
    a_set_of_equal_objects,
    a_global_that_hides_a_builtin,
]
MORE = [
    a_property_of_the_derived_class,
    an_exchanged_method_of_what_the_step_makes,
    one_that_replaces_an_empty_one,
    a_loop_over_one_that_is_moved,
    an_empty_set_of_equal_objects,
    a_dictionary_of_equal_objects,
    a_set_of_dataclasses,
]


@pytest.fixture(autouse=True)
def traced():
    with compiler_switches(), traced_only():
        yield
    vars(importlib.import_module(__name__)).pop(HIDDEN, None)
    vars(builtins).pop("of_a_profiler", None)


def compared(ask, change):
    """Call it compiled and plain, before a change and after it."""
    compiled = Compiled(lambda batch, index: batch * ask())
    batch = torch.ones(2, dtype=torch.float64)
    answers = []
    for step in range(1, 7):
        if step == 4:
            change()
        compiled.step = step
        answers.append(batch * ask())
        assert torch.equal(compiled(batch, 0), answers[-1])
    assert not torch.equal(answers[0], answers[-1])
    return compiled


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "case",
    [*CASES, *(pytest.param(case, marks=pytest.mark.exhaustive) for case in MORE)],
    ids=lambda case: case.__name__,
)
def test_a_later_change_is_compiled_for_or_left_to_python(case):
    """Red before: the graph went on with what there was when it was compiled."""
    compiled = compared(*case())
    # Either nothing of it is in a graph, or what is compiled anew raises a doubt.
    assert compiled.compilations <= 2
    assert len(compiled.of_values_after(3)) == compiled.compilations - 1
    assert compiled.of_values_after(4) == []


@pytest.mark.parametrize("kind", [collections.OrderedDict, collections.defaultdict])
def test_what_comes_to_a_dictionary_that_is_read_by_name_is_compiled_once(kind):
    held = kind()
    held["k"] = 1.0
    compiled = Compiled(lambda batch, index: batch * held["k"])
    for step in range(6):
        held[f"of step {step}"] = 1.0
        assert compiled(torch.ones(2), 0).sum() == 2
    assert compiled.compilations == 1


def test_what_a_class_counts_or_is_given_of_an_own_name_is_compiled_once():
    class Base:
        count = 0

        def aux(self):
            return 1.0

    class Derived(Base):
        count = 0

    held = Derived()
    compiled = Compiled(lambda batch, index: batch * held.aux())
    for step in range(6):
        Derived.count += 1
        setattr(Derived, f"of_step_{step}", step)
        assert compiled(torch.ones(2), 0).sum() == 2
    assert compiled.compilations == 1


def test_the_class_of_what_has_changed_is_named():
    compiled = compared(*an_attribute_of_the_derived_class())
    assert compiled.reasons == ["the class Derived has now a aux"]


def test_a_users_name_in_builtins_is_refused():
    """torch's tracer takes it for a constant of Python's. Red before: it stayed unseen."""

    def ask():
        try:
            return of_a_profiler
        except NameError:
            return 1.0

    with pytest.raises(TwinrunError, match="builtins has now a of_a_profiler, which torch"):
        compared(ask, lambda: vars(builtins).update(of_a_profiler=2.0))
