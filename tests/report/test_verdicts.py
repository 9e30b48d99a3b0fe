"""The first paragraph of the page, drawn from the verdicts by their keys."""

from twinrun.report.verdicts import summary
from twinrun.verdicts.rows import Key, VerdictRow


def row(key: Key, answer, variant, workload="denoiser") -> VerdictRow:
    return {
        "study": "reproducibility",
        "key": key,
        "workload": workload,
        "variant": variant,
        "question": f"question of {key}?",
        "answer": answer,
        "measured": "",
        "evidence": "",
    }


def test_a_workload_is_named_once_with_its_variants():
    keys: list[Key] = ["repeats", "repeats_logged", "repeats_predictions"]
    rows = [row(key, "equal", variant) for variant in ("plain", "deterministic") for key in keys]
    # Asked once of each study that has the workload.
    rows.append(row("repeats", "equal", "plain") | {"study": "parallel"})
    assert summary(rows) == {
        "number": 7,
        "sentences": [
            ("Repeated bit for bit:", "denoiser (plain, deterministic)"),
            ("Logged values equal:", "denoiser (plain, deterministic)"),
            ("Predictions equal:", "denoiser (plain, deterministic)"),
        ],
    }


def test_what_differs_stands_apart_from_what_is_equal():
    rows = [
        row("repeats_metrics", "equal", "plain"),
        row("repeats_metrics", "differs", "deterministic"),
        row("repeats_metrics", "differs", "plain", workload="digits"),
    ]
    assert summary(rows)["sentences"] == [
        ("Test metrics equal:", "denoiser (plain)"),
        ("Test metrics differ:", "denoiser (deterministic); digits (plain)"),
    ]


def test_a_question_without_words_of_its_own_is_asked():
    (found,) = summary([row("cost", "no", "deterministic")])["sentences"]
    assert found == ("question of cost? No:", "denoiser (deterministic)")


def test_many_workloads_are_cut_short():
    rows = [row("repeats", "equal", "plain", workload=f"w{i}") for i in range(10)]
    ((_, names),) = summary(rows)["sentences"]
    assert names.endswith("w7 (plain); and 2 more")
