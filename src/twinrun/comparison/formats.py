"""The formats of numbers that a run computes in, by the types of its parameters and its losses."""

import math
from dataclasses import dataclass, replace

import numpy as np

from twinrun.run_files import variant_of
from twinrun.run_records import RunManifest

# Unit roundoff: half of the relative spacing.
FLOAT64, FLOAT32, FLOAT16, BFLOAT16 = 2.0**-53, 2.0**-24, 2.0**-11, 2.0**-8
TENSOR_FLOAT32 = 2.0**-11  # its significand has as many bits as float16's
UNIT_OF_DTYPE = {
    "float64": FLOAT64,
    "float32": FLOAT32,
    "float16": FLOAT16,
    "bfloat16": BFLOAT16,
}
# What autocast makes of all types but float64, and torch.set_float32_matmul_precision of products.
AUTOCAST = {"16-mixed": FLOAT16, "bf16-mixed": BFLOAT16}
PRODUCTS = {"high": TENSOR_FLOAT32, "medium": BFLOAT16}


@dataclass(frozen=True, kw_only=True)
class Formats:
    """Unit roundoffs, and how often they count."""

    layers: tuple[float, ...]
    """Of what is stored around each parameter: activations, and gradients of them."""
    terms: tuple[int, ...]
    """Of each parameter, the terms of its inner products."""
    loss: float
    """Of the losses, where it is coarser than that of all layers; else 0."""
    batch: float
    """Of the batches, where it may be coarser than that of all layers; else 0."""
    parameters: tuple[float, ...]
    """Of the parameters' own types; 0 of integers, which no optimizer changes."""
    elements: int
    """Of all parameters."""

    @property
    def coarsest(self) -> float:
        """The largest unit of what a result consists of."""
        return max((*self.layers, self.loss), default=FLOAT32)

    @property
    def is_short(self) -> bool:
        """Whether anything is stored in fewer digits than float32 has."""
        return self.coarsest > FLOAT32

    def finest(self) -> "Formats":
        """Return the same network, all of it in the finest of its formats."""
        floating = [unit for unit in self.parameters if unit]
        return replace(
            self,
            layers=(min(self.layers, default=0.0),) * len(self.layers),
            parameters=(min(floating, default=0.0),),
            loss=0.0,
            batch=0.0,
        )


def formats_of(run: RunManifest, losses: np.ndarray) -> Formats:
    """Return the formats of a run.

    Args:
        run: its manifest.
        losses: of its steps, float64.
    """
    tensors = [tensor for tensor in run["tensors"] if tensor["kind"] == "parameter"]
    layers = tuple(unit_of_layer(run, tensor["dtype"]) for tensor in tensors)
    finite = losses[np.isfinite(losses)]
    # Their type is not recorded: where each is a number of float32, it may be that.
    is_single = len(finite) > 0 and bool((finite == finite.astype(np.float32)).all())
    is_double = max(layers, default=FLOAT32) < FLOAT32
    # Nor is the type of the batches, which the Trainer makes float64 at this precision alone.
    is_given_double = variant_of(run).precision == "64-true"
    return Formats(
        layers=layers,
        # ASSUME the first dimension counts outputs, as in torch's linear and convolutional layers:
        # the others are the terms of an inner product.
        terms=tuple(
            math.prod(tensor["shape"][1:]) if len(tensor["shape"]) > 1 else 0 for tensor in tensors
        ),
        loss=FLOAT32 if is_double and is_single else 0.0,
        batch=FLOAT32 if is_double and not is_given_double else 0.0,
        parameters=tuple(UNIT_OF_DTYPE.get(tensor["dtype"], 0.0) for tensor in tensors),
        elements=sum(math.prod(tensor["shape"]) for tensor in tensors),
    )


def unit_of_layer(run: RunManifest, dtype: str) -> float:
    """Return the unit roundoff of what is stored around parameters of a type.

    ASSUME that float32 on a GPU is multiplied as TensorFloat-32: cuDNN's convolutions are by
    default.
    https://docs.pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices
    """
    variant, actual = variant_of(run), run.get("actual")
    # Integers are weights of what is stored otherwise, which float32 is where nothing says more.
    own = UNIT_OF_DTYPE.get(dtype, FLOAT32)
    if own == FLOAT64:
        return own
    on_gpu = TENSOR_FLOAT32 if variant.accelerator == "gpu" else own
    product = PRODUCTS.get(actual["matmul_precision"], own) if actual else own
    return max(own, on_gpu, product, AUTOCAST.get(variant.precision, own))
