"""Keys of mappings that are no texts, such as the epochs of a schedule, `{0: 1.0, 4: 0.1}`.

A job is told its settings as JSON, and a run keeps them as JSON, which makes texts of all keys in
silence. So a key that is none is written with YAML's own tag for what it is: `!!int 4`.
"""

import json
from collections.abc import Mapping
from typing import Any

import yaml

TAG = "!!"


def written_key(key: object) -> str:
    """Write a key as a text that tells what it was.

    >>> [written_key(key) for key in ("a", 4, 0.5, True, None, "!!a")]
    ['a', '!!int 4', '!!float 0.5', '!!bool true', '!!null null', '!!str "!!a"']

    Raises:
        TypeError: for a key that is neither text, number, boolean nor null.
    """
    match key:
        case str():
            return f"{TAG}str {json.dumps(key)}" if key.startswith(TAG) else key
        case None | bool():
            return f"{TAG}{'null' if key is None else 'bool'} {json.dumps(key)}"
        case int() | float():
            return f"{TAG}{type(key).__name__} {key!r}"
    raise TypeError(f"{key!r} is no text, number, boolean or null")


def with_keys(value: Any) -> Any:
    """Return a value as YAML gave it: with its keys as they were.

    >>> with_keys([{"!!int 4": {"!!float 1e-05": 1, "a": 2}}])
    [{4: {1e-05: 1, 'a': 2}}]
    """
    if isinstance(value, Mapping):
        return {_key(key): with_keys(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [with_keys(item) for item in value]
    return value


def _key(key: object) -> Any:
    return yaml.safe_load(key) if isinstance(key, str) and key.startswith(TAG) else key
