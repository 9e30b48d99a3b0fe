"""What stands above a study's folded verdicts."""

from twinrun.report.verdicts import answers


def test_answers_are_counted_by_study_the_most_frequent_first():
    given = [("noise", "yes"), ("matrix", "no"), ("matrix", "equal"), ("matrix", "equal")]
    rows = [{"study": study, "answer": answer} for study, answer in given]
    assert answers(rows) == {"noise": "1 yes", "matrix": "2 equal, 1 no"}
