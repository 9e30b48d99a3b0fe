"""Texts of keys and paths as another process would write them."""

import tempfile
from functools import cache
from pathlib import PurePath

import numpy as np

from twinrun.checkpoint.looks import look
from twinrun.containers import shown

_OF_PROCESS = "<temporary>"


@cache
def _folder() -> str:
    return tempfile.gettempdir()


def is_temporary(text: str) -> bool:
    """Say whether a text names what lies in the folder for temporary files."""
    return text.startswith(_folder())


def steady(text: str) -> str:
    """Write a text or a path; of one in the folder for temporary files without its name there.

    >>> import tempfile
    >>> steady(f"{tempfile.gettempdir()}/tmp1234/rows.npy")
    '<temporary>/rows.npy'
    """
    if not is_temporary(text):
        return text
    _, _, rest = text[len(_folder()) :].strip("/\\").replace("\\", "/").partition("/")
    return f"{_OF_PROCESS}/{rest}"


def key_text(key: object) -> str:
    """Write a key of a dictionary.

    >>> key_text("a"), key_text((1, PurePath("b"))), key_text(3)
    ("'a'", '(1, b, )', '3')
    """
    kind = type(key)
    if kind is int:
        return str(key)
    if isinstance(key, str):
        return repr(steady(key))
    if isinstance(key, PurePath):
        return steady(str(key))
    if kind is tuple:
        return f"({''.join(f'{key_text(item)}, ' for item in key)})"  # pyrefly: ignore[not-iterable]
    if isinstance(key, np.generic):
        return repr(key)
    text = shown(key, -1)
    # Of one's own what is in it.
    return text if text != "-1" else f"{kind.__qualname__} {look(key, ())}"
