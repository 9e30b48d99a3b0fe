"""Whether fast steps compute what plain ones compute, but for rounding: what is compared, and how.

A short training is done plain and fast, from the same seed, with the same batches. Compared are the
loss and everything logged at every step and epoch, then parameters, buffers, the optimizers' state,
what callbacks keep, and weights that neither the module nor those hold. It is done twice:

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
its kink or a tie of a maximum. These are events, which one training meets and another does not:
where a value is off, further perturbed trainings show whether rounding may have done it.

Left out, too, is what a plain training does not repeat by itself, which a second one shows.
Counters, rates and constants, which no change of the weights moves, are compared but show nothing:
a proof rests on losses, and on parameters that training has moved.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from twinrun.acceleration.evidence import LOSS, PARAMETER, RATE, STATE, Recorded
from twinrun.acceleration.roundings import bound_of, noise_of
from twinrun.errors import TwinrunError
from twinrun.proof_records import ProofLeg, Share

OURS = (LOSS, RATE)  # numbers that are no logs of the module's
MARGIN = 0.1  # of the bound: what rounding may move in values that are compared


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What a comparison found."""

    leg: ProofLeg
    """In numbers."""
    names: frozenset[str]
    """The values that were judged."""
    why_none: str | None
    """Why no loss after an update and no parameter that training moves was; None if one was."""
    is_exact: bool
    """Whether nothing was rounded in a coarser format than that of the training."""


def compare(
    plain: Recorded,
    again: Recorded,
    perturbed: Sequence[Recorded],
    fast: Recorded,
    *,
    precision: str,
    epsilon: float,
    proven: frozenset[str] | None = None,
) -> Judgement:
    """Compare a fast training with a plain one.

    Args:
        plain: of the plain training.
        again: of the same once more.
        perturbed: of plain ones whose initial weights were changed by the noise of `epsilon`.
        fast: of the fast one.
        precision: of all of them.
        epsilon: how far 1 and the next number are apart in what is computed with.
        proven: the values that were judged in float64, where these show that the steps compute the
            same; None if nothing does.

    Raises:
        TwinrunError: naming the first value that is further off than rounding explains.
    """
    if proven is not None:
        plain, again, fast, *perturbed = map(_without_logs, (plain, again, fast, *perturbed))
    tally = _Tally(plain.decisive)
    of_training, epsilon = epsilon, _epsilon_of_state(plain, epsilon)
    for name, (expected, repeated, found, *moved), scale in _values(plain, again, fast, *perturbed):
        bound = bound_of(epsilon, is_proven=proven is not None and name in proven)
        # ASSUME what rounding alone moves this far cannot be judged; it is counted.
        most = MARGIN * bound
        if not _are_near(repeated, expected, most):
            tally.note_unrepeated(name, expected, repeated)
            continue
        if found is None and expected is None:  # of the perturbed training alone
            continue
        if found is None or expected is None:
            there = "fast" if expected is None else "plain"
            raise TwinrunError(f"{name} is there in the {there} training only")
        if found.shape != expected.shape:
            shapes = f"{_shape(found)} in the fast training and {_shape(expected)} in the plain one"
            raise TwinrunError(f"{name} has the shape {shapes}")
        # Without a floor: what rounding moves below it, another order of sums moves above it.
        if not all(_are_near(each, expected, most) for each in moved):
            tally.left_out.append(name)
            continue
        # What rounding leaves of a value that should be 0 is no information.
        distance = _distance(found, expected, noise_of(epsilon), scale)
        # Written so that a distance of NaN is off, too.
        if not distance <= bound:
            raise TwinrunError(
                f"{name} is {distance:.2g} off, where rounding explains {bound:.2g} (in {precision}"
                f", relative L2)"
            )
        is_fixed = all(each is not None and not _distance(each, expected) for each in moved)
        tally.note(name, distance, bound, is_fixed=is_fixed)
    bound = bound_of(epsilon, is_proven=proven is not None)
    return tally.judgement(precision, bound, is_exact=epsilon == of_training)


def _epsilon_of_state(plain: Recorded, epsilon: float) -> float:
    """Return how far 1 and the next number are apart in the coarsest state that is rounded.

    Beside parameters of float64 torch keeps some state of optimizers in float32, as ASGD's rates,
    and all that is computed with it is rounded so. Counters are whole numbers, which are exact.
    """
    kept = [
        torch.finfo(value.dtype).eps
        for name, value in plain.tensors.items()
        if name.startswith(STATE) and value.is_floating_point() and bool((value % 1).any())
    ]
    return max([epsilon, *kept])


class _Tally:
    """Counts what was judged of what."""

    def __init__(self, decisive: set[str]) -> None:
        self.left_out: list[str] = []
        self._decisive = decisive
        self._judged: list[str] = []
        self._fixed: list[str] = []
        self._unrepeated: dict[str, float] = {}
        self._farthest = 0.0

    def note(self, name: str, distance: float, bound: float, *, is_fixed: bool) -> None:
        """Count a value that was judged; `is_fixed` is one that the weights do not move."""
        self._farthest = max(self._farthest, distance)
        is_evidence = name in self._decisive or name.startswith(LOSS) or not is_fixed
        (self._judged if is_evidence else self._fixed).append(name)

    def note_unrepeated(
        self, name: str, expected: torch.Tensor | None, repeated: torch.Tensor | None
    ) -> None:
        """Count a value that the plain training does not repeat."""
        is_there = expected is not None and repeated is not None
        self._unrepeated[name] = (
            _distance(repeated, expected)
            if is_there and repeated.shape == expected.shape
            else math.inf
        )

    def judgement(self, precision: str, bound: float, *, is_exact: bool) -> Judgement:
        losses, parameters = (self._share(kind) for kind in (LOSS, PARAMETER))
        leg: ProofLeg = {
            "precision": precision,
            "distance": self._farthest,
            "bound": bound,
            "judged": len(self._judged),
            "left_out": len(self.left_out),
            "unrepeated": len(self._unrepeated),
            "fixed": len(self._fixed),
            "losses": losses,
            "parameters": parameters,
        }
        names = frozenset([*self._judged, *self._fixed])
        return Judgement(leg=leg, names=names, why_none=self._why_none(), is_exact=is_exact)

    def _share(self, kind: str) -> Share:
        """Count the losses, or the parameters that training moves."""
        judged, others = (
            sum(name.startswith(kind) and (kind == LOSS or name in self._decisive) for name in of)
            for of in (self._judged, [*self.left_out, *self._unrepeated])
        )
        return {"judged": judged, "of": judged + others}

    def _why_none(self) -> str | None:
        if self._decisive & {*self._judged}:
            return None
        for name, distance in self._unrepeated.items():
            if name in self._decisive:
                return (
                    f"the plain training does not repeat by itself, so that there is nothing to "
                    f"compare with ({name} is {distance:.2g} off in a second one)"
                )
        if self._decisive:
            rest = ", and counters, rates and constants show nothing" if self._fixed else ""
            return (
                f"rounding alone moves every loss after the first update and every parameter that "
                f"is trained too far to compare it{rest}"
            )
        return "its first steps move no parameter, and no step after an update returns a loss"


def _are_near(found: torch.Tensor | None, expected: torch.Tensor | None, most: float) -> bool:
    """Say whether two trainings have a value alike, or both have none."""
    if found is None or expected is None:
        return found is expected
    return found.shape == expected.shape and _distance(found, expected) <= most


def _without_logs(recorded: Recorded) -> Recorded:
    """Leave out what the module logs: numbers of any kind, some of which jump."""
    numbers = {name: value for name, value in recorded.numbers.items() if name.startswith(OURS)}
    return replace(recorded, numbers=numbers)


Values = tuple[torch.Tensor | None, ...]
"""One value in the plain training, the same again, the fast one, and the perturbed ones."""


def _values(*trainings: Recorded) -> Iterator[tuple[str, Values, float]]:
    """List name, values of the trainings, and the largest norm of the same kind in the first."""
    all_numbers = [
        {name: torch.tensor([value], dtype=torch.float64) for name, value in of.numbers.items()}
        for of in trainings
    ]
    for values in (all_numbers, [of.tensors for of in trainings]):
        scales: dict[str, float] = {}
        for name, value in values[0].items():
            norm = float(value.double().norm())
            if math.isfinite(norm):
                scales[_kind(name)] = max(scales.get(_kind(name), 0.0), norm)
        for name in dict.fromkeys(name for of in values for name in of):
            yield name, tuple(of.get(name) for of in values), scales.get(_kind(name), 0.0)


def _kind(name: str) -> str:
    """Return what a value is compared in size with: others of its kind."""
    return " of ".join(name.split(" of ")[:-1]) or name.split(" ")[0]


def _distance(
    found: torch.Tensor, expected: torch.Tensor, noise: float = 0.0, scale: float = 0.0
) -> float:
    """Return the relative L2 distance; where both are not finite alike, nothing is off.

    It is relative to `expected`; up to `noise` of `scale`, which rounding may leave of a value that
    should be 0, to `scale`.
    """
    a, b = found.double(), expected.double()
    alike = torch.isfinite(b) & torch.isfinite(a)
    # Nothing is put in place of a NaN: where the plain value is 0, it would pass for it.
    if not torch.allclose(a[~alike], b[~alike], rtol=0.0, atol=0.0, equal_nan=True):
        return math.inf
    difference, size = float((a[alike] - b[alike]).norm()), float(b[alike].norm())
    if difference <= noise * scale:
        return difference / scale if scale else 0.0
    return difference / size if size else math.inf


def _shape(tensor: torch.Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "of a scalar"
