"""Whether fast steps compute what plain ones compute, but for rounding: what is compared, and how.

A short training is done plain and fast, from the same seed, with the same batches. Compared are the
loss and everything logged at every step and epoch, then parameters, buffers, the optimizers' state
and what callbacks keep. It is done twice:

in float64    traced, without generated code. Rounding is 2^-53 there, and another computation is as
              far off as in any precision
as it is      in the variant's own precision, with the code that the training will run

Two orders of the same sums agree to more than half of the digits, unless what follows enlarges
rounding. So the bound is half of the digits, sqrt(epsilon), as it is for difference quotients
(Gill, Murray and Wright, Practical Optimization, 1981, 8.3). Where float64 has shown that the
computation is the same, the second training looks for faults of the generated code alone. These are
no rounding: the bound is a third of the digits there, and what is logged is not judged again, since
a single sample whose class flips moves an accuracy by far more than rounding moves the logits.
Values that rounding moves by more than a tenth of the bound are left out. How far it moves them is
measured: in one more plain training, all initial weights are changed by as much as another order of
sums changes them (Parker, Monte Carlo Arithmetic, 1997). A bias before batch normalisation under
Adam is such a value: its gradient is nothing but rounding. So is what lies behind an activation at
its kink or a tie of a maximum.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter

import pytorch_lightning as pl
import torch
from torch.utils._pytree import tree_flatten_with_path

from twinrun.acceleration.compilation import Shapes, shapes_of
from twinrun.errors import TwinrunError
from twinrun.run_records import ProofLeg

EPSILONS = {
    "ieee": torch.finfo(torch.float32).eps,
    "tf32": torch.finfo(torch.float16).eps,  # as many bits
    "bf16": torch.finfo(torch.bfloat16).eps,
}
"""Of float32, by how torch multiplies it."""
# ASSUME sums of 4,096 terms: in another order they differ by the square root of that, in units of
# epsilon (Higham and Mary, see docs/method.md). Coarser formats are summed up in float32.
ROUNDINGS = 64.0
OURS = ("the loss of ", "the final rate of ")  # numbers that are no logs of the module's
MARGIN = 0.1  # of the bound: what rounding may move in values that are compared


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What a short training left."""

    numbers: dict[str, float] = field(default_factory=dict)
    """Losses and logs by name, in the order in which they came."""
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    """Parameters, buffers, state of optimizers and callbacks, by kind and name."""


class Recorder(pl.Callback):
    """Keeps the evidence of a training; the last of its callbacks."""

    def __init__(self, *, perturbation: float = 0.0) -> None:
        """Keep nothing yet.

        Args:
            perturbation: by how much all initial weights are changed, relative to each, up or down.
        """
        self.evidence = Recorded()
        self.epsilon = EPSILONS["ieee"]
        """How far 1 and the next number are apart in what the training computed with."""
        self.steps = 0
        self.shapes: set[Shapes] = set()
        """Of the batches that were seen."""
        self._perturbation = perturbation

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Change the initial weights, and see how the module has set torch."""
        accelerator = "cpu" if trainer.strategy.root_device.type == "cpu" else "gpu"
        self.epsilon = epsilon_of(str(trainer.precision), accelerator)
        if not self._perturbation:
            return
        perturb(pl_module, self._perturbation)

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
        loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
        if isinstance(loss, torch.Tensor):
            self.evidence.numbers[f"the loss of step {self.steps}"] = float(loss)
        self._keep_logs(trainer, f"step {self.steps}")

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Keep the epoch's logs, validation's too."""
        self._keep_logs(trainer, f"epoch {trainer.current_epoch + 1}")

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Keep the state."""
        names = {id(p): name for name, p in pl_module.named_parameters()}
        kept = self.evidence.tensors
        for kind, tensors in (
            ("parameter", pl_module.named_parameters()),
            ("buffer", pl_module.named_buffers()),
        ):
            kept.update({f"{kind} {name}": _copy(tensor) for name, tensor in tensors})
        for index, optimizer in enumerate(trainer.optimizers):
            of = f"optimizer {index + 1}" if len(trainer.optimizers) > 1 else "optimizer"
            for number, (parameter, state) in enumerate(optimizer.state.items()):
                name = names.get(id(parameter), str(number))
                for key, value in state.items():
                    if isinstance(value, torch.Tensor):
                        kept[f"{of} {key} of {name}"] = _copy(value)
            # A schedule that a fast step had thrown off would show in the rate.
            for number, group in enumerate(optimizer.param_groups):
                self.evidence.numbers[f"the final rate of group {number + 1}"] = float(group["lr"])
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


def noise_of(epsilon: float) -> float:
    """Return how far another order of the same sums moves a value, relative to its terms."""
    return epsilon * (ROUNDINGS if epsilon <= EPSILONS["ieee"] else 1.0)


def perturb(module: torch.nn.Module, size: float) -> None:
    """Change all weights by a relative size, up or down."""
    # A generator of its own, so that the global ones draw the same in all three trainings.
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            signs = torch.randint(0, 2, parameter.shape, generator=generator) * 2 - 1
            # In the parameter's own precision: in float32 there is no number 1 + 2e-16.
            parameter.mul_(1 + size * signs.to(parameter))


def compare(
    plain: Recorded,
    perturbed: Recorded,
    fast: Recorded,
    *,
    precision: str,
    epsilon: float,
    is_same_in_float64: bool = False,
) -> ProofLeg:
    """Compare a fast training with a plain one.

    Args:
        plain: of the plain training.
        perturbed: of a plain one whose initial weights were changed by the noise of `epsilon`.
        fast: of the fast one.
        precision: of all three.
        epsilon: how far 1 and the next number are apart in what is computed with.
        is_same_in_float64: whether the same steps were proven there.

    Raises:
        TwinrunError: naming the first value that is further off than rounding explains.
    """
    # ASSUME two orders of the same sums agree to half of the digits, and that generated code which
    # is wrong does not agree to a third of them.
    bound = epsilon ** (1 / 3) if is_same_in_float64 else math.sqrt(epsilon)
    if is_same_in_float64:
        plain, perturbed, fast = (_without_logs(of) for of in (plain, perturbed, fast))
    farthest, judged, left_out = 0.0, 0, 0
    for name, expected, moved, found, scale in _values(plain, perturbed, fast):
        if found is None or expected is None or found.shape != expected.shape:
            there = "fast" if expected is None else "plain"
            raise TwinrunError(f"{name} is there in the {there} training only")
        # What rounding leaves of a value that should be 0 is no information.
        floor = noise_of(epsilon) * scale
        # ASSUME what rounding alone moves this far cannot be judged; it is counted.
        # Without the floor: what rounding moves below it, another order of sums moves above it.
        if moved is None or _distance(moved, expected, 0.0) > MARGIN * bound:
            left_out += 1
            continue
        judged += 1
        distance = _distance(found, expected, floor)
        farthest = max(farthest, distance)
        # Written so that a distance of NaN is off, too.
        if not distance <= bound:
            raise TwinrunError(
                f"{name} is {distance:.2g} off, where rounding explains {bound:.2g} (in {precision}"
                f", relative L2)"
            )
    return {
        "precision": precision,
        "distance": farthest,
        "bound": bound,
        "judged": judged,
        "left_out": left_out,
    }


def _without_logs(recorded: Recorded) -> Recorded:
    """Leave out what the module logs: numbers of any kind, some of which jump."""
    numbers = {name: value for name, value in recorded.numbers.items() if name.startswith(OURS)}
    return Recorded(numbers=numbers, tensors=recorded.tensors)


def _values(
    plain: Recorded, perturbed: Recorded, fast: Recorded
) -> Iterator[tuple[str, torch.Tensor | None, torch.Tensor | None, torch.Tensor | None, float]]:
    """List name, values of the three trainings, and the largest norm of the same kind."""
    all_numbers = [
        {name: torch.tensor([value], dtype=torch.float64) for name, value in of.numbers.items()}
        for of in (plain, perturbed, fast)
    ]
    for values in (all_numbers, [plain.tensors, perturbed.tensors, fast.tensors]):
        scales: dict[str, float] = {}
        for name, value in values[0].items():
            norm = float(value.double().norm())
            if math.isfinite(norm):
                scales[_kind(name)] = max(scales.get(_kind(name), 0.0), norm)
        for name in dict.fromkeys([*values[0], *values[2]]):
            scale = scales.get(_kind(name), 0.0)
            yield name, values[0].get(name), values[1].get(name), values[2].get(name), scale


def _kind(name: str) -> str:
    """Return what a value is compared in size with: others of its kind."""
    return " of ".join(name.split(" of ")[:-1]) or name.split(" ")[0]


def _distance(found: torch.Tensor, expected: torch.Tensor, floor: float) -> float:
    """Return the relative L2 distance; where both are not finite alike, nothing is off."""
    a, b = found.double(), expected.double()
    alike = torch.isfinite(b) & torch.isfinite(a)
    if not torch.equal(a[~alike].nan_to_num(), b[~alike].nan_to_num()):
        return math.inf
    difference, size = float((a[alike] - b[alike]).norm()), float(b[alike].norm())
    if difference <= floor:
        return 0.0
    return difference / size if size else math.inf


def epsilon_of(precision: str, accelerator: str) -> float:
    """Return how far 1 and the next number are apart in what is computed with, as torch is set now.

    float32 may be multiplied in fewer bits: by cuDNN's convolutions as TF32 unless they are told
    not to, by matrix products where the process says so, on a GPU and on a CPU that can.
    """
    if precision == "64-true":
        return torch.finfo(torch.float64).eps
    if not precision.startswith("32"):
        return torch.finfo(torch.float16 if precision.startswith("16") else torch.bfloat16).eps
    parts = (
        ("mkldnn.matmul", "mkldnn.conv", "mkldnn.rnn")
        if accelerator == "cpu"
        else ("cuda.matmul", "cudnn.conv", "cudnn.rnn")
    )
    # ASSUME all float32 arithmetic is the coarsest that is allowed: the widest of the bounds. The
    # older switch, `allow_tf32`, sets these and cannot be read after one of them was set.
    found = [attrgetter(f"backends.{part}.fp32_precision")(torch) for part in parts]
    return max(EPSILONS.get(name, EPSILONS["ieee"]) for name in found)


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
