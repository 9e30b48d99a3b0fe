"""Which attributes of an object the code sets or fills that reads data.

Read from its instructions: by `self.x = ...`, by `self.x[...] = ...`, and where a local name has
what lies in an attribute, or a function is given it (`row = self.rows[i]`, `fetch(self.kept, i)`).
"""

import functools
import inspect
from collections.abc import Mapping

from twinrun.checkpoint.late_code import Filling
from twinrun.checkpoint.own_states import functions_behind
from twinrun.checkpoint.users_code import names_in

SET, ANY = "=", "*"
"""That an attribute is set; that something is put into it by a key that no code names."""
_BY_NAME = {"setattr", "__setattr__", "__dict__", "vars"}


@functools.cache
def filled_by(
    kind: type, methods: frozenset[str]
) -> tuple[Mapping[str, frozenset[str]], frozenset[str]]:
    """Name the attributes that methods of a class set or fill, and all that their code names.

    Args:
        kind: the class; methods that these call by a name count too.
        methods: names of those that read.

    Returns:
        By the name of an attribute `SET`, and the keys by which something is put into it, `ANY` of
        one that is computed and `.name` of an attribute; and all names.
    """
    bases = tuple(base for base in kind.__mro__ if base is not object)
    filling, named = Filling(bases), set[str]()
    for function in functions_behind(bases, tuple(sorted(methods))):
        plain = inspect.unwrap(function)
        names = set(names_in(plain.__code__))
        named |= names
        if _BY_NAME & names:
            for name in names:
                filling.filled[name] |= {SET, ANY}
        filling.read(plain)
    filled = {name: frozenset(keys) for name, keys in filling.filled.items()}
    return filled, frozenset(named)
