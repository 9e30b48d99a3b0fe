"""The figures: what is written in them, how many marks they have, and that bytes repeat."""

import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from drawing import SVG, Drawing
from example_results import (
    IMAGES,
    SHAPES,
    STEPS,
    VARIANTS,
    initial_tensors,
    with_differences,
    write_comparison,
    write_location,
    write_run,
    write_timing,
)
from example_runs import seal
from stored import write_tensors

from twinrun import artifacts
from twinrun.figures.growth import growth
from twinrun.figures.operations import operations
from twinrun.figures.pairs import BINS, MOST_TENSORS, first_layer, layers
from twinrun.figures.predictions import strip
from twinrun.figures.style import colour_of
from twinrun.figures.timings import cost
from twinrun.figures.training import curves

COLOURS = {variant: colour_of(variant, VARIANTS) for variant in VARIANTS}


def height_of(bar):
    heights = [float(y) for y in re.findall(r"[ML] \S+ (\S+)", bar.get("d"))]
    return max(heights) - min(heights)


@pytest.fixture
def output(tmp_path):
    return tmp_path / "figure.svg"


@pytest.fixture
def write_pairs(tmp_path):
    """Write a pair of runs per variant, the second with the given tensors; give the run.json."""

    def write(first, *seconds, **options):
        return [
            write_run(tmp_path, tensors, workload="w", variant=variant, repeat=repeat, **options)
            for variant, second in zip(VARIANTS, seconds, strict=False)
            for repeat, tensors in enumerate([first, second], start=1)
        ]

    return write


@pytest.fixture
def denoiser():
    return initial_tensors("denoiser")


class TestFirstLayer:
    def test_draws_a_bar_for_each_weight_and_a_zero_line_for_equal_ones(
        self, write_pairs, denoiser, output
    ):
        runs = write_pairs(denoiser, with_differences(denoiser), denoiser)
        first_layer(runs, variants=VARIANTS, output=output)
        drawing = Drawing(output)
        assert len(drawing.filled(COLOURS["nondeterministic"])) == 72
        assert len(drawing.filled(COLOURS["deterministic"])) == 0
        assert "zero-deterministic" in drawing.ids()
        assert "First layer: encoder.0.weight (8×1×3×3)" in drawing.texts
        assert "equal, bit for bit" in drawing.texts
        panels = [text for text in drawing.texts if "of 72 differ" in text]
        assert panels[0].startswith("nondeterministic: 71 of 72 differ, at most 2.5")
        assert panels[1] == "deterministic: 0 of 72 differ"

    def test_panels_share_one_scale(self, write_pairs, denoiser, output):
        zeros = {name: np.zeros_like(tensor) for name, tensor in denoiser.items()}
        ones, tens = ({n: t + np.float32(v) for n, t in zeros.items()} for v in (1, 10))
        first_layer(write_pairs(zeros, ones, tens), variants=VARIANTS, output=output)
        drawing = Drawing(output)
        small, large = (height_of(drawing.filled(COLOURS[v])[0]) for v in VARIANTS)
        assert large / small == pytest.approx(10, rel=1e-3)

    def test_sign_is_repeat_2_minus_repeat_1(self, write_pairs, denoiser, output):
        zeros = {name: np.zeros_like(tensor) for name, tensor in denoiser.items()}
        second = {name: tensor.copy() for name, tensor in zeros.items()}
        second["encoder.0.weight"].flat[:2] = [3, -1]
        first_layer(write_pairs(zeros, second), variants=VARIANTS, output=output)
        up, down = Drawing(output).filled(COLOURS["nondeterministic"])[:2]
        assert height_of(up) / height_of(down) == pytest.approx(3, rel=1e-3)
        # The bar's first corner stands on the zero line; y grows downwards.
        corners = [
            [float(y) for y in re.findall(r"[ML] \S+ (\S+)", bar.get("d"))] for bar in (up, down)
        ]
        assert min(corners[0]) < corners[0][0]
        assert max(corners[1]) > corners[1][0]

    @pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6, 7])
    def test_a_number_stands_once_at_the_axis_of_a_small_tensor(self, write_pairs, output, size):
        """Red before: "1 2 2 2 3 4 4", of ticks between two parameters."""
        first = {"weight": np.ones(size, np.float32)}
        first_layer(write_pairs(first, first), variants=VARIANTS, output=output)
        numbers = Drawing(output).numbers_across()
        assert numbers == sorted(set(numbers), key=int)
        assert all(1 <= int(text) <= size for text in numbers)
        assert "1" in numbers

    def test_large_tensor_is_binned_and_small(self, write_pairs, output):
        first = initial_tensors("factorization")
        second = {name: tensor.copy() for name, tensor in first.items()}
        second["user_factors"][1000, 3] += 0.5  # one of 32,000 must be seen
        first_layer(write_pairs(first, second, first), variants=VARIANTS, output=output)
        drawing = Drawing(output)
        group = next(e for e in drawing.root.iter() if e.get("id") == "extremes-nondeterministic")
        tall = [line for line in group.iter(f"{SVG}path") if height_of(line) > 10]
        assert len(list(group.iter(f"{SVG}path"))) == BINS
        assert len(tall) == 1
        assert len(drawing.bytes) < 100_000
        assert "(a line spans the extremes of 125)" in drawing.texts
        assert "nondeterministic: 1 of 32,000 differs, at most 0.500" in drawing.texts

    def test_signed_zero_differs_though_its_difference_is_none(self, write_pairs, output):
        first = {"weight": np.zeros(5, np.float32)}
        second = {"weight": np.array([0, 0, -0.0, 0, 0], np.float32)}
        first_layer(write_pairs(first, second), variants=VARIANTS, output=output)
        drawing = Drawing(output)
        assert "nondeterministic: 1 of 5 differs, at most 0" in drawing.texts
        assert "equal" not in drawing.text

    def test_nan_is_equal_to_itself_and_infinity_is_drawn_as_nothing(self, write_pairs, output):
        first = {"weight": np.array([np.nan, 1, 2], np.float32)}
        second = {"weight": np.array([np.nan, np.inf, 2.5], np.float32)}
        first_layer(write_pairs(first, second), variants=VARIANTS, output=output)
        assert "nondeterministic: 2 of 3 differ, at most ∞" in Drawing(output).texts

    def test_equal_first_tensor_of_an_unequal_pair(self, write_pairs, denoiser, output):
        second = denoiser | {"head.weight": denoiser["head.weight"] + 1}
        first_layer(write_pairs(denoiser, second), variants=VARIANTS, output=output)
        assert "this tensor: equal, bit for bit" in Drawing(output).texts

    def test_bfloat16_is_drawn_by_its_values(self, write_pairs, denoiser, output):
        runs = write_pairs(denoiser, denoiser)
        for run, value in zip(runs, (1.0, 1.5), strict=True):
            weights = {"weight": torch.full((4,), value, dtype=torch.bfloat16)}
            write_tensors(run.with_name("weights.safetensors"), weights)
            tensor = {"name": "weight", "kind": "parameter", "shape": [4], "dtype": "bfloat16"}
            artifacts.write_json(run, artifacts.read_json(run) | {"tensors": [tensor]})
            seal(run.parent)
        first_layer(runs, variants=VARIANTS, output=output)
        assert "nondeterministic: 4 of 4 differ, at most 0.500" in Drawing(output).texts

    def test_names_are_text_and_not_markup(self, write_pairs, output):
        name = "a$b_{$</text><script>&"
        first = {name: np.ones(3, np.float32)}
        first_layer(write_pairs(first, first), variants=VARIANTS, output=output)
        drawing = Drawing(output)
        assert f"First layer: {name} (3)" in drawing.texts
        assert not list(drawing.root.iter(f"{SVG}script"))

    def test_of_many_seeds_and_repeats_the_lowest_are_drawn(self, tmp_path, denoiser, output):
        runs = [
            write_run(
                tmp_path,
                {n: t + np.float32(seed * repeat) for n, t in denoiser.items()},
                workload="w",
                variant="nondeterministic",
                seed=seed,
                repeat=repeat,
            )
            for seed in (12, 3)
            for repeat in (10, 4, 2)
        ]
        first_layer(runs, variants=VARIANTS, output=output)
        drawing = Drawing(output)
        assert "nondeterministic: 72 of 72 differ, at most 6.00" in drawing.texts
        assert "repeat 4 − 2, in 10⁰" in drawing.texts

    def test_one_run_alone_is_no_pair(self, write_pairs, denoiser, output):
        runs = write_pairs(denoiser, denoiser)
        first_layer(runs[:1], variants=VARIANTS, output=output)
        assert "not comparable: its runs are not two of the same" in Drawing(output).texts


class TestLayers:
    def test_names_each_tensor_and_its_share(self, write_pairs, denoiser, output):
        runs = write_pairs(denoiser, with_differences(denoiser), denoiser)
        layers(runs, variants=VARIANTS, output=output)
        drawing = Drawing(output)
        assert [text for text in drawing.texts if text in SHAPES["denoiser"]] == [
            *SHAPES["denoiser"]
        ]
        assert "98.6%" in drawing.texts  # 71 of 72
        assert "deterministic: equal, bit for bit" in drawing.texts

    def test_equal_pairs_say_so_without_a_logarithmic_axis(self, write_pairs, denoiser, output):
        runs = write_pairs(denoiser, denoiser, denoiser)
        layers(runs, variants=VARIANTS, output=output)
        drawing = Drawing(output)
        assert "equal, bit for bit, in 5 tensors" in drawing.texts
        assert "10⁻" not in drawing.text

    def test_tensors_that_differ_by_nothing(self, write_pairs, output):
        first, second = ({"weight": np.full(4, zero, np.float32)} for zero in (0.0, -0.0))
        layers(write_pairs(first, second), variants=VARIANTS, output=output)
        assert "100%" in Drawing(output).texts

    def test_of_many_tensors_the_most_different_are_drawn(self, write_pairs, output):
        first = {f"layer{i:03}": np.ones(2, np.float32) for i in range(100)}
        second = {n: t + np.float32(0.01 * (i + 1)) for i, (n, t) in enumerate(first.items())}
        layers(write_pairs(first, second), variants=VARIANTS, output=output)
        names = [text for text in Drawing(output).texts if text.startswith("layer")]
        assert names == [f"layer{i:03}" for i in range(100 - MOST_TENSORS, 100)]
        assert f"({100 - MOST_TENSORS} tensors with smaller differences left out)" in (
            Drawing(output).texts
        )


class TestOperations:
    def write(self, folder, denoiser, second):
        pair = write_comparison(folder, denoiser, second, workload="w", variant="nondeterministic")
        return [write_location(pair)]

    def test_names_the_first_operation_and_draws_those_that_differ(
        self, tmp_path, denoiser, output
    ):
        locations = self.write(tmp_path, denoiser, with_differences(denoiser))
        operations(locations, variants=VARIANTS, output=output)
        drawing = Drawing(output)
        assert "nondeterministic: step 3" in drawing.texts
        assert f"first (circled): aten::index_put, {next(iter(denoiser))}" in drawing.texts
        assert {"forward", "backward", "optimizer"} <= set(drawing.texts)
        assert len(drawing.marks("differing")) == 9
        assert len(drawing.marks("equal")) == 21

    @pytest.mark.parametrize("position", [1, 20, 30])
    def test_circles_the_operation_at_its_place_in_the_table(
        self, tmp_path, denoiser, output, position
    ):
        (path,) = self.write(tmp_path, denoiser, with_differences(denoiser))
        locations = artifacts.read_json(path)
        locations[0]["op"]["position"] = position
        artifacts.write_json(path, locations)
        operations([path], variants=VARIANTS, output=output)
        drawing = Drawing(output)
        ((across, down),) = drawing.points("first")
        others = [*drawing.points("equal"), *drawing.points("differing")]
        assert across == pytest.approx(sorted(x for x, _ in others)[position - 1], abs=1e-3)
        if position == 20:
            assert (across, down) in drawing.points("differing")

    def test_circles_nothing_where_the_record_alone_has_the_operation(
        self, tmp_path, denoiser, output
    ):
        (path,) = self.write(tmp_path, denoiser, with_differences(denoiser))
        locations = artifacts.read_json(path)
        locations[0]["op"]["position"] = None
        artifacts.write_json(path, locations)
        operations([path], variants=VARIANTS, output=output)
        drawing = Drawing(output)
        assert drawing.marks("first") == []
        name = f"aten::index_put, {next(iter(denoiser))}"
        assert f"first (one process alone has it): {name}" in drawing.texts

    def test_of_several_seeds_draws_the_first_that_was_located(self, tmp_path, denoiser, output):
        comparisons = write_comparison(
            tmp_path,
            denoiser,
            with_differences(denoiser),
            workload="w",
            variant="nondeterministic",
            seeds=(1, 2, 3),
        )
        path = write_location(comparisons)
        locations = artifacts.read_json(path)
        artifacts.write_json(path, [{**locations[0], "answer": "not located"}, *locations[1:]])
        table = pd.read_csv(path.with_suffix(".operations.csv"))
        table.loc[table["seed"] == 2, "outputs_equal"] = False
        artifacts.write_csv(path.with_suffix(".operations.csv"), table)
        operations([path], variants=VARIANTS, output=output)
        assert len(Drawing(output).marks("equal")) == 0
        assert len(Drawing(output).marks("differing")) == 9

    def test_says_so_where_nothing_was_located(self, tmp_path, denoiser, output):
        operations(self.write(tmp_path, denoiser, denoiser), variants=VARIANTS, output=output)
        assert "no operation was located" in Drawing(output).texts


class TestGrowth:
    def write(self, folder, denoiser, variants, seeds=(1,)):
        return [
            write_comparison(folder, denoiser, second, workload="w", variant=variant, seeds=seeds)
            for variant, second in variants.items()
        ]

    def test_says_where_the_runs_diverge(self, tmp_path, denoiser, output):
        pairs = {"nondeterministic": with_differences(denoiser), "deterministic": denoiser}
        growth(self.write(tmp_path, denoiser, pairs), variants=VARIANTS, output=output)
        drawing = Drawing(output)
        assert "nondeterministic: apart from step 3 on" in drawing.texts
        assert "deterministic: equal after every step" in drawing.texts
        assert "10⁻⁶" in drawing.texts

    @pytest.mark.parametrize("refused", [["nondeterministic"], VARIANTS])
    def test_a_refused_pair_is_named(self, tmp_path, denoiser, output, refused):
        paths = self.write(tmp_path, denoiser, dict.fromkeys(VARIANTS, denoiser))
        for path in paths:
            if path.stem in refused:
                (found,) = artifacts.read_json(path)
                artifacts.write_json(path, [found | {"answer": "not comparable"}])
                table = path.with_suffix(".steps.csv")
                artifacts.write_csv(table, pd.read_csv(table)[:0])
        growth(paths, variants=VARIANTS, output=output)
        texts = Drawing(output).texts
        assert [t for t in texts if "not comparable" in t] == [
            f"{variant}: not comparable" for variant in refused
        ]

    def test_pairs_that_diverge_where_no_sampled_element_does(self, tmp_path, denoiser, output):
        paths = self.write(tmp_path, denoiser, dict.fromkeys(VARIANTS[:1], denoiser))
        table = paths[0].with_suffix(".steps.csv")
        artifacts.write_csv(table, pd.read_csv(table).assign(parameters_equal=False))
        growth(paths, variants=VARIANTS, output=output)
        assert "nondeterministic: apart from step 1 on" in Drawing(output).texts

    def test_equal_pairs_say_so_without_a_logarithmic_axis(self, tmp_path, denoiser, output):
        pairs = dict.fromkeys(VARIANTS, denoiser)
        growth(self.write(tmp_path, denoiser, pairs), variants=VARIANTS, output=output)
        drawing = Drawing(output)
        assert "every pair is equal, bit for bit, after every step" in drawing.texts
        assert "10⁻" not in drawing.text

    def thin(self, path, steps, **changes):
        """Leave some steps of a comparison alone, as of a trace that is thinned."""
        artifacts.write_json(path, [found | changes for found in artifacts.read_json(path)])
        table = pd.read_csv(path.with_suffix(".steps.csv"))
        table = table[table["step"].isin(steps)]
        artifacts.write_csv(path.with_suffix(".steps.csv"), table)
        return path

    @pytest.mark.parametrize(
        ("steps", "legend", "seen"),
        [
            ([1, 2], "equal after every traced step, apart at the end", "no step that was traced"),
            ([], "apart at the end, no step was compared", "no step was compared"),
        ],
    )
    def test_a_pair_that_differs_is_not_called_equal_where_no_traced_step_differs(
        self, tmp_path, denoiser, output, steps, legend, seen
    ):
        """Red before: "every pair is equal, bit for bit, after every step", and "no pair"."""
        pairs = {"nondeterministic": with_differences(denoiser)}
        (path,) = self.write(tmp_path, denoiser, pairs)
        growth([self.thin(path, steps, traced="thinned")], variants=VARIANTS, output=output)
        drawing = Drawing(output)
        assert f"nondeterministic: {legend}" in drawing.texts
        assert "every pair is equal" not in drawing.text
        assert "no pair" not in drawing.texts
        assert seen in drawing.text

    def test_where_steps_were_not_traced_says_since_when_a_pair_may_be_apart(
        self, tmp_path, denoiser, output
    ):
        pairs = {"nondeterministic": with_differences(denoiser)}
        (path,) = self.write(tmp_path, denoiser, pairs)
        growth([self.thin(path, [2, 6, 8], traced="thinned")], variants=VARIANTS, output=output)
        expected = "nondeterministic: apart from step 6 on, if not since step 3"
        assert expected in Drawing(output).texts

    def test_equal_pairs_rest_on_the_steps_that_were_traced(self, tmp_path, denoiser, output):
        """Red before: of the first 2 steps alone it said "after every step"."""
        (path,) = self.write(tmp_path, denoiser, {"deterministic": denoiser})
        growth([self.thin(path, [1, 2], traced="thinned")], variants=VARIANTS, output=output)
        texts = Drawing(output).texts
        assert "deterministic: equal after every traced step" in texts
        assert "every pair is equal, bit for bit, after every step that was traced" in texts

    def test_a_pair_that_is_apart_behind_its_steps_says_so(self, tmp_path, denoiser, output):
        pairs = {"nondeterministic": with_differences(denoiser)}
        (path,) = self.write(tmp_path, denoiser, pairs)
        growth([self.thin(path, [1, 2])], variants=VARIANTS, output=output)
        texts = Drawing(output).texts
        assert "nondeterministic: equal after every step, apart at the end" in texts
        assert "no step shows a distance" in texts

    def test_many_steps_and_seeds_stay_small(self, tmp_path, denoiser, output):
        pairs = {"nondeterministic": with_differences(denoiser)}
        paths = self.write(tmp_path, denoiser, pairs, seeds=range(1, 21))
        for path in paths:
            table = pd.read_csv(path.with_suffix(".steps.csv"))
            longer = pd.concat([table.assign(step=table["step"] + STEPS * i) for i in range(100)])
            artifacts.write_csv(path.with_suffix(".steps.csv"), longer)
        growth(paths, variants=VARIANTS, output=output)
        assert len(output.read_bytes()) < 150_000


class TestTraining:
    def test_draws_each_metric(self, write_pairs, denoiser, output):
        curves(write_pairs(denoiser, denoiser, denoiser), variants=VARIANTS, output=output)
        drawing = Drawing(output)
        for text in ("loss", "psnr", "epoch", *VARIANTS):
            assert text in drawing.texts

    def test_metrics_of_any_name_and_with_gaps(self, write_pairs, denoiser, output):
        runs = write_pairs(denoiser, denoiser)
        for run in runs:
            table = {"epoch": [1, 2], "val_$a$_{<b>": [1.0, np.nan], "lr": [0.1, 0.01]}
            artifacts.write_csv(run.with_name("epochs.csv"), pd.DataFrame(table))
            seal(run.parent)
        curves(runs, variants=VARIANTS, output=output)
        assert {"$a$_{<b>", "lr"} <= set(Drawing(output).texts)

    def test_a_training_of_one_epoch_has_no_part_of_an_epoch_at_its_axis(
        self, write_pairs, denoiser, output
    ):
        """Red before: 0.96, 0.98, 1.00, 1.02."""
        runs = write_pairs(denoiser, denoiser)[:2]
        for run in runs:
            table = {"epoch": [1], "train_loss": [0.5]}
            artifacts.write_csv(run.with_name("epochs.csv"), pd.DataFrame(table))
            seal(run.parent)
        curves(runs, variants=VARIANTS, output=output)
        assert Drawing(output).numbers_across() == ["1"]

    def test_a_metric_of_no_phase_is_drawn(self, write_pairs, denoiser, output):
        """Red before: a name without `train_` or `val_` had a panel, and nothing in it."""
        runs = write_pairs(denoiser, denoiser)[:2]
        for run in runs:
            table = {"epoch": range(1, 9), "accuracy": [1 / epoch for epoch in range(1, 9)]}
            artifacts.write_csv(run.with_name("epochs.csv"), pd.DataFrame(table))
            seal(run.parent)
        curves(runs, variants=VARIANTS, output=output)
        colour = COLOURS[artifacts.read_json(runs[0])["variant"]]
        # A curve of eight points; the lines of the legend have two or three.
        assert 8 in Drawing(output).line_lengths(colour)


def test_cost_draws_each_round_and_the_ratio(tmp_path, output):
    cost(write_timing(tmp_path, workload="w", ratio=1.08), variants=VARIANTS, output=output)
    drawing = Drawing(output)
    for variant in VARIANTS:
        points = drawing.filled(COLOURS[variant], tag="use")
        assert len(points) - (variant == "deterministic") == 12  # and the marker of the ratio
    assert "1.08" in drawing.texts
    assert "time relative to nondeterministic (line: 95% interval)" in drawing.texts


def test_cost_without_a_second_variant_says_so(tmp_path, output):
    timing = write_timing(tmp_path, workload="w")
    artifacts.write_json(timing, artifacts.read_json(timing) | {"ratios": []})
    rounds = pd.read_csv(timing.with_suffix(".csv")).query("variant == 'nondeterministic'")
    artifacts.write_csv(timing.with_suffix(".csv"), rounds)
    cost(timing, variants=VARIANTS, output=output)
    assert "no second variant was measured" in Drawing(output).texts


def test_same_input_gives_the_same_bytes_and_no_date(tmp_path, write_pairs, denoiser):
    runs = write_pairs(denoiser, with_differences(denoiser), denoiser, images=True)
    timing = write_timing(tmp_path, workload="w")
    for name, draw in {
        "first_layer": lambda o: first_layer(runs, variants=VARIANTS, output=o),
        "layers": lambda o: layers(runs, variants=VARIANTS, output=o),
        "curves": lambda o: curves(runs, variants=VARIANTS, output=o),
        "strip": lambda o: strip(runs[0], names=IMAGES, output=o),
        "cost": lambda o: cost(timing, variants=VARIANTS, output=o),
    }.items():
        once, again = tmp_path / f"{name}1.svg", tmp_path / f"{name}2.svg"
        draw(once)
        draw(again)
        assert once.read_bytes() == again.read_bytes()
        assert b"<dc:date>" not in once.read_bytes()


def test_a_variant_has_one_colour_of_its_own():
    variants = [f"variant{i}" for i in range(8)]
    assert len({colour_of(variant, variants) for variant in variants}) == 8
    assert colour_of("deterministic", VARIANTS) == colour_of("deterministic", [*VARIANTS, "mine"])


def test_figures_and_report_do_without_torch():
    modules = ["pairs", "growth", "training", "timings", "datasets", "predictions"]
    imports = "; ".join(f"import twinrun.figures.{module}" for module in modules)
    code = f"import sys; {imports}; import twinrun.report.page; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
