"""Joined statistics against those of the whole mini-batch, in float64."""

import copy
import threading

import pytest
import torch
from torch import nn

from twinrun.errors import TwinrunError
from twinrun.parallel.batch_norm import JoinedBatchNorm, check_buffers, join_statistics
from twinrun.parallel.workers import Workers

SIZES = [33, 32, 32]


def close(left, right):
    return torch.allclose(left, right, rtol=1e-12, atol=1e-14)


def test_joined_statistics_are_those_of_the_whole():
    values = [torch.randn(n, 5, dtype=torch.float64) * 3 + n for n in SIZES]
    mean, variance = join_statistics(
        torch.tensor(SIZES, dtype=torch.float64)[:, None],
        torch.stack([v.mean(0) for v in values]),
        torch.stack([v.var(0, correction=0) for v in values]),
    )
    whole = torch.cat(values)
    assert close(mean, whole.mean(0))
    assert close(variance, whole.var(0, correction=0))


class Network(nn.Module):
    """Two layers of each kind; the second is called twice in a step."""

    def __init__(self, momentum):
        super().__init__()
        self.images = nn.BatchNorm2d(3, momentum=momentum, dtype=torch.float64)
        self.vectors = nn.BatchNorm1d(3, momentum=momentum, dtype=torch.float64)

    def forward(self, inputs):
        out = self.images(inputs)
        return out.sum() + sum(self.vectors(scale * inputs.mean((2, 3))).sum() for scale in (1, 2))


def workers_of(sizes):
    found = []
    for rank in range(len(sizes)):
        found.append(Workers(rank, len(sizes)))
        found[-1].sizes = sizes
    return found


def joined(network, workers):
    join = JoinedBatchNorm(workers)
    join.watch(network)
    return join


@pytest.mark.parametrize("momentum", [0.1, 1.0, None])
@pytest.mark.parametrize("sizes", [SIZES, [40, 40], [5, 0]])
def test_running_statistics_are_those_of_the_whole_mini_batch(momentum, sizes):
    """A shard of 0 is a worker with one sample (here two, for their variance) that counts not."""
    whole = Network(momentum)
    sharded = [copy.deepcopy(whole) for _ in sizes]
    joins = [joined(net, me) for net, me in zip(sharded, workers_of(sizes), strict=True)]
    for step in range(3):
        batches = [torch.randn(max(n, 2), 3, 4, 4, dtype=torch.float64) * n + step for n in sizes]
        for net, batch in zip(sharded, batches, strict=True):
            net(batch).backward()
        noted = torch.stack([join.noted() for join in joins])
        for join in joins:
            join.update(noted)
        whole(torch.cat([batch for batch, n in zip(batches, sizes, strict=True) if n]))
        for net in sharded:
            for (name, expected), found in zip(whole.named_buffers(), net.buffers(), strict=True):
                assert close(found.double(), expected.double()), name


def test_layers_stay_as_they_were():
    net = Network(0.1)
    joined(net, workers_of([4, 4])[0])
    before = copy.deepcopy(net.state_dict())
    net.eval()
    net(torch.randn(4, 3, 4, 4, dtype=torch.float64))
    assert all(torch.equal(net.state_dict()[name], value) for name, value in before.items())
    assert net.images.momentum == 0.1
    net.train()
    net(torch.randn(4, 3, 4, 4, dtype=torch.float64))
    assert torch.equal(net.images.running_mean, before["images.running_mean"])
    assert net.images.momentum == 0.1


def test_layers_made_later_are_watched_once():
    net, join = nn.Sequential(nn.BatchNorm1d(3)), JoinedBatchNorm(workers_of([4, 4])[0])
    join.watch(net)
    net.append(nn.BatchNorm1d(3))
    join.watch(net)
    net(torch.randn(4, 3))
    assert len(join.noted()) == 2 * (1 + 3 + 3)
    assert all(torch.equal(layer.running_mean, torch.zeros(3)) for layer in net)


class Gathered(Workers):
    """Two workers, of which the other found what is planted."""

    def __init__(self, plant):
        super().__init__(0, 2)
        self._plant = plant

    def gather(self, values):
        return torch.stack([values, self._plant(values.clone())])


def test_buffers_that_nothing_joins_are_refused_by_name():
    net = nn.Sequential(nn.BatchNorm1d(3))
    net.register_buffer("scale", torch.ones(()))
    check_buffers(net, Gathered(lambda values: values))

    def differs(values):
        values[-1] += 1  # of the last buffer
        return values

    last = list(dict(net.named_buffers()))[-1]
    with pytest.raises(TwinrunError, match=rf"devices: .* the buffer {last} from its own shard"):
        check_buffers(net, Gathered(differs))
    check_buffers(nn.Linear(2, 2), Gathered(lambda values: values))


def test_workers_that_call_other_layers_are_told_apart():
    """Red before: what they noted had other lengths, or was joined with another layer's."""
    joins = [joined(net, Workers()) for net in (Network(0.1), Network(0.1))]
    values = torch.randn(4, 3, 2, 2, dtype=torch.float64)
    joins[0]._workers.sizes = joins[1]._workers.sizes = [4]
    networks = [list(join._watched) for join in joins]
    networks[0][0](values)
    assert joins[0].called() != joins[1].called()
    networks[1][1](values.mean((2, 3)))
    assert joins[0].called() != joins[1].called()
    networks[1][0](values)
    joins[1].update(joins[1].noted()[None])
    networks[1][0](values)
    assert joins[0].called() == joins[1].called()


class Grouped(Workers):
    """Holds what nobody can copy, as a process group."""

    def __init__(self):
        super().__init__(0, 2)
        self.sizes, self.group = [4, 4], threading.Lock()


def test_a_copy_is_a_layer_of_its_own_until_it_is_watched():
    """Red before: no network could be copied in `on_train_start`, as a teacher is."""
    net, values = nn.Sequential(nn.BatchNorm1d(3)), torch.randn(4, 3)
    plain = copy.deepcopy(net)
    join = joined(net, Grouped())
    copied = copy.deepcopy(net)
    copied(values)
    plain(values)
    assert torch.equal(copied[0].running_mean, plain[0].running_mean)
    assert len(join.noted()) == 0
    net(values)
    assert len(join.noted()) == 1 + 3 + 3
    both, before = nn.ModuleList([net, copied]), copied[0].running_mean.clone()
    join.watch(both)
    join.watch(both)
    copied(values)
    assert len(join.noted()) == 2 * (1 + 3 + 3)
    assert torch.equal(copied[0].running_mean, before)
    assert copied[0].momentum == 0.1
