"""Files that others have opened to write: earlier trainings, those beside it, its attempts."""

from twinrun.process.opened_entries import Entry, Writers, same_training


class OthersFiles:
    """What one attempt at a training knows of them."""

    def __init__(self, who: str, began: int) -> None:
        """Know of none yet.

        Args:
            who: the training, a `/` and the attempt.
            began: when (ns) its first attempt did.
        """
        self._who, self._began = who, began
        self.writers = Writers()
        """Who has opened each of them."""
        self.earlier = dict[str, int]()
        """Files that others had written before this training began, and when first (ns)."""
        self.several = set[str]()
        """Of the earlier ones those that `changing` may name."""
        self.others = set[str]()
        """Files that other trainings have written since."""
        self.attempts = set[str]()
        """Files that earlier attempts at this one have written."""

    def note(self, file: str, who: str, entry: Entry, moment: int) -> None:
        """Take one of `WRITES_OF` of the log, or that a file was left as it was."""
        self.writers.note(file, who, entry, moment)
        if entry == "left":
            if self.writers.first(file) is None:
                self.earlier.pop(file, None)
                self.others.discard(file)
                self.attempts.discard(file)
            if not self.writers.change(file):
                self.several.discard(file)
        elif moment < self._began:
            self.earlier.setdefault(file, moment)
            if self.writers.change(file):
                self.several.add(file)
        elif same_training(who, self._who):
            self.attempts.add(file)
        else:
            self.others.add(file)
