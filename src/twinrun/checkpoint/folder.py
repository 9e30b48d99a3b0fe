"""The folder of a training's checkpoints: the last one, and why there is none.

Each worker has a file of its own in a checkpoint. The entry names them all and comes last: before
it the checkpoint before is in use, and behind it this one, whichever worker is killed, and when.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NotRequired, TypedDict

from twinrun import artifacts
from twinrun.checkpoint.plain_data import as_data
from twinrun.checkpoint.refusals import other_than
from twinrun.checkpoint.together import Alone, Together, agreed, first_of
from twinrun.errors import TwinrunError
from twinrun.process.shared_files import begins_anew, goes_on_from
from twinrun.run_files import RESUMED

CORRUPT = "it is corrupt"


class WorkerEntry(TypedDict):
    """What a checkpoint holds of one worker."""

    file: str
    """Its name in the folder."""
    sha256: str
    """SHA-256 of its bytes."""
    batch: NotRequired[str | None]
    """Fingerprint of the first batch behind it and a look at the RNG states then, where a batch
    came and somebody looked."""


class CheckpointEntry(WorkerEntry):
    """The checkpoint.json of a folder: the last whole checkpoint, of the first worker or the one.

    What `identity` holds must be the same for it to be used.
    """

    identity: dict[str, object]
    """As JSON can hold it."""
    others: NotRequired[list[WorkerEntry]]
    """Of the other workers, in their order, where there are several."""


class Folder:
    """A folder for one training alone."""

    def __init__(
        self,
        folder: str | Path,
        identity: Mapping[str, object],
        say: Callable[[str], None],
        together: Together | None = None,
    ) -> None:
        """Write nothing yet.

        Args:
            folder: its path.
            identity: what must be the same for a checkpoint to be used, as JSON can hold it.
            say: takes sentences about checkpoints that cannot be used or written.
            together: the workers, each of which has such a folder, at the same path.
        """
        self._folder, self._say = Path(folder), say
        self._together: Together = together or Alone()
        self._entry = self._folder / "checkpoint.json"
        self._refusal = self._folder / "refused.txt"
        self._identity: dict[str, object] = json.loads(json.dumps(identity))
        self._new: CheckpointEntry | None = None
        self.is_used = False
        """Whether `last` has found a checkpoint."""
        self.refused: str | None = None
        """Why `last` found no checkpoint that can be used."""
        self.expected: str | None = None
        """What the entry of the last one says of the first batch behind it."""

    def last(self) -> str | None:
        """Return the path of this worker's part of the last checkpoint.

        None if there is none that can be used by all.
        """
        self.refused = self.expected = None
        # Read once: it may be forgotten, or of another version, between two looks.
        entry, why = self._together.first(self._read() if self._is_first else (None, None))
        if entry is None:
            self.refused = why
            if why == CORRUPT:
                self._say(f"{self._entry} is corrupt: the training starts from its beginning")
                begins_anew()
            return None
        own = _of_worker(entry, self._together.rank)
        path = self._folder / (Path(own["file"]).name if own is not None else "")
        what = agreed(self._together, self._unlike(entry, own, path))
        if what is None:
            self.expected = own["batch"] if own is not None and "batch" in own else None
            with suppress(OSError):
                (self._folder / RESUMED).touch()
                goes_on_from(path)
            self.is_used = True
            return str(path)
        self.refused = f"it {what}"
        self._say(f"{path} {what}: the training starts from its beginning")
        begins_anew()
        return None

    @property
    def _is_first(self) -> bool:
        return self._together.rank == 0

    def _read(self) -> tuple[CheckpointEntry | None, str | None]:
        """Return the entry, or why there is none."""
        if not self._entry.exists():
            if self._refusal.exists():  # an earlier process says why
                return None, self._refusal.read_text(encoding="utf-8")
            return None, "none had been written before the stop"
        try:
            return artifacts.read_record(self._entry, CheckpointEntry), None
        except TwinrunError:
            return None, CORRUPT

    def _unlike(self, entry: CheckpointEntry, own: WorkerEntry | None, path: Path) -> str | None:
        """Say why this worker cannot use a checkpoint."""
        # What tells workers apart (a rank in the environment) is in the first one's identity alone.
        others = other_than(entry["identity"], self._identity) if self._is_first else []
        if 1 + len(_others_in(entry)) != self._together.count:
            others = [*others, "number of workers"]
        if others:
            return f"is of another {' and '.join(others)}"
        try:
            if own is not None and path.is_file() and artifacts.sha256(path) == own["sha256"]:
                as_data(path)
                return None
        except TwinrunError:
            pass
        return "is corrupt"

    def write(self, name: str, save: Callable[[Path], None]) -> None:
        """Write a checkpoint, and remove older ones; all workers come.

        Args:
            name: of its file.
            save: writes it to a path.

        Raises:
            TwinrunError: of `save`, at every worker.
        """
        name = self._together.first(self._unused(name))
        path = self._of_rank(name)
        told = self._together.everyones(self._saved(path, save))
        files = [each for each, _, _ in told]
        refused, failed = first_of([why for _, why, _ in told]), first_of([why for *_, why in told])
        if refused is None and failed is None:
            # After all files, so that an entry never names one that is not whole.
            failed = self._together.first(self._commit(files) if self._is_first else None)
        if refused is not None or failed is not None:
            with suppress(OSError):
                artifacts.remove(path)
        if refused is not None:
            raise TwinrunError(refused)
        if failed is not None:
            self._new = None
            self._say(f"{path} could not be written ({failed}): the training continues without")
            return
        self._new = self._entry_of(files)
        # Last, so that there is a whole one at any moment.
        if self._is_first:
            kept = {each["file"] for each in files if each is not None}
            for other in self._folder.glob("*.ckpt"):
                if other.name not in kept:
                    with suppress(OSError):  # tried again behind the next one
                        other.unlink()

    def _unused(self, name: str) -> str:
        """Return a name that no file has: the one in use stays whole until the entry changes."""
        stem, number = Path(name).stem, 1
        while (self._folder / name).exists():
            number += 1
            name = f"{stem}-{number}.ckpt"
        return name

    def _of_rank(self, name: str) -> Path:
        path = self._folder / name
        return (
            path
            if self._is_first
            else path.with_stem(f"{path.stem}-worker{self._together.rank + 1}")
        )

    def _saved(
        self, path: Path, save: Callable[[Path], None]
    ) -> tuple[WorkerEntry | None, str | None, str | None]:
        """Write this worker's file; return what it is, why it is refused, and why it failed."""
        try:
            with artifacts.atomic(path) as temporary:
                save(temporary)
            return {"file": path.name, "sha256": artifacts.sha256(path)}, None, None
        except TwinrunError as error:
            return None, str(error), None
        except OSError as error:
            return None, None, str(error.strerror)

    def _entry_of(self, files: list[WorkerEntry | None]) -> CheckpointEntry:
        first, *others = [each for each in files if each is not None]
        entry: CheckpointEntry = {**first, "identity": self._identity}
        return {**entry, "others": others} if others else entry

    def _commit(self, files: list[WorkerEntry | None]) -> str | None:
        """Have a checkpoint be the last one; say why that failed."""
        try:
            artifacts.write_record(self._entry, self._entry_of(files), CheckpointEntry)
        except OSError as error:
            return str(error.strerror)
        return None

    @property
    def waits(self) -> bool:
        """Whether a checkpoint was written and no batch has come since."""
        return self._new is not None

    def note_batch(self, found: str | None) -> None:
        """Add the first batch behind the last checkpoint to its entry; None where none came."""
        new, self._new = self._new, None
        if new is None or found is None:
            return
        first, *others = self._together.everyones(found)
        if self._is_first:
            entry: CheckpointEntry = {**new, "batch": first}
            if others:
                entry["others"] = [
                    {**each, "batch": batch}
                    for each, batch in zip(_others_in(new), others, strict=True)
                ]
            with suppress(OSError):  # without it the checkpoint is as good, and not checked
                artifacts.write_record(self._entry, entry, CheckpointEntry)

    def note_refusal(self, why: str) -> None:
        """Leave word for a later process."""
        with suppress(OSError):  # no space: it is said here, and the training needs no word
            artifacts.write_text(self._refusal, why)

    def forget(self) -> None:
        """Have the last checkpoint never be used again."""
        self._entry.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the folder, when the training has been finished."""
        # First of all: of a kill in between no checkpoint is left without what lies beside it.
        with suppress(OSError):
            self.forget()
        shutil.rmtree(self._folder, ignore_errors=True)


def _others_in(entry: CheckpointEntry) -> list[WorkerEntry]:
    return entry["others"] if "others" in entry else []  # noqa: SIM401


def _of_worker(entry: CheckpointEntry, rank: int) -> WorkerEntry | None:
    """Return what an entry says of a worker; None if it does not know it."""
    found: list[WorkerEntry] = [entry, *_others_in(entry)]
    return found[rank] if rank < len(found) else None
