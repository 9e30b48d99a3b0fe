"""A hash of tensors that is computed where they lie, so that 8 bytes of each leave a GPU.

A tensor's bytes, padded by zeros, are 64-bit words w (little-endian) in blocks of BLOCK words. All
arithmetic is on integers modulo 2^64:

    mix(z)   z ^= z >> 30; z *= 0xbf58476d1ce4e5b9; z ^= z >> 27; z *= 0x94d049bb133111eb;
             z ^= z >> 31
    k_i      mix((i + 1) * GAMMA), i = 0, 1, 2, ...
    s_b      sum over i of mix(w_(b * BLOCK + i) ^ k_i), for each block b
    hash     mix(number of bytes + GAMMA) + sum over b of mix(s_b ^ k_b)

`mix` is David Stafford's variant 13 of MurmurHash3's finaliser ("Better Bit Mixing", 2011), a
bijection; with GAMMA it is the generator SplitMix64 (Steele, Lea and Flood, "Fast Splittable
Pseudorandom Number Generators", OOPSLA 2014; S. Vigna's splitmix64.c), whose outputs from the seed
0 are the keys k. To add up hashes of keyed words is the "randomize-then-combine" of Bellare and
Micciancio ("A New Paradigm for Collision-free Hashing", EUROCRYPT 1997). Sums modulo 2^64 are
associative and commutative: in whatever order a device adds, the bits are the same.

Since `mix` is a bijection, tensors of one length that differ within one word never have the same
hash. Others have with a probability of 2^-64 each, ASSUMING that values of `mix` are as random
ones. It is no defence against somebody who looks for two tensors of one hash.
"""

import functools
from collections.abc import Iterator, Sequence

import torch

from twinrun.plain_tensors import bare, raw_bytes

GAMMA = 0x9E3779B97F4A7C15
BLOCK = 2**16  # words: 512 KiB
MOST = 2**21  # words that are mixed at once: the scratch is four times as many, 64 MiB
MOST_ON_LARGE = 2**23  # on a GPU of LARGE bytes or more
LARGE = 2**35
_MODULUS = 2**64
_WORD = 8  # bytes
_SHIFTS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))


def is_on_gpu(tensor: torch.Tensor) -> bool:
    """Say whether a tensor is hashed where it lies: on a GPU of NVIDIA's or AMD's."""
    return tensor.is_cuda


def hash_of(number: int, num_bytes: int) -> int:
    """Return the hash of a tensor, from what `sums` or `sums_of_rows` gave of it.

    >>> hex(hash_of(0, 0))  # the first number of SplitMix64 from the seed 0
    '0xe220a8397b1dcdaf'
    """
    return (number + _of_length(num_bytes)) % _MODULUS


@torch.no_grad()
def sums(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the sum over the blocks of each tensor, (T,) int64, on their device.

    All of them together, in few operations: on a GPU each takes time to begin.

    Args:
        tensors: strided ones on one device, not quantised.
    """
    if not tensors:
        return torch.empty(0, dtype=torch.int64)
    device = tensors[0].device
    of_blocks = [_block_sums(parts) for parts in _parted(tensors, _most_on(device))]
    numbers = [-(-each.numel() * each.element_size() // (BLOCK * _WORD)) for each in tensors]
    if not of_blocks:
        return torch.zeros(len(tensors), dtype=torch.int64, device=device)
    keys = torch.cat([_first_keys(device, number) for number in numbers])
    return _sums_of_stretches(_mixed(torch.cat(of_blocks) ^ keys), numbers)


@torch.no_grad()
def sums_of_rows(tensor: torch.Tensor) -> torch.Tensor:
    """Return what `sums` gives of each row of a tensor's first dimension, (N,) int64.

    Args:
        tensor: a strided one of one dimension or more, not quantised.
    """
    if not tensor.numel():  # no rows, or rows of no block
        return torch.zeros(len(tensor), dtype=torch.int64, device=tensor.device)
    raw = _raw(tensor).view(len(tensor), -1)
    size = -(-raw.shape[1] // _WORD)
    if size > BLOCK:
        return sums(raw.unbind())
    parts = [_words(part) for part in raw.split(_most_on(raw.device) // size)]
    of_rows = [_mixed(part ^ _first_keys(part.device, size)).sum(1) for part in parts]
    return _mixed(torch.cat(of_rows) ^ _first_keys(raw.device, 1))


def words_of(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return tensors of at most 8 bytes as they are, each padded to a word: (T,) int64."""
    return _joined_words([_raw(tensor) for tensor in tensors])


def _most_on(device: torch.device) -> int:
    """Return how many words are mixed at once: each time costs a GPU some twenty launches."""
    return MOST_ON_LARGE if _is_large(device) else MOST


@functools.cache
def _is_large(device: torch.device) -> bool:
    is_gpu = device.type == "cuda"
    return is_gpu and torch.cuda.get_device_properties(device).total_memory >= LARGE


def _raw(tensor: torch.Tensor) -> torch.Tensor:
    """Return a strided tensor's bytes in the order of its elements, flat uint8."""
    plain = bare(tensor)
    if plain.is_conj() or plain.is_neg():
        plain = plain.resolve_conj().resolve_neg()
    return raw_bytes(plain)


def _parted(tensors: Sequence[torch.Tensor], most: int) -> Iterator[list[torch.Tensor]]:
    """Yield the bytes of tensors in their order, at most so many words at once, cut by blocks."""
    together: list[torch.Tensor] = []
    words = 0
    for tensor in tensors:
        raw = _raw(tensor)
        parts = raw.split(most * _WORD) if raw.numel() > most * _WORD else (raw,)
        for part in parts:
            size = -(-part.numel() // _WORD)
            if together and words + size > most:
                yield together
                together, words = [], 0
            if size:
                together.append(part)
                words += size
    if together:
        yield together


def _block_sums(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return s_b of the blocks of several tensors' bytes, (B,); none of them is empty."""
    sizes = []
    for part in parts:
        whole, rest = divmod(-(-part.numel() // _WORD), BLOCK)
        sizes += [BLOCK] * whole + [rest] * bool(rest)
    keys = torch.cat([_first_keys(parts[0].device, size) for size in sizes])
    return _sums_of_stretches(_mixed(_joined_words(parts) ^ keys), sizes)


def _sums_of_stretches(numbers: torch.Tensor, sizes: Sequence[int]) -> torch.Tensor:
    """Return the sums of stretches of (N,) int64, one behind the other, of sizes that give N."""
    # From one running sum: integers wrap around, and nothing is lost. Cut by numbers, not taken by
    # an index: to bring one to a GPU is to wait for it.
    cuts = [cut for size in sizes if size for cut in (size - 1, 1)]
    ends = torch.cat(numbers.cumsum(0).split(cuts)[1::2])
    found = torch.diff(ends, prepend=ends.new_zeros(1))
    if 0 in sizes:
        zero, rest = ends.new_zeros(1), iter(found.split(1))
        found = torch.cat([next(rest) if size else zero for size in sizes])
    return found


def _words(raw: torch.Tensor) -> torch.Tensor:
    """Return rows of bytes as rows of words, padded by zeros; shares the memory if it can."""
    missing = -raw.shape[1] % _WORD
    if missing:
        raw = torch.cat([raw, raw.new_zeros(len(raw), missing)], dim=1)
    elif raw.storage_offset() % _WORD or not raw.is_contiguous():
        raw = raw.clone(memory_format=torch.contiguous_format)
    return raw.view(torch.int64)


def _joined_words(raws: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the words of several tensors, one behind the other."""
    parts = []
    for raw in raws:
        parts.append(raw)
        if missing := -raw.numel() % _WORD:
            parts.append(_zeros(raw.device, missing))
    return torch.cat(parts).view(torch.int64)


@functools.lru_cache(maxsize=64)
def _zeros(device: torch.device, count: int) -> torch.Tensor:
    return torch.zeros(count, dtype=torch.uint8, device=device)


def _mixed(words: torch.Tensor) -> torch.Tensor:
    """Return `mix` of each word; the words are used up."""
    for shift, factor in _SHIFTS:
        # torch shifts copies of the sign in, where zeros are wanted.
        shifted = words >> shift
        words ^= shifted.bitwise_and_(2 ** (64 - shift) - 1)
        if factor != 1:
            words *= _signed(factor)
    return words


@functools.lru_cache(maxsize=4096)
def _first_keys(device: torch.device, count: int) -> torch.Tensor:
    """Return the first keys k_i, (count,) int64: a part of a table that stays on the device."""
    return _keys(device, 1 << max(count - 1, BLOCK - 1).bit_length())[:count]


@functools.lru_cache(maxsize=64)
def _keys(device: torch.device, count: int) -> torch.Tensor:
    numbers = torch.arange(1, count + 1, device=device) * _signed(GAMMA)
    return _mixed(numbers)


@functools.lru_cache(maxsize=4096)
def _of_length(num_bytes: int) -> int:
    z = (num_bytes + GAMMA) % _MODULUS
    for shift, factor in _SHIFTS:
        z = (z ^ (z >> shift)) * factor % _MODULUS
    return z


def _signed(number: int) -> int:
    """Return the int64 of the same bits."""
    return number - _MODULUS if number >= _MODULUS // 2 else number
