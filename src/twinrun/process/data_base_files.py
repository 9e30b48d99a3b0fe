"""Which file `sqlite3.connect` opens: it may be named by a URI, or be none."""

import os
from urllib.parse import parse_qs, unquote, urlsplit

_IN_MEMORY = ("", ":memory:")  # the first one is in a file that nobody else can open
_TRUE = ("1", "on", "true", "yes")


def file_of(data_base: object) -> tuple[str, bool] | None:
    """Return the path of a data base, and whether it may be written; None if it has no file.

    As https://www.sqlite.org/uri.html says.

    >>> file_of("file:rows%20of%20mine.db?mode=ro"), file_of("file:x?mode=memory&cache=shared")
    (('rows of mine.db', False), None)
    """
    if not isinstance(data_base, str | bytes | os.PathLike):
        return None
    name = os.fsdecode(data_base)
    if not name.startswith("file:"):
        return None if name in _IN_MEMORY else (name, True)
    uri = urlsplit(name)
    options = {key: values[-1] for key, values in parse_qs(uri.query).items()}
    path, mode = unquote(uri.path), options.get("mode")
    if path in _IN_MEMORY or mode == "memory":
        return None
    return path, mode != "ro" and options.get("immutable", "").lower() not in _TRUE
