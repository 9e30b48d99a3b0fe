"""What steps.csv holds of a step."""

from typing import TypedDict


class StepRow(TypedDict):
    """A step: a row of steps.csv. Fingerprints are in hexadecimal."""

    step: int
    """From 1."""
    epoch: int
    """From 1."""
    loss: float
    """NaN of a step that gave none."""
    before: str
    """Fingerprint of the parameters that the step starts with."""
    buffers_before: str
    """Fingerprint of the buffers that the step starts with: hooks between steps may move them."""
    random: str
    """Fingerprint of the RNG states that it starts with."""
    batch: str
    """Fingerprint of all that the batch holds, in order."""
    samples: str
    """Fingerprint of the batch's samples in any order."""
    loss_fingerprint: str
    """Fingerprint of the loss."""
    own_gradients: str
    """Fingerprint of the workers' gradients, before they were summed."""
    settings: str
    """Fingerprint of the optimizers' settings."""
    random_after: str
    """Fingerprint of the RNG states that the step leaves."""
    buffers: str
    """Fingerprint of the buffers that the step ends with."""
    gradients: str
    """Fingerprint of all gradients, before they are clipped."""
    optimizer: str
    """Fingerprint of the optimizers' state."""
    parameters: str
    """Fingerprint of the parameters that the step ends with."""
