"""`twinrun init`: a config for a module of one's own, with the hyperparameters that it takes."""

import contextlib
import inspect
import shlex
import sys
import types
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytorch_lightning as pl
import torch
import yaml

from twinrun import artifacts
from twinrun.commands.check import why_it_fails
from twinrun.commands.own_loaders import brings_loader, check_made, without_loader
from twinrun.commands.workload_name import name_of, names_taken
from twinrun.config.config_files import surprise_of
from twinrun.config.definitions import FromRun, Workload
from twinrun.config.own_config import OWN
from twinrun.config.schema_check import plain
from twinrun.errors import TwinrunError
from twinrun.process.job import say
from twinrun.process.unmet_requirements import check_own
from twinrun.training.constructors import Parameters, given_otherwise
from twinrun.training.load_workload import (
    given_by_run,
    load_constructor,
    receiver,
    takers_of,
)
from twinrun.wording import shown

EPOCHS = 2  # enough for what happens at the end of an epoch, few enough to be trained in pairs
OBJECTS = (torch.nn.Module, torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler)

CONFIG = """\
# What Twinrun is asked to do. Every key, and the built-in studies that this is merged into:
# docs/config.md of Twinrun.
studies: [reproducibility]
workloads:
  {name}:
    module: {module}{data}
    epochs: {epochs}
    # Each goes to the constructor that has an argument of its name, to both if both have it.
    hyperparameters:{hyperparameters}{from_run}
reproducibility:
  workloads: [{name}]
"""

# By what the receiver calls the variant's data workers; None where it is not given them.
FROM_RUN = {
    "num_workers": """
    # Its own name for what the variants say, 0 by default.
    from_run: {data_workers: num_workers}""",
    None: """
    # With 0 data workers, which a run gives, it fails: it keeps its own number.
    from_run: {data_workers: null}""",
}


def init(module: str, data: str | None = None, *, file: Path = OWN) -> None:
    """Write a config for a LightningModule and its LightningDataModule; say what to do next.

    Args:
        module: import path of the LightningModule's class, from the working directory or installed.
        data: of the LightningDataModule's; None where the module brings its own loaders.
        file: where to write it.

    Raises:
        TwinrunError: if the file is there, one of the classes cannot be imported or is none, or the
            environment's Lightning or torch is no version that Twinrun works with.
    """
    check_own()
    if file.exists():
        raise TwinrunError(
            f"{file}: is there already; add the workload by hand, or name another file: "
            f"twinrun init --file mine.yaml ..."
        )
    say(f"Importing {' and '.join(filter(None, [module, data]))}")
    workload = Workload(module=module, data=data, dataset=None, hyperparameters={}, epochs=EPOCHS)
    here = [str(Path.cwd())]  # where modules are that are not installed; one may change it
    with contextlib.chdir("."), _no_arguments():
        constructor = load_constructor(workload, "module", pl.LightningModule, here)
        of_data = None
        if data is not None:
            of_data = load_constructor(workload, "data", pl.LightningDataModule, here)
    if data is None and brings_loader(constructor) is False:
        raise without_loader(module)
    takers = takers_of(workload, constructor, of_data)
    of_receiver = takers[receiver(workload)]
    if "num_workers" in of_receiver and "data_workers" not in of_receiver:
        workload = replace(workload, from_run=FromRun(data_workers="num_workers"))
    otherwise = given_otherwise(constructor) | given_otherwise(of_data or constructor)
    text, needed = _filled(workload, takers, otherwise)
    artifacts.write_text(file, text)
    workers = of_receiver.get(given_by_run(workload)["data_workers"])
    is_given = workers is not None and not _is_as_of_variants(workers)
    if is_given and not needed and why_it_fails(file):
        own, _ = _filled(replace(workload, from_run=FromRun(data_workers=None)), takers, otherwise)
        artifacts.write_text(file, own)
        if why_it_fails(file):  # not for want of workers
            artifacts.write_text(file, text)
    is_shown = all(map(inspect.isclass, filter(None, (constructor, of_data)))) and (
        data is not None or brings_loader(constructor)
    )
    if not needed and not is_shown:
        check_made(module, data, file)
    _say_next(file, needed)


def _filled(
    workload: Workload, takers: Mapping[str, Parameters], otherwise: Collection[str]
) -> tuple[str, list[str]]:
    """Return the config's text, and the names of the hyperparameters that have no default."""
    source, given = receiver(workload), given_by_run(workload)
    theirs = {
        path: _left(taken, given.values() if path == source else ())
        for path, taken in takers.items()
    }
    names = dict.fromkeys(name for taken in theirs.values() for name in taken)
    parameters = {
        name: {path: taken[name] for path, taken in theirs.items() if name in taken}
        for name in names
    }
    text = CONFIG.format(
        name=name_of(workload.module, names_taken()),
        module=workload.module,
        data=f"\n    data: {workload.data}" if workload.data else "",
        epochs=EPOCHS,
        hyperparameters=_block(parameters, otherwise, _replaced(given, source, takers[source])),
        from_run=FROM_RUN.get(given.get("data_workers"), ""),
    )
    asked = {name: of for name, of in parameters.items() if name not in otherwise}
    return text, [name for name, of in asked.items() if any(map(_is_needed, of.values()))]


def _say_next(file: Path, needed: Collection[str]) -> None:
    if needed:
        print(f"{file} is written. Give these hyperparameters a value there: {', '.join(needed)}")
    else:
        print(f"{file} is written, with the defaults of the constructors.")
    quoted = shlex.quote(str(file))
    check, run = ("", "") if file == OWN else (f" {quoted}", f" --configfile {quoted}")
    print(f"Next: twinrun check{check} (takes one step), then twinrun run{run} (the report)")


@contextlib.contextmanager
def _no_arguments() -> Iterator[None]:
    """Keep the command line from modules that parse one when they are imported, as a run does."""
    given = sys.argv[1:]
    del sys.argv[1:]
    try:
        yield
    finally:
        sys.argv[1:] = given


def _left(taken: Parameters, of_run: Collection[str]) -> Parameters:
    """Leave out what the run gives, and `**kwargs`."""
    return {n: p for n, p in taken.items() if p.kind is not p.VAR_KEYWORD and n not in of_run}


def _is_needed(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty


def _block(
    parameters: Mapping[str, Parameters], otherwise: Collection[str], replaced: Iterable[str]
) -> str:
    lines = [line for n, of in parameters.items() for line in _lines(n, of, n in otherwise)]
    # Without any, null would be read: `hyperparameters:` above comments alone is an empty mapping.
    return "".join(f"\n      {line}" for line in [*lines, *replaced]) or " {}"


def _lines(name: str, of: Parameters, is_otherwise: bool) -> Iterator[str]:
    """Yield what a config says of a hyperparameter, by the constructors that take it."""
    said = {path: _said(parameter) for path, parameter in of.items()}
    parameter = next(iter(of.values()))
    if len({_written(name, one) for one in of.values()}) > 1:
        both = ", ".join(
            f"{what} {'by' if what == 'needed' else 'of'} {path}" for path, what in said.items()
        )
        yield f"# {name}: ...  # {both}; a value given here goes to both"
    elif is_otherwise:
        of_base = "" if _is_needed(parameter) else f", {_said(parameter)} of its base class"
        yield f"# {name}: ...  # what the class itself makes of its **kwargs{of_base}"
    elif _is_needed(parameter):
        kind = parameter.annotation
        is_object = inspect.isclass(kind) and issubclass(kind, OBJECTS)
        form = "{class_path: ..., init_args: {...}}" if is_object else "..."
        typed = "" if kind is parameter.empty else f", {_annotation(kind)}"
        yield f"# {name}: {form}  # needed{typed}"
    else:
        yield _written(name, parameter)


def _annotation(given: object) -> str:
    # Some annotate with a module, torch.optim.lr_scheduler say: its text is a path of this machine.
    return (
        given.__name__ if isinstance(given, types.ModuleType) else inspect.formatannotation(given)
    )


def _written(name: str, parameter: inspect.Parameter) -> str:
    """Return a hyperparameter with its default, as a config has it."""
    if _is_needed(parameter):
        return f"# {name}: needed"
    if not _is_plain(parameter.default):  # YAML has no such value; its constructor does
        return f"# {name}: ...  # its default, which is no plain value of YAML"
    given = {name: parameter.default}
    flow = yaml.dump(
        given, Dumper=_Dumper, default_flow_style=True, allow_unicode=True, width=10**9
    )
    return flow.strip().removeprefix("{").removesuffix("}")


def _said(parameter: inspect.Parameter) -> str:
    if _is_needed(parameter):
        return "needed"
    return shown(parameter.default) if _is_plain(parameter.default) else "a default"


def _replaced(given: Mapping[str, str], path: str, taken: Parameters) -> Iterator[str]:
    """Yield a comment for each default that the run's own values replace.

    Args:
        given: names of arguments, by what the run gives as them.
        path: of the constructor that takes them.
        taken: its parameters.
    """
    for what, name in given.items():
        # 0 workers are what the variants say.
        if name in taken and not _is_as_of_variants(taken[name]):
            yield (
                f"# {name}: from the run, in place of {_said(taken[name])} of {path}; "
                f"from_run: {{{what}: null}} keeps that"
            )


def _is_as_of_variants(parameter: inspect.Parameter) -> bool:
    """Say whether nothing is replaced: by default the variants say 0 data workers."""
    return _said(parameter) in ("needed", "0")


class _Dumper(yaml.SafeDumper):
    """Puts the texts in quotation marks that a config may not have without, and names nothing."""

    def ignore_aliases(self, data: object) -> bool:
        """Write a list that a default holds twice two times, not once and by a name."""
        return True


def _text(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    node = dumper.represent_str(value)
    if surprise_of(node, True):
        node.style = '"'
    return node


_Dumper.add_representer(str, _text)


def _is_plain(value: object) -> bool:
    """Say whether a config can hold a value, and gives it back as it was."""
    try:
        return yaml.safe_load(yaml.safe_dump(plain(value, []))) == value and _is_exact(value)
    except (yaml.YAMLError, TwinrunError):
        return False


def _is_exact(value: object) -> bool:
    """Say whether a value is of YAML's own classes: an OrderedDict would come back as a dict."""
    if type(value) is dict:
        return all(map(_is_exact, (*value.keys(), *value.values())))
    if type(value) is list:
        return all(map(_is_exact, value))
    return type(value) in (bool, int, float, str, type(None))
