"""`twinrun init`: a config for a module of one's own, with the hyperparameters that it takes."""

import contextlib
import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytorch_lightning as pl
import yaml

from twinrun import artifacts
from twinrun.config.config_files import surprise_of
from twinrun.config.definitions import Workload
from twinrun.config.own_config import OWN
from twinrun.config.schema_check import plain
from twinrun.errors import TwinrunError
from twinrun.process.job import say
from twinrun.training.load_workload import (
    given_by_run,
    load_constructor,
    receiver,
    takers_of,
)

EPOCHS = 2  # enough for what happens at the end of an epoch, few enough to be trained in pairs

CONFIG = """\
# What Twinrun is asked to do. Every key, and the built-in studies that this is merged into:
# docs/config.md of Twinrun.
studies: [reproducibility]
workloads:
  {name}:
    module: {module}{data}
    epochs: {epochs}
    # Each goes to the constructor that has an argument of its name.
    hyperparameters:{hyperparameters}{from_run}
reproducibility:
  workloads: [{name}]
"""

FROM_RUN = """
    # Its own name for what the variants say, 0 by default.
    from_run: {data_workers: num_workers}"""


def init(module: str, data: str | None = None, *, file: Path = OWN) -> None:
    """Write a config for a LightningModule and its LightningDataModule; say what to do next.

    Args:
        module: import path of the LightningModule's class, from the working directory or installed.
        data: of the LightningDataModule's; None where the module brings its own loaders.
        file: where to write it.

    Raises:
        TwinrunError: if the file is there, or one of the classes cannot be imported or is none.
    """
    if file.exists():
        raise TwinrunError(
            f"{file}: is there already; add the workload by hand, or name another file: "
            f"twinrun init --file mine.yaml ..."
        )
    say(f"Importing {' and '.join(filter(None, [module, data]))}")
    workload = Workload(module=module, data=data, dataset=None, hyperparameters={}, epochs=EPOCHS)
    here = [str(Path.cwd())]  # where modules are that are not installed; one may change it
    with contextlib.chdir("."):
        constructor = load_constructor(workload, "module", pl.LightningModule, here)
        of_data = None
        if data is not None:
            of_data = load_constructor(workload, "data", pl.LightningDataModule, here)
    if data is None and not brings_loader(constructor):
        raise TwinrunError(
            f"{module} has no train_dataloader; name what has one too, the LightningDataModule: "
            f"twinrun init {module} package.module:Class"
        )
    takers = takers_of(workload, constructor, of_data)
    source, of_run = receiver(workload), [*given_by_run(workload).values()]
    if is_theirs := "num_workers" in takers[source] and "data_workers" not in takers[source]:
        of_run.append("num_workers")
    parameters = {
        name: parameter
        for path, taken in takers.items()
        for name, parameter in taken.items()
        if parameter.kind is not parameter.VAR_KEYWORD and not (path == source and name in of_run)
    }
    text = CONFIG.format(
        name=name_of(module),
        module=module,
        data=f"\n    data: {data}" if data else "",
        epochs=EPOCHS,
        hyperparameters=_block(parameters),
        from_run=FROM_RUN if is_theirs else "",
    )
    artifacts.write_text(file, text)
    needed = [name for name, parameter in parameters.items() if _is_needed(parameter)]
    if needed:
        print(f"{file} is written. Give these hyperparameters a value there: {', '.join(needed)}")
    else:
        print(f"{file} is written, with the defaults of the constructors.")
    check, run = ("", "") if file == OWN else (f" {file}", f" --configfile {file}")
    print(f"Next: twinrun check{check} (takes one step), then twinrun run{run} (the report)")


def brings_loader(constructor: object) -> bool:
    """Say whether a module's class has a training loader; of a function nobody knows."""
    base = pl.LightningModule.train_dataloader
    return getattr(constructor, "train_dataloader", None) is not base


def name_of(module: str) -> str:
    """Return the name of a workload for an import path, as a config may have it.

    >>> name_of("package.models:MyBERTModule")
    'my-bert-module'
    """
    words = re.sub(r"([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])", r"\1\3-\2\4", module.partition(":")[2])
    return re.sub("[._]", "-", words).strip("-").lower()


def _is_needed(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty


def _block(parameters: Mapping[str, inspect.Parameter]) -> str:
    lines = [line for name, parameter in parameters.items() for line in _lines(name, parameter)]
    if not any(not line.startswith("#") for line in lines):
        return "".join([" {}", *(f"\n      {line}" for line in lines)])
    return "".join(f"\n      {line}" for line in lines)


def _lines(name: str, parameter: inspect.Parameter) -> Iterator[str]:
    if _is_needed(parameter):
        kind = inspect.formatannotation(parameter.annotation)
        is_typed = parameter.annotation is not parameter.empty
        yield f"# {name}: ...  needed{f', {kind}' if is_typed else ''}"
    elif _is_plain(parameter.default):
        given = {name: parameter.default}
        flow = yaml.dump(given, Dumper=_Dumper, default_flow_style=True, width=10**9)
        yield flow.strip().removeprefix("{").removesuffix("}")
    else:  # YAML has no such value; its constructor does
        yield f"# {name}: its default, which YAML cannot say"


class _Dumper(yaml.SafeDumper):
    """Puts the texts in quotation marks that a config may not have without."""


def _text(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    node = dumper.represent_str(value)
    if surprise_of(node, True):
        node.style = '"'
    return node


_Dumper.add_representer(str, _text)


def _is_plain(value: object) -> bool:
    """Say whether a config can hold a value, and gives it back as it was."""
    try:
        return yaml.safe_load(yaml.safe_dump(plain(value, []))) == value
    except (yaml.YAMLError, TwinrunError):
        return False
