"""Which arguments a failure is likely due to, in a sentence that says what would be right.

Whether a value suits a constructor only the constructor knows, so an odd one is no mistake by
itself. Where something fails, `explained` names the arguments that the message names, and those of
another type than the constructor's annotation or default.
"""

import inspect
import re
import types
import typing
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from twinrun.config.config_files import as_number
from twinrun.training.constructors import Parameters, takes_any
from twinrun.training.remedies import WITHOUT_WORKERS, remedy_of_config
from twinrun.wording import shown, type_hint

LONGEST_REASON = 300  # letters of somebody else's message
BOOLEAN_WORDS = {"true", "false", "yes", "no", "on", "off"}
NAMES = {
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "string": "a text",
}
KINDS: dict[type, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}


def booleans_as_texts(
    hyperparameters: Mapping[str, object], takers: Mapping[str, Parameters]
) -> Iterator[str]:
    """Yield a sentence for each text where a boolean is meant: it would be true, whatever it says.

    Nothing would fail.
    """
    for name, value in hyperparameters.items():
        if isinstance(value, str) and value.lower() in BOOLEAN_WORDS and _is_boolean(name, takers):
            yield (
                f"hyperparameters.{name}: {shown(value)} is a text, which Python takes for true; "
                f"write {value.lower()} without quotation marks"
            )


def _is_boolean(name: str, takers: Mapping[str, Parameters]) -> bool:
    found = [taken[name] for taken in takers.values() if name in taken]
    return any(p.annotation is bool or isinstance(p.default, bool) for p in found)


def explained_failure(
    what: str,
    error: BaseException,
    given: Mapping[str, object],
    takers: Mapping[str, Parameters],
    where: str = "",
) -> str:
    """Say in one sentence that something failed, and which arguments it is likely due to.

    Args:
        what: what failed.
        error: what it raised.
        given: the arguments.
        takers: the parameters of each constructor, by its import path.
        where: the line of the user's code.
    """
    lines = str(error).strip().splitlines()
    text = lines[0] if lines else ""
    text = text if len(text) <= LONGEST_REASON else f"{text[: LONGEST_REASON - 3]}..."
    reason = f"{type(error).__name__}: {text}" if text else type(error).__name__
    remedy = remedy_of_config(error, text, given, [*takers])
    failed = f"{what} failed with {reason}{where and f' ({where})'}{remedy}"
    # An argument that asks for data workers may be right, and their number the run's.
    likely = "" if remedy == WITHOUT_WORKERS else "; ".join(explained(error, given, takers))
    return f"{likely} ({failed})" if likely else failed


def explained(
    error: BaseException, hyperparameters: Mapping[str, object], takers: Mapping[str, Parameters]
) -> list[str]:
    """Return a sentence for each hyperparameter that a failure is likely due to, the surest first.

    Empty where nothing points at one.
    """
    text = str(error)
    suspects = dict(_suspects(hyperparameters, takers))
    named = [name for name in hyperparameters if _names(text, name)]
    if not named:
        by_value = [n for n, value in hyperparameters.items() if _shows(text, value)]
        named = by_value if len(by_value) == 1 else []
    for name in named:
        value = shown(hyperparameters[name])
        suspects.setdefault(name, f"{value} is refused{_taken_by_both(name, takers)}")
    first = [name for name in suspects if name in named] or list(suspects)
    return [f"hyperparameters.{name}: {suspects[name]}" for name in first]


def _taken_by_both(name: str, takers: Mapping[str, Parameters]) -> str:
    """Say of an argument that no constructor names that it goes to several, which may be one more.

    >>> def constructor(**more): ...
    >>> of = inspect.signature(constructor).parameters
    >>> _taken_by_both("size", {"a:B": of, "c:D": of})
    '; no constructor names it, so that it goes to a:B and c:D; `cli` gives each its own'
    """
    takes = [path for path, of in takers.items() if takes_any(of)]
    if len(takes) < 2 or any(name in of for of in takers.values()):
        return ""
    both = " and ".join(takes)
    return f"; no constructor names it, so that it goes to {both}; `cli` gives each its own"


def _names(text: str, name: str) -> bool:
    """Say whether a message names an argument; `x` or `n` may be any word of a sentence."""
    words = re.escape(name).replace("_", "[_ ]")
    return len(name) > 1 and bool(re.search(rf"(?<![\w]){words}(?![\w])", text, re.IGNORECASE))


def _shows(text: str, value: object) -> bool:
    """Say whether a message shows a value that is no usual one, such as -1 or 1.5."""
    is_usual = isinstance(value, bool) or value is None or (isinstance(value, int) and value >= 0)
    if is_usual or not isinstance(value, int | float | str) or not str(value):
        return False
    return bool(re.search(rf"(?<![\w.]){re.escape(str(value))}(?![\w.])", text))


def _suspects(
    hyperparameters: Mapping[str, object], takers: Mapping[str, Parameters]
) -> Iterator[tuple[str, str]]:
    """Find values of another type than what the constructor says of the argument."""
    for name, value in hyperparameters.items():
        for taken in takers.values():
            if name in taken and (sentence := _oddity(value, taken[name])):
                yield name, sentence
                break


def _oddity(value: object, parameter: inspect.Parameter) -> str | None:
    """Say what is odd about a value.

    >>> def constructor(rate=0.1, *, size: int): ...
    >>> parameters = inspect.signature(constructor).parameters
    >>> _oddity("1e-3", parameters["rate"])
    "'1e-3' is a text, where the default is 0.1; write 1.0e-3"
    >>> _oddity(8.0, parameters["size"])
    '8.0 is not a whole number, which the constructor asks for; write 8'
    """
    is_mapping = isinstance(value, dict) and "class_path" not in value
    if is_mapping and (wanted := _class_of(parameter.annotation)):
        return (
            f"{shown(value)} is a mapping, where the constructor asks for an object of {wanted}, "
            f"which is {{class_path: package.Class, init_args: {{...}}}}"
        )
    kinds, default = _kinds(parameter.annotation), parameter.default
    has_default = default is not parameter.empty
    if kinds:
        # An annotation that the constructor's own default contradicts says nothing.
        is_kept = not has_default or default is None or _is(default, parameter.annotation)
        if _is(value, parameter.annotation) or not is_kept or (value is None and default is None):
            return None
        words = [NAMES[kind] for kind in kinds if kind in NAMES]
        wanted = f"not {' or '.join(words)}" if words else f"no {_written(parameter.annotation)}"
        return f"{shown(value)} is {wanted}, which the constructor asks for{_cure(value, kinds)}"
    if not has_default:
        if isinstance(value, str) and as_number(value):
            return f"{shown(value)} is a text{_cure(value, ['number'])}"
        return "null, where there is no default" if value is None else None
    kind = KINDS.get(type(default))
    if isinstance(parameter.annotation, str):  # it says something that nobody here can read
        return None
    if kind is None or not _strays(value, default):
        return None
    names: dict[type, str] = {int: "a whole number", float: "a number", str: "a text"}
    what = names.get(type(value))
    is_what = f" is {what}" if what else ""
    return f"{shown(value)}{is_what}, where the default is {shown(default)}{_cure(value, [kind])}"


def _strays(value: object, default: object) -> bool:
    """Say whether a value is of another kind than a default: a text for a number, say."""
    numbers = (int, float)
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(default, bool) != isinstance(value, bool)
    if isinstance(default, numbers):
        return not isinstance(value, numbers) or (
            isinstance(default, int) and isinstance(value, float)
        )
    return type(default) is not type(value)


def _cure(value: object, kinds: Sequence[str]) -> str:
    number = as_number(value) if isinstance(value, str) else None
    if number and {"number", "integer"} & set(kinds):
        return f"; write {number}"
    return type_hint(value, kinds)


def _kinds(annotation: object) -> list[str]:
    """Name what an annotation allows, if it is made of nothing but plain types."""
    if annotation in KINDS:
        return [KINDS[annotation]]
    if annotation in (None, types.NoneType):
        return ["null"]
    origin = typing.get_origin(annotation)
    if origin is typing.Literal:
        return ["literal"]
    inner = [_kinds(item) for item in typing.get_args(annotation) if item is not Ellipsis]
    if origin in (typing.Union, types.UnionType):
        return [kind for kinds in inner for kind in kinds] if all(inner) else []
    if annotation in (list, tuple, dict) or (origin in (list, tuple, dict) and all(inner)):
        return ["list"]
    return []


def _class_of(annotation: object) -> str | None:
    """Return the name of a class of which an annotation wants an object, such as a dataclass."""
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    allowed = typing.get_args(annotation) if is_union else (annotation,)
    classes = [each for each in allowed if each is not types.NoneType]
    for each in classes:
        # What may be a mapping, and what says nothing.
        if not isinstance(each, type) or each in (object, inspect.Parameter.empty):
            return None
        if issubclass(each, Mapping):
            return None
    return _written(classes[0]) if classes else None


def _is(value: object, annotation: object) -> bool:
    """Say whether a value from YAML suits an annotation of plain types; in doubt it does."""
    try:
        msgspec.convert(value, annotation)
    except msgspec.ValidationError:
        return False
    except TypeError:  # a union that msgspec cannot tell apart
        return True
    return True


def _written(annotation: object) -> str:
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    return text.replace("typing.", "")
