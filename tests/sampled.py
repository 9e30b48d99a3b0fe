"""A part of a product of cases for every change; the rest is left to the exhaustive run."""

from collections.abc import Iterable

import pytest


def one_in(number, cases: Iterable[object]):
    """Leave to the exhaustive run all of some cases but the first of each `number`."""
    return [
        case
        if index % number == 0
        else pytest.param(
            *(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.exhaustive
        )
        for index, case in enumerate(cases)
    ]
