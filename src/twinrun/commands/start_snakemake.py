"""`twinrun run`, `report`, `gate`: Snakemake with the workflow that Twinrun brings along.

The process becomes Snakemake: its options, its profiles, its signals, its exit codes. Three things
are added where the command line does not say them: the number of cores, without which Snakemake
does not start, the workflow's own profile, and a log of progress alone.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from twinrun.config.config_files import is_readable, mistakes_of
from twinrun.config.own_config import OWN, own_config
from twinrun.config.shipped import shipped
from twinrun.errors import TwinrunError

SNAKEFILE = shipped("workflow/Snakefile")
# Else Snakemake would first look into the working directory, for any folder called `default`.
PROFILE = SNAKEFILE.parent / "profiles/default"
NEXT = (
    "these are the built-in studies. For a module of your own: twinrun init my_model:MyModule "
    "my_data:MyData, or --configfile"
)
# As `python -m snakemake`, whose help and mistakes would speak of a program `__main__.py`.
SNAKEMAKE = "import sys; sys.argv[0] = sys.argv.pop(1); from snakemake.cli import main; main()"
# Where one of these is given, nothing of its kind is added.
WHERE = ("--cores", "--jobs", "--executor", "--profile", "--workflow-profile", "-c", "-j", "-e")
NAMES_CONFIG = ("--configfile", "--configfiles", "--help", "-h")
YAML = (".yaml", ".yml")
BEFORE = "a target stands before it"
HOW_LOUD = ("--quiet", "--verbose", "-q")


def start(arguments: Sequence[str], name: str = "run") -> NoReturn:
    """Become Snakemake, with its own arguments.

    Args:
        arguments: targets and options.
        name: the command that was given, of which Snakemake's help and mistakes speak.

    Raises:
        TwinrunError: if a config that they name is no file, or one or a target stands behind
            `--config`, of which Snakemake has a traceback; if it or the user's own is no YAML; if
            one stands where targets do; if the folder is missing that would hold it.
    """
    for word in words_behind(arguments, ("--config", "-C").__contains__):
        if "=" not in word:
            is_file = Path(word).suffix in YAML
            cure = f"a config is named by --configfile {word}" if is_file else BEFORE
            raise TwinrunError(f"{word}: --config takes KEY=VALUE; {cure}")
    named = [*configs_named_by(arguments)]
    if absent := [file for file in named if not Path(file).exists() or Path(file).is_dir()]:
        raise TwinrunError("\n".join(map(_absence, absent)))
    is_named = _has(arguments, NAMES_CONFIG)
    if not is_named and (config := config_as_target(arguments)):
        raise TwinrunError(f"{config}: a config is named by --configfile {config}")
    folder = directory_in(arguments)
    if not is_named and not folder.is_dir():  # Snakemake would make it
        raise TwinrunError(
            f"{folder}: there is no such folder, whose {OWN} would say what is trained; make it "
            f"for the built-in studies, or name a config by --configfile"
        )
    unreadable = [file for file in (*own_config(folder), *named) if not is_readable(file)]
    # Snakemake would name neither the file nor the line; of what has no sentence here it has one.
    if said := [line for file in unreadable for line in mistakes_of(file)]:
        raise TwinrunError("\n".join(said))
    if note := note_on_config(is_named=is_named, folder=folder):
        print(note, file=sys.stderr, flush=True)
    sys.stdout.flush()
    snakemake = [sys.executable, "-c", SNAKEMAKE, f"twinrun {name}", *command(arguments)]
    os.execv(sys.executable, snakemake)  # noqa: S606


def words_behind(arguments: Sequence[str], is_option: Callable[[str], bool]) -> Iterator[str]:
    """Yield the words that Snakemake takes for an option's values: all up to the next option.

    >>> list(words_behind(["-C", "a=1", "all", "-n", "gate"], ["-C"].__contains__))
    ['a=1', 'all']
    """
    is_value = False
    for argument in arguments:
        name, _, value = argument.partition("=")
        if argument.startswith("-"):
            is_value = is_option(name)
            if is_value and value:
                yield value
        elif is_value:
            yield argument


def configs_named_by(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the words that Snakemake takes for config files.

    >>> list(configs_named_by(["matrix", "--configfile", "mine.yaml", "resume", "-n", "gate"]))
    ['mine.yaml', 'resume']
    >>> list(configs_named_by(["--configfiles=mine.yaml", "--config", "studies=[]"]))
    ['mine.yaml']
    """

    # As argparse has it, an option may be cut short; `--config` is one of its own.
    def names_files(option: str) -> bool:
        return option.startswith("--configf") and "--configfiles".startswith(option)

    return words_behind(arguments, names_files)


def config_as_target(arguments: Sequence[str]) -> str | None:
    """Return the YAML file that stands where targets do, if one does.

    >>> config_as_target(["--profile", "/dev/null", "all"])
    """
    for before, argument in zip(["", *arguments], arguments, strict=False):
        is_yaml = Path(argument).suffix in YAML
        # A word behind an option may be its value.
        if is_yaml and not before.startswith("-") and Path(argument).is_file():
            return argument
    return None


def _absence(file: str) -> str:
    (sentence,) = mistakes_of(file)
    if Path(file).suffix or Path(file).exists():
        return sentence
    return f"{sentence}; a target stands before --configfile, which takes every word after it"


def directory_in(arguments: Sequence[str]) -> Path:
    """Return the working directory that Snakemake is given, if it is given one.

    >>> directory_in(["-d", "mine", "-n"]), directory_in(["--directory=mine"]), directory_in(["-n"])
    (PosixPath('mine'), PosixPath('mine'), PosixPath('.'))
    """
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    parser.add_argument("--directory", "-d", type=Path, default=Path())
    try:
        return parser.parse_known_args(arguments)[0].directory
    except argparse.ArgumentError:  # Snakemake says what is wrong
        return Path()


def note_on_config(*, is_named: bool, folder: Path = Path()) -> str | None:
    """Say that the standard config counts alone, or that a file of another program does not.

    Args:
        is_named: whether another config is named.
        folder: where the config would be.
    """
    if own_config(folder):
        return None
    if (folder / OWN).is_file():
        left_out = f"{folder / OWN} is another program's, by its keys, and is left out"
        return left_out if is_named else f"{left_out}: {NEXT}"
    return None if is_named else f"There is no {folder / OWN} here: {NEXT}"


def command(arguments: Sequence[str]) -> list[str]:
    """Return Snakemake's arguments: those given, after what they leave open and the Snakefile.

    >>> command(["reproducibility", "-j4", "--quiet"])[-3:]
    ['reproducibility', '-j4', '--quiet']
    >>> command(["-n"])[:7]
    ['--quiet', 'rules', 'host', 'reason', '--cores', 'all', '--workflow-profile']
    """
    # First, as what follows wins; and in this order, as --quiet takes all words up to an option.
    added = [] if _has(arguments, HOW_LOUD) else ["--quiet", "rules", "host", "reason"]
    if not _has(arguments, WHERE) and "SNAKEMAKE_PROFILE" not in os.environ:
        added += ["--cores", "all"]
    if not _has(arguments, ("--workflow-profile",)):
        added += ["--workflow-profile", str(PROFILE)]
    return [*added, "--snakefile", str(SNAKEFILE), *arguments]


def _has(arguments: Sequence[str], options: Sequence[str]) -> bool:
    """Say whether one of some options is given, also as --opt=x, --op (argparse's way), or -j4."""
    names = [argument.partition("=")[0] for argument in arguments if argument.startswith("-")]
    return any(
        option.startswith(name) and len(name) > 3 if name.startswith("--") else name[:2] == option
        for name in names
        for option in options
    )
