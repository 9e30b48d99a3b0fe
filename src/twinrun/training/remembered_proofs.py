"""Proofs of fast steps, remembered: one serves all runs and timings that it holds for.

A proof takes half a minute and says nothing of a seed: it compares two forms of one step.
So it is kept in a small file, beside Snakemake's own memory of the folder, under a hash of all that
it rests on: workload, settings, the dataset's bytes, Twinrun's code, versions, machine, inherited
environment variables. The user's code is hashed beside it, file by file as the proof's process
imported it, and looked at again, and so are the files that it has read. Where any of these has
changed, steps are proven anew. A refusal is not remembered: what failed may have been the machine.

It cannot see data that a library opens by itself, nor files that are executed without an import.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TypedDict

import msgspec

from twinrun import artifacts, dataset_files
from twinrun.acceleration.steps import is_fast
from twinrun.config.definitions import Training
from twinrun.errors import JobError, TwinrunError
from twinrun.process import environment
from twinrun.process.cached_sources import held_by_this_job
from twinrun.process.imported_code import Imported, changed_since
from twinrun.process.planned_code import hash_beside
from twinrun.process.read_files import changed
from twinrun.process.source_hash import sources_hash
from twinrun.proof_records import Proof
from twinrun.training.prove import provable
from twinrun.training.prove_apart import prove_apart

MEMORY = Path(".snakemake/twinrun/proofs")
MOST_REMEMBERED = 500


class Remembered(TypedDict):
    """A proof as it is kept."""

    proof: Proof
    """What was found."""
    code: Imported
    """The user's modules that its processes had imported."""
    beside: str
    """Hash of the names of the modules beside them, of which one may be new."""
    read: dict[str, str]
    """What the files held that these processes, and the job, had read: see `read_files.held`."""


def proof_of(training: Training, memory: Path | None = None) -> Proof:
    """Return the proof of a training's fast steps: the remembered one, or a new one.

    Args:
        training: its seed does not matter.
        memory: a folder; by default one beside Snakemake's own, and none where there is no such.

    Raises:
        TwinrunError: if the steps are not what the plain ones are; see `prove_apart`.
    """
    if memory is None:
        memory = MEMORY if MEMORY.parts and Path(MEMORY.parts[0]).is_dir() else None
    if memory is None:
        return prove_apart(training)[0]
    key = key_of(training)
    file = memory / f"{key}.json"
    # Runs that start at once wait for the first of them, instead of proving the same side by side.
    with _locked(file.with_suffix(".lock")):
        known = _read(file)
        if known is not None and _is_of_now(known, training.search_path):
            return {**known["proof"], "is_remembered": True}
        made, code = prove_apart(training)
        proof: Proof = {**made, "key": key}
        beside = hash_beside(code, training.search_path)
        _write(file, {"proof": proof, "code": code, "beside": beside, "read": held_by_this_job()})
    return proof


def _is_of_now(known: Remembered, search_path: Sequence[str]) -> bool:
    """Say whether the user's modules, and the files that they read, are those of a proof."""
    is_beside = known["beside"] == hash_beside(known["code"], search_path)
    return is_beside and not (changed_since(known["code"]) or changed(known["read"]))


def proven(training: Training) -> tuple[Proof | None, str | None]:
    """Prove a run's fast steps; return the proof, or how the run ends that is refused.

    Both are None for steps that are not fast. Of several workers the first proves for all.

    Raises:
        TwinrunError: for several workers, if the proof fails: they cannot end in a result.
        JobError: if the device is missing.
    """
    if not is_fast(training.variant) or int(os.environ.get("RANK", "0")):
        return None, None
    try:
        return proof_of(training), None
    except JobError:
        raise
    except TwinrunError as error:
        if training.variant.devices > 1:
            raise
        traceback.print_exc()
        return None, f"refused: {error}"


def key_of(training: Training) -> str:
    """Hash what a proof rests on, but for the user's code."""
    known = provable(training)
    content = {
        "training": asdict(replace(known, seed=0, dataset=None, search_path=[])),
        "data": dataset_files.sha256(known.dataset) if known.dataset else None,
        "code": sources_hash([__name__]),
        # Versions, machine and inherited variables: what two runs must share to be a pair.
        "environment": environment.describe()["identity"],
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _read(file: Path) -> Remembered | None:
    try:
        return msgspec.convert(json.loads(file.read_text(encoding="utf-8")), Remembered)
    except (OSError, ValueError, msgspec.ValidationError):  # none, or of another version
        return None


def _write(file: Path, found: Remembered) -> None:
    try:
        artifacts.write_record(file, found, Remembered)
    except OSError as error:  # a folder that cannot be written: it is proven again next time
        print(f"The proof is not remembered: {error}", flush=True)
        return
    with contextlib.suppress(OSError):  # another job may remove the same
        for old in sorted(file.parent.glob("*.json"), key=_time)[:-MOST_REMEMBERED]:
            old.unlink()
            old.with_suffix(".lock").unlink(missing_ok=True)


def _time(file: Path) -> float:
    return file.stat().st_mtime


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Hold a lock that ends with its process; without one where the folder allows none."""
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            fcntl.flock(held.enter_context(file.open("w")), fcntl.LOCK_EX)
        yield
