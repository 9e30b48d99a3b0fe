"""The report page: what stands where, what is missing and says so, and what is escaped."""

import html
import json
import re
import shutil
from copy import deepcopy
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
import yaml
from example_results import ACTUAL, SHAPES, VARIANTS, write_results
from example_runs import fail, seal
from example_trainings import VARIANT
from ranked import OF_TRIAL, WITHOUT_CHOICES
from safetensors.numpy import load_file, save_file

from twinrun import artifacts
from twinrun.comparison.pair_records import read_comparisons, write_comparisons
from twinrun.errors import TwinrunError
from twinrun.report.used_settings import used
from twinrun.verdicts.evidence import Evidence
from twinrun.verdicts.rows import read_rows, write_rows
from twinrun.verdicts.sweep import best

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>&{{ 7*7 }}'


class Page(HTMLParser):
    """A page that was read back: its text, ids, references and tags."""

    def __init__(self, path):
        super().__init__()
        self.source = path.read_text(encoding="utf-8")
        self.tags, self.ids, self.references, self.handlers, words = [], [], [], [], []
        self._words = words
        self.feed(self.source)
        self.text = re.sub(r"\s+", " ", "".join(words))

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in ("href", "src", "xlink:href"):
                self.references.append(value)
            if name.startswith("on"):
                self.handlers.append(name)
            self.references += [f"#{x}" for x in re.findall(r"url\(#(.*?)\)", value or "")]

    handle_startendtag = handle_starttag

    def handle_data(self, data):
        self._words.append(data)


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    return write_results(tmp_path_factory.mktemp("example") / "results")


@pytest.fixture(scope="module")
def page(example):
    return Page(example.report())


@pytest.fixture
def own_example(example, tmp_path):
    """A copy of the example, whose files a test may change."""
    results = tmp_path / "results"
    shutil.copytree(example.results, results)
    files = [str(results / Path(file).relative_to(example.results)) for file in example.files]
    return replace(example, results=results, files=files, config=deepcopy(example.config))


def edit(path, change):
    """Change a JSON file; of a run, as if the run had written it so."""
    value = artifacts.read_json(path)
    change(value)
    artifacts.write_json(path, value)
    if Path(path).name == "run.json":
        seal(Path(path).parent)


def files_of(example, suffix):
    return [file for file in example.files if file.endswith(suffix)]


class TestPage:
    def test_verdicts_stand_first_and_then_all_sections_in_reading_order(self, page):
        wanted = [
            "verdicts",
            "reproducibility",
            "data",
            "environment",
            "method",
            "runs",
            "settings",
        ]
        assert [identity for identity in page.ids if identity in wanted] == wanted

    def test_each_verdict_says_what_was_measured_and_links_its_evidence(self, page):
        heads = re.findall(r"<th scope=.col. role=.columnheader.>(.*?)</th>", page.source)
        assert heads == ["Question", "Answer", "Measured", "Evidence"]
        assert page.text.count("Are all learnable parameters equal, bit for bit?") == 4
        assert "1,251 of 1,256 parameters differ (2 repeats)" in page.text
        assert "comparisons/reproducibility/denoiser/nondeterministic.json" in page.references

    def test_advice_stands_first_and_leads_to_what_it_rests_on(self, page):
        assert "8 runs of training led to 6 verdicts." in page.text
        said = "denoiser and factorization: training does not repeat under nondeterministic; switch"
        assert page.text.index(said) < page.text.index("8 runs of training")
        row = "#verdict-reproducibility-repeats-denoiser-nondeterministic"
        assert f'<li><a href="{row}">denoiser</a> and <a href="' in page.source
        assert row[1:] in page.ids
        assert "<code>deterministic: true</code>" in page.source

    def test_a_variant_is_defined_once_where_it_first_appears(self, page):
        said = "nondeterministic: deterministic: false, threads: 2; deterministic: determin"
        assert page.text.count(said) == 1

    def test_verdicts_are_folded_by_study(self, page):
        folded = r'<details class="study" open>\s*<summary>Does it repeat\? <span class="answers">'
        assert re.search(folded + "2 differs, 2 equal, 2 yes<", page.source)

    def test_contents_lead_to_every_section_and_workload(self, example, page):
        targets = [reference[1:] for reference in page.references if reference.startswith("#")]
        assert set(targets) <= set(page.ids)
        for study in example.config["studies"]:
            assert {study, *(f"{study}-{workload}" for workload in SHAPES)} <= set(targets)

    def test_ids_are_unique_though_figures_come_with_their_own(self, page):
        assert len(page.ids) == len(set(page.ids))
        assert "figure1-axes_1" in page.ids
        assert "figure2-axes_1" in page.ids

    def test_every_figure_is_in_the_page_with_a_title_and_a_caption(self, example, page):
        number = len(files_of(example, ".svg"))
        assert number == 14
        assert page.tags.count("svg") == page.tags.count("figcaption") == number
        assert page.source.count('role="img"') == number
        assert all(f"figure{i}-title" in page.ids for i in range(1, number + 1))

    def test_asks_for_nothing_outside_itself(self, example, page):
        outside = [r for r in page.references if not r.startswith(("#", "data:"))]
        assert outside  # the evidence of the verdicts
        assert [path for path in outside if not (example.results / path).is_file()] == []
        assert not {"script", "link", "iframe", "img"} & {*page.tags} - {"link"}
        assert page.tags.count("link") == 1  # the empty icon
        assert not re.search(r"@import|url\((?!#)", page.source)
        assert "default-src 'none'" in page.source

    def test_figures_follow_the_theme(self, page):
        assert "fill: var(--ink)" in page.source
        assert "fill: var(--paper)" in page.source
        assert "#1f2328" not in page.source.partition("</style>")[2]

    def test_captions_draw_on_the_measured_values(self, page):
        assert "nondeterministic: 71 of 72 differ, by at most 2.5" in page.text
        assert "nondeterministic: diverges at step 3," in page.text
        assert page.text.count("aten::index_put gave other values from equal inputs.") == 2
        assert "They diverged at step 3 of 95 (epoch 1). First to differ: gradients" in page.text
        assert "took 1.08 times as long as one of nondeterministic" in page.text
        assert "(95% interval 1.05 to 1.10): slower, 8% more time." in page.text

    def test_settings_can_be_read_back(self, example, page):
        settings = re.search(r"<pre.*?><code>(.*?)</code></pre>", page.source, re.DOTALL)[1]
        assert yaml.safe_load(html.unescape(settings)) == used(example.config)
        assert "*id" not in settings

    def test_names_environment_data_and_each_run(self, page):
        for text in ("2.13.0+cpu", "Example CPU @ 2.1 GHz", "d" * 64, "612 MiB"):
            assert text in page.text
        assert "runs/denoiser/deterministic/seed1/repeat2" in page.text

    def test_is_the_same_again(self, example, page):
        assert example.report().read_text(encoding="utf-8") == page.source


def test_denoised_images_that_are_worse_than_the_noisy_ones_are_remarked(own_example):
    """Red at b8e0cc1."""
    remark = "By this measure denoised is worse than noisy."
    assert remark not in Page(own_example.report()).text
    (path,) = files_of(own_example, "denoiser/nondeterministic/seed1/repeat1/run.json")
    file = Path(path).with_name("predictions.safetensors")
    arrays = load_file(file)
    save_file(arrays | {"denoised": 1 - arrays["clean"]}, file)
    seal(file.parent)
    assert remark in Page(own_example.report()).text


def test_no_other_run_is_remarked_on_in_the_place_of_the_one_that_is_drawn(own_example):
    remark = "By this measure denoised is worse than noisy."
    (first,) = files_of(own_example, "denoiser/nondeterministic/seed1/repeat1/run.json")
    (second,) = files_of(own_example, "denoiser/nondeterministic/seed1/repeat2/run.json")
    file = Path(second).with_name("predictions.safetensors")
    arrays = load_file(file)
    save_file(arrays | {"denoised": 1 - arrays["clean"]}, file)
    seal(file.parent)
    assert remark not in Page(own_example.report()).text
    fail(Path(first), "no memory")
    assert remark not in Page(own_example.report()).text


def test_of_datasets_that_one_function_makes_the_first_is_drawn(own_example):
    for path in files_of(own_example, "factorization/deterministic/seed1/repeat1/run.json"):
        edit(path, lambda run: run["settings"]["workload"].update(dataset="digits-few"))
    own_example.config["datasets"]["digits-few"] = own_example.config["datasets"]["digits"]
    copies = []
    for name in ("data/digits.json", "figures/data/digits.svg"):
        copies.append(own_example.results / name.replace("digits", "digits-few"))
        shutil.copy(own_example.results / name, copies[-1])
    files = [*own_example.files, *map(str, copies)]
    page = Page(replace(own_example, files=files).report())
    assert "Its images are made as those of digits are, which are shown above." in page.text
    assert page.text.count("One row per class") == 1


def test_equal_pairs_are_a_sentence_instead_of_flat_lines(own_example):
    for path in files_of(own_example, ".json"):
        if "/comparisons/" in path:
            equal = {"answer": "equal", "first_difference": None}
            edit(path, lambda seeds, equal=equal: [found.update(equal) for found in seeds])
    page = Page(own_example.report())
    assert page.text.count("Every pair is equal in every tensor and after every step: nothing") == 2
    for figure in ("How large the differences are", "How the runs diverge"):
        assert figure not in page.text
    assert page.text.count("Where the first layer differs.") == 2


class TestCost:
    @pytest.mark.parametrize(
        ("low", "ratio", "high", "words"),
        [
            (0.97, 1.01, 1.08, "(95% interval 0.970 to 1.08): no difference measured."),
            (0.97, 1.01, 1.04, "(95% interval 0.970 to 1.04): no difference that matters (at"),
            (0.90, 0.93, 0.95, "(95% interval 0.900 to 0.950): faster, 7% less time."),
            (1.05, 1.08, 1.10, "(95% interval 1.05 to 1.10): slower, 8% more time."),
        ],
    )
    def test_is_signed_and_says_when_none_was_measured(self, own_example, low, ratio, high, words):
        for path in files_of(own_example, "determinism_denoiser.json"):
            found = {"time_ratio": ratio, "low": low, "high": high}
            edit(path, lambda timing, found=found: timing["ratios"][0].update(found))
        assert words in Page(own_example.report()).text

    def test_names_what_could_not_be_measured_and_what_was_unstable(self, own_example):
        for path in files_of(own_example, "determinism_denoiser.json"):
            skipped = {
                "variant": "deterministic",
                "size": None,
                "phase": None,
                "reason": "no such kernel",
            }

            def change(timing, skipped=skipped):
                timing.update(ratios=[], skipped=[skipped])
                timing["medians"][1].update(unstable=True, iqr_share=0.31)

            edit(path, change)
        text = Page(own_example.report()).text
        assert "deterministic was not measured: no such kernel." in text
        assert "31%, unstable" in text
        assert "The rounds of nondeterministic spread by more than 10%" in text

    def test_names_a_lost_phase_and_what_fast_steps_were_proven_by(self, own_example):
        leg = {"precision": "64-true", "distance": 3e-16, "bound": 1.5e-8, "judged": 85}
        leg |= {"unrepeated": 0, "fixed": 9, "losses": {"judged": 5, "of": 6}}
        leg |= {"parameters": {"judged": 11, "of": 12}}
        proof = {
            "steps": 6,
            "shapes": 2,
            "in_parts": HOSTILE,
            "legs": [{**leg, "left_out": 3}],
            "not_in_float64": None,
            "seed": 1,
            "seconds": 9.0,
            "key": None,
            "is_remembered": True,
        }
        proven = {"variant": "proven", "size": None, "proof": proof, "refused": None}
        refused = {"variant": "other", "size": None, "proof": None, "refused": "loss is 2.1 off"}
        lost = {"variant": "deterministic", "size": None, "phase": "predict", "reason": "no model"}
        hookless = {**lost, "phase": "train", "reason": "KeyError: 'loss'"}
        for path in files_of(own_example, "determinism_denoiser.json"):
            edit(path, lambda timing: timing.update(proofs=[proven, refused], skipped=[lost]))
            edit(path, lambda timing: timing.update(without_epoch_hooks=[hookless]))
        page = Page(own_example.report())
        assert "Between the bare steps of deterministic no epoch ended" in page.text
        assert "deterministic (predict) was not measured: no model." in page.text
        assert "refused: loss is 2.1 off" in page.text
        place = page.text.index("Fast training steps compared with plain ones")
        for words in ("64-true", "85", "3.00×10⁻¹⁶", "1.50×10⁻⁸", HOSTILE):
            assert words in page.text[place : place + 900], words


class TestMissingParts:
    def test_a_variant_that_could_not_run_says_so_where_it_would_stand(self, tmp_path):
        not_run = {"deterministic": "no GPU on this machine"}
        page = Page(write_results(tmp_path / "results", not_run=not_run).report())
        assert page.text.count("deterministic: not run, no GPU on this machine.") == 2
        assert "factorization: not run here: deterministic (no GPU on this machine)." in page.text
        assert page.text.count("Not measured: a timing needs at least two variants") == 2

    def test_a_variant_that_cannot_be_timed_says_so_where_its_times_would_stand(self, own_example):
        (table,) = files_of(own_example, "verdicts.csv")
        rows = read_rows(table)
        of_cost = next(row for row in rows if row["key"] == "cost")
        of_cost |= {"answer": "not run", "measured": "without environment", "evidence": ""}
        write_rows(table, rows)
        page = Page(own_example.report())
        said = "deterministic: not timed, without environment. Its times would stand here."
        assert page.text.count(said) == 1

    def test_nothing_ran(self, own_example):
        not_run = dict.fromkeys(VARIANTS, "no GPU on this machine")
        files = files_of(own_example, "verdicts.csv")
        page = Page(replace(own_example, not_run=not_run, files=files).report())
        assert page.text.count("not run, no GPU on this machine.") == 4
        assert page.text.count("No run was made.") == 3  # of data, environment and runs
        assert "data not identified" not in page.text
        assert page.tags.count("svg") == 0

    def test_a_pair_that_was_refused_gives_the_reason(self, own_example):
        for path in files_of(
            own_example, "comparisons/reproducibility/denoiser/nondeterministic.json"
        ):
            refused = {"answer": "not comparable", "reason": "other torch: 2.12.0, 2.13.0"}
            refused |= dict.fromkeys(["max_abs", "max_ulp", "relative_l2", "first_difference"])
            edit(path, lambda seeds, refused=refused: [seed.update(refused) for seed in seeds])
            for table in ("tensors", "steps"):
                rows = pd.read_csv(Path(path).with_suffix(f".{table}.csv"))
                artifacts.write_csv(Path(path).with_suffix(f".{table}.csv"), rows[:0])
        text = Page(own_example.report()).text
        assert "The runs of nondeterministic are not comparable: other torch: 2.12.0" in text

    def test_a_training_that_failed_is_named_with_its_reason(self, own_example):
        runs = [Path(file) for file in files_of(own_example, "run.json")]
        reason = "no reproducible algorithm for put_: use another operation"
        for run in runs:
            if "/factorization/deterministic/" in str(run):
                fail(run, reason)
        comparison = own_example.results / "comparisons/reproducibility/factorization"

        def refuse(comparisons):
            for found in comparisons:
                found.update(answer="not run", reason=f"repeat 1 failed: {reason}", steps=0)

        edit(comparison / "deterministic.json", refuse)
        page = Page(own_example.report())
        text = page.text
        assert "2 trainings failed, and left no network. To have one trained again" in text
        assert re.search(r'href="logs/train/[\w/-]+/seed1/repeat\d\.log"', page.source)
        assert f"failed: {reason}" in text
        assert "The runs of deterministic were not compared: repeat 1 failed: no repr" in text

    @pytest.mark.parametrize(
        ("of_second", "says"),
        [
            ("equal", "The nondeterministic runs differ for 1 of 3 seeds"),
            ("not run", "The nondeterministic runs differ for 1 of 3 seeds"),
        ],
    )
    def test_seeds_that_were_not_compared_do_not_differ(self, own_example, of_second, says):
        """Red before: all but the equal ones differed."""
        self.of_seeds(own_example, "differs", of_second, "not run")
        assert says in Page(own_example.report()).text

    @pytest.mark.parametrize(
        ("answers", "says"),
        [
            (("not run", "equal"), "were not compared for 1 of 2 seeds: nothing was compiled."),
            (("not run", "not run"), "were not compared for 2 of 2 seeds: nothing was compiled."),
            (("not comparable", "equal"), "are not comparable for 1 of 2 seeds: nothing was comp"),
        ],
    )
    def test_runs_that_ended_are_not_said_to_have_left_no_network(self, own_example, answers, says):
        """Red before: "Some runs left no network", of a setting that never took effect."""
        self.of_seeds(own_example, *answers)
        text = Page(own_example.report()).text
        assert f"The runs of nondeterministic {says}" in text
        assert "left no network: nothing" not in text

    @staticmethod
    def of_seeds(example, *answers):
        """Have one seed for each answer, of which only the first is drawn."""
        (path,) = files_of(example, "comparisons/reproducibility/denoiser/nondeterministic.json")

        def answer(found):
            of_one = found[0]
            found[:] = [
                of_one | {"seed": of_one["seed"] + further, "answer": answer}
                for further, answer in enumerate(answers)
            ]
            for seed in found:
                if seed["answer"] != "differs":
                    seed["first_difference"] = None
                if seed["answer"] in ("not run", "not comparable"):
                    seed["reason"] = "nothing was compiled"

        edit(path, answer)

    @pytest.mark.parametrize(
        ("changes", "is_alike"),
        [({}, True), ({"differs_in": "tensors"}, False), ({"source": "model.py:13"}, False)],
    )
    def test_seeds_that_diverge_otherwise_are_not_one_line(self, own_example, changes, is_alike):
        """Red before: the sentence of the first seed stood for another line, or other tensors."""
        (path,) = files_of(own_example, "locations/reproducibility/denoiser/nondeterministic.json")
        edit(path, lambda found: found.append({**found[0], "op": found[0]["op"] | changes}))
        text = Page(own_example.report()).text
        assert ("This is one of 2 seeds whose runs diverge there." in text) is is_alike

    def test_a_study_that_was_not_asked_for_is_named(self, own_example):
        config = own_example.config | {"studies": []}
        page = Page(replace(own_example, config=config).report())
        assert "Not requested: reproducibility, devices, " in page.text

    def test_workload_without_dataset_metrics_or_buffers(self, own_example):
        for path in files_of(own_example, "run.json"):
            edit(path, lambda run: run.update(data=None, metrics={}))
        page = Page(own_example.report())
        for workload in SHAPES:
            assert f"{workload}: data not identified." in page.text
        assert "on test data" not in page.text

    def test_a_metric_may_have_any_name(self, own_example):
        """Red before: it gave the columns their names, and was gone."""
        for path in files_of(own_example, "run.json"):
            edit(path, lambda run: run.update(metrics={"variant": 1.0}))
        source = Page(own_example.report()).source
        assert re.search(r"<th scope=.row.>variant</th><td class=.number.>1(\.0+)?</td>", source)
        heads = '<th scope="col" class="number">nondeterministic</th>'
        assert f'<th scope="col">Metric</th>{heads}' in source

    def test_pairs_that_begin_otherwise_differ_at_no_step(self, own_example):
        """Red before: "They diverged at step 0 of 95 (epoch 0)", and "0 of 64 parameters"."""
        first = {"repeat": 2, "epoch": 0, "step": 0, "quantity": "initial buffers"}
        first |= {"tensor": "norm.mean", "cause": "initial weights"}

        def begin_otherwise(seeds):
            for seed in seeds:
                seed["first_difference"] = {**seed["first_difference"], **first}
                seed["parameters"] |= {"tensors_differing": 0, "elements_differing": 0}
                seed["buffers"] |= {"elements": 64, "elements_differing": 3}

        named = "comparisons/reproducibility/denoiser/nondeterministic.json"
        (path,) = files_of(own_example, named)
        edit(path, begin_otherwise)
        text = Page(own_example.report()).text
        assert "3 of 64 numbers in buffers, and no parameter." in text
        assert "They diverged before the first step: the initial buffers of norm.mean" in text
        assert "diverges before the first step" in text
        assert "at step 0" not in text

    def test_runs_of_other_environments_and_other_data_are_told(self, own_example):
        path = files_of(own_example, "run.json")[0]

        def change(run):
            run["environment"]["identity"]["torch"] = "2.12.0"
            run["data"]["sha256"] = "e" * 64

        edit(path, change)
        page = Page(own_example.report())
        text = page.text
        assert "The runs were made in 2 environments" in text
        assert ": what is not as in the first environment" in text
        for value, number in (("2.12.0", 1), ("2.13.0+cpu", 1), ("Example CPU @ 2.1 GHz", 1)):
            assert page.source.count(f"<td>{value}</td>") == number
        assert "The runs did not read the same bytes" in text
        assert "e" * 64 in text


class TestSeveralWorkersAndTrials:
    @pytest.fixture
    def page(self, own_example):
        """The example with a study of its variants as if they had one and two workers, a sweep."""
        phase = {"size": None, "phase": "train"}
        spread = {"low": 2.4, "high": 4.1, "unstable": False, "iqr_share": 0.01, "epochs": 8}
        found = {
            "workload": "denoiser",
            "skipped": [],
            "baseline": VARIANTS[0],
            "medians": [
                {**phase, **spread, "variant": variant, "workers": workers, "seconds": seconds}
                | {"first_epoch": 9.0, "communication": 0.25 * (workers - 1)}
                | {"steps": 10, "samples": 160 // workers}
                for variant, workers, seconds in zip(VARIANTS, (1, 2), (4.0, 2.5), strict=True)
            ],
            "ratios": [
                {**phase, "variant": VARIANTS[1], "time_ratio": 0.625, "low": 0.5, "high": 0.8}
                | {"efficiency": 0.8, "per": "samples"}
            ],
        }
        trial = {"rank": 1, "point": {"lr": 0.1}, "label": "lr 0.1", "value": 0.9, "metrics": {}}
        failed = {"rank": None, "point": {"lr": 9}, "value": None, "ended": f"failed: {HOSTILE}"}
        trial |= OF_TRIAL
        trial |= {"fit_seconds": 1.0, "run": "results/runs/denoiser~lr-0.1/run.json"}
        trials = [{**trial, "ended": "finished"}, {**trial, **failed}]
        ranking = {"workload": "denoiser", "metric": "psnr", "best": "highest", "finished": 1}
        choice = {"name": "a", "label": "lr 0.1", "rank": 1, "values": [0.9], "lacks": None}
        ranking |= WITHOUT_CHOICES | {"choices": [choice]}
        ranking["trials"] = trials
        for name, value in (("scaling", found), ("sweeps", ranking)):
            path = own_example.results / name / "denoiser.json"
            artifacts.write_json(path, value)
            own_example.files.append(str(path))
        verdicts = own_example.results / "verdicts.csv"
        evidence = Evidence(path="sweeps/denoiser.json", found=ranking)
        rows = [{"study": "sweep", **row} for row in best(evidence)]
        write_rows(verdicts, [*read_rows(verdicts), *rows])
        compared = own_example.results / "comparisons"
        shutil.copytree(compared / "reproducibility/denoiser", compared / "parallel/denoiser")
        own_example.files.extend(map(str, (compared / "parallel").glob("*/*.json")))
        study = {"workloads": ["denoiser"], "variants": VARIANTS, "seeds": [1]}
        own_example.config["studies"] += ["parallel", "sweep"]
        own_example.config["parallel"] = {**study, "repeats": 2, "at_once": 1}
        own_example.config["sweep"] = study | {"metric": "psnr", "best": "highest", "epochs": 3}
        for variant in VARIANTS:
            own_example.config["variants"][variant]["sharding"] = "canonical"
        return Page(own_example.report())

    def test_speed_up_efficiency_and_communication_are_told(self, page):
        assert (
            "deterministic trains 1.60 times as fast as nondeterministic (95% interval "
            "1.25 to 2.00): faster, 37.5% less time; per sample, since an epoch of deterministic "
            "has 80 samples, one of nondeterministic 160." in page.text
        )
        for words in ("80%", "25%", "2.50 s", "canonical", "Samples an epoch"):
            assert words in page.text

    def test_whether_as_many_workers_repeat_is_told(self, page):
        place = page.text.index("Runs of denoiser under one variant")
        assert "1,251 of 1,256" in page.text[place : place + 600]

    def test_trials_stand_in_their_order_and_the_failed_one_says_why(self, page):
        assert "1 of 2 trials finished." in page.text
        said = "highest psnr in the test: 0.900 with lr 0.1; there is no other choice"
        assert said in page.text
        assert f"failed: {HOSTILE}" in page.text
        assert "script" not in page.tags


def test_text_that_is_not_ours_is_escaped(own_example):
    config = own_example.config
    config["workloads"]["denoiser"]["module"] = HOSTILE
    config["workloads"]["denoiser"]["hyperparameters"][HOSTILE] = HOSTILE
    config["datasets"]["digits"]["parameters"][HOSTILE] = HOSTILE

    def spoil_run(run):
        run.update(ended=HOSTILE, metrics={HOSTILE: 1.0}, weights_sha256=HOSTILE)
        run["data"]["sha256"] = HOSTILE
        for part in run["environment"].values():
            part.update({key: HOSTILE for key, value in part.items() if isinstance(value, str)})

    def spoil_comparison(comparisons):
        for comparison in comparisons:
            comparison["reason"] = HOSTILE
            if comparison["first_difference"]:
                comparison["first_difference"].update(tensor=HOSTILE)

    def spoil_timing(timing):
        timing["baseline"] = HOSTILE
        timing["skipped"] = [{"variant": HOSTILE, "size": None, "phase": None, "reason": HOSTILE}]
        timing["medians"][0].update(variant=HOSTILE, device=HOSTILE)

    def spoil_dataset(manifest):
        manifest.update(make=HOSTILE, parameters={HOSTILE: HOSTILE})
        manifest["arrays"] = {HOSTILE: {"shape": [1], "dtype": HOSTILE}}

    for file in own_example.files:
        for place, spoil in {
            "runs": spoil_run,
            "comparisons": spoil_comparison,
            "timings": spoil_timing,
            "data": spoil_dataset,
        }.items():
            if f"/results/{place}/" in file:
                edit(file, spoil)
        if "/comparisons/" in file:
            path = Path(file).with_suffix(".tensors.csv")
            artifacts.write_csv(path, pd.read_csv(path).assign(tensor=HOSTILE, shape=HOSTILE))
    table = own_example.results / "verdicts.csv"
    spoilt = dict.fromkeys(["workload", "variant", "question", "measured"], HOSTILE)
    spoilt["evidence"] = "javascript:alert(3)"
    write_rows(table, [row | spoilt for row in read_rows(table)])

    page = Page(replace(own_example, not_run={"deterministic": HOSTILE}).report())
    assert not {"script", "img"} & {*page.tags}
    assert not page.handlers
    assert not [r for r in page.references if r.startswith("javascript:")]
    assert page.source.count("&lt;script&gt;alert(1)&lt;/script&gt;") > 50
    assert page.source.count("{{ 7*7 }}") > 50


def test_a_run_that_changed_after_it_was_written_is_not_reported(own_example):
    run = Path(files_of(own_example, "run.json")[0])
    run.write_bytes(run.read_bytes().replace(b'"peak_memory_mb": 6', b'"peak_memory_mb": 7'))
    with pytest.raises(TwinrunError, match=r"run\.json is corrupt"):
        own_example.report()


def test_two_thousand_runs_are_summed_up(own_example):
    manifest = artifacts.read_json(files_of(own_example, "run.json")[0])
    folder = own_example.results / "runs/denoiser/nondeterministic"
    many = [folder / f"seed{seed}/repeat1/run.json" for seed in range(2, 2002)]
    for seed, path in enumerate(many, start=2):
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(manifest | {"seed": seed}))
        seal(path.parent)
    few = own_example.report().stat().st_size
    page = Page(replace(own_example, files=[*own_example.files, *map(str, many)]).report())
    assert len(page.source.encode()) < few + 2000
    assert "2,008 runs by workload and variant" in page.text
    assert "runs/denoiser/nondeterministic/seed7" not in page.text


def test_what_an_answer_rests_on_is_said_beside_it(tmp_path):
    example = write_results(tmp_path / "results")
    path = example.results / "comparisons/reproducibility/denoiser/deterministic.json"
    (found,) = read_comparisons(path)
    found["resumed_at"] = [[], [19]]
    broken = {"step": 40, "since": 40, "number": 3, "is_lasting": True}
    found["non_finite_loss"] = [broken, broken]
    write_comparisons(path, [found])
    page = Page(example.report())
    assert "Run 2 was resumed after step 19." in page.text
    assert "The loss is not finite from step 40 on." in page.text


@pytest.mark.exhaustive
def test_an_end_may_hide_a_step_that_was_not_traced(tmp_path):
    example = write_results(tmp_path / "results")
    path = example.results / "comparisons/reproducibility/denoiser/nondeterministic.json"
    (found,) = read_comparisons(path)
    found["first_difference"] |= {"quantity": "number of steps", "step": 29, "tensor": None}
    write_comparisons(path, [found])
    said = "One of them did more steps than the other: only one has step 29."
    unseen = "Of the steps from 21 on, which were not traced, any may be the first that differs."
    page = Page(example.report()).text
    assert said in page
    assert unseen not in page
    found["first_difference"]["since"] = 21
    write_comparisons(path, [found])
    assert f"{said} {unseen}" in Page(example.report()).text


@pytest.mark.exhaustive
def test_a_line_begins_behind_the_step_where_not_every_one_was_traced(tmp_path):
    example = write_results(tmp_path / "results")
    said = "diverge where a line begins, or, where not every step was traced, before it; equal runs"
    assert said not in Page(example.report()).text
    path = example.results / "comparisons/reproducibility/denoiser/nondeterministic.json"
    (found,) = read_comparisons(path)
    write_comparisons(path, [found | {"traced": "traced every 7th step"}])
    assert said in Page(example.report()).text


def test_what_a_plain_script_does_not_set_stands_beside_the_answer(own_example):
    for path in files_of(own_example, "run.json"):
        if "/deterministic/" in path:

            def change(run):
                run["settings"]["variant"] = VARIANT
                run["actual"] = ACTUAL
                # The shell's, and no doing of ours.
                run["environment"]["identity"]["variable MKL_CBWR"] = "COMPATIBLE"

            edit(path, change)
    text = Page(own_example.report()).text
    line = "Rests on: PYTHONHASHSEED fixed, reproducible algorithms, unwritten memory filled, 2 thr"
    assert text.count(line) == 2  # once a comparison, of the two workloads
    assert "PYTHONHASHSEED=1; OMP_NUM_THREADS=2; reproducible algorithms" in text
    assert "num_sanity_val_steps=0" in text
    assert "MKL_CBWR=COMPATIBLE" not in text
    edit(path, lambda run: run.update(data=None))
    assert "2 threads, data not identified" in Page(own_example.report()).text


def test_a_section_that_raises_leaves_its_reason_and_the_other_workloads(own_example):
    for path in files_of(own_example, "comparisons/reproducibility/denoiser/deterministic.json"):
        Path(path).with_suffix(".tensors.csv").write_text("seed,elements_differing\n1,many\n")
    page = Page(own_example.report())
    assert "This part could not be written: " in page.text
    assert page.tags.count("svg") == 7  # of factorization, and of the dataset
    assert {"reproducibility-denoiser", "reproducibility-factorization"} <= set(page.ids)


def test_a_table_that_is_none_is_named_and_no_page_is_written(own_example):
    for path in files_of(own_example, "comparisons/reproducibility/denoiser/deterministic.json"):
        Path(path).with_suffix(".tensors.csv").write_text("nothing,of,the,kind\n")
    with pytest.raises(TwinrunError, match=r"deterministic\.tensors\.csv is corrupt"):
        own_example.report()


def test_a_study_reports_its_own_runs_though_another_trains_the_same(own_example):
    """Red before: the repeats of another study were taken for networks of this one."""
    own_example.config["studies"].append("devices")
    study = {"workloads": ["denoiser"], "variants": VARIANTS, "seeds": [1], "size": "points"}
    own_example.config["devices"] = study
    page = Page(own_example.report())
    assert "could not be written" not in page.text
    section = page.source.partition('<section id="devices"')[2].partition("</section>")[0]
    rows = section.partition("The trained networks of denoiser")[2].partition("</table>")[0]
    assert rows.count('<th scope="row">') == 2


def test_what_runs_lack_and_where_they_are_not_as_asked_is_said_of_their_group(own_example):
    missing = {"predictions": "predict_step gives a list of strings"}
    sentence = "threads is 1, where the variant says 2"
    departures = [{"setting": "threads", "sentence": sentence}]
    for path in files_of(own_example, "run.json"):
        if "/denoiser/deterministic/" in path:
            edit(path, lambda run: run.update(not_evaluated=missing, departures=departures))
    text = Page(own_example.report()).text
    assert "2 runs of these: predictions: predict_step gives a list of strings" in text
    assert "2 runs of these: not as the variant says: threads is 1, where the variant says" in text
