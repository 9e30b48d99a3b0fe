"""What differed first between two runs, in a clause. Does without torch.

>>> clause_of({"quantity": "gradients", "tensor": "head.weight", "step": 3})
'at step 3 in the gradients of head.weight'
"""

from twinrun.comparison.pair_records import FirstDifference
from twinrun.formatting import count


def clause_of(first: FirstDifference) -> str:
    """Say where two runs diverged, to be put after "first" where a step is named.

    >>> values = [0.01, 0.010003]
    >>> rate = "learning rate of group 0"
    >>> clause_of({"quantity": "optimizer settings", "tensor": rate, "step": 1, "values": values})
    'from step 1: the learning rate of group 0 is 0.01 in one run and 0.010003 in the other'
    """
    quantity, tensor, step = first["quantity"], first["tensor"], count(first["step"])
    if "values" in first and "since" not in first:
        return f"from step {step}: {settings_clause(first)}"
    of_tensor = f" of {tensor}" if tensor else ""
    if "since" in first:
        return f"{between_clause(first)}, seen in the {quantity}{of_tensor}"
    if not first["step"]:
        return f"before the first step in the {quantity}{of_tensor}"
    return f"at step {step} in the {quantity}{of_tensor}"


def between_clause(first: FirstDifference) -> str:
    """Say between which steps two runs diverged, of which only the last was traced.

    >>> between_clause({"since": 11, "step": 20})
    'between step 11 and 20'
    """
    since = count(first["since"]) if "since" in first else "1"
    if since == "0":  # what was looked at when all was over alone
        return f"by the end of step {count(first['step'])}"
    return f"between step {since} and {count(first['step'])}"


def settings_clause(first: FirstDifference) -> str:
    """Name a setting of an optimizer with both values."""
    left, right = told_apart(*first["values"]) if "values" in first else ("another", "another")
    return f"the {first['tensor']} is {left} in one run and {right} in the other"


def told_apart(left: float, right: float) -> tuple[str, str]:
    """Write two numbers with as many digits as it takes to see that they are two.

    >>> told_apart(0.01, 0.010000300000000001)
    ('0.01', '0.0100003')
    """
    for digits in range(6, 17):
        pair = f"{left:.{digits}g}", f"{right:.{digits}g}"
        if float(pair[0]) != float(pair[1]):
            return pair
    return repr(left), repr(right)
