"""What a training may exchange under way and a resumed one would make or find as at its beginning.

The classes of optimizers, which no state of theirs tells, and the variables of the environment.
"""

import os
from collections.abc import Iterator

import pytorch_lightning as pl

# Set by libraries where they are first used: folders of this process, and what they log.
_OF_LIBRARIES = ("TORCH", "PYTORCH", "TRITON", "CUDA", "CUBLAS", "NCCL", "KMP", "KINETO", "TF_")
_OF_LIBRARIES += ("TOKENIZERS_", "HF_", "WANDB_", "MLFLOW_", "GRPC_", "XLA_", "TWINRUN_", "LC_")
# By torch's code generators, where they first compile: for a CPU (its own begins with `_`), an
# Intel GPU and a TPU.
_OF_LIBRARIES += ("_TORCH", "CPLUS_INCLUDE_PATH", "JAX_")


class Exchanged:
    """A look at it."""

    def __init__(self, trainer: pl.Trainer) -> None:
        self._optimizers = [type(each) for each in trainer.optimizers]
        self._variables = {
            name: value for name, value in os.environ.items() if not name.startswith(_OF_LIBRARIES)
        }

    def changed(self, now: "Exchanged") -> Iterator[str]:
        """Name what has been exchanged since."""
        if self._optimizers != now._optimizers:
            names = ", ".join(kind.__name__ for kind in self._optimizers)
            yield f"{names} is exchanged for another optimizer while the training runs"
        before, after = self._variables, now._variables
        for name in sorted({*before, *after}):
            if before.get(name) != after.get(name):
                yield (
                    f"the environment variable {name} changes while the training runs, and no "
                    f"checkpoint holds it"
                )
