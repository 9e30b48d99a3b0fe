"""What a short training leaves to be compared: losses, logs, and its state when it ends."""

import itertools
from dataclasses import dataclass, field

import pytorch_lightning as pl
import torch
from torch.utils._pytree import tree_flatten_with_path

from twinrun.acceleration.compilation import Shapes, shapes_of
from twinrun.acceleration.roundings import EPSILONS, epsilon_of, perturb
from twinrun.held_elsewhere import Alive, held_elsewhere, leaves_alive
from twinrun.optimizer_attributes import values_beside
from twinrun.parameters import parameters_of
from twinrun.returned_loss import loss_of

# How the names of these values begin.
LOSS, PARAMETER, RATE, STATE = "the loss of ", "parameter ", "the final rate of ", "optimizer"


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What a short training left."""

    numbers: dict[str, float] = field(default_factory=dict)
    """Losses and logs by name, in the order in which they came."""
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    """Parameters, buffers, state of optimizers and callbacks, by kind and name."""
    decisive: set[str] = field(default_factory=set)
    """Names of the losses after the first update, and of the parameters that training moved."""


class Recorder(pl.Callback):
    """Keeps the evidence of a training; the last of its callbacks."""

    def __init__(self, *, perturbation: float = 0.0, draw: int = 0) -> None:
        """Keep nothing yet.

        Args:
            perturbation: by how much all initial weights are changed, relative to each, up or down.
            draw: which of them up and which down.
        """
        self.evidence = Recorded()
        self.epsilon = EPSILONS["ieee"]
        """How far 1 and the next number are apart in what the training computed with."""
        self.steps = 0
        self.shapes: set[Shapes] = set()
        """Of the batches that were seen."""
        self._perturbation, self._draw = perturbation, draw
        self._initial: dict[str, torch.Tensor] = {}
        self._is_updated = False
        self._alive: Alive | None = None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Change the initial weights, and see how the module has set torch."""
        accelerator = "cpu" if trainer.strategy.root_device.type == "cpu" else "gpu"
        self.epsilon = epsilon_of(str(trainer.precision), accelerator)
        parameters = parameters_of(pl_module, trainer.optimizers)
        self._alive = leaves_alive()
        beside = _held_elsewhere(pl_module, trainer, self._alive)
        if self._perturbation:  # in place
            inside = itertools.chain.from_iterable(beside.values())
            perturb([*parameters.values(), *inside], self._perturbation, self._draw)
        self._initial = {name: _copy(tensor) for name, tensor in parameters.items()}
        self._initial |= {name: _joined(tensors) for name, tensors in beside.items()}

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: object, batch_idx: int
    ) -> None:
        """See whether this step's loss is one of weights that were updated."""
        self._is_updated = trainer.global_step > 0

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: object,
        batch: object,
        batch_idx: int,
    ) -> None:
        """Keep the step's loss and logs."""
        self.steps += 1
        self.shapes.add(shapes_of(batch))
        # Lightning hands on the loss divided by accumulate_grad_batches, to all trainings alike.
        loss = loss_of(outputs)
        if loss is not None:
            name = f"{LOSS}step {self.steps}"
            self.evidence.numbers[name] = float(loss)
            if self._is_updated:
                self.evidence.decisive.add(name)
        self._keep_logs(trainer, f"step {self.steps}")

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Keep the epoch's logs, validation's too."""
        self._keep_logs(trainer, f"epoch {trainer.current_epoch + 1}")

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Keep the state."""
        parameters = parameters_of(pl_module, trainer.optimizers)
        names = {id(p): name for name, p in parameters.items()}
        kept = self.evidence.tensors
        for kind, tensors in (
            ("parameter", parameters.items()),
            ("buffer", pl_module.named_buffers()),
        ):
            kept.update({f"{kind} {name}": _copy(tensor) for name, tensor in tensors})
        for name, tensors in _held_elsewhere(pl_module, trainer, self._alive).items():
            kept[f"{PARAMETER}{name}"] = _joined(tensors)
        for name, before in self._initial.items():
            after = kept.get(f"{PARAMETER}{name}")
            if after is not None and not (
                after.shape == before.shape and torch.equal(after, before)
            ):
                self.evidence.decisive.add(f"{PARAMETER}{name}")
        for index, optimizer in enumerate(trainer.optimizers):
            of = f"{STATE} {index + 1}" if len(trainer.optimizers) > 1 else STATE
            for number, (parameter, state) in enumerate(optimizer.state.items()):
                name = names.get(id(parameter), str(number))
                for key, value in state.items():
                    if isinstance(value, torch.Tensor):
                        kept[f"{of} {key} of {name}"] = _copy(value)
            held = [*parameters.values(), *pl_module.buffers()]
            for path, value in values_beside(optimizer, held).items():
                tensor = torch.as_tensor(value)
                kept[f"{of} attribute {path}"] = _copy(tensor)
            # A schedule that a fast step had thrown off would show in the rate.
            for number, group in enumerate(optimizer.param_groups):
                name = f"{RATE}{of}, group {number + 1}"
                self.evidence.numbers[name] = float(group["lr"])
        for callback in trainer.callbacks:  # pyrefly: ignore[missing-attribute]
            if callback is not self:
                state = callback.state_dict()
                leaves = tree_flatten_with_path(state)[0] if state else []
                for path, value in leaves:
                    if isinstance(value, torch.Tensor):
                        where = "".join(map(str, path))
                        kept[f"{type(callback).__name__} {where}"] = _copy(value)

    def _keep_logs(self, trainer: pl.Trainer, when: str) -> None:
        for name, value in trainer.callback_metrics.items():
            self.evidence.numbers[f"{name} of {when}"] = float(value)


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)


def _held_elsewhere(
    module: pl.LightningModule, trainer: pl.Trainer, alive: Alive | None
) -> dict[str, list[torch.Tensor]]:
    """Name what the training may move and neither the module nor its optimizers hold.

    A step in one piece gives such weights no gradient. What may be there by chance is left out, as
    in a pair of runs.
    """
    found = held_elsewhere(module, trainer.optimizers, alive)
    every = (found.in_memory | found.reached).items()
    return {f"{name}, outside the module": tensors for name, tensors in every}


def _joined(tensors: list[torch.Tensor]) -> torch.Tensor:
    """Return the values of tensors; of several of one name, whose order is not known, sorted.

    What is sorted is no further apart than the tensors are in any order.
    """
    if len(tensors) == 1:
        return _copy(tensors[0])
    return torch.cat([_copy(tensor).double().flatten() for tensor in tensors]).sort().values
