"""The cache of torch's compiler: each run has its own, so that a pair shows that compiling repeats.

torch keeps what it compiled in a folder that all processes of a user share. A second run finds the
first one's code there: that both end in the same bits then says that one binary repeats, and
nothing of what the compiler would have chosen the second time. Some of it is chosen by measured
times (autotuning). Precompiled C++ headers, which take 20 s and decide no bit, torch keeps beside
that folder in any case.
"""

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypedDict

# https://docs.pytorch.org/tutorials/recipes/torch_compile_caching_configuration_tutorial.html
FOLDERS = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
# Says which folder was made for the run; a variant or a module may choose another one.
OWN = "TWINRUN_COMPILER_CACHE"
# Of torch's settings, those that look for code on a server.
REMOTE = (
    *("fx_graph_remote_cache", "autotune_remote_cache", "bundled_autotune_remote_cache"),
    "remote_gemm_autotune_cache",
)

Sharing = Literal["own", "shared"]


class CompilerCache(TypedDict):
    """Where a run's compiler kept and looked for what it compiles."""

    folder: str
    """Its path; deleted with the run's processes if it is the run's own."""
    is_own: bool
    """Whether nothing but this run wrote to it, and nothing was looked for elsewhere."""


@contextmanager
def own_cache() -> Iterator[dict[str, str]]:
    """Yield environment variables by which processes compile into an empty folder; delete it."""
    # A process that was killed may leave a compiler of its own that still writes there. On further
    # nodes of a cluster torch makes a folder of that name, which stays.
    with tempfile.TemporaryDirectory(prefix="twinrun-", ignore_cleanup_errors=True) as folder:
        # Both: triton's lies below inductor's, unless the shell has named another one.
        yield {FOLDERS[0]: folder, FOLDERS[1]: str(Path(folder, "triton")), OWN: folder}


def cache_used() -> CompilerCache | None:
    """Say which cache this process has compiled into; None if it has compiled nothing."""
    # The user's module may compile by itself, whatever the variant says: torch's counter knows.
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is None or not dynamo.counters["stats"]["unique_graphs"]:
        return None
    from torch._inductor import config
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    folder, own = cache_dir(), os.environ.get(OWN)
    triton = os.environ.get(FOLDERS[1], folder)
    is_remote = any(getattr(config, name, None) for name in REMOTE)
    is_local = own is not None and all(
        Path(own) in (Path(p), *Path(p).parents) for p in (folder, triton)
    )
    return {"folder": folder, "is_own": is_local and not is_remote}


def sharing(caches: Sequence[CompilerCache | None]) -> Sharing | None:
    """Say whether runs compiled apart from each other; None if fewer than two compiled.

    >>> own, other = {"folder": "a", "is_own": True}, {"folder": "b", "is_own": True}
    >>> sharing([own, other]), sharing([own, own]), sharing([own, None])
    ('own', 'shared', None)
    """
    used = [cache for cache in caches if cache is not None]
    if len(used) < 2:
        return None
    folders = {cache["folder"] for cache in used}
    is_apart = len(folders) == len(used) and all(cache["is_own"] for cache in used)
    return "own" if is_apart else "shared"
