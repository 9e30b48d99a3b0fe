"""The rehearsal of a config, from the side that starts it: what is rehearsed, and what is known.

One step of everything that the config's workloads do, in a process of its own before any job (see
`rehearsal`), meets in seconds what would otherwise be met inside the jobs. What has been rehearsed
is remembered in a small file, by a hash of the settings, the sources that they lead to, the
versions and the data's files, and not rehearsed again until one of these changes. What a module
reads or imports without naming it in the config is not among them. Does without torch.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from twinrun import artifacts
from twinrun.config.class_paths import code_of
from twinrun.config.memory import SIZES, Measured, write
from twinrun.config.schema_check import listed
from twinrun.config.settings import Settings
from twinrun.dataset_files import state_of
from twinrun.errors import JobError, TwinrunError
from twinrun.process.import_log import kept
from twinrun.process.imported_code import distributions_hash
from twinrun.process.job import say
from twinrun.process.launching import environment_of, launch
from twinrun.process.opened_entries import FOLDER, REHEARSAL
from twinrun.process.planned_code import hash_of_code
from twinrun.process.side_by_side import side_by_side
from twinrun.process.slurm import srun_of_job
from twinrun.training.files_left import left_behind, listing
from twinrun.training.rehearsal_plan import SEED, Part, Rehearsed, parts_of
from twinrun.wording import some

MEMORY = Path(".snakemake/twinrun/rehearsal.json")  # beside Snakemake's own memory of the folder
MOST_REMEMBERED = 500
MORE_MEMORY = (4, 16)  # times that of the first attempt: of the next one, and of the last
NO_MEMORY = "when memory runs out"  # see `forked.death` and `worker_process.failure_of`
# Not the part's own hash alone: a rehearsal that learns to see more must be done again.
MODULES = ("twinrun.training.rehearsal", "twinrun.training.start_rehearsal")


def rehearse(
    settings: Settings,
    search_path: Sequence[str],
    *,
    memory: Path = MEMORY,
    is_anew: bool = False,
    resources: Mapping[str, object] | None = None,
) -> list[Rehearsed]:
    """Rehearse the workloads of a config's studies, or remember that they were.

    Args:
        settings: the config's, resolved.
        search_path: folders with the user's own modules.
        memory: file with what was rehearsed before; written where there is no mistake.
        is_anew: rehearse what is remembered too, and look at the workloads' contract.
        resources: rehearse in a job of Slurm that asks for these, as the trainings are jobs there:
            where Snakemake was started may have no GPU, too little memory, or other versions. (A
            rule cannot do it: where one fails, Snakemake deletes its output, and all that was
            trained before would be trained again.)

    Raises:
        TwinrunError: with one line for each mistake, of all workloads.
    """
    parts = [replace(part, is_thorough=is_anew) for part in parts_of(settings, search_path)]
    remembered = {} if is_anew else _remembered(memory)
    # Keys are asked for late: they take the import of a user's modules (see `imported_code`).
    keys = {p.label: _key(p, settings, search_path, memory) for p in parts if remembered}
    waiting = [part for part in parts if keys.get(part.label) not in remembered]
    done: dict[str, Rehearsed] = {}
    for note in settings.notes if waiting else ():
        say(note)
    if waiting:
        say(f"Rehearsing one step of {_named(waiting)} (rehearsal: false leaves this out)")
        before = listing(Path())
        attempt = partial(_launched, waiting, settings, search_path, memory.parent)
        launched = _with_enough(attempt, resources)
        # Of the whole process: which of the parts wrote a file, nobody knows.
        for first in launched[:1]:
            first["notes"] += left_behind(_named(waiting), before, listing(Path()))
        done = {found["label"]: found for found in launched}
    mistakes = list(dict.fromkeys(m for found in done.values() for m in found["mistakes"]))
    if mistakes:
        raise TwinrunError(listed(mistakes, "met in the rehearsal, before any job"))
    if not is_anew:  # who asks for it anew is shown all there is
        for note in dict.fromkeys(note for found in done.values() for note in found["notes"]):
            say(f"Rehearsed: {note}")
    if waiting:
        keyed = {_key(part, settings, search_path, memory): done[part.label] for part in waiting}
        _remember(memory, keyed)
    found = [done.get(part.label) or remembered[keys[part.label]] for part in parts]
    _keep_sizes(found, memory.with_name(SIZES.name))
    return found


def _named(parts: Sequence[Part]) -> str:
    names = [part.label for part in parts if part.key.startswith("workloads.")]
    others = len(parts) - len(names)
    named = some(names) if names else "what changed"
    return f"{named} and of {others} of their trials and sizes" if others else named


def _with_enough(
    launched: Callable[[Mapping[str, object] | None], list[Rehearsed]],
    resources: Mapping[str, object] | None,
) -> list[Rehearsed]:
    """Ask for more memory where a job of Slurm had not enough: nothing has been measured yet."""
    if not resources or "mem_mb" not in resources:
        return launched(resources)
    first = int(str(resources["mem_mb"]))
    for times in MORE_MEMORY:
        try:
            found = launched(resources)
        except JobError as error:
            if NO_MEMORY not in str(error):
                raise
        else:
            if not any(NO_MEMORY in mistake for part in found for mistake in part["mistakes"]):
                return found
        resources = {**resources, "mem_mb": times * first}
        say(f"Rehearsing once more with {resources['mem_mb']} MB: memory ran out")
    return launched(resources)


def _launched(
    parts: Sequence[Part],
    settings: Settings,
    search_path: Sequence[str],
    shared: Path,
    resources: Mapping[str, object] | None,
) -> list[Rehearsed]:
    threads = parts[0].training.variant.threads
    names = {part.dataset for part in parts} - {None}
    command, root = [], None
    if resources is not None:
        command, root = srun_of_job(resources, name="rehearsal", threads=threads), shared
        shared.mkdir(parents=True, exist_ok=True)  # other machines see it, unlike /tmp
    with (
        tempfile.TemporaryDirectory(prefix="rehearsal-", dir=root) as folder,
        side_by_side(REHEARSAL, alone=False),
        _notes() as log,
    ):
        report = Path(folder, "report.json")
        launch(
            "twinrun.training.rehearsal:rehearse",
            {
                "parts": list(parts),
                "datasets": {name: settings.datasets[name] for name in names if name},
                "search_path": list(search_path),
                "report": str(report),
            },
            environment_of(seed=SEED, deterministic=False, threads=threads, further=log),
            command=command,
        )
        return artifacts.read_record(report, list[Rehearsed])


def _notes() -> AbstractContextManager[dict[str, str]]:
    """Have it note what it reads, for who finds what it makes; not where nothing can be written."""
    if not os.access(FOLDER, os.W_OK):
        return nullcontext(dict[str, str]())
    return kept(FOLDER / "rehearsed.json", "", goes_on=True)


def _keep_sizes(found: Sequence[Rehearsed], path: Path) -> None:
    """Keep what jobs ask for memory by: see `config.memory`."""
    kept = {
        part["label"]: Measured(
            sizes=part["sizes"], foreseen=part["foreseen"], steps_per_epoch=part["steps_per_epoch"]
        )
        for part in found
        if part["sizes"] and part["foreseen"] and part["key"] != "devices.size"
    }
    with suppress(OSError):  # a folder that cannot be written: the jobs say so themselves
        write(kept, path)


def _key(part: Part, settings: Settings, search_path: Sequence[str], memory: Path) -> str:
    """Hash what the outcome of a part rests on."""
    workload = part.training.workload
    dataset = settings.datasets.get(workload.dataset or "")
    users = code_of(workload)
    makers = [dataset.make.partition(":")[0]] if dataset and dataset.make else []
    imports = memory.with_name("imports.json")
    content = {
        # A dataset that the workflow makes is the same whether it has been made or not.
        **asdict(replace(part, is_thorough=False, dataset=None)),
        "training": asdict(replace(part.training, dataset=None, search_path=[])),
        # Its bytes may be too many to be hashed at each start.
        "data": [asdict(dataset), dataset.file and state_of(dataset.file)] if dataset else None,
        "code": [hash_of_code([*MODULES, *users], search_path, imports)]
        + [hash_of_code([maker], search_path, imports) for maker in makers],
        "versions": distributions_hash(),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _remembered(memory: Path) -> dict[str, Rehearsed]:
    try:
        return artifacts.read_record(memory, dict[str, Rehearsed])
    except (OSError, TwinrunError):  # none, or one of another version: rehearse
        return {}


def _remember(memory: Path, found: Mapping[str, Rehearsed]) -> None:
    kept = {**_remembered(memory), **found}
    last = dict(list(kept.items())[-MOST_REMEMBERED:])
    try:
        artifacts.write_record(memory, last, dict[str, Rehearsed])
    except OSError as error:  # a folder that cannot be written: the jobs say so themselves
        say(f"The rehearsal is not remembered: {error}")
