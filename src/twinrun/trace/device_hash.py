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

from twinrun.plain_tensors import bare

GAMMA = 0x9E3779B97F4A7C15
BLOCK = 2**16  # words: 512 KiB
MOST = 2**21  # words that are mixed at once: the scratch is four times as many, 64 MiB
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


def sums(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the sum over the blocks of each tensor, (T,) int64, on their device.

    Args:
        tensors: strided ones on one device, not quantised.
    """
    found: list[torch.Tensor] = []
    bundle: list[torch.Tensor] = []
    words = 0
    for tensor in tensors:
        raw = _raw(tensor)
        size = -(-raw.numel() // _WORD)
        if bundle and (size > BLOCK or words + size > MOST):
            found.append(_of_bundle(bundle))
            bundle, words = [], 0
        if size > BLOCK:
            found.append(_of_large(raw))
        else:
            bundle.append(raw)
            words += size
    if bundle:
        found.append(_of_bundle(bundle))
    return torch.cat(found) if found else torch.empty(0, dtype=torch.int64)


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
        return torch.cat([_of_large(row) for row in raw])
    sums_of_parts = [_block_sums(_words(part)) for part in raw.split(MOST // size)]
    return _mixed(torch.cat(sums_of_parts) ^ _keys(tensor.device)[0])


def words_of(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return tensors of at most 8 bytes as they are, each padded to a word: (T,) int64."""
    return _joined_words([_raw(tensor) for tensor in tensors])


def _raw(tensor: torch.Tensor) -> torch.Tensor:
    """Return a strided tensor's bytes in the order of its elements, flat uint8."""
    flat = bare(tensor).detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return flat.view(torch.uint8)


def _of_bundle(raws: Sequence[torch.Tensor]) -> torch.Tensor:
    """Hash tensors of one block each together: on a GPU each operation takes time to begin."""
    sizes = [-(-raw.numel() // _WORD) for raw in raws]
    keys = _keys(raws[0].device)
    each = _mixed(_joined_words(raws) ^ torch.cat([keys[:size] for size in sizes]))
    # Sums of stretches from one running sum: integers wrap around, and nothing is lost.
    running = torch.cat([each.new_zeros(1), each.cumsum(0)])
    # By numbers, not by an index: to bring one to a GPU is to wait for it.
    ends = list(_bounds(sizes))
    found = torch.stack([running[end] for end in ends]) - torch.stack(
        [running[start] for start in (0, *ends[:-1])]
    )
    found = _mixed(found ^ keys[0])
    if 0 in sizes:  # of no words there is no block
        found = torch.stack([found[i] if n else each.new_zeros(()) for i, n in enumerate(sizes)])
    return found


def _bounds(sizes: Sequence[int]) -> Iterator[int]:
    end = 0
    for size in sizes:
        end += size
        yield end


def _of_large(raw: torch.Tensor) -> torch.Tensor:
    """Hash a tensor of several blocks, (1,)."""
    parts = []
    for part in raw.split(MOST * _WORD):
        whole = part.numel() // (BLOCK * _WORD) * BLOCK * _WORD
        if whole:
            parts.append(_block_sums(_words(part[:whole].view(-1, BLOCK * _WORD))))
        if whole < part.numel():
            parts.append(_block_sums(_words(part[whole:].view(1, -1))))
    of_blocks = torch.cat(parts)
    keys = _keys(raw.device, len(of_blocks))
    return _mixed(of_blocks ^ keys[: len(of_blocks)]).sum(0, keepdim=True)


def _block_sums(words: torch.Tensor) -> torch.Tensor:
    """Return s_b of blocks: of (B, W) words (B,)."""
    return _mixed(words ^ _keys(words.device)[: words.shape[1]]).sum(1)


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
    zeros = raws[0].new_zeros(_WORD)
    parts = [part for raw in raws for part in (raw, zeros[: -raw.numel() % _WORD])]
    return torch.cat(parts).view(torch.int64)


def _mixed(words: torch.Tensor) -> torch.Tensor:
    """Return `mix` of each word; the words are used up."""
    for shift, factor in _SHIFTS:
        # torch shifts copies of the sign in, where zeros are wanted.
        shifted = words >> shift
        words ^= shifted.bitwise_and_(2 ** (64 - shift) - 1)
        if factor != 1:
            words *= _signed(factor)
    return words


@functools.lru_cache(maxsize=64)
def _keys(device: torch.device, count: int = BLOCK) -> torch.Tensor:
    """Return the first keys k_i, (count,) int64, BLOCK at least; they stay on the device."""
    if count < BLOCK:
        return _keys(device)
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
