"""A workload that is a config of LightningCLI, `cli: train.yaml`, written out as one of ours.

Module, data module and the Trainer's arguments come from the file; what a variant says is left to
the variants where that changes nothing of what is trained, and refused by name where it may. What
the file says is a part of the workload's settings: a run is made again when it changes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twinrun.config.config_files import why_unreadable
from twinrun.config.definitions import Section
from twinrun.config.lightning_files import ENDS, SECTIONS, loaded
from twinrun.config.schema_check import plain
from twinrun.wording import shown, suggestion

SHORT = ("optimizer", "lr_scheduler")  # whose classes may be named without their package
# Of the command, not of the training; a config that LightningCLI has saved holds them.
OF_COMMAND = ("seed_everything", "verbose", "weights_only", "weights_only_restore")
# Lightning's own defaults, which a saved config holds too; any other value of these would matter.
DEFAULTS: dict[str, tuple[object, ...]] = {
    "devices": ("auto", 1, -1, "1"),
    "num_nodes": (1,),
    "strategy": ("auto",),
    "precision": (None, "32-true", "32", 32),
    "fast_dev_run": (False, 0),
    "max_steps": (-1, None),
    "overfit_batches": (0.0, 0),
    "check_val_every_n_epoch": (1,),
    "accumulate_grad_batches": (1,),
    "inference_mode": (True,),
    "enable_model_summary": (None, True),
    "detect_anomaly": (False,),
    "barebones": (False,),
    "sync_batchnorm": (False,),
    "reload_dataloaders_every_n_epochs": (0,),
    "benchmark": (None, False),
    "callbacks": (None, []),
    "logger": (None, True, False),
}
# What says how it is trained, shown or kept, and nothing of what is trained.
LEFT = (
    *("accelerator", "deterministic", "enable_progress_bar"),
    *("enable_checkpointing", "default_root_dir", "log_every_n_steps"),
    *("use_distributed_sampler", "enable_autolog_hparams", "profiler", "model_registry"),
)
OF_LIGHTNING = {"num_sanity_val_steps": 2}  # its default, where a workload's own is another
MISSING = {"module": "missing:Missing", "epochs": 1}  # of a mistake that has been said
IN_VALUES = "${"  # for which OmegaConf, where it is used, puts another value


@dataclass(kw_only=True)
class WrittenOut:
    """A config with each file of LightningCLI in the place of its name."""

    config: dict[str, Any]
    """The config."""
    commands: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What only a file of LightningCLI says, by the workload."""
    mistakes: list[str] = field(default_factory=list)
    """A sentence each."""
    notes: list[str] = field(default_factory=list)
    """What is left to the variants."""


def written_out(config: Section, schema: Section) -> WrittenOut:
    """Return a config with the workloads that its files of LightningCLI make.

    Args:
        config: as read from YAML; nothing of it has been checked.
        schema: of the config: which arguments of the Trainer a workload takes.
    """
    workloads = config.get("workloads")
    found = WrittenOut(config=dict(config))
    named = workloads.items() if isinstance(workloads, Mapping) else ()
    those = {k: v for k, v in named if isinstance(v, Mapping)}
    for name, workload in those.items():
        if isinstance(several := workload.get("cli"), list):
            found.mistakes.append(f"workloads.{name}.cli: {_as_one(several)}")
            workloads = found.config["workloads"]
            found.config["workloads"] = {**workloads, name: {**MISSING, **workload, "cli": None}}
    files = {k: v for k, v in those.items() if isinstance(v.get("cli"), str)}
    for name, workload in files.items():
        key = f"workloads.{name}.cli: {workload['cli']}"
        given: dict[str, Any] = {}
        try:
            given = loaded(workload["cli"])
            odd = [*_odd(given, workload["cli"])]
        except Exception as error:  # of YAML, of the file system
            is_named_so = Path(workload["cli"]).suffix in ENDS
            hint = "" if is_named_so else "; `cli` is a YAML file, and code is named as `module`"
            odd = [f"{why_unreadable(error)}{hint}"]
        if odd:
            found.mistakes += [f"{key}: {text}" for text in odd]
            # Of what the file would have said nothing is missing.
            made = {**MISSING, **workload}
            found.config["workloads"] = {**found.config["workloads"], name: made}
            continue
        of_workload = schema["properties"]["workloads"]["additionalProperties"]["properties"]
        reader = _Reader(given, dict(workload), of_workload["trainer"])
        made = reader.workload()
        found.mistakes += [f"{key}: {text}" for text in reader.mistakes]
        if reader.left:
            left = ", ".join(f"{k}: {shown(v)}" for k, v in reader.left.items())
            found.notes.append(f"{key}: left to the variants: {left}")
        found.notes += [f"{key}: {text}" for text in reader.unread()]
        found.commands[name] = plain(reader.command, ["workloads", str(name), "cli"])
        found.config["workloads"] = {**found.config["workloads"], name: made}
    return found


def _as_one(files: Sequence[object], target: str = "train.yaml") -> str:
    """Say how several files become one: only LightningCLI knows what one leaves of another."""
    united = " ".join(["python main.py fit", *(f"--config {file}" for file in files)])
    return f"one file is needed; your command makes it: {united} --print_config > {target}"


def _odd(given: dict[str, Any], file: str) -> Iterator[str]:
    """Yield a sentence for each section that is of no shape that LightningCLI writes.

    Of a file that names another one, nobody knows what is missing.
    """
    if given.get("config"):
        yield (
            f"config: {shown(given['config'])} is read before it by your command, and "
            f"{_as_one([file], 'united.yaml')}"
        )
        return
    for key in SECTIONS:
        value = given.get(key)
        if isinstance(value, Mapping):
            arguments = ("init_args", "dict_kwargs") if "class_path" in value else ()
            for name in arguments:
                if not isinstance(value.get(name), Mapping | None):
                    yield f"{key}.{name}: {shown(value[name])} is no mapping of arguments"
        elif value is not None and key == "trainer":
            yield f"trainer: {shown(value)} is no mapping of arguments"
        elif not isinstance(value, str | None):
            yield f"{key}: {shown(value)} names no class; write class_path: package.Class"


class _Reader:
    """Makes a workload of one file."""

    def __init__(self, given: dict[str, Any], own: dict[str, Any], trainer: Section) -> None:
        self.mistakes: list[str] = []
        self.left: dict[str, Any] = {}
        self.command: dict[str, Any] = {"file": own["cli"], "of_one_class": []}
        self._given, self._own, self._trainer = given, own, trainer

    def workload(self) -> dict[str, Any]:
        """Return the workload; what its entry in the config says goes before the file."""
        for key, value in self._given.items():
            self._look_at(key, value)
        self.mistakes += [
            f"{key}: {shown(text)} is filled in where a command reads its files with OmegaConf, "
            f"and stays as it is elsewhere, which the file does not say; write the value"
            for key, text in _texts(self._given)
            if IN_VALUES in text
        ]
        made = {**self._own}
        for key, target in (("model", "module"), ("data", "data")):
            self._take_class(key, target, made)
        for key in ("optimizer", "lr_scheduler"):
            self.command[key] = self._object(key)
        if self.command["lr_scheduler"] and not self.command["optimizer"]:
            self.mistakes.append("lr_scheduler: has no effect without optimizer")
        trainer = self._given.get("trainer") or {}
        epochs = trainer.get("max_epochs")
        if epochs is not None:
            made = {"epochs": epochs, **made}
        elif "epochs" not in made and trainer.get("max_steps") in (None, -1):
            self.mistakes.append(
                "trainer.max_epochs: is missing; say it there, or as `epochs` beside `cli`"
            )
        made = {**MISSING, **made}
        told = {**OF_LIGHTNING, **dict(self._arguments(trainer))}
        own = self._own.get("trainer") or {}
        # Of another type it is refused where all keys are.
        made["trainer"] = {**told, **own} if isinstance(own, Mapping) else own
        return made

    def unread(self) -> Iterator[str]:
        """Say what the command may say that the file does not."""
        trainer = self._given.get("trainer") or {}
        if not self._trainer["properties"].keys() <= trainer.keys():
            yield (
                "what your command says in its own code (trainer_defaults, set_defaults) is not "
                "read; --print_config writes a file with all of it but links and callbacks"
            )
        elif not trainer["callbacks"]:
            yield (
                "callbacks that your command has in its own code (trainer_defaults) are in no "
                "file; name them as trainer.callbacks"
            )

    def _look_at(self, key: str, value: object) -> None:
        if key == "ckpt_path" and value is not None:
            self.mistakes.append("ckpt_path: a run starts from its seed; leave it out")
        elif key not in (*SECTIONS, *OF_COMMAND, "ckpt_path", "config"):
            self.mistakes.append(
                f"{key}: is no key of LightningCLI, but of a class derived from it, which is not "
                f"asked; name the classes as `module` and `data`, with `hyperparameters`"
            )

    def _take_class(self, key: str, target: str, made: dict[str, Any]) -> None:
        """Take a class and its arguments; a command of one class names the arguments alone."""
        given = self._given.get(key)
        if given is None or isinstance(given, str) or "class_path" in given:
            found = self._object(key) or {}
            self.command[key] = {**found.get("init_args", {}), **found.get("dict_kwargs", {})}
            if found and target in made:
                self.mistakes.append(f"{key}: its class stands in `{target}` too; leave that out")
            elif found:
                package, _, name = found["class_path"].rpartition(".")
                made[target] = f"{package}:{name}"
            elif target in made:
                self.command["of_one_class"].append(target)
            elif key == "model" and given is None:
                self.mistakes.append("model: is missing")
            return
        self.command[key] = given
        self.command["of_one_class"].append(target)
        if target not in made:
            self.mistakes.append(
                f"{key}: names no class_path, as the command has one class; name it beside `cli`, "
                f"as `{target}: package.module:Class`"
            )

    def _object(self, key: str) -> dict[str, Any] | None:
        """Return what is made by class path, in full."""
        given = self._given.get(key)
        if given is None:
            return None
        found = {"class_path": given} if isinstance(given, str) else given
        path = found.get("class_path") if isinstance(found, dict) else None
        # Of torch's and Lightning's own, jsonargparse finds the package, as in LightningCLI.
        is_short = isinstance(path, str) and path.isidentifier() and key in SHORT
        if not is_short and (not isinstance(path, str) or "." not in path or ":" in path):
            meant = path.replace(":", ".") if isinstance(path, str) and ":" in path else ""
            self.mistakes.append(
                f"{key}: {shown(path or given)} names no class; write class_path: "
                f"{meant or 'package.Class'}"
            )
            return None
        return found

    def _arguments(self, trainer: Section) -> Iterator[tuple[str, Any]]:
        """Yield the Trainer's arguments that a workload has."""
        known, instead, without = (
            self._trainer[key] for key in ("properties", "x-instead", "x-without")
        )
        for key, value in trainer.items():
            if key == "logger" and value is True:  # the default one
                self.left[key] = value
            elif key == "max_epochs" or any(value is d or value == d for d in _usual(key)):
                continue
            elif key in known:
                is_one = key == "callbacks" and not isinstance(value, list)
                yield key, [value] if is_one else value
            elif key in LEFT:
                self.left[key] = value
            else:
                slip = suggestion(key, [*known, "max_epochs"], list_all=False)
                meant = "" if key in without else slip
                why = f"is {instead[key]}" if key in instead else f"is not taken{meant}"
                reason = f": {without[key]}" if key in without else ""
                self.mistakes.append(
                    f"trainer.{key}: {shown(value)} {why}; leave it out of the file{reason}"
                )


def _usual(key: str) -> tuple[object, ...]:
    return DEFAULTS.get(key, (None,))


def _texts(value: object, key: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _texts(item, f"{key}.{name}".lstrip("."))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, f"{key}.{index}")
    elif isinstance(value, str):
        yield key, value
