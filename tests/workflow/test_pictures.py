"""A user's module has the pictures that ours have: his config says what its predictions show."""

import copy
import shutil

import pytest
from standard_config import merged

from .conftest import ROOT

CONFIG = {
    "studies": ["reproducibility", "devices"],
    "datasets": {
        "photos": {"make": "pictures:make", "shows": {"images": "photos", "rows": "kinds"}}
    },
    "workloads": {
        "restorer": {
            "module": "pictures:Restorer",
            "data": "pictures:Photos",
            "dataset": "photos",
            "epochs": 1,
            "shows": {"images": ["blurred", "restored", "sharp"]},
        },
        "hill": {
            "module": "pictures:Height",
            "data": "pictures:Hill",
            "epochs": 1,
            "shows": {"surface": ["height", "truth"]},
        },
    },
    "reproducibility": {"workloads": ["restorer"]},
    "devices": {"workloads": ["hill"], "variants": ["cpu"]},
}
PICTURES = {
    "strip": "results/figures/reproducibility/restorer/strip.svg",
    "surfaces": "results/figures/devices/hill/surfaces.svg",
    "contact_sheet": "results/figures/data/photos.svg",
}


@pytest.fixture
def users(project):
    shutil.copy(ROOT / "tests/workflow/pictures.py", project.directory)
    return project


@pytest.mark.exhaustive
def test_a_users_predictions_and_images_are_drawn(users):
    users.snakemake(*PICTURES.values(), config=CONFIG, check=0)
    for words in (["strip", "blurred", "restored", "sharp"], ["surfaces", "truth", "RMSE"]):
        drawn = (users.directory / PICTURES[words[0]]).read_text()
        assert [word for word in words[1:] if word not in drawn] == []
    assert "photos by kinds" in (users.directory / PICTURES["contact_sheet"]).read_text()
    # Another picture trains nothing again.
    strip = PICTURES["strip"]
    assert users.jobs(strip, config=CONFIG) == {}
    shown = {"workloads": {"restorer": {"shows": {"images": ["restored", "sharp"]}}}}
    assert users.jobs(strip, config=merged(CONFIG, shown)) == {"strip": 1}


@pytest.mark.exhaustive
def test_each_study_asks_for_its_pictures(users):
    jobs = users.jobs(config=CONFIG)
    assert {rule: jobs.get(rule) for rule in PICTURES} == dict.fromkeys(PICTURES, 1)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "key",
    [
        "datasets.photos",
        *(
            pytest.param(key, marks=pytest.mark.exhaustive)
            for key in ("workloads.restorer", "workloads.hill")
        ),
    ],
)
def test_what_is_not_shown_is_not_drawn(users, key):
    kind, name = key.split(".")
    without = copy.deepcopy(CONFIG)
    del without[kind][name]["shows"]
    jobs = users.jobs(config=without)
    left = {"photos": "contact_sheet", "restorer": "strip", "hill": "surfaces"}[name]
    assert {rule for rule in PICTURES if rule in jobs} == {*PICTURES} - {left}
