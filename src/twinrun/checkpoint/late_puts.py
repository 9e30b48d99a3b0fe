"""Methods and functions that put something into a container, or return what lies in one."""

import bisect
import heapq
import operator

FILLS = {"setdefault", "append", "add", "update", "extend", "insert", "put", "__setitem__"}
"""Methods that put something into what they are of."""
BY_A_KEY: set[object] = {"setdefault", "__setitem__", operator.setitem}
"""Those of methods and functions that are given a key."""
LIES_IN = {"get", "setdefault", "pop", "values", "items", "__getitem__"}
"""Methods that return what lies in what they are of."""
LIKE = (enumerate, zip, iter, next, reversed, sorted, list, tuple, filter)
"""Whose results are as what they are given."""
PUTS = (operator.setitem, bisect.insort_left, bisect.insort_right, heapq.heappush)
"""Functions that put something into what they are first given."""
SETS = (setattr,)
"""Functions that set an attribute."""
