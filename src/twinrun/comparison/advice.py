"""What to look at where runs diverge, by the class of the cause and by operation: words alone.

Apart from `causes`, so that another wording does not make comparisons again.
"""

from twinrun.comparison.pair_records import Cause

# Of data: what has another order in each process, or from time to time.
UNORDERED = (
    "for a set, a `hash` or a folder's listing that nothing fixes (`sorted`, `PYTHONHASHSEED`), "
    "and for threads"
)
# A dataset that the workload names is compared: runs of other ones are not comparable.
_FILE = ", or for a file that has changed between the two and is no dataset of the config"
_EMPTY = "memory that nothing has written (`torch.empty`)"
# What to look at, a clause for each class.
ADVICE: dict[Cause, str] = {
    "initial weights": f"look for weights that are drawn before or without the seed, for "
    f"a file that another training has left, and for {_EMPTY}",
    "between steps": "look for a hook, a callback or another thread that changes weights or "
    "buffers between steps, from a file that another training has left, say",
    "RNG state": "find what draws from or seeds the global random generators (a callback, a "
    "loader, a library, the constructor of the module), and give it a generator of its own",
    "data order": f"look for a shuffle, a sampler or a split (`random_split`) that draws from "
    f"another source than the seed, {UNORDERED}",
    "data content": f"look for augmentation or data workers whose result the seed does not decide, "
    f"{UNORDERED}{_FILE}",
    "data order or content": f"what was seen does not tell which: look for a shuffle, a sampler, a "
    f"split, augmentation or data workers whose result the seed does not decide, "
    f"{UNORDERED}{_FILE}",
    "data not compared": "whether both were given the same mini-batches is not known, since the "
    "shards of several workers could not be put together",
    "forward": "look for an operation of the forward pass that is not reproducible, or is given a "
    "value that the seed does not decide (an attribute of the module, a clock)",
    "backward": "look for an operation of the backward pass that is not reproducible, or is given "
    "a value that the seed does not decide (a hook of a gradient, a clock)",
    "collective": "look at the exchange of gradients between the workers",
    "optimizer": "look at the optimizer: its state, what else writes that (a hook), and its "
    "implementation",
    "end of the training": "look for what ends a training or an epoch (early stopping, a time "
    "limit, `should_stop`), whether what that goes by (a metric of validation) differs before it, "
    "and for a loader of another length",
    "not held": f"no step shows what neither the module nor an optimizer of Lightning's holds: "
    f"make it a submodule to see where it begins, or look at all that trains it, for weights that "
    f"are drawn without the seed, and for {_EMPTY}",
    "not traced": "trace every step (`trace: {every: 1}`) to find where it begins",
}
# Of the optimizer's settings: numbers of Python's.
SETTINGS_ADVICE = (
    "look for what sets it, and from what (a schedule, a callback, `configure_optimizers`, or "
    "`optimizer_step`, `training_step` and other hooks of the module); what it goes by, such as a "
    "metric of validation, may differ before it"
)

# Operations that `torch.use_deterministic_algorithms` documents, as torch 2.13 names them in a
# trace: those that have a reproducible algorithm, and those that then raise an error.
# fmt: off
REPRODUCIBLE = {
    "aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_",
    "aten::_unsafe_index_put", "aten::index_add", "aten::index_add_", "aten::index_copy",
    "aten::index_copy_", "aten::scatter", "aten::scatter_", "aten::scatter_add",
    "aten::scatter_add_", "aten::scatter_reduce", "aten::scatter_reduce_", "aten::gather",
    "aten::convolution", "aten::convolution_backward", "aten::bmm",
    "aten::replication_pad1d_backward", "aten::replication_pad2d_backward",
    "aten::replication_pad3d_backward", "aten::max_pool3d_with_indices_backward",
}
NOT_REPRODUCIBLE = {
    "aten::avg_pool3d_backward", "aten::_adaptive_avg_pool2d_backward",
    "aten::_adaptive_avg_pool3d_backward", "aten::adaptive_max_pool2d_backward",
    "aten::fractional_max_pool2d_backward", "aten::fractional_max_pool3d_backward",
    "aten::max_unpool2d", "aten::max_unpool3d", "aten::upsample_linear1d_backward",
    "aten::upsample_bilinear2d_backward", "aten::upsample_bicubic2d_backward",
    "aten::upsample_trilinear3d_backward", "aten::reflection_pad1d_backward",
    "aten::reflection_pad2d_backward", "aten::reflection_pad3d_backward",
    "aten::nll_loss_forward", "aten::nll_loss2d_forward", "aten::_ctc_loss_backward",
    "aten::_embedding_bag_backward", "aten::put_", "aten::histc", "aten::bincount",
    "aten::median", "aten::grid_sampler_2d_backward", "aten::grid_sampler_3d_backward",
    "aten::cumsum",
}
# fmt: on


# torch.use_deterministic_algorithms fills what torch.empty gives.
UNWRITTEN_ADVICE = (
    "write it before it is read (`torch.zeros` for `torch.empty`); `deterministic: true` fills it "
    "with NaN, as long as `fill_uninitialized_memory` is on"
)


def remedy_of(op: str, *, deterministic: bool, departed: str | None = None) -> str:
    """Say in a clause what torch documents against an operation that does not repeat.

    Args:
        op: its name, such as `aten::index_put`.
        deterministic: whether only reproducible algorithms were asked for already.
        departed: how the training departed from what was asked for there; None if it did not.
    """
    # torch's list tells devices, types and modes apart, which the name of an operation does not:
    # hence "on every device".
    if op in NOT_REPRODUCIBLE:
        return "torch documents no reproducible algorithm for it on every device: use another one"
    if op in REPRODUCIBLE and deterministic and departed:
        return f"torch has a reproducible algorithm for it, which was not in effect: {departed}"
    if op in REPRODUCIBLE and not deterministic:
        return "torch has a reproducible algorithm for it: set `deterministic: true`"
    if op in REPRODUCIBLE:
        return "torch documents its algorithm as reproducible, and it was asked for: report it"
    return "torch documents no remedy for it"
