"""What was measured of the variants of a timing at one size."""

from dataclasses import dataclass, field

from twinrun.timing.compiled_in_rounds import CompiledRow
from twinrun.timing.summary import Agreement, Compilation, Extent, Had, Skipped, TimedProof
from twinrun.timing.timed_variant import Row


class VariantRow(Row):
    """A measurement of one variant."""

    variant: str
    """Name of the variant."""
    size: int | None
    """Value of the timing's hyperparameter; None where it changes none."""


@dataclass(kw_only=True)
class Measured:
    """What was measured of the variants at one size."""

    rows: list[VariantRow] = field(default_factory=list)
    """A row for each measurement; a phase that fails on the way leaves none."""
    skipped: list[Skipped] = field(default_factory=list)
    """Variants, or phases of them, that failed."""
    without_epoch_hooks: list[Skipped] = field(default_factory=list)
    """Variants whose bare steps were timed without ends of epochs."""
    proofs: list[TimedProof] = field(default_factory=list)
    """For each variant with fast steps."""
    compilation: list[Compilation] = field(default_factory=list)
    """For each compiled variant and phase, calls, compilations and reasons."""
    extents: list[Extent] = field(default_factory=list)
    """Batches of an epoch of training, and of the whole prediction."""
    had: list[Had] = field(default_factory=list)
    """For each variant that was measured, what torch was set to in the end."""
    agreement: list[Agreement] = field(default_factory=list)
    """For each variant but the baseline, how far its prediction is off."""
    compiled: list[CompiledRow] = field(default_factory=list)
    """For each variant and phase in whose rounds anything was compiled."""
    batches: int | None = None
    """Fingerprint of the batches, see `InitialState.fingerprint`."""
