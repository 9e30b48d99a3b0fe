"""What workers log, joined: two workers in one process, whose exchanges are done by hand."""

import pickle
from types import SimpleNamespace

import pytest
import pytorch_lightning as pl
import torch
from small import Points, Small
from torchmetrics import MeanMetric, Metric, PearsonCorrCoef, RunningMean, SumMetric
from torchmetrics.classification import BinaryAccuracy
from torchmetrics.wrappers import MinMaxMetric, MultitaskWrapper, Running

from twinrun.errors import TwinrunError
from twinrun.parallel.joined_logs import JoinedLogs
from twinrun.parallel.log_arguments import log_arguments
from twinrun.parallel.logged_sizes import LoggedSizes
from twinrun.parallel.seen_of_parts import Aggregated, seen_of_parts
from twinrun.parallel.whole_batch import WholeBatch
from twinrun.parallel.workers import Workers

SIZES = [3, 2]
ONES = torch.ones(3)


class Team:
    """Workers that log into lists."""

    def __init__(self, sizes=SIZES):
        self.handed = [[] for _ in sizes]
        self.logs = []
        for rank, handed in enumerate(self.handed):
            workers = Workers(rank, len(sizes))
            workers.sizes = sizes
            module = Small()
            module._current_fx_name = "training_step"

            def log(name, value, *flags, handed=handed, **options):
                handed.append((name, value, options))

            self.logs.append(JoinedLogs(workers, module, log))

    def note(self, rank, name, value, in_step=True, **options):
        self.logs[rank].note(name, value, options, in_step)

    def join(self, counted=0):
        if len({logs.fingerprint() for logs in self.logs}) > 1:
            # As they are sent.
            sent = pickle.dumps([logs.notes() for logs in self.logs])
            everyones = pickle.loads(sent)  # noqa: S301
            for logs in self.logs:
                logs.complete(everyones)
        means = torch.stack([logs.means() for logs in self.logs])
        for logs in self.logs:
            logs.hand_on(means, counted)
        return [
            {name: (float(v), o.get("batch_size")) for name, v, o in handed}
            for handed in self.handed
        ]


def test_metrics_that_join_numbers_of_shards_are_named():
    """Red before: nothing was said of a sum of losses that was twice as large."""
    team = Team()
    team.note(0, "sum", SumMetric())
    team.note(0, "epoch", SumMetric(), in_step=False)
    assert team.logs[0].aggregated.names == {"sum"}


def test_metrics_at_steps_are_named():
    """Red before: a value of the first worker's shard stood as the mini-batch's."""
    team = Team()
    for name, on_step, calls in [("a", True, True), ("b", False, True), ("c", True, False)]:
        metric = BinaryAccuracy()
        metric(ONES, ONES) if calls else metric.update(ONES, ONES)
        team.note(0, name, metric, on_step=on_step)
    assert team.logs[0].aggregated.at_steps == {"a"}
    (said,) = seen_of_parts(Small(), team.logs[0].aggregated, setting="devices", part="shard")
    assert "of the first worker's shard at steps (torchmetrics logged as a)" in said


class Holds(Small):
    """Holds a metric in some way."""

    def __init__(self, metric):
        super().__init__()
        self.held = metric


@pytest.mark.parametrize(
    ("make", "update", "named"),
    [
        (lambda: RunningMean(3), lambda metric: metric(1.0), {"held"}),
        (lambda: Running(BinaryAccuracy(), 3), lambda metric: metric(ONES, ONES), {"held"}),
        (lambda: MinMaxMetric(MeanMetric()), lambda metric: metric.update(1.0), {"held"}),
        (lambda: MeanMetric() * 2.0, lambda metric: metric.update(1.0), {"held"}),
        (
            lambda: MultitaskWrapper({"a": BinaryAccuracy(), "b": SumMetric()}),
            lambda metric: metric.task_metrics["b"].update(1.0),
            {"held"},
        ),
        (lambda: {"loss": [MeanMetric()]}, lambda held: held["loss"][0](1.0), {"held.loss.0"}),
        # Of samples, whatever the parts are.
        (lambda: MinMaxMetric(BinaryAccuracy()), lambda metric: metric.update(ONES, ONES), set()),
        (
            lambda: MultitaskWrapper({"a": BinaryAccuracy(), "b": SumMetric()}),
            lambda metric: metric.task_metrics["a"].update(ONES, ONES),
            set(),
        ),
        (lambda: MinMaxMetric(MeanMetric()), lambda metric: metric.update(1.0, 3), set()),
        (lambda: RunningMean(3), lambda metric: None, set()),
    ],
)
def test_metrics_that_join_numbers_are_named_wherever_they_are(make, update, named):
    """Red before: by `forward` of a window, and inside of another metric, none was."""
    module = Holds(make())
    seen = Aggregated(module)
    seen.begin()
    update(module.held)
    seen.end()
    assert seen.names == named


class Later(Small):
    """Makes a metric in a later epoch, and has a callback that has one."""

    def configure_callbacks(self):
        return Sums()

    def on_train_epoch_start(self):
        if self.current_epoch:
            self.late = SumMetric()

    def training_step(self, batch, batch_idx):
        seen = self.trainer.seen
        seen.begin()
        for metric in (*vars(self)["_modules"].values(), self.trainer.callbacks[-1].total):
            metric.update(1.0) if isinstance(metric, SumMetric) else None
        seen.end()
        return super().training_step(batch, batch_idx)


class Sums(pl.Callback):
    def __init__(self):
        self.total = SumMetric()


def test_metrics_that_are_made_later_or_by_callbacks_are_named():
    """Red before: what a module had in its first step was all that was looked at."""
    module = Later()
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=2,
        limit_train_batches=1,
        limit_val_batches=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.seen = Aggregated(module)
    trainer.fit(module, Points())
    assert trainer.seen.names == {"late", "Sums.total"}


class Keeps(Metric):
    """A metric of a user's own, whose state torchmetrics joins in some way."""

    def __init__(self, joined):
        super().__init__()
        self.add_state("total", torch.zeros(()), dist_reduce_fx=joined)

    def update(self, value):
        self.total += value

    def compute(self):
        return self.total.mean()


@pytest.mark.parametrize(
    ("make", "is_named"),
    [
        (lambda: MeanMetric(sync_on_compute=False), True),
        (lambda: MeanMetric(dist_sync_fn=lambda value, group=None: [value]), True),
        (lambda: MeanMetric(distributed_available_fn=lambda: False), True),
        (lambda: Keeps(None), True),
        (lambda: Keeps("mean"), True),
        (lambda: Keeps("sum"), False),
        (MeanMetric, False),
        (PearsonCorrCoef, False),
    ],
)
def test_metrics_that_no_worker_joins_with_the_others_are_named(make, is_named):
    """Red before: one of the first worker's shards, without a word."""
    seen = Aggregated(torch.nn.ModuleDict({"of": make(), "unused": Keeps(None)}))
    assert seen.alone is None
    seen.begin()
    of = [torch.zeros(4)] * (2 if make is PearsonCorrCoef else 1)
    seen._module["of"].update(*of if make is PearsonCorrCoef else [torch.zeros(())])
    seen.end()
    if is_named:
        assert "devices has metrics (of) of what the first worker has seen" in seen.alone
    else:
        assert seen.alone is None


@pytest.mark.parametrize("in_step", [True, False])
@pytest.mark.parametrize("on_step", [True, False])
@pytest.mark.parametrize(
    ("reduction", "name"), [("max", "max"), (torch.min, "min"), (sum, "sum"), ("mean", None)]
)
def test_numbers_that_are_joined_by_their_reduction_are_named(reduction, name, on_step, in_step):
    """Red before: the largest loss was that of a shard, and nothing was said."""
    team = Team()
    team.note(0, "x", 1.0, reduce_fx=reduction, on_step=on_step, in_step=in_step)
    parts = {"setting": "devices", "part": "shard"}
    said = list(seen_of_parts(Small(), team.logs[0].aggregated, **parts))
    assert len(said) == (name is not None)
    assert all(f"of each shard by their reduce_fx (x by {name})" in text for text in said)


def test_a_mean_that_all_log_is_the_whole_mini_batchs():
    team = Team()
    for rank, value in enumerate((1.0, 2.0)):
        team.note(rank, "loss", torch.tensor(value, dtype=torch.float64))
    assert team.join() == [{"loss": (7 / 5, 5)}] * 2
    _, value, options = team.handed[0][0]
    assert value.dtype == torch.float64
    assert options["sync_dist"] is False


@pytest.mark.parametrize("on_step", [True, False])
@pytest.mark.parametrize(
    ("shards", "given", "expected"),
    [
        # Red before: 1.5 of 16, since 8 was taken for what each shard holds.
        ([3, 2], [8, 8], (7 / 5, 16)),
        ([4, 4], [8, 8], (1.5, 16)),
        ([3, 2], [3, 2], (7 / 5, 5)),
        ([3, 2], [30, 10], (5 / 4, 40)),  # tokens
        ([3, 2], [1, 1], (7 / 5, 2)),
    ],
)
def test_a_batch_size_of_the_config_counts_no_samples(shards, given, expected, on_step):
    team = Team(shards)
    for rank, size in enumerate(given):
        value = torch.tensor(rank + 1.0, dtype=torch.float64)
        team.note(rank, "loss", value, batch_size=size, on_step=on_step)
    assert team.join() == [{"loss": expected}] * 2


@pytest.mark.parametrize(("given", "weights"), [([8, 8], [16, 16]), ([4, 1], [8, 1])])
def test_mini_batches_of_fewer_samples_than_workers_count_as_a_batch_size_says(given, weights):
    """Red before: 8 of the last one, where one process counts 8 of each."""
    found = []
    workers = Team([4, 4])
    for sizes, size in zip(([4, 4], [1, 0]), given, strict=True):
        for rank, logs in enumerate(workers.logs):
            logs._workers.sizes = sizes
            workers.note(rank, "loss", 1.0, batch_size=size)
        found.append(workers.join()[0]["loss"][1])
    assert found == weights


@pytest.mark.parametrize("on_step", [True, False])
def test_a_count_of_nothing_is_a_count(on_step):
    """Red before: 0 was taken for none given, or two calls of `log` for one."""
    team = Team()
    for rank, (size, value) in enumerate([(0, float("nan")), (4, 2.0)]):
        team.note(rank, "x", value, batch_size=size, on_step=on_step)
    assert team.join() == [{"x": (2.0, 4)}] * 2
    for handed in team.handed:
        handed.clear()
    for rank, value in enumerate([1.0, 3.5]):
        team.note(rank, "x", value, batch_size=0, on_step=on_step)
    assert team.join() == [{"x": (2.0, 0)}] * 2


@pytest.mark.parametrize(("given", "size"), [((0.5, 0.5), 1), ((0.5, 1.75), 2.25)])
def test_sizes_may_be_no_whole_numbers(given, size):
    """Red before: cut to 0, and a NaN."""
    team = Team([2, 2])
    for rank, of in enumerate(given):
        team.note(rank, "x", 1.0, batch_size=of)
    assert team.join() == [{"x": (1.0, size)}] * 2


def test_a_size_that_is_given_between_steps_counts_whatever_the_number_of_workers():
    """Red before: Lightning divided the sum of 27 and 26 by 2, as an integer."""
    team = Team()
    for rank, of in enumerate((27, 26)):
        team.note(rank, "x", 1.0, in_step=False, batch_size=of)
    assert [each["x"] for each in team.join()] == [(1.0, 54), (1.0, 52)]


def test_counts_that_are_alike_by_chance_stay_counts():
    """Red before: taken for a number of the config, as their first one had come again."""
    team = Team()
    found = []
    for given in [(2, 1), (2, 2), (1, 1)]:
        for rank, size in enumerate(given):
            team.note(rank, "x", rank + 1.0, batch_size=size)
        found.append(team.join()[0]["x"])
    assert [value for value, _ in found] == pytest.approx([4 / 3, 1.5, 1.5], rel=1e-7)
    assert [weight for _, weight in found] == [3, 4, 2]
    assert [logs.sizes.sentence("devices") for logs in team.logs] == [None, None]


def test_a_number_that_turns_out_to_count_something_is_named():
    team = Team()
    for given in [(2, 2), (2, 1)]:
        for rank, size in enumerate(given):
            team.note(rank, "x", rank + 1.0, batch_size=size)
        team.join()
    for logs in team.logs:
        assert "devices weighs the first values of x by samples" in logs.sizes.sentence("devices")
        later = LoggedSizes()
        later.load(logs.sizes.state())
        assert later.mistaken() == ["x"]


@pytest.mark.parametrize("on_step", [True, False])
@pytest.mark.parametrize("given", [torch.tensor(1.5, dtype=torch.float64), 1.5])
def test_mini_batches_count_as_lightning_counts_them(given, on_step):
    """Red before: 5 of it, samples, where one worker counts the rows of the first tensor."""
    team = Team()
    for rank in range(2):
        team.note(rank, "x", given * (rank + 1), on_step=on_step)
    team.note(1, "of one", given, on_step=on_step)
    found = team.join(counted=10)
    assert [each["x"][1] for each in found] == [10, 10]
    assert [each["of one"][1] for each in found] == [4, 4]
    for name, expected in (("x", 2.1), ("of one", 1.5)):  # a number is kept in float32
        mean = sum(each[name][0] for each in found) / 2
        assert mean == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("rank", [0, 1])
def test_what_one_worker_logs_all_hand_on_with_its_value(rank):
    """Red before: the others waited for half an hour."""
    team = Team()
    team.note(rank, "x", 2.5)
    assert team.join() == [{"x": (2.5, SIZES[rank])}] * 2


def test_all_hand_on_the_same_names_in_the_same_order():
    team = Team()
    for rank, names in enumerate(("ab", "bca")):
        for name in names:
            team.note(rank, name, 1.0)
    found = team.join()
    assert [list(each) for each in found] == [["a", "b", "c"]] * 2
    assert found[0]["c"] == (1.0, 2)


def test_calls_of_one_name_are_told_apart_and_hooks_kept_together():
    team = Team()
    team.note(0, "x", 1.0)
    team.note(1, "x", 1.0)
    team.note(1, "x", 5.0)
    for rank, logs in enumerate(team.logs):
        logs._module._current_fx_name = "on_after_backward"
        team.note(rank, "y", 0.0)
    team.join()
    for handed in team.handed:
        assert [(n, float(v)) for n, v, _ in handed] == [("x", 1.0), ("x", 5.0), ("y", 0.0)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # Lightning divides the sum of these sizes by the number of workers.
        ({"on_step": False}, [(4.0, 6), (0.0, 0)]),
        ({"reduce_fx": "sum"}, [(4.0, None), (0.0, None)]),
        ({"reduce_fx": torch.max}, [(4.0, None), (float("-inf"), None)]),
        ({"reduce_fx": min}, [(4.0, None), (float("inf"), None)]),
        ({"in_step": False}, [(4.0, 2), (0.0, 0)]),
    ],
)
@pytest.mark.parametrize("value", [4.0, torch.tensor(4.0, dtype=torch.float64), torch.tensor(4)])
def test_what_lightning_joins_later_gets_from_the_others_what_changes_nothing(
    value, options, expected
):
    team = Team()
    team.note(0, "x", value, **options)
    assert [each["x"] for each in team.join()] == expected
    assert all(options["sync_dist"] for handed in team.handed for _, _, options in handed)
    kinds = [type(each[0][1]) for each in team.handed]
    assert len(set(kinds)) == 1


def test_a_sample_that_counts_nothing_logs_nothing():
    team = Team([3, 0])
    team.note(1, "x", float("nan"))
    assert team.join() == [{}, {}]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"on_step": False}, [(4.0, 6), (0.0, 0)]),
        ({"reduce_fx": "sum"}, [(4.0, None), (0.0, None)]),
        ({"reduce_fx": "max"}, [(4.0, None), (float("-inf"), None)]),
    ],
)
def test_a_sample_that_counts_nothing_changes_nothing_that_lightning_joins(options, expected):
    """Red before: NaN in the epoch's mean, as 0 samples of NaN."""
    team = Team([3, 0])
    for rank, value in enumerate((4.0, float("nan"))):
        team.note(rank, "x", torch.tensor(value), **options)
    assert [each["x"] for each in team.join()] == expected


def test_a_value_is_of_when_it_was_logged():
    team, value = Team(), torch.zeros(())
    for rank in range(2):
        team.note(rank, "x", value)
    value += 1
    assert team.join()[0]["x"][0] == 0


def test_a_callbacks_own_log_is_joined_too():
    """Red before: Lightning hands callbacks the module's, and each worker kept its own value."""
    module, callback = Small(), pl.Callback()
    callback.log = module.log
    network = SimpleNamespace(register_comm_hook=lambda *_: None)
    trainer = SimpleNamespace(
        optimizers=[],
        callbacks=[callback],
        training=True,
        lightning_module=module,
        strategy=SimpleNamespace(model=network),
    )
    whole = WholeBatch(Workers(0, 2), [], None, None)
    whole.on_fit_start(trainer, module)
    callback.log("seen", 2.0)
    assert [note.name for note in whole.logs.notes()] == ["seen"]


def test_a_metric_that_some_leave_out_is_refused_by_name():
    team = Team()
    team.note(0, "seen", SumMetric())
    with pytest.raises(TwinrunError, match="only some workers log seen in training_step, a metric"):
        team.join()


@pytest.mark.parametrize("steps", [[(4, None)], [(4, 4), (None, None)]])
def test_a_size_that_is_given_at_some_calls_alone_is_refused_by_name(steps):
    """Red before: Lightning said that it was logged twice, which nobody did."""
    team = Team()

    def join(given):
        for rank, size in enumerate(given):
            options = {} if size is None else {"batch_size": size}
            team.note(rank, "x", 1.0, on_step=False, **options)
        team.join()

    *before, last = steps
    for given in before:
        join(given)
    with pytest.raises(TwinrunError, match="training_step logs x with a batch_size at some calls"):
        join(last)


class Overrides(Small):
    def log(self, name, value, *arguments, **options):
        super().log(f"own_{name}", value, *arguments, **options)


class Renames(Small):
    def log(self, name, value, on_step=False, **options):
        super().log(name, value, on_step=on_step, **options)


@pytest.mark.parametrize(
    ("module", "flags", "options", "expected"),
    [
        (Small, (False, True, False, True, "sum"), {}, ("sum", False)),
        (Overrides, (False, True, False, True, "sum"), {}, ("sum", False)),
        (Renames, (True,), {"reduce_fx": "max"}, ("max", True)),
        (Small, (), {"reduce_fx": "min"}, ("min", None)),
    ],
)
def test_what_log_is_given_by_position_has_its_name(module, flags, options, expected):
    """Red before: a sum that was asked for by position was joined as a mean."""
    found = log_arguments(module(), flags, options)
    assert (found["reduce_fx"], found.get("on_step")) == expected


def test_log_refuses_what_python_would():
    with pytest.raises(TypeError, match="multiple values for argument 'prog_bar'"):
        log_arguments(Small(), (True,), {"prog_bar": False})
