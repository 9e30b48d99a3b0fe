"""How fast the hash of a GPU is on a CPU, beside xxh3, which a CPU uses, and on a GPU.

    python docs/measurements/device_hash.py

For tensors of float32 that lie in memory already, on one thread and on two; the median of rounds.
With a GPU also for tensors that lie there, beside a copy to the host, which xxh3 would need.
"""

import statistics
import time
from collections.abc import Callable

import torch

from twinrun.trace import device_hash
from twinrun.trace.fingerprints import fingerprint

ROUNDS = 5
SIZES = (2**12, 2**20, 2**25)  # elements


def gigabytes_a_second(taken: Callable[[torch.Tensor], object], tensor: torch.Tensor) -> float:
    """Return the rate at which something reads a tensor."""
    taken(tensor)
    _wait(tensor)
    seconds = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        taken(tensor)
        _wait(tensor)
        seconds.append(time.perf_counter() - started)
    return tensor.nbytes / statistics.median(seconds) / 1e9


def _wait(tensor: torch.Tensor) -> None:
    if tensor.is_cuda:
        torch.cuda.synchronize()


def on_gpu() -> None:
    """Measure and print what a GPU does."""
    for size in SIZES:
        tensor = torch.randn(size, device="cuda")
        rate = gigabytes_a_second(lambda t: device_hash.sums([t]), tensor)
        copied = gigabytes_a_second(torch.Tensor.cpu, tensor)
        print(f"{size:,} elements on a GPU: {rate:.2f} GB/s; copied {copied:.2f}", flush=True)


def main() -> None:
    """Measure and print."""
    if torch.cuda.is_available():
        on_gpu()
    device_hash.MOST = device_hash.BLOCK  # what fits a CPU's cache
    for size in SIZES:
        tensor = torch.randn(size)
        of_xxh3 = gigabytes_a_second(fingerprint, tensor)
        found = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            rate = gigabytes_a_second(lambda t: device_hash.sums([t]), tensor)
            found.append(f"{rate:.2f} on {threads}")
        print(f"{size:,} elements: GB/s {', '.join(found)} threads; xxh3 {of_xxh3:.2f}", flush=True)


if __name__ == "__main__":
    main()
