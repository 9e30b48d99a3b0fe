"""Generators of random numbers in what first hooks set: a look at an attribute shows none."""

import functools
import types
from collections.abc import Container, Iterator, Mapping

import torch
import xxhash

from twinrun.checkpoint.held_by_functions import variables_of
from twinrun.checkpoint.users_code import attributes_seen, is_users
from twinrun.containers import entries, holds_plain, is_container, is_really
from twinrun.generators import GENERATORS, global_generators, state_in_a_word

_DEEPEST, _MOST = 8, 1 << 12  # objects inside each other, and of all


def is_own_generator(value: object) -> bool:
    """Say whether a value is a generator, and none of the process's global ones."""
    return issubclass(type(value), GENERATORS) and id(value) not in global_generators()


def with_generators(
    looks: Mapping[str, str], values: Mapping[str, object], parts: Mapping[int, str]
) -> dict[str, str]:
    """Add the states of generators to looks at attributes.

    Args:
        looks: hashes, by key.
        values: of the attributes, by key.
        parts: names of what is not looked into, by identity.
    """
    found = dict(looks)
    for key in looks.keys() & values.keys():
        if states := [state_in_a_word(each) or "" for each in generators_in(values[key], parts)]:
            found[key] += f" {xxhash.xxh3_64_hexdigest(' '.join(states).encode())}"
    return found


def generators_in(value: object, parts: Container[int] = ()) -> Iterator[object]:
    """Yield the generators in containers, in objects of a user's own, and in what can be called."""
    left, seen = [(value, 0)], set[int]()
    while left and len(seen) < _MOST:
        each, depth = left.pop()
        if id(each) in parts or id(each) in seen or depth > _DEEPEST:
            continue
        if is_own_generator(each):
            yield each
        elif is_container(each):
            seen.add(id(each))
            inside = () if holds_plain(each) else entries(each)
            left += [(item, depth + 1) for _, item in inside][::-1]
        elif is_users(type(each).__module__) and not is_really(each, torch.nn.Module):
            seen.add(id(each))
            left += [(item, depth + 1) for item in attributes_seen(each).values()][::-1]
        elif held := _held_by_called(each):
            seen.add(id(each))  # functions close over each other
            left += [(item, depth + 1) for item in held][::-1]


def _held_by_called(value: object) -> list[object]:
    """Return what a partial was given, whose method a value is, and what a function closes over."""
    if type(value) is functools.partial:
        return [value.func, *value.args, *value.keywords.values()]
    if is_really(value, types.MethodType | types.BuiltinMethodType):
        owner = value.__self__
        is_part = issubclass(type(owner), type | types.ModuleType | torch.nn.Module)
        return [] if is_part else [owner]
    return [*variables_of(value).values()] if type(value) is types.FunctionType else []
