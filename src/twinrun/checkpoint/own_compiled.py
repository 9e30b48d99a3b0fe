"""Code that a module has compiled by itself: which code runs depends on what came before.

torch compiles a function for the shapes of its first call, and at others once more, for any shape;
from then on that code serves the first shapes, too. A resumed process begins with the first again.
So a training is resumed as long as its functions were compiled once each, and once more at most to
evaluate; and a resumed one has to begin with a batch of the shapes with which the training began. A
number that is another one in each epoch shows in the second; no checkpoint is taken at its start.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytorch_lightning as pl
import torch

import twinrun
from twinrun.batches import leaves

# Under these the code of a training is not looked at, nor is theirs in a training.
_OF_MODE = re.compile(r"GLOBAL_STATE changed: grad_mode|\.training == ")
_OF_SIZES = re.compile("size mismatch")
_ANY_SIZE = re.compile(r"\b[su]\d+\b")  # what torch calls a size for which code is not made


TRAINS_AND_EVALUATES = 2
_MOST = 64  # of these records does torch keep

Shapes = list[list[int]]


class OwnCompiled:
    """Looks at what torch has compiled since it was made, for others than Twinrun."""

    def __init__(self) -> None:
        """Leave out what there is."""
        self._known = {id(each): each for each in _records()}
        self._first: Shapes | None = None
        self.began_with: Shapes | None = None
        """`state` of the checkpoint from which the training is resumed."""

    def hindrances(self, trainer: pl.Trainer) -> Iterator[str]:
        """Say why a resumed process may compile other code."""
        if not (found := self._found()):
            return
        what = f"code of {type(trainer.lightning_module).__name__} is compiled"
        if trainer.world_size > 1:
            yield f"{what}, and several workers may compile it for batches of several shapes"
        if trainer.num_sanity_val_steps:
            yield f"{what}, first for a validation before the training: num_sanity_val_steps: 0"
        if len(found) >= _MOST:
            yield f"{what}, more often than torch remembers"
        times = Counter(map(_function, found))
        for each in found:
            if (reason := _reason(each, times[_function(each)])) is not None:
                why = "so that it depends on what came first"
                cure = ": mini-batches of one size (drop_last=True) may need no other code"
                helps = cure if _OF_SIZES.search(reason) else ""
                yield f"{what}, and anew under way ({reason}), {why}{helps}"

    def is_seen(self, epoch: int) -> bool:
        """Say whether a change from the first epoch to the second would have been seen.

        Args:
            epoch: that is about to start, from 0.
        """
        return epoch > 1 or not self._found()

    def state(self) -> Shapes | None:
        """Return for which shapes of batch it was compiled, if anything was."""
        return self._first if self._found() else None

    def unlike(self, batch: object) -> str | None:
        """Note the shapes of the first batch; say whether the training began with others."""
        if self._first is not None:
            return None
        tensors = [leaf for _, leaf in leaves(batch) if isinstance(leaf, torch.Tensor)]
        self._first = [list(tensor.shape) for tensor in tensors]
        if self.began_with in (None, self._first):
            return None
        return "code that the module compiles was first compiled for a batch of other shapes"

    def _found(self) -> list[object]:
        return [each for each in _records() if id(each) not in self._known]


def _records() -> list[object]:
    """Return torch's records of what was compiled last, without what is Twinrun's."""
    if "torch._dynamo.utils" not in sys.modules:  # slow to import, and nothing was compiled
        return []
    from torch._dynamo.utils import get_compilation_metrics

    own = str(Path(twinrun.__file__).parent)
    # A backward pass has a record without a name where it is compiled by itself.
    found = [each for each in get_compilation_metrics() if each.co_name is not None]
    return [each for each in found if not str(each.co_filename).startswith(own)]


def _function(record: object) -> object:
    """Return what tells one function from another."""
    return tuple(getattr(record, name) for name in ("co_filename", "co_firstlineno", "co_name"))


def _reason(record: object, times: int) -> str | None:
    """Say why a function was compiled once more, if it was, other than once to evaluate."""
    reason = getattr(record, "recompile_reason", None)
    if reason is None:
        return None
    first = re.sub(r"^\d+/\d+: ", "", str(reason)).split("\n")[0].split("  #")[0].strip()
    if _OF_MODE.search(first) is None:
        return first
    # torch names one reason, and this one hides others.
    sizes = getattr(record, "graph_node_shapes", None)
    is_for_any = sizes is None or _ANY_SIZE.search(str(sizes)) is not None
    return "for other sizes or values" if is_for_any or times > TRAINS_AND_EVALUATES else None
