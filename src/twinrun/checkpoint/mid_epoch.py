"""What Lightning's loops keep in mid-epoch, as plain data, and what stands against keeping it.

Lightning's checkpoint has their counters, and not the values that are logged and averaged over the
epoch.
"""

import builtins
import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytorch_lightning as pl
import torch
from lightning_fabric.utilities.data import sized_len
from pytorch_lightning.loops.fetchers import _DataLoaderIterDataFetcher
from pytorch_lightning.trainer.connectors.logger_connector.result import (
    _Metadata,
    _ResultMetric,
    _Sync,
)

from twinrun.checkpoint.loaded import METRICS, metrics_of
from twinrun.checkpoint.plain_attributes import graphs_held
from twinrun.checkpoint.refusals import samplers_of
from twinrun.checkpoint.replayed_data import (
    TELLS,
    Batches,
    is_of_data,
    training_loaders,
)
from twinrun.checkpoint.stateful import Stateful
from twinrun.checkpoint.stream_position import telling_data
from twinrun.checkpoint.unsaved_state import OURS

_OF_META = ("fx", "name", "prog_bar", "logger", "on_step", "on_epoch", "enable_graph")
_OF_META += ("add_dataloader_idx", "dataloader_idx", "metric_attribute")
_COUNTS = ("_first_loop_iter", "_current_fx")
PREFIX = "epoch_loop."


def hindrances(trainer: pl.Trainer, batches: Batches) -> Iterator[str]:
    """Say what stands against a checkpoint between two batches, and not where an epoch starts."""
    module, fetcher = trainer.lightning_module, trainer.fit_loop._data_fetcher
    kind = type(module).__name__
    if isinstance(fetcher, _DataLoaderIterDataFetcher):
        yield f"{kind}.training_step fetches batches by itself (dataloader_iter)"
    loaders = training_loaders(trainer)
    is_replayed = not any(isinstance(loader, Stateful) for loader in loaders)
    both = batches.drawn_in_fetches & batches.drawn_between
    told = {name for name in both if is_of_data(name)}
    for name in sorted(told) if is_replayed else ():
        yield (
            f"{_called(name)} changes where batches are fetched, and also between two of "
            f"them, so that they cannot be read again"
        )
    # What a data module says is put back: see `loaded`.
    of_module = {f"{type(telling_data(trainer)).__name__}{TELLS}"}
    for name in sorted(batches.moved_between() - of_module) if is_replayed else ():
        yield (
            f"{_called(name)} changes between the batches of an epoch, by steps, say, and "
            f"these are not taken again where its batches are read again"
        )
    drawn = sorted(both.difference(told))
    if is_replayed and drawn:
        yield (
            f"samples are drawn in this process, by the random number generators that the steps "
            f"draw from too ({', '.join(drawn)}), so that they cannot be read again "
            f"({_to_read_again(loaders)} they can)"
        )
    if module._param_requires_grad_state:
        yield f"{kind} leaves an optimizer toggled between two batches"
    if getattr(trainer, "_val_check_time_interval", None) is not None:
        yield "validations come by the clock (val_check_interval)"
    for name in graphs_held(module):
        yield f"{name} holds the graph of an earlier step (`tensor.detach()` holds none)"
    for loader in loaders:
        if isinstance(loader, Stateful):
            why = "has a state of its own, and"
            if len(loaders) > 1:
                yield f"{type(loader).__name__} {why} other loaders beside it"
            if getattr(loader, "num_workers", 0):
                yield f"{type(loader).__name__} {why} data workers"
            # Lightning fetches a batch ahead.
            if sized_len(loader) is None:
                yield f"{type(loader).__name__} {why} no length"
    for metric in trainer.fit_loop.epoch_loop._results.values():
        if metric.meta.sync.group is not None:
            yield f"{metric.meta.name} is logged for a group of workers"
        elif not metric.is_tensor and metric.meta.metric_attribute is None:
            yield f"{metric.meta.name} is logged of a metric that no attribute holds"


def _called(name: str) -> str:
    return name.rpartition(" ")[2]


def _to_read_again(loaders: Sequence[object]) -> str:
    """Say how samples could be read again that are drawn in this process."""
    found = [each for loader in loaders for each in samplers_of(loader)]
    # Those of torch and lists draw all at once.
    at_once = (*OURS, "torch.", "builtins", "numpy")
    kinds = {type(each) for each in found}
    own = sorted({kind.__name__ for kind in kinds if not kind.__module__.startswith(at_once)})
    has_workers = all(getattr(loader, "num_workers", 0) for loader in loaders)
    ways = [] if has_workers else ["with data workers"]
    # With workers it is an order: of a sampler that draws as it goes, or of a loader that is begun
    # anew under way, beside a longer one.
    if has_workers and (len(loaders) > 1 or not own):
        ways = ["by a `generator` of each loader"]
    if own:
        ways.append(
            f"where all that {' and '.join(own)} draws comes from a torch.Generator in its "
            f"attribute `generator`, or at once where its `__iter__` begins,"
        )
    return " and ".join(ways)


def state_of(trainer: pl.Trainer, loops: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the loops keep between two batches.

    Args:
        trainer: of the training.
        loops: the state of its fit loop, as Lightning has it.
    """
    connector = trainer._logger_connector
    return {
        "loops": copy.deepcopy({k: v for k, v in loops.items() if k.startswith(PREFIX)}),
        "results": [
            _plain(key, metric) for key, metric in trainer.fit_loop.epoch_loop._results.items()
        ],
        "counts": {name: getattr(connector, name) for name in _COUNTS},
    }


def put_back(trainer: pl.Trainer, state: Mapping[str, Any]) -> None:
    """Have the loops go on behind the batch after which `state_of` was asked."""
    loop = trainer.fit_loop.epoch_loop
    loop.load_state_dict(state["loops"], prefix=PREFIX)
    # It is in the midst of an epoch, and not before one that was broken off.
    loop.restarting = False
    for each in (loop, loop.automatic_optimization, loop.manual_optimization, loop.val_loop):
        each._loaded_from_state_dict = each._resuming_from_checkpoint = False
    loop._results.clear()
    for saved in state["results"]:
        loop._results[saved["key"]] = _metric(trainer, saved)
    for name, value in state["counts"].items():
        setattr(trainer._logger_connector, name, value)


def unlogged_since(trainer: pl.Trainer, before: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """Name what was not logged anew since `before`, by the very values, in each of METRICS."""
    now = metrics_of(trainer)
    return [[n for n, v in now[of].items() if before[of].get(n) is v] for of in METRICS]


def put_back_logged(
    trainer: pl.Trainer, metrics: Mapping[str, Mapping[str, Any]], kept: list[list[str]]
) -> None:
    """Have the Trainer show what was logged before the stop; what was not logged anew stays."""
    device = trainer.lightning_module.device
    for of, names in zip(METRICS, kept, strict=True):
        shown = getattr(trainer._logger_connector, of)
        for name, value in metrics[of].items():
            if name not in names or name not in shown:
                is_tensor = isinstance(value, torch.Tensor)
                shown[name] = value.to(device, copy=True) if is_tensor else value


def _plain(key: str, metric: _ResultMetric) -> dict[str, Any]:
    meta, reduce = metric.meta, metric.meta.reduce_fx
    owner = "torch" if getattr(torch, reduce.__name__, None) is reduce else "builtins"
    size = getattr(metric, "cumulated_batch_size", None)
    return {
        "key": key,
        "meta": {name: getattr(meta, name) for name in _OF_META},
        "reduce": (owner, reduce.__name__),
        "sync": (meta.sync.should, meta.sync.rank_zero_only),
        "is_tensor": metric.is_tensor,
        "value": _copied(metric.value) if metric.is_tensor else None,
        "size": None if size is None else size.clone(),
        "forward": _copied(metric._forward_cache),
        "state": (metric.has_reset, metric._update_count),
    }


def _copied(value: object) -> object:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _metric(trainer: pl.Trainer, saved: Mapping[str, Any]) -> _ResultMetric:
    owner, name = saved["reduce"]
    reduce = getattr(torch if owner == "torch" else builtins, name)
    meta = _Metadata(**saved["meta"], reduce_fx=reduce)
    should, is_of_first = saved["sync"]
    # As `LightningModule.log` makes it: what is logged further must be of the same kind.
    meta.sync = _Sync(_should=should, fn=trainer.strategy.reduce, rank_zero_only=is_of_first)
    metric = _ResultMetric(meta, saved["is_tensor"])
    device = trainer.lightning_module.device
    if saved["is_tensor"]:
        metric.value = saved["value"].to(device, copy=True)
        if saved["size"] is not None:
            metric.cumulated_batch_size = saved["size"].to(device, copy=True)
    else:
        metric.value = trainer.lightning_module.get_submodule(saved["meta"]["metric_attribute"])
    cache = saved["forward"]
    metric._forward_cache = cache.to(device) if isinstance(cache, torch.Tensor) else cache
    metric.has_reset, metric._update_count = saved["state"]
    return metric
