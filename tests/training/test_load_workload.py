"""From import paths and hyperparameters to objects: constructors, functions, names of arguments."""

from types import SimpleNamespace

import pytest
from example_trainings import HERE
from small import Points, Small

from twinrun.config.definitions import FromRun, Workload
from twinrun.errors import TwinrunError
from twinrun.training.build_workload import OfRun, build_data, build_module
from twinrun.training.constructors import arguments_of
from twinrun.training.load_workload import mistakes

WORKLOADS = """
import functools

from small import Points, Small


def wide(learning_rate=0.05):
    return Small(width=16, learning_rate=learning_rate)


def points(size, random_state, num_workers=0):
    return Points(size, random_state, num_workers)


def collected(**options):
    return Points(options.pop("size"), **{"data_workers": options["num_workers"]})


def of_path(path):
    return Points(len(path))


def nothing():
    pass


def half():
    return Small, 1


def loader():
    return Points().train_dataloader()


class Numbered(Points):
    def __init__(self, size, seed, num_workers=0):
        super().__init__(size, 0, num_workers)
        self.kept = seed
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "of_functions.py").write_text(WORKLOADS)
    return [str(tmp_path), HERE]


def workload(module="small:Small", data="small:Points", *, from_run=None, **hyperparameters):
    return Workload(
        module=module,
        data=data,
        dataset=None,
        hyperparameters=hyperparameters,
        epochs=1,
        from_run=FromRun(**(from_run or {})),
    )


def test_a_function_that_returns_a_module_stands_for_its_class(folder):
    made = build_module(workload("of_functions:wide", learning_rate=0.5), folder)
    assert isinstance(made, Small)
    assert (made.hidden.out_features, made.hparams.learning_rate) == (16, 0.5)


def test_a_function_that_returns_data_is_given_what_the_run_gives(folder):
    theirs = {"seed": "random_state", "data_workers": "num_workers"}
    own = workload(data="of_functions:points", from_run=theirs, size=32)
    made = build_data(own, OfRun(seed=3, data_workers=2), search_path=folder)
    assert isinstance(made, Points)
    assert made.data_workers == 2
    assert made.inputs.equal(Points(32, seed=3).inputs)
    assert not made.inputs.equal(Points(32, seed=4).inputs)


def test_a_name_of_the_config_may_be_among_arguments_that_are_not_named(folder):
    own = workload(
        data="of_functions:collected",
        from_run={"data_workers": "num_workers", "seed": None},
        size=32,
    )
    made = build_data(own, OfRun(seed=3, data_workers=2), search_path=folder)
    assert made.data_workers == 2


def test_what_the_run_shall_not_give_is_a_hyperparameter(folder):
    own = workload(data="of_functions:Numbered", from_run={"seed": None}, size=32, seed=11)
    made = build_data(own, OfRun(seed=3), search_path=folder)
    assert made.kept == 11
    sentence = "is given by the run and cannot be set; say `from_run: {seed: null}`"
    with pytest.raises(TwinrunError, match=sentence):
        build_data(
            workload(data="of_functions:Numbered", size=32, seed=11),
            OfRun(seed=3),
            search_path=folder,
        )


def test_an_argument_that_the_run_shall_not_give_cannot_be_asked_for(folder):
    own = workload(size=32, from_run={"data_workers": None})
    sentence = (
        "wants 2, but small:Points is given no data_workers [(]from_run.data_workers: null[)]"
    )
    with pytest.raises(TwinrunError, match=sentence):
        build_data(own, OfRun(seed=3, data_workers=2), search_path=folder)


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (
            {"module": "of_functions:nothing"},
            "of_functions:nothing: it returned None, where a pytorch_lightning.LightningModule",
        ),
        ({"module": "of_functions:half"}, "of_functions:half: it returned a tuple, where"),
        ({"module": "of_functions:wide", "widht": 3}, "neither of_functions:wide nor small:Points"),
        (
            {"from_run": {"data_workers": "num_worker"}, "data": "of_functions:points"},
            "from_run.data_workers: of_functions:points takes no argument 'num_worker', did you "
            "mean num_workers?",
        ),
        ({"data": "of_functions:points"}, "hyperparameters.size: of_functions:points needs it"),
        (
            {"data": "of_functions:of_path"},
            "hyperparameters.path: of_functions:of_path needs it and has no default; give it "
            "there, or as the file of a `dataset` of the workload",
        ),
        (
            {"data": "of_functions:points", "size": 3, "from_run": {"path": "flie"}},
            "from_run.path: of_functions:points takes no argument 'flie'",
        ),
        ({"module": "of_functions:functools"}, "is no pytorch_lightning.LightningModule"),
    ],
)
def test_a_mistake_is_a_sentence(folder, names, sentence):
    with pytest.raises(TwinrunError) as refusal:
        build_module(workload(**names), folder)
    assert sentence in str(refusal.value)


ABOVE = """
from small import Points


class Sized(Points):
    def __init__(self, size, is_shuffled, seed=0, **options):
        super().__init__(size, seed, **options)


class Whole(Sized):
    def __init__(self, size, **options):
        super().__init__(size, is_shuffled=True, **options)


class Old(Sized):
    def __init__(self, is_shuffled=True, **options):
        super(Old, self).__init__(40, is_shuffled, **options)
"""


@pytest.mark.parametrize(("name", "hyperparameters"), [("Whole", {"size": 40}), ("Old", {})])
def test_what_a_class_gives_to_the_constructor_above_is_not_needed(tmp_path, name, hyperparameters):
    (tmp_path / "above.py").write_text(ABOVE)
    chosen = workload(data=f"above:{name}", **hyperparameters)
    assert isinstance(build_data(chosen, OfRun(seed=1), search_path=[str(tmp_path), HERE]), Points)


def test_what_a_class_gives_to_the_constructor_above_cannot_be_given(tmp_path):
    (tmp_path / "above.py").write_text(ABOVE)
    chosen = workload(data="above:Whole", size=40, is_shuffled=False)
    with pytest.raises(TwinrunError, match="is_shuffled"):
        build_data(chosen, OfRun(seed=1), search_path=[str(tmp_path), HERE])


def test_what_a_command_links_is_asked_for_where_it_can_be_given():
    """Red before: "needs it and has no default", and nothing of the file that leaves it out."""

    def net(width): ...

    command = SimpleNamespace(file="train.yaml", model={}, data={})
    asked = Workload(
        module="mine:net", data=None, dataset=None, hyperparameters={}, epochs=1, cli=command
    )
    (said,) = mistakes(asked, {"mine:net": arguments_of(net)})
    assert said.startswith(
        "hyperparameters.width: mine:net needs it and has no default; train.yaml"
    )
    assert said.endswith("(link_arguments): write it under `hyperparameters`, beside `cli`")


def test_a_network_and_a_loader_are_told_what_they_lack(folder):
    """Red before: that they are none, and not what one is made of."""
    with pytest.raises(
        TwinrunError, match=r"; what trains a torch\.nn\.Module is a LightningModule"
    ):
        build_module(workload("torch.nn:Linear"), folder)
    with pytest.raises(TwinrunError, match=r"from_datasets.* makes one of datasets"):
        build_data(workload(data="of_functions:loader"), OfRun(seed=1), search_path=folder)
