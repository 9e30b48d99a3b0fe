"""Values of every type of number from their bits."""

import numpy as np
from hypothesis import strategies as st

FLOATS = {"float16": np.float16, "float32": np.float32, "float64": np.float64}
WIDTHS = {"float16": 16, "bfloat16": 16, "float32": 32, "float64": 64}
UNSIGNED = {16: np.uint16, 32: np.uint32, 64: np.uint64}


def from_bits(dtype, *bits):
    """Give values of a type from their bits, bfloat16 as it is read: as the bits."""
    array = np.array(bits, dtype=UNSIGNED[WIDTHS[dtype]])
    return array if dtype == "bfloat16" else array.view(FLOATS[dtype])


@st.composite
def bit_patterns(draw, number):
    """Draw a floating-point type and so many of its values, any bits: also NaN and infinity."""
    dtype = draw(st.sampled_from(list(WIDTHS)))
    bits = st.integers(0, 2 ** WIDTHS[dtype] - 1)
    return dtype, [from_bits(dtype, draw(bits)) for _ in range(number)]
