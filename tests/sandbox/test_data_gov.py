"""The make-believe open-data portal over raw HTTP: collection, download, letters, refusals."""

import csv
import io
import string

import pytest

from running_box import RunningBox
from stoker.sandbox.world.register import COLUMNS

API = "/v1/public/api/datasets"


@pytest.fixture(scope="module")
def box():
    with RunningBox(companies=300) as running:
        yield running


def get(box, path):
    return box.ask("data-gov.test", "GET", path)


def metadata(box):
    return get(box, "/v2/public/api/collections/2/metadata?withDatasetMetadata=true").parse_json()


def ready(box, id_):
    """Initiate a download and ask after it until it is ready; return where it is."""
    assert get(box, f"{API}/{id_}/initiate-download").status == 201
    pending, done = (get(box, f"{API}/{id_}/poll-download") for _ in range(2))
    assert (pending.status, pending.parse_json()["data"]) == (201, {"status": "DOWNLOAD_PENDING"})
    assert (done.status, done.parse_json()["code"]) == (201, 0)
    assert done.parse_json()["data"]["status"] == "DOWNLOAD_SUCCESS"
    return done.parse_json()["data"]["url"]


def rows(box, id_):
    url = ready(box, id_)
    assert url.startswith("http://data-gov.test/")
    told = get(box, url.removeprefix("http://data-gov.test"))
    assert told.headers["content-type"] == "text/csv"
    return list(csv.DictReader(io.StringIO(told.body.decode())))


def test_the_collection_has_a_dataset_for_every_letter_and_one_for_the_others(box):
    told = metadata(box)
    datasets = told["data"]["datasetMetadata"]

    assert told["code"] == 0
    assert len(datasets) == 27
    assert told["data"]["collectionMetadata"]["childDatasets"] == [
        each["datasetId"] for each in datasets
    ]
    assert [each["name"].split("'")[1] for each in datasets] == [*string.ascii_uppercase, "Others"]
    assert all(each["datasetId"].startswith("d_") for each in datasets)
    assert all(each["format"] == "CSV" for each in datasets)


def test_the_letters_together_are_the_whole_register(box):
    uens = []
    for dataset in metadata(box)["data"]["datasetMetadata"]:
        letter = dataset["name"].split("'")[1]
        for row in rows(box, dataset["datasetId"]):
            assert tuple(row) == COLUMNS
            assert row["entity_name"][0] == letter
            uens.append(row["uen"])

    assert len(uens) == len(set(uens))
    assert 280 <= len(uens) <= 300
    assert all(box.world.find_by_uen(uen) for uen in uens)


def test_a_later_release_comes_with_the_night(box):
    ids = [each["datasetId"] for each in metadata(box)["data"]["datasetMetadata"]]
    before = {row["uen"]: row for id_ in ids for row in rows(box, id_)}
    box.faults.set_value("data_gov.night", 1)
    try:
        after = {row["uen"]: row for id_ in ids for row in rows(box, id_)}
        updated = metadata(box)["data"]["collectionMetadata"]["lastUpdatedAt"]
    finally:
        box.faults.set_value("data_gov.night", 0)

    changed = sum(1 for uen in before.keys() & after.keys() if before[uen] != after[uen])
    assert updated.startswith("2025-12-31")
    assert 5 <= changed <= 60
    assert after.keys() - before.keys()
