"""A module or data module that is yet to be made, in two steps as jsonargparse makes them.

The objects among its arguments may have to be made before another class, and it itself after.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, Generic, TypeVar

import pytorch_lightning as pl

from twinrun.errors import TwinrunError
from twinrun.training.constructors import Constructor, call
from twinrun.training.lightning_command import kept_as_given
from twinrun.training.objects import read, wrong
from twinrun.training.unsupported import wrong_package
from twinrun.wording import shown

Made = TypeVar("Made")

RETURNED = "it returned "  # of a function, what is not what its place needs


class Planned(Generic[Made]):
    """One of a workload's two: the objects among its arguments are made, then it."""

    def __init__(
        self,
        constructed: Constructor[Made],
        base: type[Made],
        source: str,
        given: Mapping[str, object],
        *,
        is_all: bool,
    ) -> None:
        for name, reason in wrong(constructed, given, is_all=is_all):
            raise TwinrunError(f"hyperparameters.{name}: {reason}")
        self._constructed, self._base, self._source = constructed, base, source
        self._given, self._is_all = given, is_all
        self._arguments: dict[str, Any] | None = None
        self._made: Made | None = None

    def make_arguments(self) -> dict[str, Any]:
        """Make the objects among the arguments, once."""
        if self._arguments is None:
            with self._explained():
                self._arguments = read(self._constructed, self._given, is_all=self._is_all)
        return self._arguments

    def make(self) -> Made:
        """Make it, once."""
        if self._made is None:
            self._made = self._called(self.make_arguments())
        return self._made

    def _called(self, arguments: Mapping[str, Any]) -> Made:
        is_kept = self._is_all
        kept = kept_as_given(self._constructed, self._given) if is_kept else nullcontext()
        with self._explained(), kept:
            built = call(self._constructed, arguments)
        if not isinstance(built, self._base):
            what = "None" if built is None else f"a {type(built).__name__}"
            cure = wrong_package(type(built))
            if issubclass(self._base, pl.LightningDataModule):
                cure = cure or "; `LightningDataModule.from_datasets(...)` makes one of datasets"
            raise TwinrunError(
                f"{self._source}: {RETURNED}{what}, where a pytorch_lightning."
                f"{self._base.__name__} is needed{cure}"
            )
        return built

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # a user's constructor may raise anything
            raise TwinrunError(
                f"{self._source}: constructing it with {shown(dict(self._given))} failed with "
                f"{type(error).__name__}: {error}"
            ) from error
