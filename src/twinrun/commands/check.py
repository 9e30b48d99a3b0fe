"""`twinrun check`: read, check and rehearse a config; start nothing."""

from collections.abc import Sequence
from pathlib import Path

from twinrun.commands.start_snakemake import note_on_config
from twinrun.config.config_files import module_folders
from twinrun.config.own_config import own_config
from twinrun.config.settings import Settings, resolve
from twinrun.config.shipped import SCHEMA
from twinrun.config.with_standard import merged
from twinrun.errors import TwinrunError
from twinrun.formatting import plural, size_in_bytes
from twinrun.process.gpus import count_gpus
from twinrun.process.job import say
from twinrun.training.rehearsal_plan import Rehearsed
from twinrun.training.remedies import WITHOUT_WORKERS
from twinrun.training.start_rehearsal import rehearse


def check_config(files: Sequence[str | Path]) -> None:
    """Check config files as the Snakefile does, rehearse their workloads, print what was seen.

    Args:
        files: as of `snakemake --configfile`; by default the user's own, if there is one.

    Raises:
        TwinrunError: with one line for each mistake.
    """
    if note := note_on_config(is_named=bool(files)):
        say(note)
    files = [*own_config(), *files]
    settings = _resolved(files)
    if not settings.config["rehearsal"]:
        for said in settings.notes:
            say(said)
        print("The config is right. Its workloads were not rehearsed (rehearsal: false).")
        return
    # Anew: who asks wants to see it, remembered or not.
    found = rehearse(settings, module_folders(files), is_anew=True)
    for part in found:
        # Of trials and sizes, which differ in little, only what is to be known.
        if part["key"].startswith("workloads.") or part["notes"]:
            print("\n".join(lines_of(part)))
    stepped = [part for part in found if part["sizes"]]
    names = [part["label"] for part in stepped if part["key"].startswith("workloads.")]
    if others := len(stepped) - len(names):
        print(f"{others} of their trials and sizes took a step too.")
    seen = {part["key"] for part in found}
    unseen = [name for name in settings.active_workloads() if f"workloads.{name}" not in seen]
    for name in unseen:
        print(f"{name}: not rehearsed, since none of its variants can run on this machine")
    if not found:
        for said in settings.notes:  # else said by the rehearsal
            say(said)
        print("The config is right. Nothing of it can run on this machine.")
        return
    # By name: a config may hold workloads that no study trains.
    print(f"The config is right. Rehearsed to a step: {', '.join(names) or 'none'}.")


def why_it_fails(file: Path) -> str:
    """Say why a config that was just written fails in its rehearsal; nothing if it does not.

    So does one of which a test or a prediction fails for want of data workers: a training stands
    without, but not by a choice of Twinrun's.
    """
    files = [*own_config(), file]
    try:
        found = rehearse(_resolved(files), module_folders(files))
    except TwinrunError as error:
        return str(error)
    return "\n".join(n for part in found for n in part["notes"] if WITHOUT_WORKERS in n)


def _resolved(files: Sequence[str | Path]) -> Settings:
    config, mistakes = merged(files)
    return resolve(config, SCHEMA, gpus=count_gpus(), mistakes=mistakes)


def lines_of(part: Rehearsed) -> list[str]:
    """Say what was seen of a workload.

    >>> sizes = {"parameters": 49, "parameters_bytes": 204, "optimizer_bytes": 0}
    >>> sizes |= {"batch_bytes": 320, "peak_memory_mb": 412, "loader_workers": 6}
    >>> found = {"label": "mine", "sizes": sizes, "steps_per_epoch": 5, "notes": []}
    >>> print("\\n".join(lines_of({**found, "logged": ["loss"], "seconds": 0.21})))
    mine: 5 steps an epoch; logs loss
      49 parameters (204 bytes), optimizer 0 bytes, a batch 320 bytes; 412 MiB of memory in all
      and beside it 6 data workers, which the loaders start by themselves
    """
    logged = ", ".join(part["logged"]) or "nothing"
    count = part["steps_per_epoch"]
    steps = "a stream of steps" if count is None else plural(count, "step")
    lines = [f"{part['label']}: not rehearsed to a step"]
    if sizes := part["sizes"]:
        lines = [f"{part['label']}: {steps} an epoch; logs {logged}"]
        parameters, optimizer, batch = (
            size_in_bytes(sizes[key])
            for key in ("parameters_bytes", "optimizer_bytes", "batch_bytes")
        )
        lines.append(
            f"  {sizes['parameters']:,} parameters ({parameters}), optimizer {optimizer}, a batch "
            f"{batch}; {sizes['peak_memory_mb']:,} MiB of memory in all"
        )
        if number := sizes["loader_workers"]:
            workers = plural(number, "data worker")
            lines.append(f"  and beside it {workers}, which the loaders start by themselves")
    return [*lines, *(f"  note: {note}" for note in part["notes"])]
