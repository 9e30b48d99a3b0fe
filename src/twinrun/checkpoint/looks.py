"""Write down what a value is, in a few bytes, so that another value is written otherwise.

What raises while it is looked at is written as unseen, and so is an iterator whose position is in
no attribute: it may change, and nobody would notice.
"""

import collections
import functools
import hashlib
import pickle
import random
import types
from collections.abc import Container, Iterable, Iterator
from contextlib import suppress

import numpy as np
import torch
import xxhash
from torch.nn.parameter import is_lazy

from twinrun.batches import Opaque, leaves
from twinrun.checkpoint.users_code import is_users
from twinrun.containers import (
    attributes_of,
    entries,
    holds_for_users,
    holds_plain,
    is_container,
    is_faceless,
    is_hidden_iterator,
    is_really,
)
from twinrun.hidden_content import content_of, saves_itself
from twinrun.plain_tensors import bare, flat_bytes, plain_tensors
from twinrun.values_inside import Unlooked, values_in

UNSEEN = "cannot be looked at"
Handle = tuple[str, int]


def digest(value: object) -> str:
    """Hash a tensor, an array or a plain value.

    Of a sparse, nested or quantised tensor the parts that it is made of; one of the device "meta"
    has no values.
    """
    kind, content = type(value).__name__, xxhash.xxh3_128()
    if isinstance(value, torch.Tensor):
        value = bare(value)
        shape = "nested" if value.is_nested else tuple(value.shape)
        is_strided = value.layout is torch.strided and not value.is_nested
        order = value.stride() if is_strided else ""
        kind = f"{value.dtype} {value.layout} {shape} {order} {value.requires_grad}"
        for part in [] if value.is_meta else plain_tensors(value.detach().cpu()):
            content.update(flat_bytes(part).data)
    elif isinstance(value, np.ndarray):
        kind = f"{kind} {value.dtype.str} {value.shape}"
        masks = (np.ma.getmaskarray(value),) if isinstance(value, np.ma.MaskedArray) else ()
        for part in (value, *masks):
            content.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    else:
        content.update(pickle.dumps(value))
    return f"{kind} {content.hexdigest()}"


def look(value: object, held: Container[int]) -> str:
    """Write down an attribute: what is in it, or which function or class it is.

    Args:
        value: of the attribute.
        held: the identities of what does not count (tensors, iterators, schedules): others keep it.
    """
    try:
        if callable(value) and not isinstance(value, torch.nn.Module):
            called = _called(value, held)
            return called if called.startswith(UNSEEN) else f"callable {called}"
        return _written(values_in(value, "", held, is_users=is_users), held)
    except _UnseenError as error:
        return str(error)
    except Exception as error:  # of whatever class: the attribute is a user's
        return f"{UNSEEN} ({type(error).__name__})"


def look_at_users(value: object, held: Container[int]) -> str:
    """Write down what an attribute holds of a user's own, and the tensors and arrays in it.

    A library's objects may count as they go, and be made late: a bar of progress, a connection.
    None and an empty container are written as nothing.

    Args:
        value: of the attribute.
        held: as of `look`.
    """
    try:
        return _written(values_in(value, "", held, is_users=is_users, only_users=True), held)
    except _UnseenError as error:
        return str(error)
    except Exception as error:  # of whatever class: the attribute is a user's
        return f"{UNSEEN} ({type(error).__name__})"


class _UnseenError(Exception):
    """Something cannot be looked at; the message says so."""


def _written(found: Iterable[tuple[str, object]], held: Container[int]) -> str:
    """Hash what `values_in` yields.

    Raises:
        _UnseenError: if anything in it cannot be looked at.
    """
    content = hashlib.sha256()
    for where, leaf in found:
        if id(leaf) not in held:
            line = f"{where} {_written_leaf(leaf, held)}\n"
            content.update(line.encode(errors="backslashreplace"))
    return content.hexdigest()


def _written_leaf(leaf: object, held: Container[int]) -> str:
    """Write down what `values_in` yields of a value.

    Raises:
        _UnseenError: if it cannot be looked at.
    """
    if is_hidden_iterator(leaf):
        raise _UnseenError(unseen_iterator(leaf))
    if isinstance(leaf, Unlooked):
        raise _UnseenError(f"{UNSEEN} ({leaf.why})")
    if saves_itself(leaf):
        leaf = look(leaf.state_dict(), held)
        if leaf.startswith(UNSEEN):
            raise _UnseenError(leaf)
    return digest(leaf)


def look_at_leaf(leaf: object) -> str:
    """Write down what `values_in` yields of a value, also that it cannot be looked at."""
    try:
        return _written_leaf(leaf, ())
    except _UnseenError as error:
        return str(error)
    except Exception as error:  # of whatever class
        return f"{UNSEEN} ({type(error).__name__})"


def unseen_iterator(iterator: object) -> str:
    """Write down one whose position is in no attribute."""
    kind = type(iterator)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"{UNSEEN} (the place of an iterator, {module}{kind.__name__}, shows nowhere)"


def fingerprint_of_batch(batch: object) -> int:
    """Return 64 bits of what a batch holds; of what cannot be looked into, its class."""
    content = xxhash.xxh3_64()
    for where, leaf in leaves(batch):
        seen = leaf.kind if isinstance(leaf, Opaque) else digest(leaf)
        content.update(f"{where} {seen}\n".encode(errors="backslashreplace"))
    return content.intdigest()


def look_at_rng_states() -> dict[str, str]:
    """Write down the RNG states of Python, NumPy and torch, also on GPUs, by their names."""
    numpy = np.random.get_state(legacy=False)
    _, words, gauss = random.getstate()
    # Gaussian numbers are drawn in pairs: the second one, kept for later, is state, too.
    of_numpy = f"{numpy['state']['pos']} {numpy['has_gauss']} {numpy['gauss']}".encode()
    of_python = np.array(words, dtype=np.uint32).tobytes() + repr(gauss).encode()
    of_gpus = torch.cuda.default_generators if torch.cuda.is_initialized() else ()
    return {
        **{
            f"cuda {index}": xxhash.xxh3_64_hexdigest(generator.get_state().numpy().data)
            for index, generator in enumerate(of_gpus)
        },
        "torch": xxhash.xxh3_64_hexdigest(torch.get_rng_state().numpy().data),
        "numpy": xxhash.xxh3_64_hexdigest(numpy["state"]["key"].tobytes() + of_numpy),
        "python": xxhash.xxh3_64_hexdigest(of_python),
    }


def rng_states_in_a_word() -> str:
    """Write down the RNG states of Python, NumPy and torch, also on GPUs, in one word."""
    return xxhash.xxh3_64_hexdigest("".join(look_at_rng_states().values()).encode())


def _called(value: object, held: Container[int]) -> str:
    if isinstance(value, functools.partial):
        found = [look(value.func, held), look((value.args, value.keywords), held)]
        unseen = [each for each in found if each.startswith(UNSEEN)]
        return unseen[0] if unseen else f"partial {found}"
    if (content := content_of(value)) is not None:
        return content
    owner = getattr(value, "__self__", None)
    if is_hidden_iterator(owner) and id(owner) not in held:
        return unseen_iterator(owner)
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{getattr(named, '__module__', None)}.{getattr(named, '__qualname__', None)}"


def handles(
    value: object, libraries: tuple[str, ...], parts: Container[int] = ()
) -> Iterator[Handle]:
    """Name the memory of the tensors and the mutable containers in a value, as often as it is held.

    Args:
        value: of an attribute.
        libraries: how the names of the packages begin whose objects are not looked into.
        parts: the identities of others that are not looked into either.
    """
    return _handles(value, libraries, set(), parts)


def _handles(
    value: object, libraries: tuple[str, ...], seen: set[int], parts: Container[int]
) -> Iterator[Handle]:
    inside: list[object] = []
    # A package's file (`self.np = numpy`) holds all that there is, and nothing of a user's.
    is_package = is_really(value, types.ModuleType) and not is_users(vars(value).get("__name__"))
    if is_faceless(value) or is_package or id(value) in parts:
        return
    if is_really(value, torch.Tensor):
        is_plain = value.layout is torch.strided and not value.is_nested and not value.is_meta
        if is_plain and not is_lazy(value) and value.numel():
            yield "memory", value.untyped_storage().data_ptr()
        return
    if isinstance(value, np.ndarray):
        while isinstance(value.base, np.ndarray):
            value = value.base
        if value.size:
            yield "memory", value.ctypes.data
        return
    if is_really(value, torch.nn.Module):
        inside = [*value.parameters(), *value.buffers()]
    elif is_really(value, torch.optim.Optimizer):
        # One whose constructor failed has neither.
        inside = [*getattr(value, "param_groups", ()), *getattr(value, "state", {}).values()]
    elif isinstance(value, types.BuiltinMethodType | types.MethodWrapperType):
        inside = [value.__self__]
    elif is_container(value):
        if not isinstance(value, tuple):
            yield "container", id(value)
        inside = [] if holds_plain(value) else [item for _, item in entries(value)]
    elif isinstance(value, bytearray):
        yield "memory", id(value)
    elif isinstance(value, collections.deque | set):
        yield "container", id(value)
        inside = [] if holds_plain(value) else list(value)
    elif not callable(value) and not type(value).__module__.startswith(libraries):
        if holds_for_users(value):
            yield "container", id(value)
        with suppress(Exception):  # such an attribute is unseen already
            inside = list(attributes_of(value).values())
    if inside and id(value) not in seen:
        seen.add(id(value))
        for item in inside:
            yield from _handles(item, libraries, seen, parts)
