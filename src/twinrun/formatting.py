"""How numbers are written for readers: in figures, captions and tables.

Counts carry thousands separators, measures three significant digits at most, very small and very
large ones a power of ten in Unicode superscripts, so that no reader needs a formula renderer.
"""

import math

_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def count(value: int) -> str:
    """Write a whole number.

    >>> count(12609)
    '12,609'
    """
    return f"{value:,}"


def power_of_ten(exponent: int) -> str:
    """Write a power of ten.

    >>> power_of_ten(-7)
    '10⁻⁷'
    """
    return f"10{str(exponent).translate(_SUPERSCRIPTS)}"


def measure(value: float | None, digits: int = 3) -> str:
    """Write a measured value with significant digits.

    >>> measure(0.98312), measure(1.27e-7, digits=2), measure(285.91), measure(0.0)
    ('0.983', '1.3×10⁻⁷', '286', '0')
    """
    if value is None or math.isnan(value):
        return "–"
    if value == 0:
        return "0"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    # Rounded first: 999.9 has one digit more in front of its point than before.
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    # As people write them: 0.00012 and 285,910, but 1.2×10⁻⁵.
    if -4 < int(exponent) < 6:
        decimals = max(digits - 1 - int(exponent), 0)
        return f"{value:,.{decimals}f}".replace("-", "−")
    return f"{mantissa}×{power_of_ten(int(exponent))}".replace("-", "−")


def digits_for(largest: float, apart: float, least: int = 3) -> int:
    """Return how many digits show two of what values are apart by.

    >>> digits_for(0.9, 0.02), digits_for(0.9999, 0.00002), digits_for(math.inf, math.inf)
    (3, 6, 3)
    """
    if not (math.isfinite(largest) and apart > 0):
        return least
    return max(least, math.floor(math.log10(largest)) - math.floor(math.log10(apart)) + 2)


def p_value(p: float) -> str:
    """Write a probability.

    >>> p_value(0.0123), p_value(1e-9)
    ('= 0.012', '< 0.001')
    """
    return "< 0.001" if p < 0.001 else f"= {p:.2g}"


def percent(share: float) -> str:
    """Write a share; what is neither nothing nor everything is never rounded to it.

    >>> percent(0.5), percent(1e-5), percent(0.99999), percent(1), percent(12.5)
    ('50%', '< 0.1%', '> 99.9%', '100%', '1,250%')
    """
    if 0 < share < 0.001:
        return "< 0.1%"
    if 0.999 < share < 1:
        return "> 99.9%"
    return f"{_short(100 * share)}%"


def seconds(value: float) -> str:
    """Write a duration in the unit that suits it.

    >>> seconds(0.0123), seconds(4.21), seconds(185)
    ('12.3 ms', '4.21 s', '3 min 5 s')
    """
    rounded = float(f"{value:.2e}")  # 0.9996 s are 1.00 s, and not 1,000 ms
    if rounded < 1e-3:
        return f"{measure(1e6 * value)} µs"
    if rounded < 1:
        return f"{measure(1e3 * value)} ms"
    if rounded < 100:
        return f"{measure(value)} s"
    if rounded < 7200:
        minutes, rest = divmod(round(value), 60)
        return f"{minutes} min {rest} s"
    return f"{measure(value / 3600)} h"


def plural(number: int, noun: str) -> str:
    """Write a counted noun.

    >>> plural(1, "step"), plural(1200, "step")
    ('1 step', '1,200 steps')
    """
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def verb(plain: str, number: int, whole: int) -> str:
    """Write what some of a whole do; one does it, and so do all or none of one.

    >>> [verb("differ", number, whole) for number, whole in ((0, 1), (1, 36), (0, 36), (2, 2))]
    ['differs', 'differs', 'differ', 'differ']
    """
    return f"{plain}s" if 1 in (number, whole) else plain


def training_length(epochs: int, max_steps: int) -> str:
    """Write how long a training is; -1 where one of both is no limit.

    >>> training_length(2, -1), training_length(-1, 1500), training_length(2, 30)
    ('2 epochs', '1,500 steps', '2 epochs, 30 steps at most')
    """
    limits = [plural(epochs, "epoch")] if epochs != -1 else []
    if max_steps != -1:
        limits.append(plural(max_steps, "step") + " at most" * len(limits))
    return ", ".join(limits)


def size_in_bytes(number: int) -> str:
    """Write a size of memory or of a file.

    >>> size_in_bytes(204), size_in_bytes(50436), size_in_bytes(3 * 2**30)
    ('204 bytes', '49.3 KiB', '3 GiB')
    """
    if number < 2**10:
        return plural(number, "byte")
    # Powers of 1024, and so KiB: a KB is 1,000 bytes.
    unit = next((n for n in (30, 20, 10) if number >= 2**n), 10)
    return f"{_short(number / 2**unit)} {'KMG'[unit // 10 - 1]}iB"


def _short(value: float) -> str:
    """Write three significant digits, without zeros behind the point."""
    text = f"{value or 0:.3g}"  # minus zero is 0
    return measure(value) if "e" in text else text
