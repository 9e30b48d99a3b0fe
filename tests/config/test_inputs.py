"""Which files a rule takes: of the right study, in the order that the rule's function counts on."""

import doctest
import subprocess
import sys

from standard_config import resolved

from twinrun.config import inputs
from twinrun.config.inputs import Inputs

WORKLOAD = {"workload": "factorization"}
RUNS = "results/runs/factorization"


def of(**sections):
    return Inputs(resolved(**sections))


def test_examples():
    found = doctest.testmod(inputs)
    assert found.attempted
    assert not found.failed


def test_planning_imports_neither_torch_nor_pandas_nor_snakemake():
    code = (
        "import sys, twinrun.config.targets, twinrun.config.params\n"
        "print(*({'torch', 'pytorch_lightning', 'pandas', 'numpy', 'snakemake'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_study_fills_in_what_it_asks_for():
    found = of(reproducibility={"workloads": ["factorization"], "seeds": [1, 7], "repeats": 3})
    runs = found.of_study("reproducibility", inputs.RUN, variant=["deterministic"])
    assert runs == [
        f"{RUNS}/deterministic/seed{seed}/repeat{repeat}/run.json"
        for seed in (1, 7)
        for repeat in (1, 2, 3)
    ]


def test_a_study_without_a_variant_that_can_run_here_has_no_files():
    found = of(reproducibility={"variants": ["gpu"]})
    assert found.runs_of_workload(WORKLOAD) == []
    assert found.comparisons_of_workload(WORKLOAD) == []
    assert found.locations_of_workload(WORKLOAD) == []


def test_a_dataset_is_made_the_users_own_or_none(tmp_path):
    file = tmp_path / "mine.npz"
    file.write_bytes(b"data")
    denoiser = resolved().config["workloads"]["denoiser"]
    found = of(
        datasets={"own": {"file": str(file)}},
        workloads={"mine": {**denoiser, "dataset": "own"}},
    )
    made = "results/data/digits.npz"
    for workload, dataset in {"denoiser": made, "mine": str(file), "peaks": None}.items():
        assert found.dataset_of(workload) == dataset
        assert found.dataset_of_run({"workload": workload}) == ([dataset] if dataset else [])


def test_the_dataset_of_a_timing_is_its_workloads():
    found = of()
    timing = {"timing": "determinism_denoiser"}
    assert found.dataset_of_timing(timing) == ["results/data/digits.npz"]
    assert found.dataset_of_timing({"timing": "devices_peaks"}) == []


def test_repeats_are_compared_seed_by_seed_as_many_as_the_study_asks_for():
    found = of(
        studies=["parallel", "reproducibility"],
        reproducibility={"workloads": ["digits-short"], "variants": ["one-worker"], "repeats": 3},
        parallel={"repeats": 2},
    )
    names = {"workload": "digits-short", "variant": "one-worker"}
    assert len(found.runs_of_repeats({"study": "reproducibility", **names})) == 3
    assert len(found.runs_of_repeats({"study": "parallel", **names})) == 2


def test_of_two_variants_the_baselines_runs_come_first():
    wildcards = {"study": "devices", "workload": "peaks", "variant": "cpu-fast", "baseline": "cpu"}
    assert of(devices={"seeds": [1, 2]}).runs_of_variants(wildcards) == [
        f"results/runs/peaks/{variant}/seed{seed}/repeat1/run.json"
        for variant in ("cpu", "cpu-fast")
        for seed in (1, 2)
    ]


def test_of_a_change_the_baselines_run_comes_first():
    found = of(studies=["matrix"], matrix={"changes": [{"threads": 4}], "seed": 5})
    assert found.runs_of_change({"workload": "digits", "cell": "threads-4"}) == [
        "results/runs/digits/serial/seed5/repeat1/run.json",
        "results/runs/digits/serial-threads-4/seed5/repeat1/run.json",
    ]


def test_only_cells_that_can_run_here_are_tabulated():
    changes = [{"threads": 4}, {"accelerator": "gpu"}]
    cells = [
        len(
            of(gpus=gpus, studies=["matrix"], matrix={"changes": changes}).cells_of_matrix(WORKLOAD)
        )
        for gpus in (0, 1)
    ]
    assert cells == [3, 4]  # with the repeat and the other seed


def test_a_resumed_run_is_compared_with_an_uninterrupted_one():
    found = of(studies=["resume"], resume={"stops": ["mid_epoch", "mid_accumulation"]})
    wildcards = {"workload": "denoiser-short", "variant": "serial"}
    pairs = found.pairs_of_resume(wildcards)
    run = "results/runs/denoiser-short/{}/seed1/repeat1/run.json"
    assert [(pair["stop"], pair["resume"], pair["whole"]) for pair in pairs] == [
        ("mid_epoch", "lightning", run.format("serial")),
        ("mid_epoch", "twinrun", run.format("serial")),
        ("mid_accumulation", "lightning", run.format("serial-accumulate-2")),
        ("mid_accumulation", "twinrun", run.format("serial-accumulate-2")),
    ]
    assert pairs[0]["stopped"] == run.format("serial-stop-mid_epoch-resume-lightning")
    runs = found.runs_of_resume(wildcards)
    assert len(runs) == len({*runs}) == 6


def test_the_runs_of_a_sweep_are_its_trials():
    found = of(sweep={"seeds": [1, 2]})
    (workload,) = found.settings.config["sweep"]["workloads"]
    trials = found.settings.trials_of(workload)
    assert len(trials) > 1
    assert found.runs_of_sweep({"workload": workload}) == [
        run
        for trial in trials
        for run in inputs.filled(
            "results/runs/{trial}/{variant}/seed{seed}/repeat1/run.json",
            trial=[trial],
            variant=found.settings.variants_of("sweep"),
            seed=[1, 2],
        )
    ]


def test_figures_of_pairs_are_drawn_from_the_lowest_seed():
    found = of(reproducibility={"seeds": [7, 3], "variants": ["deterministic"]})
    assert found.runs_of_first_seed(WORKLOAD) == [
        f"{RUNS}/deterministic/seed3/repeat{repeat}/run.json" for repeat in (1, 2)
    ]
    first = found.first_run_of_workload(WORKLOAD)
    assert first == f"{RUNS}/deterministic/seed7/repeat1/run.json"


def test_surfaces_are_drawn_from_a_run_of_each_device():
    assert of(devices={"seeds": [4, 2]}).first_runs_of_devices({"workload": "peaks"}) == [
        "results/runs/peaks/cpu/seed4/repeat1/run.json",
        "results/runs/peaks/cpu-fast/seed4/repeat1/run.json",
    ]


def test_every_variant_but_the_first_is_compared_with_the_first():
    found = of(acceleration={"workloads": ["digits"], "variants": ["compiled", "eager", "serial"]})
    assert found.with_baseline("acceleration") == [
        "results/comparisons/acceleration/digits/eager/against/compiled.json",
        "results/comparisons/acceleration/digits/serial/against/compiled.json",
    ]


def test_the_gate_takes_nothing_that_it_does_not_judge():
    found = of(require={"deterministic_pair": "equal"})
    assert found.runs_of_fingerprint({}) == []
    assert found.expected_fingerprint({}) == []
    assert found.matrices_of_gate({}) == []
    assert found.timings_of_gate({}) == []


def test_the_gate_takes_what_it_judges(tmp_path):
    file = tmp_path / "expected.json"
    require = {
        "fingerprint": str(file),
        "determinism_cost": "<= 2",
        "matrix": ["repeat"],
    }
    found = of(
        require=require,
        reproducibility={"workloads": ["factorization"], "seeds": [1, 2]},
        matrix={"workloads": ["digits"]},
    )
    assert found.runs_of_fingerprint({}) == [
        f"{RUNS}/deterministic/seed{seed}/repeat1/run.json" for seed in (1, 2)
    ]
    assert found.matrices_of_gate({}) == ["results/matrix/digits.json"]
    assert found.timings_of_gate({}) == ["results/timings/determinism_factorization.json"]
    assert found.expected_fingerprint({}) == []  # it is written by the first gate
    file.touch()
    assert found.expected_fingerprint({}) == [str(file)]
