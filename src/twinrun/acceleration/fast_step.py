"""How each training step is done: plain, in one piece, or in parts.

plain   as the module is. A step is plain when the optimizer's parameters, or which of them are
        trained, have not been seen before, or the optimizer has lost its counts: it shows which get
        gradients and fills their state
whole   forward, backward and update in one piece (see `whole_step`)
parts   the training step alone is compiled; backward pass, hooks, clipping and update are called
        as always. For good, once anything stands between them (see `between`), or the step turns
        out not to be one piece. Where a Python number changes all the time, not even that

Which it is follows from the step and from what `state_dict` holds, so that a training that is
resumed does each step as the whole one did.
"""

import itertools
from collections.abc import Iterable
from typing import Literal, TypedDict

import torch

from twinrun.acceleration.compilation import CannotCompile, Compiled, Shapes
from twinrun.acceleration.exact_counts import has_begun
from twinrun.acceleration.late_changes import change_of, settings_of, too_late
from twinrun.acceleration.whole_step import (
    Logged,
    OtherGradients,
    Step,
    WholeStep,
    compiled,
    updated_by,
)
from twinrun.config.definitions import Variant
from twinrun.errors import TwinrunError, sentence_of
from twinrun.run_records import CompilationCounts

Form = Literal["plain", "whole", "parts"]
Trained = tuple[bool, ...]
"""For each parameter of the optimizer, in its order."""
# torch has no `capturable` form of these.
UNCAPTURABLE = (torch.optim.Adagrad,)
PARTS: Trained = ()  # stands for steps in parts, whatever they train


class FormState(TypedDict):
    """What decides how further steps are done: plain values, for a checkpoint."""

    in_parts: str | None
    """Why a step is not done in one piece; None where it is."""
    not_compiled: str | None
    """Why nothing is compiled; None where the steps are."""
    used: list[list[list[bool]]]
    """Pairs of what was trained and what got gradients."""
    options: list[dict[str, object]] | None
    """Settings of the optimizer's groups."""
    shapes: list[tuple[list[bool], list[Shapes]]]
    """The shapes with graphs of their own, by what was trained."""


class FastStep:
    """Chooses the form of each step, and does what is fast in it."""

    def __init__(self, training_step: Step, variant: Variant, module: torch.nn.Module) -> None:
        """Make it ready; it compiles when it is called.

        Args:
            training_step: the module's, of a batch and its index.
            variant: its settings.
            module: whose step it is.
        """
        self.in_parts: str | None = None
        """Why steps are done in parts; None while they are done in one piece."""
        self.not_compiled: str | None = None
        """Why steps are not even compiled in parts any more."""
        self.logged: Logged = []
        """Where `training_step` leaves what it logs."""
        self.step = 0
        """Which step of the training is done, from 1, where that is counted."""
        # `_copy_of` rebuilds a function from its code and closure; a method would lose its module.
        self._training_step: Step = lambda batch, index: training_step(batch, index)
        self._variant, self._module = variant, module
        self._is_whole = variant.compile == "step" or variant.cuda_graph
        self._part: Compiled | None = None
        self._wholes: dict[Trained, WholeStep] = {}
        self._retired: list[Compiled] = []
        self._whole: WholeStep | None = None
        self._used: dict[Trained, Trained] = {}
        self._options: list[dict[str, object]] | None = None
        self._shapes: dict[Trained, list[Shapes]] = {}
        self._compilations = 0

    def form(self, optimizer: torch.optim.Optimizer, between: Iterable[str]) -> Form:
        """Choose how the step that is about to begin is done.

        Args:
            optimizer: as it is now.
            between: what stands between the passes, in words.

        Raises:
            TwinrunError: if the step must be in one piece and cannot.
        """
        if not self._is_whole:
            return "parts"
        if self.in_parts is None:
            reason = (
                next(iter(between), None)
                or self._changed_option(optimizer)
                or self._uncapturable(optimizer)
            )
            if reason is not None:
                self._take_apart(reason)
        if self.in_parts is not None:
            return "parts"
        parameters = updated_by(optimizer)
        trained = tuple([p.requires_grad for p in parameters])
        whole = self._wholes.get(trained)
        if whole is None or not whole.is_of(optimizer, parameters):
            used = self._used.get(trained)
            # Where an optimizer begins anew, too: a graph would make counts that are not exact.
            if used is None or not has_begun(optimizer, itertools.compress(parameters, used)):
                return "plain"
            whole = self._make_whole(optimizer, trained)
        if whole.lacks_state:
            return "plain"
        self._whole = whole
        return "whole"

    def note_plain(self, optimizer: torch.optim.Optimizer) -> None:
        """Take note of which parameters a plain step gave gradients to."""
        # torch's `zero_grad` sets gradients to None, and None they stay where nothing flows back.
        gradients = [parameter.grad for parameter in updated_by(optimizer)]
        # A step in one piece copies gradients into dense tensors that stay.
        if any(g is not None and g.layout != torch.strided for g in gradients):
            self._take_apart("a sparse gradient")
        elif any(g is not None for g in gradients):  # else the batch was skipped
            trained = tuple(p.requires_grad for p in updated_by(optimizer))
            self._used[trained] = tuple(g is not None for g in gradients)

    def whole(self, batch: object, index: int) -> tuple[bool, object]:
        """Do a step in one piece; return whether that was possible, and its result.

        If not, nothing of the step has been done, and this and all others are done in parts.

        Raises:
            TwinrunError: if the step must be in one piece and cannot, or has itself changed what
                its update rests on, which was read before.
        """
        assert self._whole is not None  # noqa: S101  `form` has just chosen it
        whole = self._whole
        before = settings_of(whole.optimizer)
        if whole.compiled is not None:
            whole.compiled.step = self.step
        try:
            result = whole(batch, index)
            if (change := change_of(before, whole.optimizer)) is not None:
                raise too_late(change, self._variant)
            if whole.compiled is not None and whole.compiled.is_restless:
                self._take_apart(_restless(whole.compiled))
            return True, result
        # Raised before the update, so that the batch can be done again in parts.
        except OtherGradients:
            self._take_apart("other parameters get gradients than before")
        except CannotCompile as error:
            # The tracer wraps it in an exception of its own, whose text still names it.
            if OtherGradients.__name__ in str(error):
                self._take_apart("other parameters get gradients than before")
            else:
                self._take_apart(f"what does not compile into one graph ({sentence_of(error)})")
        # The step is done again in parts, and logs again.
        self.logged.clear()
        return False, None

    def part(self, batch: object, index: int) -> object:
        """Return what `training_step` returns, with its graph; compiled where asked for."""
        if self._variant.compile == "none" or self.not_compiled is not None:
            return self._training_step(batch, index)
        if self._part is None:
            self._part = compiled(self._training_step, self._variant)
            # The resumed training gave these a graph each; past MOST_SHAPES, shapes share one.
            self._part.expect(self._shapes.pop(PARTS, []))
        self._part.step = self.step
        result = self._part(batch, index)
        if self._part.is_restless:
            self.not_compiled = _restless(self._part)
            print(f"compile: further steps are not compiled, because of {self.not_compiled}")
        return result

    @property
    def compiled(self) -> list[Compiled]:
        """All that has been compiled, with its counts."""
        wholes = [whole.compiled for whole in self._wholes.values()]
        return [c for c in (self._part, *self._retired, *wholes) if c is not None]

    @property
    def recordings(self) -> list[object]:
        """What is replayed, an object for each recorded step."""
        return [found for whole in self._wholes.values() for found in whole.recordings]

    @property
    def depends_on_history(self) -> bool:
        """Whether compiled code computes what it does because of steps before a checkpoint."""
        return any(found.depends_on_history for found in self.compiled)

    def counts(self) -> CompilationCounts | None:
        """Return the counts of all that was compiled; None for a step that compiles nothing."""
        if not self.compiled:
            return None
        counts = [found.counts() for found in self.compiled]
        return {
            "calls": sum(found["calls"] for found in counts),
            "compilations": sum(found["compilations"] for found in counts),
            "reasons": [reason for found in counts for reason in found["reasons"]],
        }

    def state_dict(self) -> FormState:
        """Return what decides how further steps are done: plain values."""
        made = {trained: whole.compiled for trained, whole in self._wholes.items()}
        shapes = {
            **self._shapes,
            **{of: found.shapes for of, found in {**made, PARTS: self._part}.items() if found},
        }
        return {
            "in_parts": self.in_parts,
            "not_compiled": self.not_compiled,
            "used": [[list(trained), list(used)] for trained, used in self._used.items()],
            "options": self._options,
            "shapes": [(list(of), found) for of, found in shapes.items()],
        }

    def load_state_dict(self, state: FormState) -> None:
        """Do further steps as the training would have done them that left this state."""
        self.in_parts, self.not_compiled = state["in_parts"], state["not_compiled"]
        self._options = state["options"]
        self._used = {tuple(trained): tuple(used) for trained, used in state["used"]}
        self._shapes = {tuple(of): found for of, found in state["shapes"]}

    def is_new(self) -> bool:
        """Say whether the step that was just done in one piece ran its Python code, for a graph."""
        counts = sum(found.compilations for found in self.compiled)
        is_new, self._compilations = counts != self._compilations, counts
        return is_new or self._variant.compile != "step"

    def _make_whole(self, optimizer: torch.optim.Optimizer, trained: Trained) -> WholeStep:
        old = self._wholes.pop(trained, None)
        if old is not None and old.compiled is not None:
            # Its graphs are of no more use, but its counts belong to the training.
            self._retired.append(old.compiled)
        of = self._training_step, optimizer, self._used[trained]
        whole = WholeStep(*of, self._variant, self.logged, self._module)
        if whole.compiled is not None:
            whole.compiled.expect(self._shapes.pop(trained, []))
        self._wholes[trained] = whole
        return whole

    def _changed_option(self, optimizer: torch.optim.Optimizer) -> str | None:
        """Name a setting of the optimizer, other than its rate, that is not what it was at first.

        Compiled or captured it would stay what it was.
        """
        options = [
            # `Update` takes over a new rate; all other settings are constants of a graph.
            {key: value for key, value in group.items() if key not in ("params", "lr")}
            for group in optimizer.param_groups
        ]
        if self._options is None or len(options) != len(self._options):
            self._options = options
        for group, before in zip(options, self._options, strict=True):
            if group != before:
                keys = [key for key in group if group[key] != before.get(key)]
                return f"a change of {', '.join(keys)} of {type(optimizer).__name__}"
        return None

    def _uncapturable(self, optimizer: torch.optim.Optimizer) -> str | None:
        """Name an optimizer whose update no capture allows."""
        # Compiled it computes with its count as a tensor.
        is_captured_as_it_is = self._variant.cuda_graph and self._variant.compile != "step"
        if not is_captured_as_it_is or type(optimizer) not in UNCAPTURABLE:
            return None
        return f"the update of {type(optimizer).__name__}, which reads its count of steps back"

    def _take_apart(self, reason: str) -> None:
        """Do steps in parts from now on.

        Raises:
            TwinrunError: if they are to be captured, which takes a step in one piece.
        """
        if self._variant.cuda_graph:
            raise TwinrunError(
                f"cuda_graph: a captured step has no room for {reason}; say compile: step or "
                f"module, or leave cuda_graph out"
            )
        self.in_parts = reason
        for whole in self._wholes.values():
            whole.give_back()
        print(f"compile: steps are done in parts, because of {reason}", flush=True)


def _restless(found: Compiled) -> str:
    return f"what compiles again and again ({found.reasons[-1]}); a tensor would not"
