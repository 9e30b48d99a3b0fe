"""What loaders, samplers and datasets say themselves, so that nobody else has to look at it."""

from collections.abc import Sequence

from torch.utils.data import IterableDataset

from twinrun.checkpoint.found import Found
from twinrun.checkpoint.own_states import OwnState
from twinrun.checkpoint.stateful import Stateful
from twinrun.checkpoint.stream_position import is_stream, names_told
from twinrun.checkpoint.unsaved_state import OURS, WRAPPED
from twinrun.checkpoint.users_code import attributes_seen


class Told:
    """What loaders, samplers, datasets say themselves, or what is seen of them elsewhere."""

    def __init__(self, parts: Sequence[object]) -> None:
        stateful = [part for part in parts if isinstance(part, Stateful)]
        # These say where they are, and are asked for it; of what they wrap they may say nothing.
        self._names = {id(part): names_told(part) for part in stateful}
        held = [
            (id(value), self._is_told(part, name))
            for part in stateful
            for name, value in attributes_seen(part).items()
            if name not in WRAPPED
        ]
        self.values = {value for value, is_told in held if is_told}
        self._held = {
            id(value): (part, name, value)
            for part in stateful
            for name, value in attributes_seen(part).items()
        }
        self._holds: dict[int, bool] = {}
        self._classes = {id(each) for part in stateful for each in type(part).__mro__}
        self._stateful = {*self._classes, *self._names}
        self._filled = {value for value, _ in held} | self._stateful
        # The attributes of a stream are seen as positions (see `stream_position`).
        self._parts = self._stateful | {id(part) for part in parts if is_stream(part)}
        # Plain values in a user's own parts are seen as attributes (see `data_attributes`).
        own = [part for part in parts if not type(part).__module__.startswith((*OURS, "torch."))]
        self._own = {id(part) for part in own}

    def says(self, found: Found) -> bool:
        """Say whether a part that says itself where it is holds it."""
        owner = id(found.owner)
        is_said = owner in self._names and self._is_told(found.owner, found.name)
        return is_said or owner in self._classes or owner in self.values

    def holds(self, found: Found) -> bool:
        """Say whether the state of such a part has all of what a value lies in."""
        key = id(found.owner)
        if key in self._held and key not in self._holds:
            part, name, value = self._held[key]
            self._holds[key] = self.says(found) and OwnState(part).holds_all(name, value)
        return self._holds.get(key, False)

    def _is_told(self, part: object, called: str) -> bool:
        names = self._names[id(part)]
        return names is None or called.rpartition(".")[2] in names

    def may_fill(self, found: Found) -> bool:
        """Say whether a part that says itself where it is may collect what it reads there."""
        return id(found.owner) in self._filled

    def tells(self, found: Found) -> bool:
        """Say whether a number or a container is one of these."""
        owner = id(found.owner)
        is_seen = owner in self.values or owner in self._parts or owner in self._own
        return is_seen or isinstance(found.owner, IterableDataset)
