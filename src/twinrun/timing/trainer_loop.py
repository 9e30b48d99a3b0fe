"""Training steps through Lightning's Trainer, clocked with the loop around them.

The Trainer is set up as a run's, but for what a run keeps: it fetches the batches from the data
module's loader, moves them, calls hooks, logs and steps schedules. The clock runs from the end of
one step to the end of another, so what a fit costs once stays outside. Validation does too; it is
done, with one batch, only where the training may need its metrics. Every epoch has the batches in
the order of the bare steps', so that both, and all variants, measure the same batches.
"""

from torch.utils.benchmark import timer  # synchronises the device, then reads the clock

from twinrun.acceleration.under_trainer import Speed
from twinrun.config.definitions import Variant
from twinrun.timing.fit import Fit
from twinrun.timing.initial_state import InitialState


class TrainerLoop:
    """A training that is done a few steps at a time."""

    def __init__(self, initial: InitialState, variant: Variant) -> None:
        """Set the training up, of a module of its own.

        Raises:
            TwinrunError: if the variant's settings contradict each other, the device, the module
                or the optimizer.
        """
        module = initial.module()
        self._fit = Fit(initial, module, variant, callbacks=[Speed(module, variant)])
        self._steps = self._fit.steps()

    @property
    def fit(self) -> Fit:
        """The fit that is trained."""
        return self._fit

    def seconds(self, steps: int) -> float:
        """Train on, and return the seconds of the steps."""
        before, started = self._fit.untimed_seconds, timer()
        for _ in range(steps):
            next(self._steps)
        return timer() - started - (self._fit.untimed_seconds - before)
