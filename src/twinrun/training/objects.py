"""Arguments as LightningCLI reads them: objects by `class_path` and `init_args`, tuples, functions.

jsonargparse, which LightningCLI is made of, reads a value by the annotation of its argument and
makes the objects in it, nested ones first. It is imported where a value needs it: that takes half
a second. Numbers and texts for arguments of plain types reach a constructor as YAML gives them.
"""

import contextlib
import copy
import enum
import functools
import inspect
import re
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from datetime import timedelta
from importlib.metadata import version
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from uuid import UUID

import yaml

from twinrun.config.class_paths import DOTTED, holds_object, slip_in
from twinrun.errors import TwinrunError
from twinrun.process.no_training import without_training
from twinrun.process.one_lightning import unite
from twinrun.training.constructors import Constructor, Parameters, arguments_of, takes_any
from twinrun.training.made_later import later_of, named_by, partial_of
from twinrun.training.mappings import as_asked

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser, Namespace

KEY = "it"
LONGEST = 300  # letters of what jsonargparse says, which shows values of any length
# Classes by their fields: what is derived from one has others.
OF_FIELDS = ("is_pure_dataclass", "is_pydantic_model", "is_attrs_class")
# What YAML has as a text, and jsonargparse makes of one.
WRITTEN = (PurePath, complex, timedelta, UUID)
PLAIN = (str, object, Any, "str")  # what a text suits as it is
# What jsonargparse says of a value, in lines of its own, and what is left of each.
SHORTER = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"(Subtypes|Errors|Given value|Given value type):.*|Expected a <class 'NoneType'>", ""),
        (r"Does not validate against any of the Union subtypes|Got value: Namespace\(.*", ""),
        (r"Type .* expects a function or a callable class: ", ""),
        (r"Problem with given class_path '(.*)':", r"\1:"),
        (r'Parser key "(?:it[.])?([^"]*)":', r"\1:"),
        (r"<(?:class|enum) '(?:builtins[.])?(.*?)'>", r"\1"),
        (
            r"(?:Option|Group 'it' does not accept option) '(.*?)'( is not accepted)?[.]?",
            r"takes no argument '\1'",
        ),
        (r"Validation failed: Key '(.*)' is not expected", r"takes no argument '\1'"),
        (r"Import path (.*) does not correspond to a subclass of (.*)", r"\1 is no \2"),
        (r"Expected '(.*)' to be a subclass of (\w+)[.]*", r"\1 is no \2"),
        (r"Expected an? (.*)[.] Got value: (.*)", r"expected \1, got \2"),
    )
)


def read(
    constructed: Constructor[object], given: Mapping[str, Any], *, is_all: bool = False
) -> dict[str, Any]:
    """Return arguments with the objects in them made, from the generators as they are.

    Args:
        constructed: what takes them.
        given: as YAML gives them.
        is_all: read the plain ones too, and add all defaults, as LightningCLI does.

    Raises:
        TwinrunError: for a value that the annotation does not allow.
    """
    parameters = arguments_of(constructed)
    if is_all:
        names = list(given)
    else:
        ready = {name: _ready(name, value, parameters) for name, value in given.items()}
        is_left = {name: value for name, value in given.items() if ready[name] is value}
        given, names = ready, list(_to_be_read(is_left, parameters))
    if not names and not is_all:
        return dict(given)
    values = {name: given[name] for name in names}
    with _as_they_say(values, is_all=is_all):
        parser = _parser(constructed, names, is_all=is_all)
        parsed = _parsed(parser, values, defaults=is_all)
        made = _instantiated(parser, parsed).get(KEY, {})  # of no arguments there is none
    for name in names:
        _check_made(name, made.get(name), values[name])
    return {**given, **{name: made[name] for name in (made.keys() if is_all else names)}}


def _ready(name: str, value: object, parameters: Parameters) -> object:
    """Return what is made of a value without jsonargparse's reading, or the value."""
    if later := later_of(value, parameters.get(name)):
        made, reason = with_arguments(typing.cast("Mapping[str, Any]", value), *later)
        if reason is not None:
            raise TwinrunError(f"{name}: {reason}")
        return partial_of(made)
    made = as_asked(value, parameters.get(name))
    return value if made is None else made


def _check_made(name: str, made: object, given: object) -> None:
    """Refuse an argument that nothing says how to make."""
    path = given.get("class_path") if isinstance(given, Mapping) else None
    if path is not None and isinstance(getattr(made, "class_path", None), str):
        raise TwinrunError(
            f"{name}: {path} is not made of these arguments alone; give the constructor's argument "
            f"an annotation that says how, such as pytorch_lightning.cli.OptimizerCallable"
        )


def wrong(
    constructed: Constructor[object], given: Mapping[str, Any], *, is_all: bool = False
) -> Iterator[tuple[str, str]]:
    """Yield each argument whose value its annotation does not allow, and why; nothing is made."""
    parameters = arguments_of(constructed)
    for name in given if is_all else _to_be_read(given, parameters):
        if is_all and name not in parameters and not takes_any(parameters):
            yield name, f"{constructed.__qualname__} does not take it"
            continue
        if not is_all and (later := later_of(given[name], parameters.get(name))):
            _, reason = with_arguments(given[name], *later)
            if reason is not None:
                yield name, slip_in(given[name]) or reason
            continue
        try:
            with _as_they_say({name: given[name]}, is_all=is_all):
                _parsed(_parser(constructed, [name]), {name: given[name]}, defaults=False)
        except TwinrunError as error:
            cure = _by_keywords(given[name]) if "takes no argument" in str(error) else ""
            cure = cure or _cure(given[name], parameters.get(name))
            yield name, slip_in(given[name]) or f"{error}{cure}"


def dumped(constructed: Constructor[object], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with all defaults as plain values, as LightningCLI keeps them."""
    parser = _parser(constructed, list(given), is_all=True)
    parsed = _parsed(parser, given, defaults=True)
    # Before 4.50 the option had another name, which warns since.
    option = {"skip_unset" if version("jsonargparse") >= "4.50" else "skip_none": False}
    return (yaml.safe_load(parser.dump(parsed, format="yaml", **option)) or {}).get(KEY, {})


def class_path_of(constructed: Constructor[object], name: str, given: Mapping[str, Any]) -> str:
    """Return the path of the class that an argument names, which may leave out its package."""
    parsed = _parsed(_parser(constructed, [name]), {name: given}, defaults=False)
    return parsed[f"{KEY}.{name}.class_path"]


def with_arguments(
    given: Mapping[str, Any], bases: tuple[type, ...], later: str
) -> tuple[dict[str, Any], str | None]:
    """Return the class and all arguments of what is yet to be made, or why it cannot be.

    Args:
        given: class path and arguments.
        bases: what the class must be derived from.
        later: the argument that it is given when it is made.
    """
    from jsonargparse import ArgumentParser

    unite()
    parser = ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(bases, KEY, fail_untyped=False, instantiate=False, skip={later})
    try:
        with without_training():  # it imports what a class path names
            parsed = parser.parse_object({KEY: copy.deepcopy(dict(given))})
        found = _instantiated(parser, parsed)[KEY]
    except Exception as error:  # so may the user's modules that it imports
        return {}, _sentence(str(error))
    return found.as_dict() if hasattr(found, "as_dict") else dict(found), None


def _by_keywords(value: object) -> str:
    """Say where arguments stand that something named in a value takes by its `**kwargs` alone."""
    if isinstance(value, Mapping):
        made_by = named_by(value)
        if callable(made_by) and takes_any(arguments_of(made_by)):
            return "; what it takes by its **kwargs stands under dict_kwargs, beside init_args"
        value = [*value.values()]
    return next(filter(None, map(_by_keywords, value)), "") if isinstance(value, list) else ""


def _cure(value: object, parameter: inspect.Parameter | None) -> str:
    """Say how an object is written, where a mapping of arguments or a function stands for it."""
    made_by = named_by(value) if isinstance(value, Mapping) else None
    if inspect.isroutine(made_by) and "return" not in getattr(made_by, "__annotations__", {}):
        return f"; a function says by an annotation what it makes: def {made_by.__name__}() -> ..."
    is_object = isinstance(value, Mapping) and "class_path" not in value
    if not is_object or parameter is None or is_dataclass(parameter.annotation):
        return ""
    return "; an object is {class_path: package.Class, init_args: {...}}"


def _to_be_read(given: Mapping[str, Any], parameters: Parameters) -> Iterator[str]:
    for name, value in given.items():
        if as_asked(value, parameters.get(name)) is not None:
            continue
        annotation = parameters[name].annotation if name in parameters else inspect.Parameter.empty
        is_typed = annotation is not inspect.Parameter.empty
        if isinstance(value, Mapping | list):
            # A class of mappings may be served by any mapping.
            is_mapping = inspect.isclass(annotation) and issubclass(annotation, Mapping)
            # Of a list for a number the rehearsal says what it is likely due to.
            is_scalar = annotation in (bool, int, float, str, "bool", "int", "float", "str")
            if (is_typed and not is_mapping and not is_scalar) or holds_object(value):
                yield name
        elif isinstance(value, str) and is_typed and _may_name(value, annotation):
            yield name


def _may_name(text: str, annotation: object) -> bool:
    """Say whether a text may name a class, a function, a file, or the member of an enumeration."""
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    allowed = typing.get_args(annotation) if is_union else (annotation,)
    if any(inspect.isclass(each) and issubclass(each, enum.Enum) for each in allowed):
        return True
    if any(each in PLAIN for each in allowed):
        return False
    is_written = any(inspect.isclass(each) and issubclass(each, WRITTEN) for each in allowed)
    return is_written or bool(DOTTED.fullmatch(text.replace(":", ".", 1)))  # an import path: a slip


@contextlib.contextmanager
def _as_they_say(values: Mapping[str, Any], *, is_all: bool) -> Iterator[None]:
    """Have a class path name what is derived from a dataclass, too, or a function that makes one.

    jsonargparse takes the very class alone, unless a program says otherwise; so LightningCLI does.
    """
    from jsonargparse import _common, set_parsing_settings

    # Older ones take what is derived from each, and have no such setting.
    selectors = getattr(_common, "subclasses_disabled_selectors", {})
    before = dict(selectors)
    if before and not is_all and any(map(holds_object, values.values())):
        set_parsing_settings(subclasses_enabled=[kind for kind in OF_FIELDS if kind in before])
    try:
        yield
    finally:
        selectors.update(before)


def _parser(
    constructed: Constructor[object], names: list[str], *, is_all: bool = False
) -> "ArgumentParser":
    from jsonargparse import ArgumentParser

    unite()  # a class path may name either of Lightning's packages
    while isinstance(constructed, functools.partial):
        constructed = constructed.func
    parser = ArgumentParser(exit_on_error=False)
    skip = set() if is_all else {*arguments_of(constructed)} - {*names}
    options: dict[str, Any] = {"fail_untyped": False, "skip": skip}
    if inspect.isclass(constructed):
        added = parser.add_class_arguments(constructed, KEY, instantiate=False, **options)
    else:
        added = parser.add_function_arguments(constructed, KEY, **options)
    known = {key.split(".")[1] for key in added}
    for name in names:
        if name not in known:  # one of its **kwargs
            parser.add_argument(f"--{KEY}.{name}", type=Any)
    return parser


def _parsed(parser: "ArgumentParser", values: Mapping[str, Any], *, defaults: bool) -> "Namespace":
    try:
        # A copy: jsonargparse reads lists in place.
        with without_training():  # it imports what a class path names
            return parser.parse_object({KEY: copy.deepcopy(dict(values))}, defaults=defaults)
    except Exception as error:  # so may the user's modules that it imports
        raise TwinrunError(_sentence(str(error))) from None


def _instantiated(parser: "ArgumentParser", parsed: "Namespace") -> Any:
    # Before 4.49 it has another name.
    return getattr(parser, "instantiate", parser.instantiate_classes)(parsed)


def _sentence(text: str) -> str:
    r"""Write what jsonargparse says in one line.

    >>> _sentence("Parser key \"it.net\":\n  Problem with given class_path 'a.B':\n    Option 'c' "
    ...           "is not accepted")
    "a.B: takes no argument 'c'"
    """
    found = []
    for line in text.splitlines():
        words = line.strip().removeprefix("- ")
        for pattern, replacement in SHORTER:
            words = pattern.sub(replacement, words)
        found.append(words.strip())
    sentence = re.sub("^[^ ]*: ", "", " ".join(filter(None, found)))
    return sentence if len(sentence) <= LONGEST else f"{sentence[: LONGEST - 3]}..."
