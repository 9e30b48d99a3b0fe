"""What a training may exchange under way and a resumed one would make or find as at its beginning.

The classes of optimizers and schedules, and which parameters an optimizer trains, in which order:
no state of theirs tells it, since a `state_dict` numbers them. And variables of the environment.
"""

import os
from collections.abc import Iterator

import pytorch_lightning as pl
from pytorch_lightning.callbacks import BaseFinetuning

from twinrun.checkpoint.schedules import schedules_of

# Set by libraries where they are first used: folders of this process, and what they log.
_OF_LIBRARIES = ("TORCH", "PYTORCH", "TRITON", "CUDA", "CUBLAS", "NCCL", "KMP", "KINETO", "TF_")
_OF_LIBRARIES += ("TOKENIZERS_", "HF_", "WANDB_", "MLFLOW_", "GRPC_", "XLA_", "TWINRUN_", "LC_")
# By torch's code generators, where they first compile: for a CPU (its own begins with `_`), an
# Intel GPU, a TPU and, from torch 2.15 on, an AMD GPU.
_OF_LIBRARIES += ("_TORCH", "CPLUS_INCLUDE_PATH", "JAX_", "FLYDSL_")


class Exchanged:
    """A look at it."""

    def __init__(self, trainer: pl.Trainer) -> None:
        self._optimizers = [type(each) for each in trainer.optimizers]
        self._schedules = [type(each) for each in schedules_of(trainer)]
        module, callbacks = trainer.lightning_module, vars(trainer)["callbacks"]
        called = {id(parameter): name for name, parameter in module.named_parameters()}
        self._groups = [
            [[called.get(id(each)) for each in group["params"]] for group in optimizer.param_groups]
            for optimizer in trainer.optimizers
        ]
        # That one adds groups under way, and adds them again where a training is resumed.
        self._are_added = any(isinstance(each, BaseFinetuning) for each in callbacks)
        self._variables = {
            name: value for name, value in os.environ.items() if not name.startswith(_OF_LIBRARIES)
        }

    def changed(self, now: "Exchanged") -> Iterator[str]:
        """Name what has been exchanged since."""
        if self._optimizers != now._optimizers:
            names = ", ".join(kind.__name__ for kind in self._optimizers)
            yield f"{names} is exchanged for another optimizer while the training runs"
        elif (name := self._with_other_parameters(now)) is not None:
            yield (
                f"{name} trains other parameters, or in another order, than where the training "
                f"begins, and no checkpoint holds which"
            )
        if self._schedules != now._schedules:
            names = ", ".join(kind.__name__ for kind in self._schedules) or "no schedule"
            yield f"{names} is exchanged for another schedule while the training runs"
        before, after = self._variables, now._variables
        for name in sorted({*before, *after}):
            if before.get(name) != after.get(name):
                yield (
                    f"the environment variable {name} changes while the training runs, and no "
                    f"checkpoint holds it"
                )

    def _with_other_parameters(self, now: "Exchanged") -> str | None:
        """Name the first optimizer that has others."""
        for kind, before, after in zip(self._optimizers, self._groups, now._groups, strict=True):
            known = after[: len(before)] if self._are_added else after
            if known != before:
                return kind.__name__
        return None
