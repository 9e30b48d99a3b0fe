"""From what differed first between two runs to the class of its cause.

Within a step one quantity causes the next: the weights that it starts with and the state of the
random generators, the batch, the forward pass (random numbers, buffers, loss), the backward pass,
the exchange between workers, the optimizer. So the first that differs bears the cause, and the
others follow from it. What a class cannot say is which operation it was: see `locate`.
"""

# Quantities in the order in which one causes the next: the words of `first_difference`, and the
# class of cause when that quantity is the first to differ.
CAUSE_OF_QUANTITY = {
    "initial parameters": "initial weights",
    "initial buffers": "initial weights",
    "parameters before the step": "initial weights",
    "RNG states": "RNG state",
    "order of the batch": "data order",
    "content of the batch": "data content",
    # Before buffers and loss: the random numbers that a step draws, as in dropout, decide both.
    "RNG states after the step": "RNG state",
    "buffers": "forward",
    "loss": "forward",
    "workers' own gradients": "backward",
    "gradients": "backward",
    "optimizer settings": "optimizer",
    # Gradients are fingerprinted before they are clipped: another clipping is found here or in the
    # parameters, not in the gradients.
    "optimizer state": "optimizer",
    "parameters": "optimizer",
    # ASSUME the data decide how many steps there are. A callback that stops early does so too.
    "number of steps": "data order",
}
# Quantities that no rounding explains: the two trainings were not given the same.
GIVEN = {
    quantity
    for quantity, cause in CAUSE_OF_QUANTITY.items()
    if cause in ("initial weights", "RNG state", "data order", "data content")
    # Of the class of the optimizer, but set between steps, as the data and the weights are.
    or quantity == "optimizer settings"
}
# dict.fromkeys drops repeats and keeps the order, which a set would not. No quantity stands for
# `collective` alone: it takes several workers.
CAUSES = (*dict.fromkeys(CAUSE_OF_QUANTITY.values()), "collective")

# What to look at, a clause for each class.
ADVICE = {
    "initial weights": "look for weights that are drawn before or without the seed, or changed "
    "between steps",
    "RNG state": "find the callback, loader or library that draws from or seeds the "
    "global random generators, and give it a generator of its own",
    "data order": "look for a shuffle or a sampler that draws from another source than the seed",
    "data content": "look for augmentation, data workers or a set whose result the seed does not "
    "decide",
    "forward": "look for an operation of the forward pass that is not reproducible",
    "backward": "look for an operation of the backward pass that is not reproducible",
    "collective": "look at the exchange of gradients between the workers",
    "optimizer": "look at the optimizer: its state and its implementation",
}
# Of the optimizer's settings, which are set between steps.
SETTINGS_ADVICE = (
    "the cause lies outside of the step (a schedule, a callback, `configure_optimizers`): look for "
    "who sets it, and from what"
)


def cause_of(quantity: str, *, workers: int = 1) -> str:
    """Return the class of cause, one of CAUSES, of the quantity that differed first.

    Args:
        quantity: one of CAUSE_OF_QUANTITY.
        workers: how many trained together. When their own gradients were equal and the sum of
            them is not, it was the exchange.

    >>> cause_of("gradients"), cause_of("gradients", workers=2)
    ('backward', 'collective')
    """
    if quantity == "gradients" and workers > 1:
        return "collective"
    return CAUSE_OF_QUANTITY[quantity]


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


def remedy_of(op: str, *, deterministic: bool) -> str:
    """Say in a clause what torch documents against an operation that does not repeat.

    Args:
        op: its name, such as `aten::index_put`.
        deterministic: whether only reproducible algorithms were asked for already.
    """
    # torch's list tells devices, types and modes apart, which the name of an operation does not:
    # hence "on every device".
    if op in NOT_REPRODUCIBLE:
        return "torch documents no reproducible algorithm for it on every device: use another one"
    if op in REPRODUCIBLE and not deterministic:
        return "torch has a reproducible algorithm for it: set `deterministic: true`"
    if op in REPRODUCIBLE:
        return "torch documents its algorithm as reproducible, and it was asked for: report it"
    return "torch documents no remedy for it"
