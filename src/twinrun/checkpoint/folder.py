"""The folder of a training's checkpoints: the last one, and why there is none."""

import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NotRequired, TypedDict

from twinrun import artifacts
from twinrun.checkpoint.refusals import as_data, other_than
from twinrun.errors import TwinrunError


class CheckpointEntry(TypedDict):
    """The checkpoint.json of a folder: which of its files is the last whole checkpoint."""

    file: str
    """Its name in the folder."""
    sha256: str
    """SHA-256 of its bytes."""
    identity: dict[str, object]
    """What must be the same for it to be used."""
    batch: NotRequired[str | None]
    """Fingerprint of the first batch behind it and a look at the RNG states then, where a batch
    came and somebody looked."""


class Folder:
    """A folder for one training alone."""

    def __init__(
        self, folder: str | Path, identity: Mapping[str, object], say: Callable[[str], None]
    ) -> None:
        """Write nothing yet.

        Args:
            folder: its path.
            identity: what must be the same for a checkpoint to be used, as JSON can hold it.
            say: takes sentences about checkpoints that cannot be used or written.
        """
        self._folder, self._say = Path(folder), say
        self._entry = self._folder / "checkpoint.json"
        self._refusal = self._folder / "refused.txt"
        self._identity: dict[str, object] = json.loads(json.dumps(identity))
        self._new: CheckpointEntry | None = None
        self.refused: str | None = None
        """Why `last` found no checkpoint that can be used."""
        self.expected: str | None = None
        """What the entry of the last one says of the first batch behind it."""

    def last(self) -> str | None:
        """Return the path of the last checkpoint, None if there is none that can be used."""
        self.refused = self.expected = None
        if not self._entry.exists():
            self.refused = "none had been written before the stop"
            if self._refusal.exists():  # an earlier process says why
                self.refused = self._refusal.read_text(encoding="utf-8")
            return None
        try:
            entry = artifacts.read_record(self._entry, CheckpointEntry)
            path = self._folder / Path(entry["file"]).name
            is_whole = path.is_file() and artifacts.sha256(path) == entry["sha256"]
            others = other_than(entry["identity"], self._identity)
            if is_whole and not others:
                as_data(path)
                self.expected = entry["batch"] if "batch" in entry else None  # noqa: SIM401
        except TwinrunError:
            path, is_whole, others = self._entry, False, []
        if is_whole and not others:
            return str(path)
        what = f"is of another {' and '.join(others)}" if others else "is corrupt"
        self.refused = f"it {what}"
        self._say(f"{path} {what}: the training starts from its beginning")
        return None

    def write(self, name: str, save: Callable[[Path], None]) -> None:
        """Write a checkpoint, and remove older ones.

        Args:
            name: of its file.
            save: writes it to a path.

        Raises:
            TwinrunError: of `save`.
        """
        path = self._folder / name
        try:
            with artifacts.atomic(path) as temporary:
                save(temporary)
            # After the checkpoint, so that an entry never names one that is not whole.
            entry = self._new = CheckpointEntry(
                file=path.name,
                sha256=artifacts.sha256(path),
                identity=self._identity,
            )
            artifacts.write_record(self._entry, entry, CheckpointEntry)
        except OSError as error:
            self._say(
                f"{path} could not be written ({error.strerror}): the training continues without"
            )
            return
        # Last, so that there is a whole one at any moment.
        for other in self._folder.glob("*.ckpt"):
            if other != path:
                other.unlink()

    @property
    def waits(self) -> bool:
        """Whether a checkpoint was written and no batch has come since."""
        return self._new is not None

    def note_batch(self, found: str | None) -> None:
        """Add the first batch behind the last checkpoint to its entry; None where none came."""
        if self._new is not None and found is not None:
            with suppress(OSError):  # without it the checkpoint is as good, and not checked
                entry: CheckpointEntry = {**self._new, "batch": found}
                artifacts.write_record(self._entry, entry, CheckpointEntry)
        self._new = None

    def note_refusal(self, why: str) -> None:
        """Leave word for a later process."""
        with suppress(OSError):  # no space: it is said here, and the training needs no word
            artifacts.write_text(self._refusal, why)

    def forget(self) -> None:
        """Have the last checkpoint never be used again."""
        self._entry.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the folder, when the training has been finished."""
        shutil.rmtree(self._folder, ignore_errors=True)
