"""Compile matrix products of many points and few features as loops over the points.

A matrix library is made for large matrices. Where a batch holds thousands of points of a few
features each (40,000 x 20), its products are short sums over features, or one long sum over points
for each weight. Written as such, with the points innermost in memory, torch's compiler vectorises
them over points, and fuses them with biases, activations and the optimizer. The points are taken
in blocks that stay in a core's cache. Sums are added in another order than a matrix library adds
them: values differ by rounding.

Below, a tall matrix is (N, F): N points, F features; its stored form is (B, F, S), N = B x S.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch._functorch.compile_utils import fx_graph_cse
from torch._inductor import config
from torch._inductor.compile_fx import compile_fx, compile_fx_inner
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.inductor_prims import force_stride_order
from torch._inductor.output_code import OutputCode

from twinrun.acceleration.compilation import SAME_RANDOM_NUMBERS
from twinrun.acceleration.placement import LOOPS_MADE, block_of, is_tall

Graph = Callable[..., object]
"""A compiled graph, as torch calls it."""

SUMS_AT_ONCE = 8  # in one loop; more do not fit into the registers of every processor
UNROLLED_BELOW = config.unroll_reductions_threshold

# What is worth keeping is stored below by hand: the compiler shall keep nothing else, since it
# would store it with the features innermost.
SETTINGS = {
    "realize_reads_threshold": 1000,
    "realize_opcount_threshold": 1000,
    "realize_acc_reads_threshold": 1000,
    # A product and a sum may be fused, and are then rounded once instead of twice.
    "cpp.enable_floating_point_contract_flag": "fast",
}


def backend(graph: torch.fx.GraphModule, inputs: Sequence[torch.Tensor]) -> Graph:
    """Compile a graph; a backend for `torch.compile`."""
    with config.patch(SAME_RANDOM_NUMBERS):  # the table of decompositions asks for it, too
        compiled = compile_fx(
            graph,
            inputs,
            inner_compile=_compile_once_each,
            config_patches={**SETTINGS, **SAME_RANDOM_NUMBERS},
            # Ours come last and so win over inductor's for the same operation.
            decompositions={**select_decomp_table(), **LOOPS},
        )
    return cast(Graph, compiled)  # ahead of time it would be the text of a program


def traced(graph: torch.fx.GraphModule, inputs: Sequence[torch.Tensor]) -> Graph:
    """Trace a graph into the same loops, and run their operations one by one."""

    def run(graph: torch.fx.GraphModule, inputs: Sequence[torch.Tensor]) -> Graph:
        return make_boxed_func(graph.forward)

    return aot_autograd(fw_compiler=run, decompositions=LOOPS)(graph, inputs)


def _compile_once_each(
    graph: torch.fx.GraphModule, inputs: Sequence[torch.Tensor], **options: Any
) -> OutputCode:
    """Compile a graph after merging what it computes twice: one stored form for all its readers."""
    graph.graph = fx_graph_cse(graph.graph)
    graph.recompile()
    return compile_fx_inner(graph, inputs, **options)


def _product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Multiply (M, K) by (K, N) where exactly one of the three is points and the others few."""
    (rows, inner), columns = left.shape, right.shape[1]
    if left.device.type != "cpu":
        # To torch's tracer: not decomposed, the operation stays what it is.
        return NotImplemented
    if is_tall(inner, max(rows, columns)):  # a weight's gradient: one sum over points each
        left_BMS, right_BNS = _stored(left), _stored(right.t())
        if rows >= columns:  # the longer loop goes outside, to be shared out evenly to threads
            return _sums_over_points(left_BMS, right_BNS)
        return _sums_over_points(right_BNS, left_BMS).t()
    if is_tall(rows, max(inner, columns)):
        left_BKS = _stored(left.t())
        product_BNS = _sums_over_features(left_BKS, right)
        return product_BNS.permute(1, 0, 2).reshape(columns, rows).t()
    if is_tall(columns, max(inner, rows)):
        return _product(right.t(), left.t()).t()
    return NotImplemented


def _sums_over_points(many_BMS: torch.Tensor, few_BNS: torch.Tensor) -> torch.Tensor:
    """Return the products (M, N) of two stored matrices, summed up over their points."""
    columns = few_BNS.shape[1]
    if columns > SUMS_AT_ONCE:
        return (many_BMS[:, :, None] * few_BNS[:, None]).sum(-1).sum(0)
    # One loop with a sum for each column: one sum alone waits for itself at every addition.
    sums_BM = [(many_BMS * few_BNS[:, column, None]).sum(-1) for column in range(columns)]
    return torch.stack(sums_BM, -1).sum(0)


def _sums_over_features(left_BKS: torch.Tensor, right_KN: torch.Tensor) -> torch.Tensor:
    """Return the product (B, N, S) of a stored matrix with a small one."""
    columns = right_KN.shape[1]
    # The compiler writes short sums out by itself, and one column is one sum.
    if not 1 < columns <= SUMS_AT_ONCE or len(right_KN) < UNROLLED_BELOW:
        return (right_KN.t()[None, :, :, None] * left_BKS[:, None]).sum(2)
    sums_BS = [(left_BKS * right_KN[:, column, None]).sum(1) for column in range(columns)]
    return torch.stack(sums_BS, 1)


def _sum_and_product(
    bias: torch.Tensor, left: torch.Tensor, right: torch.Tensor, beta: float = 1, alpha: float = 1
) -> torch.Tensor:
    product = _product(left, right)
    if product is NotImplemented or beta != 1 or alpha != 1:
        return NotImplemented
    return product + bias


def _sum(
    values: torch.Tensor,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """Sum a tall matrix over its points: a bias's gradient."""
    if values.dim() != 2 or dim is None or list(dim) != [0] or dtype is not None:
        return NotImplemented
    if values.device.type != "cpu" or not is_tall(*values.shape):
        return NotImplemented
    total = _stored(values.t()).sum(-1).sum(0)
    return total[None] if keepdim else total


def _stored(matrix_FN: torch.Tensor) -> torch.Tensor:
    """Have a matrix computed once, into memory, as (B, F, S)."""
    features, points = matrix_FN.shape
    LOOPS_MADE.append(f"{points} x {features}")
    size = block_of(points)
    blocks_BFS = matrix_FN.reshape(features, points // size, size).permute(1, 0, 2)
    copied = blocks_BFS.clone(memory_format=torch.contiguous_format)
    # Inductor chooses the strides of what it computes, unless it is told.
    return force_stride_order(copied, (features * size, size, 1))


LOOPS = {
    torch.ops.aten.mm.default: _product,
    torch.ops.aten.addmm.default: _sum_and_product,
    torch.ops.aten.sum.dim_IntList: _sum,
}
