"""How a failure's sentence shows a value and what was meant: short, whatever the value.

Like `errors`, in every closure and in no result but as words: see `source_hash`.
"""

import difflib
import math
import re
import shlex
from collections.abc import Sequence

LONGEST_VALUE = 60  # letters of a value that a sentence shows
MOST_NAMES = 12  # of what could have been meant


def shown(value: object) -> str:
    """Write a value as YAML would, in at most 60 letters.

    >>> shown(None), shown(True), shown("two"), shown([1] * 1000)
    ('null', 'true', "'two'", '[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,...')
    >>> shown([shown])
    '[<function shown>]'
    """
    # As YAML writes them, which is where the reader mends them.
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, dict):
        value = dict(list(value.items())[:LONGEST_VALUE])  # a repr of millions takes seconds
    elif isinstance(value, list | tuple | str | bytes):
        value = value[: 2 * LONGEST_VALUE]
    text = re.sub(" at 0x[0-9a-fA-F]+", "", repr(value))  # another one in each process
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."


def suggestion(name: object, known: Sequence[object], *, list_all: bool = True) -> str:
    """Say what a wrong name may have meant; else, with `list_all`, what there is to name."""
    names = [str(item) for item in known]
    near = difflib.get_close_matches(str(name)[:LONGEST_VALUE], names, n=1)
    if near:
        return f", did you mean {near[0]}?"
    return f"; known: {some(names)}" if list_all and names else ""


def as_module(notebook: str) -> str:
    """Say how a notebook becomes a module."""
    return f"; a notebook is no module: jupyter nbconvert --to script {shlex.quote(notebook)}"


def meant_path(text: str) -> str:
    """Say which import path a file's path, or a path without a colon, may have meant.

    >>> meant_path("src/acme/net.py:Net"), meant_path("acme.net.Net"), meant_path("Net")
    (', did you mean acme.net:Net?', ', did you mean acme.net:Net?', '')
    >>> meant_path("my.py"), meant_path("my: Net")
    (', did you mean my:Class, with the name of your class?', ', did you mean my:Net?')
    >>> meant_path("my-nets.py:Net")
    '; Python imports no module of such a name: name the file my_nets.py, say my_nets:Net'
    >>> meant_path("nets.ipynb")
    '; a notebook is no module: jupyter nbconvert --to script nets.ipynb'
    """
    module, colon, name = (part.strip() for part in text.partition(":"))
    if module.endswith(".ipynb"):
        return as_module(module)
    is_file, which = module.endswith(".py") and not colon, ""
    module = module.removesuffix(".py").replace("/", ".").replace("\\", ".").strip(".")
    if is_file:
        name, which = "Class", ", with the name of your class"
    elif not colon:
        module, _, name = module.rpartition(".")
    path = f"{module.removeprefix('src.')}:{name}"
    usual = re.sub("[- ]", "_", path) if name.isidentifier() else path
    if not all(part.isidentifier() for part in usual.replace(":", ".").split(".")):
        return ""
    if usual == path:
        return f", did you mean {path}{which}?"
    file = usual.partition(":")[0].rpartition(".")[2]
    return f"; Python imports no module of such a name: name the file {file}.py, say {usual}"


def some(names: Sequence[str]) -> str:
    """Name the first of them, and how many more there are.

    >>> some(["a", "b"]), some(["a"] * 14)
    ('a, b', 'a, a, a, a, a, a, a, a, a, a, a, a and 2 more')
    """
    first = ", ".join(names[:MOST_NAMES])
    return f"{first} and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else first


def type_hint(value: object, wanted: Sequence[str]) -> str:
    """Say how a value of the wrong type should be written, if that is likely."""
    if "string" in wanted and isinstance(value, bool):
        words = "yes, on and true as true" if value else "no, off and false as false"
        return f"; YAML reads {words}, so put the word in quotation marks"
    if "array" in wanted and isinstance(value, int | float) and not isinstance(value, bool):
        return f"; put it in brackets: [{value}]"
    if "string" in wanted and isinstance(value, int | float):
        return "; put it in quotation marks"
    if "integer" in wanted and isinstance(value, float) and math.isfinite(value):
        return f"; write {value:.0f}" if value == int(value) else ""
    if isinstance(value, str) and "array" in wanted:
        return f"; put it in brackets: [{value}]" if len(value) <= LONGEST_VALUE else ""
    if isinstance(value, dict) and wanted == ["array"]:
        return "; write each as an item of one, behind `- `"
    if isinstance(value, str) and {"integer", "number", "boolean"} & set(wanted):
        read = value.strip().lower()
        is_word = read in ("true", "false") and "boolean" in wanted
        if is_word or (read.lstrip("+-").isdecimal() and "boolean" not in wanted):
            return "; leave the quotation marks out"
    return ""
