"""Generators of a user's own that the first step draws from: noise that a run's seed need not move.

One that a constructor makes (`np.random.default_rng(0)`) gives the same numbers from each seed.
"""

from contextlib import suppress

import pytorch_lightning as pl

from twinrun.generators import state_in_a_word
from twinrun.parallel.reached_code import ReachedCode


class OwnGenerators:
    """Looks at the generators that code of the user's may come to, around the first step."""

    def __init__(self) -> None:
        """Look at none yet."""
        self.found: dict[str, str] | None = None
        """The states in which the step begins, of those that it draws from, by where they are held;
        None before it has ended."""
        self._held: dict[str, object] = {}
        self._before: dict[str, str] = {}

    def begin(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Look at their states ahead of the step."""
        self._held = ReachedCode(trainer, module).generators
        self._before = self._states()

    def end(self) -> None:
        """See which of them are other ones behind it."""
        after = self._states()
        self.found = {name: of for name, of in self._before.items() if after.get(name) != of}
        self._held = {}

    def _states(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, generator in self._held.items():
            with suppress(Exception):  # a class of a user's may refuse
                if (state := state_in_a_word(generator)) is not None:
                    found[name] = state
        return found
