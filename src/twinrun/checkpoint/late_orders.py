"""In a word, what there is of what data have made: keys in their order, lengths, where None lies.

Not what lies there: whether that has changed is looked at elsewhere (see `late_content`).
"""

import collections
import marshal
from collections.abc import Container, Iterator
from typing import Any

import numpy as np
import torch
import xxhash

from twinrun.checkpoint.late_texts import key_text
from twinrun.checkpoint.users_code import attributes_seen, is_code, is_users
from twinrun.containers import entries, is_container, is_faceless, is_really, size_of
from twinrun.hidden_content import ESCAPED, KINDS

DEEPEST = 8  # containers and objects inside each other
_LEAVES = KINDS - {type(None)} | {torch.Tensor, np.ndarray}


def order_of(value: object, apart: Container[int]) -> str:
    """Write it down in a word.

    Args:
        value: what data have made.
        apart: the identities of what is looked at by itself.
    """
    try:
        found = "".join(_written(value, DEEPEST, apart, set()))
    except Exception as error:  # of whatever class: something in it cannot be looked at
        found = type(error).__name__
    return xxhash.xxh3_64_hexdigest(found.encode(errors=ESCAPED))


def _written(value: Any, deeper: int, apart: Container[int], seen: set[int]) -> Iterator[str]:
    kind = type(value)
    if kind in KINDS or is_faceless(value) or not deeper or id(value) in apart:
        yield f"{kind.__name__} "
        return
    if id(value) in seen:
        yield "the same "
        return
    is_list = is_really(value, list) or is_really(value, tuple) or kind is collections.deque
    if is_list or is_container(value):
        seen.add(id(value))
        yield f"{kind.__name__} {len(value) if kind is collections.deque else size_of(value)} "
        yield from _of_entries(value, deeper, apart, seen)
    elif is_users(kind.__module__) and not is_code(value):
        seen.add(id(value))
        yield f"{kind.__qualname__} "
        for name, item in attributes_seen(value).items():
            yield f".{name} "
            yield from _written(item, deeper - 1, apart, seen)
    else:
        yield f"{kind.__name__} "


def _of_entries(value: Any, deeper: int, apart: Container[int], seen: set[int]) -> Iterator[str]:
    items = list(enumerate(value)) if type(value) is collections.deque else entries(value)
    if is_really(value, dict):
        keys = [key for key, _ in items]
        if KINDS.issuperset(map(type, keys)):
            yield xxhash.xxh3_64_hexdigest(marshal.dumps(keys, 2))
        else:
            yield from (f"{key_text(key)} " for key in keys)
    if _LEAVES.issuperset(type(item) for _, item in items):
        return
    for _, item in items:
        yield from _written(item, deeper - 1, apart, seen)
