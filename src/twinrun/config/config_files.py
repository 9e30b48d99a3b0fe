"""Config files read strictly: what YAML lets pass in silence is said, with the line it stands on.

Snakemake reads a config file before the Snakefile can say anything, and YAML is forgiving: of a key
that is given twice the last one wins, `1e-3` is a text, `010` is 8, `no` is false. `mistakes_of`
looks at the file itself for that.
"""

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from twinrun.errors import sentence_of

# YAML 1.1, which PyYAML reads, wants a point in the mantissa and a sign in the exponent:
# https://yaml.org/type/float.html
EXPONENT = re.compile(r"([-+]?)([0-9][0-9_]*[.]?[0-9_]*|[.][0-9_]+)[eE]([-+]?)([0-9]+)")
OCTAL = re.compile(r"[-+]?0[0-9_]+")  # 010 is 8, and 08 a text
SEXAGESIMAL = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+([.][0-9_]*)?")  # 1:30 is 90
# What these are there may be anything that a constructor takes: `None` is then no misspelt name.
ARGUMENTS = {"hyperparameters", "parameters", "trials"}


def module_folders(files: Iterable[str | Path]) -> list[str]:
    """Return where a user's own modules are looked for: beside his config files.

    Of a folder that is called `config`, also beside that folder.

    >>> module_folders(["mine.yaml", "config/config.yaml", "tests/other.yaml"])
    ['.', 'config', 'tests']
    """
    folders = []
    for folder in (Path(file).absolute().parent for file in files):
        folders += [folder.parent, folder] if folder.name == "config" else [folder]
    return list(dict.fromkeys(map(os.path.relpath, folders)))


def hashes_of_contents(files: Iterable[str | Path]) -> dict[str, str]:
    """Return what `hash_of_config_file` says of each file, by its path from here."""
    return {file: hash_of_config_file(file) for file in dict.fromkeys(map(os.path.relpath, files))}


def hash_of_config_file(file: str | Path) -> str:
    """Return a hash of what a config file says; comments and the order of keys do not count.

    Of a file that is neither JSON nor YAML it is the hash of its bytes, and of one that is gone a
    text that no hash equals.
    """
    try:
        content = Path(file).read_bytes()
    except OSError as error:
        return f"unreadable: {type(error).__name__}"
    try:
        text = repr(_sorted(said_by(content.decode("utf-8"))))
    # Where PyYAML fails it may raise anything: TypeError of a key that is a list.
    except Exception:
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def said_by(text: str) -> object:
    """Read a config file as Snakemake does: as JSON, which may be indented by tabs, or as YAML."""
    try:
        return json.loads(text)
    except ValueError:
        return yaml.safe_load(text)


def _sorted(content: object) -> object:
    """Sort keys by their texts: those of YAML may be of several types, which have no order."""
    if isinstance(content, dict):
        return [(repr(key), _sorted(content[key])) for key in sorted(content, key=repr)]
    if isinstance(content, set):  # of YAML's !!set, which Python orders anew in each process
        return sorted(map(repr, content))
    return [_sorted(item) for item in content] if isinstance(content, list) else content


def is_readable(file: str | Path) -> bool:
    """Say whether a config file can be read at all, whatever it says."""
    try:
        said_by(Path(file).read_bytes().decode("utf-8"))
    except Exception:  # where PyYAML fails it may raise anything
        return False
    return True


def mistakes_of(file: str | Path) -> list[str]:
    """Return a sentence for each thing in a file that is not what it looks like.

    A file that cannot be read at all has one.
    """
    try:
        text = Path(file).read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        return [f"{file}: {why_unreadable(error)}"]
    except FileNotFoundError:
        return [f"{file}: there is no such config file"]
    except IsADirectoryError:
        return [f"{file}: is a folder, where a config file is needed"]
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        return [f"{file}: cannot be read ({error})"]
    return list(dict.fromkeys(_of_json(text, file) if _is_json(text) else _of_yaml(text, file)))


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _of_json(text: str, file: str | Path) -> Iterator[str]:
    """Find keys that are given twice; all else is as JSON says it."""
    twice: list[str] = []

    def kept(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        counts = Counter(key for key, _ in pairs)
        twice.extend(key for key, count in counts.items() if count > 1)
        return dict(pairs)

    if not isinstance(json.loads(text, object_pairs_hook=kept), dict):
        yield f"{file}: is no mapping; begin with keys such as studies"
    for key in twice:
        yield f"{key}: given twice in {file}; leave one out, the last would win in silence"


def _of_yaml(text: str, file: str | Path) -> Iterator[str]:
    try:
        # The Python parser, as Snakemake's: the C one takes `(:` and a tab for a mapping.
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except RecursionError:
        yield f"{file}: is nested too deeply"
        return
    except yaml.YAMLError as error:
        yield f"{file}: {why_unreadable(error)}"
        return
    if not isinstance(node, yaml.MappingNode):
        kind = "is empty" if node is None else "is no mapping"
        yield f"{file}: {kind}; begin with keys such as studies"
        return
    yield from _of_node(node, [], str(file), {}, is_argument=False)


def why_unreadable(error: Exception) -> str:
    """Say in one sentence why a file of YAML could not be read."""
    if isinstance(error, UnicodeDecodeError):
        line = error.object[: error.start].count(b"\n") + 1
        byte = f"byte 0x{error.object[error.start]:02x}"
        return f"line {line} is not UTF-8 ({byte}); save the file as UTF-8"
    return _of_syntax(error) if isinstance(error, yaml.YAMLError) else sentence_of(error)


def _of_syntax(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    where = f"line {mark.line + 1}" if mark else "the text"
    if alias := re.search("undefined alias '(.*)'", problem):
        return (
            f"{where} has the alias *{alias[1]}, which no anchor &{alias[1]} defines; a text that "
            f"begins with * needs quotation marks"
        )
    if "found another document" in problem:
        return (
            f"{where} begins a second YAML document with ---, of which a file may hold one; leave "
            f"the --- out, or put it in a file of its own"
        )
    if mark and mark.buffer and "\t" in mark.buffer[mark.pointer : mark.pointer + 1]:
        return f"{where} is indented by a tab; YAML wants spaces"
    return (
        f"{where} is no YAML ({problem}); indent with spaces, and put a text with special signs in "
        f"quotation marks"
    )


def _of_node(
    node: yaml.Node, path: list[str], file: str, is_open: dict[int, bool], *, is_argument: bool
) -> Iterator[str]:
    """Walk through a document once.

    Args:
        node: where the walk is.
        path: the keys that lead there.
        file: its name.
        is_open: each node that was seen; True while its inside is walked through. An alias leads
            to one of them.
        is_argument: whether it stands among the arguments of a constructor.
    """
    key = ".".join(path) or "the config"
    if id(node) in is_open:
        if is_open[id(node)]:
            yield f"{key}: refers to itself in {file} (a YAML alias inside its own anchor)"
        return
    is_open[id(node)] = True
    where = f"in {file}, line {node.start_mark.line + 1}"
    if not node.tag.startswith("tag:yaml.org,2002:") or node.tag.startswith(
        "tag:yaml.org,2002:python/"
    ):
        tag = node.tag.replace("tag:yaml.org,2002:", "!!")
        yield f"{key}: the tag {tag} ({where}) means nothing here; leave it out"
    elif isinstance(node, yaml.ScalarNode):
        if not node.style and (sentence := surprise_of(node, is_argument)):
            yield f"{key}: {sentence} ({where})"
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _of_node(item, [*path, str(index)], file, is_open, is_argument=is_argument)
    elif isinstance(node, yaml.MappingNode):
        yield from _of_keys(node, path, file)
        for name, item in node.value:
            if isinstance(name, yaml.ScalarNode):
                inside = is_argument or name.value in ARGUMENTS
                yield from _of_node(item, [*path, name.value], file, is_open, is_argument=inside)
    is_open[id(node)] = False


def _of_keys(node: yaml.MappingNode, path: list[str], file: str) -> Iterator[str]:
    """Find keys given twice, and keys that are no texts."""
    lines: dict[str, int] = {}
    for name, _ in node.value:
        line = name.start_mark.line + 1
        if not isinstance(name, yaml.ScalarNode):
            owner = ".".join(path) or "the config"
            yield f"{owner}: a list or a mapping is no key (in {file}, line {line})"
            continue
        key = ".".join([*path, name.value])
        if name.tag in ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:null"):
            word = "null" if name.tag.endswith("null") else _BOOLEANS[name.value.lower()]
            yield (
                f"{key}: YAML reads the key {name.value or '(nothing)'} as {word} (in {file}, line "
                f"{line}); put it in quotation marks"
            )
        elif name.value in lines and name.tag != "tag:yaml.org,2002:merge":
            numbers = dict.fromkeys([lines[name.value], line])
            yield (
                f"{key}: given twice in {file} ({'line' if len(numbers) == 1 else 'lines'} "
                f"{' and '.join(map(str, numbers))}); leave one out, the last would win in silence"
            )
        lines.setdefault(name.value, line)


_BOOLEANS = {"yes": "true", "true": "true", "on": "true"} | dict.fromkeys(
    ("no", "false", "off"), "false"
)


def as_number(text: str) -> str | None:
    """Return how YAML wants a number to be written, or None if a text is none.

    >>> as_number("1e-3"), as_number("-.5E2"), as_number("0.1"), as_number("two")
    ('1.0e-3', '-0.5e+2', '0.1', None)
    """
    if number := EXPONENT.fullmatch(text):
        sign, mantissa, power, digits = number.groups()
        mantissa = mantissa if "." in mantissa else f"{mantissa}.0"
        mantissa = f"0{mantissa}" if mantissa.startswith(".") else mantissa
        return f"{sign}{mantissa}e{power or '+'}{digits}"
    return text if re.fullmatch(r"[-+]?([0-9]+([.][0-9]*)?|[.][0-9]+)", text) else None


def surprise_of(node: yaml.ScalarNode, is_argument: bool) -> str | None:
    """Say of a value without quotation marks what YAML makes of it, where that surprises.

    >>> surprise_of(yaml.compose("1e-3"), True)
    '1e-3 is a text to YAML; write 1.0e-3 (or put it in quotation marks, if it is to be one)'
    """
    text, kind = node.value, node.tag.rpartition(":")[2]
    if kind == "str" and EXPONENT.fullmatch(text):
        number = as_number(text)
        quoted = "or put it in quotation marks, if it is to be one"
        return f"{text} is a text to YAML; write {number} ({quoted})"
    if OCTAL.fullmatch(text) and kind in ("int", "str") and text.strip("+-0_"):
        plain = text.lstrip("+-0_")
        read = f"{yaml.safe_load(text)} (octal)" if kind == "int" else "a text"
        return f"YAML reads {text} as {read}; write {plain}"
    if SEXAGESIMAL.fullmatch(text) and kind in ("int", "float"):
        return f"YAML reads {text} as {yaml.safe_load(text)}; write that, or put it in quotes"
    if kind == "timestamp":
        return f"YAML reads {text} as a date; put it in quotation marks"
    if is_argument and kind == "str" and text == "None":
        return "None is a text to YAML; write null"
    return None
