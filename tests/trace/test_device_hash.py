"""The hash that a GPU computes is what its formula says, and sees what xxh3 sees.

On a CPU; the tests marked `gpu` ask a GPU for the same bits.
"""

import functools
import itertools
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from twinrun.trace import device_hash
from twinrun.trace.fingerprints import fingerprint

MODULUS = 2**64


def mix(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % MODULUS
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % MODULUS
    return z ^ (z >> 31)


@functools.cache
def key(index):
    return mix((index + 1) * 0x9E3779B97F4A7C15 % MODULUS)


def by_formula(raw, block):
    """Hash bytes with Python's integers, as the module's docstring says."""
    words = [int.from_bytes(raw[start : start + 8], "little") for start in range(0, len(raw), 8)]
    found = mix((len(raw) + 0x9E3779B97F4A7C15) % MODULUS)
    for number, start in enumerate(range(0, len(words), block)):
        of_block = sum(mix(w ^ key(i)) for i, w in enumerate(words[start : start + block]))
        found += mix(of_block % MODULUS ^ key(number))
    return found % MODULUS


def bytes_of(tensor):
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    return plain.reshape(-1).view(torch.uint8).numpy().tobytes()


def hashes(tensors):
    found = device_hash.sums(tensors).tolist()
    return [device_hash.hash_of(n, t.nbytes) for n, t in zip(found, tensors, strict=True)]


def hash_of(tensor):
    return hashes([tensor])[0]


def words(count):
    """Make words of any bits, (count,) int64."""
    return torch.randint(-(2**63), 2**63 - 1, (count,))


TENSORS = {
    "float32": lambda: torch.randn(5, 7),
    "a scalar": lambda: torch.tensor(0.5),
    "transposed": lambda: torch.randn(3, 8).T,
    "every second": lambda: torch.randn(20)[1::2],
    "expanded": lambda: torch.randn(1, 4).expand(3, 4),
    "channels last": lambda: torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "at an odd place": lambda: torch.arange(64, dtype=torch.uint8)[3:43],
    "one byte over": lambda: torch.arange(41, dtype=torch.uint8),
    "bool": lambda: torch.rand(13) > 0.5,
    "float64": lambda: torch.randn(9, dtype=torch.float64),
    "bfloat16": lambda: torch.randn(11).bfloat16(),
    "float8": lambda: torch.randn(11).to(torch.float8_e4m3fn),
    "int16": lambda: torch.arange(-5, 6, dtype=torch.int16),
    "complex64": lambda: torch.randn(5, dtype=torch.complex64),
    "conjugate": lambda: torch.randn(5, dtype=torch.complex64).conj(),
    "negative view": lambda: torch.randn(5, dtype=torch.complex64).conj().imag,
    "complex128": lambda: torch.randn(5, dtype=torch.complex128),
    "empty": lambda: torch.empty(3, 0),
    "zeros": lambda: torch.zeros(100),
    "a parameter": lambda: torch.nn.Parameter(torch.randn(6)),
    "16 words": lambda: words(16),
    "several blocks": lambda: words(100),
    "blocks and a part": lambda: torch.randn(333),
}


@pytest.fixture
def small_blocks(monkeypatch):
    """Have blocks of 16 words, so that a small tensor has several."""
    monkeypatch.setattr(device_hash, "BLOCK", 16)
    monkeypatch.setattr(device_hash, "MOST", 64)


@pytest.mark.parametrize("kind", TENSORS)
def test_the_hash_is_what_its_formula_says(small_blocks, kind):
    tensor = TENSORS[kind]()
    assert hash_of(tensor) == by_formula(bytes_of(tensor), block=16)


def test_tensors_that_are_hashed_together_are_hashed_each(small_blocks):
    tensors = [made() for made in TENSORS.values()] * 2
    assert hashes(tensors) == [by_formula(bytes_of(tensor), block=16) for tensor in tensors]
    assert hashes([]) == []


class Counted(TorchDispatchMode):
    """Counts the operations that compute something: on a GPU each takes time to begin."""

    VIEWS = ("view", "detach", "slice", "select", "split", "split_with_sizes", "unbind")

    def __init__(self):
        super().__init__()
        self.number = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.number += func.overloadpacket.__name__ not in self.VIEWS
        return func(*args, **(kwargs or {}))


def test_large_and_small_tensors_share_operations():
    """Red before: 1,461 for these, by which tracing made a step on a GPU six times as long."""
    tensors = [torch.randn(size) for size in (150_000, 64, 64, 70_001) * 20]
    words_at_once = 2**21
    joins = -(-sum(tensor.nbytes for tensor in tensors) // 8 // words_at_once) + 1
    device_hash.sums(tensors)  # keys are made once
    with Counted() as counted:
        found = device_hash.sums(tensors)
    assert counted.number <= 25 * (joins + 1)  # those of a join, and of the blocks' sums once
    assert found.tolist() == [int(device_hash.sums([tensor])) for tensor in tensors]


def test_the_hash_of_a_large_tensor_is_what_its_formula_says():
    tensor = torch.randn(2 * device_hash.BLOCK + 2 * 1001 + 1)
    assert hash_of(tensor) == by_formula(bytes_of(tensor), block=2**16)


@pytest.mark.parametrize("kind", [k for k in TENSORS if TENSORS[k]().ndim])
def test_each_row_is_hashed_as_a_tensor_of_its_own(small_blocks, kind):
    tensor = TENSORS[kind]()
    found = device_hash.sums_of_rows(tensor).tolist()
    size = tensor[0].nbytes
    assert [device_hash.hash_of(n, size) for n in found] == [hash_of(row) for row in tensor]


def test_rows_of_several_blocks_and_no_rows(small_blocks):
    tensor = words(3 * 40).reshape(3, 40)
    found = device_hash.sums_of_rows(tensor).tolist()
    assert [device_hash.hash_of(n, 320) for n in found] == [hash_of(row) for row in tensor]
    assert device_hash.sums_of_rows(torch.empty(0, 5)).tolist() == []


def test_the_keys_are_the_numbers_of_splitmix64():
    """From the seed 0, as its authors' own code gives them."""
    first = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC]
    found = device_hash._first_keys(torch.device("cpu"), device_hash.BLOCK)
    assert [int(number) % MODULUS for number in found[:4]] == first
    assert len(found.unique()) == len(found)


def test_the_bits_are_the_same_whatever_the_order_of_the_sum(monkeypatch):
    tensor = torch.randn(5 * device_hash.BLOCK)
    known = hash_of(tensor)
    for most in (device_hash.BLOCK, 2 * device_hash.BLOCK, 2**23):
        monkeypatch.setattr(device_hash, "MOST", most)
        assert hash_of(tensor) == known
    threads = torch.get_num_threads()
    try:
        for number in (1, 2, 3):
            torch.set_num_threads(number)
            assert hash_of(tensor) == known
    finally:
        torch.set_num_threads(threads)
    block = tensor[: 2 * device_hash.BLOCK].view(torch.int64)
    terms = device_hash._mixed(block ^ device_hash._first_keys(block.device, len(block)))
    sums = {int(terms[torch.randperm(len(terms))].sum()) for _ in range(5)}
    halves = terms.view(2, -1).sum(1)
    assert sums == {int(halves[0] + halves[1])}


def test_it_is_allowed_where_algorithms_are_deterministic():
    """On a CPU; on a GPU torch forbids running sums of fractions alone."""
    known = hash_of(torch.ones(50))
    torch.use_deterministic_algorithms(True)
    try:
        assert hash_of(torch.ones(50)) == known
    finally:
        torch.use_deterministic_algorithms(False)


CHANGES = {
    "a swap": lambda t: t[[1, 0, *range(2, 64)]],
    "a far swap": lambda t: t[[63, *range(1, 63), 0]],
    "a swap of words": lambda t: t[[2, 3, 0, 1, *range(4, 64)]],
    "the sign of a zero": lambda t: torch.cat([-t[:1], t[1:]]),
    "the sign of two": lambda t: torch.cat([-t[:2], t[2:]]),
    "all signs": lambda t: -t,
    "reversed": lambda t: t.flip(0),
    "turned": lambda t: t.roll(2),
    "a zero more": lambda t: torch.cat([t, t.new_zeros(1)]),
    "one less": lambda t: t[:-1],
    "one moved to another": lambda t: torch.cat([t[:2] + torch.tensor([1.0, -1.0]), t[2:]]),
}


@pytest.mark.parametrize("taken", [hash_of, fingerprint])
@pytest.mark.parametrize("change", CHANGES)
def test_it_sees_what_xxh3_sees(taken, change):
    tensor = torch.arange(64.0)  # its first element is a zero
    assert taken(CHANGES[change](tensor)) != taken(tensor)
    assert taken(tensor.clone()) == taken(tensor)


def test_it_sees_each_of_a_million_flipped_bits():
    """A flip changes one word, and `mix` is a bijection: none is missed, by certainty.

    That no two flips give the same hash is chance: of n hashes two are the same with a probability
    of n^2 / 2^65, here 2e-8.
    """
    block = words(device_hash.BLOCK)
    known = hash_of(block)
    flips = torch.randint(0, 64 * len(block), (10**6,)).unique()
    where, bit = flips // 64, flips % 64
    keys = device_hash._first_keys(block.device, len(block))
    old = device_hash._mixed(block ^ keys)
    flipped = block[where] ^ (torch.ones_like(bit) << bit)
    new = device_hash._mixed(flipped ^ keys[where])
    of_block = old.sum() - old[where] + new
    found = device_hash._mixed(of_block ^ keys[0]) + device_hash._signed(
        device_hash.hash_of(0, block.nbytes)
    )
    assert len(found.unique()) == len(flips) > 800_000
    assert device_hash._signed(known) not in found
    for index in range(0, len(flips), len(flips) // 5):  # that is what hashing them gives
        changed = block.clone()
        changed[where[index]] = flipped[index]
        assert hash_of(changed) == int(found[index]) % MODULUS
    # Half of the 64 bits change: 32 on average, with a deviation of 4 / 1,000 over so many.
    bits = found.view(torch.uint8).view(-1, 8) ^ torch.tensor(
        list(known.to_bytes(8, "little")), dtype=torch.uint8
    )
    ones = sum(((bits >> place) & 1).sum() for place in range(8)) / len(flips)
    assert abs(float(ones) - 32) < 0.05


def row_hashes(rows):
    return device_hash.sums_of_rows(rows)


def test_it_sees_bits_that_are_flipped_in_pairs():
    """The same bit in two words, each pair of 64 words: a sum of plain words would miss half."""
    base = words(64)
    pairs = torch.tensor(list(itertools.combinations(range(64), 2)))
    for bit in (0, 31, 32, 52, 63):
        rows = base.repeat(len(pairs), 1)
        rows[torch.arange(len(pairs))[:, None], pairs] ^= 1 << bit if bit < 63 else -(2**63)
        found = row_hashes(torch.cat([base[None], rows]))
        assert len(found.unique()) == len(pairs) + 1


@pytest.mark.parametrize("values", ["floats", "small numbers", "one bit each"])
def test_it_sees_permutations(values):
    """Of numbers alike: two of so many have one hash with a probability of 3e-10 in all."""
    base = {
        "floats": torch.linspace(0, 1, 16, dtype=torch.float64),
        "small numbers": torch.arange(16),
        "one bit each": 1 << torch.arange(16),
    }[values]
    orders = torch.rand(10**5, 16).argsort(1)
    different = (orders << 4 * torch.arange(16)).sum(1).unique()
    assert len(row_hashes(base[orders]).unique()) == len(different) > 99_000


def test_it_sees_where_a_value_stands_in_zeros_and_how_many_there_are():
    rows = torch.eye(2000, dtype=torch.float32)
    assert len(row_hashes(rows).unique()) == 2000
    assert len(set(hashes([torch.zeros(n, dtype=torch.uint8) for n in range(3000)]))) == 3000


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("is_deterministic", [False, True])
def test_a_gpu_gives_the_bits_of_a_cpu(is_deterministic):
    tensors = [made() for made in TENSORS.values()] + [torch.randn(5_000_001)]
    known = hashes(tensors)
    of_rows = device_hash.sums_of_rows(tensors[0])
    torch.use_deterministic_algorithms(is_deterministic)
    try:
        assert hashes([tensor.cuda() for tensor in tensors]) == known
        assert torch.equal(device_hash.sums_of_rows(tensors[0].cuda()).cpu(), of_rows)
    finally:
        torch.use_deterministic_algorithms(False)


def test_the_page_has_the_sizes_of_the_code():
    """Red before: 64 MiB and 16 MiB of every GPU, though a large one has four times as much."""
    page = (Path(__file__).parents[2] / "docs/method.md").read_text().replace("\n", " ")
    parts, scratch = (
        [times * 8 * words // 2**20 for words in (device_hash.MOST, device_hash.MOST_ON_LARGE)]
        for times in (1, 4)
    )
    large = f"on one of {device_hash.LARGE // 2**30} GiB or more"
    assert f"at most {scratch[0]} MiB, {large} {scratch[1]} MiB" in page
    assert f"{parts[0]} MiB at a time, {large} {parts[1]} MiB" in page
