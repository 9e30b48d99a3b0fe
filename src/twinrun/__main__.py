"""The command `twinrun`: python -m twinrun.

    twinrun init my_model:MyModule my_data:MyData     write a config for a module of one's own
    twinrun check [mine.yaml]                         check and rehearse it; start nothing
    twinrun run [targets and options of snakemake]    Snakemake, with Twinrun's workflow

Exit code 0 where all went well, 1 with one line for each mistake; of `run`, `report` and `gate`
Snakemake's own.
"""

import argparse
import importlib.metadata
import io
import sys
from collections.abc import Sequence
from pathlib import Path

from twinrun.errors import TwinrunError, sentence_of

# Each with the targets of Snakemake that it asks for.
STARTED = {
    "run": ([], "run Snakemake with Twinrun's workflow: its targets, its options"),
    "report": (["results/report.html"], "the same, with the report as its target"),
    "gate": (["gate"], "the same, with the gate as its target: fail unless `require` holds"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    if arguments is None:
        _write_utf8()
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    try:
        for argument in arguments:
            _check_letters(argument)
        # Not by argparse: what follows is Snakemake's, in Snakemake's order.
        if arguments and arguments[0] in STARTED:
            from twinrun.commands.start_snakemake import start

            targets, _ = STARTED[arguments[0]]
            start([*targets, *arguments[1:]], arguments[0])
        given = _parser().parse_args(arguments)
        given.act(given)
    except (TwinrunError, OSError) as error:  # OSError: a folder that cannot be written
        print(sentence_of(error), file=sys.stderr)
        return 1
    return 0


def _write_utf8() -> None:
    """Write UTF-8 whatever the locale, as the lines that jobs say are written."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="surrogateescape")


def _check_letters(argument: str) -> None:
    """Refuse what names no file and no module in any file that is written.

    Raises:
        TwinrunError: for letters that Python could not read.
    """
    try:
        argument.encode()
    except UnicodeEncodeError:
        raise TwinrunError(
            f"{argument}: has letters that the encoding {sys.getfilesystemencoding()} of this "
            f"shell's locale does not have; set LC_ALL=C.UTF-8 or PYTHONUTF8=1"
        ) from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="twinrun", description="Does training repeat?")
    version = importlib.metadata.version("twinrun")
    parser.add_argument("--version", action="version", version=f"twinrun {version}")
    commands = parser.add_subparsers(required=True, metavar="command")
    init = commands.add_parser("init", help="write config/config.yaml for a module of your own")
    init.add_argument("module", help="import path of a LightningModule: package.module:Class")
    init.add_argument(
        "data", nargs="?", help="of a LightningDataModule; none where the module brings its loaders"
    )
    init.add_argument("--file", type=Path, help="another file than config/config.yaml")
    init.set_defaults(act=_init)
    check = commands.add_parser("check", help="check and rehearse a config; start nothing")
    check.add_argument(
        "config", nargs="*", help="files as of snakemake --configfile, united into the standard one"
    )
    check.add_argument("--configfile", nargs="+", default=[], help="the same, as of twinrun run")
    check.set_defaults(act=_check)
    for name, (_, described) in STARTED.items():
        commands.add_parser(name, help=described, add_help=False)
    path = commands.add_parser("path", help="print where the Snakefile is, for snakemake -s")
    path.set_defaults(act=_path)
    return parser


# Imported by whom they serve: `run` and `path` need no torch, and start at once.


def _init(given: argparse.Namespace) -> None:
    from twinrun.commands.init import init

    init(given.module, given.data, **({"file": given.file} if given.file else {}))


def _check(given: argparse.Namespace) -> None:
    from twinrun.commands.check import check_config

    check_config([*given.config, *given.configfile])


def _path(_: argparse.Namespace) -> None:
    from twinrun.commands.start_snakemake import SNAKEFILE

    print(SNAKEFILE)


if __name__ == "__main__":
    sys.exit(main())
