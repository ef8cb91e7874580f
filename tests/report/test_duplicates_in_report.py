"""Near duplicates in a report: how many queries have one, the numbers without these, and the closest pairs."""

import re

import numpy as np
import pytest
import torch

from reid_torchmetrics.tasks import Duplicates
from tests.report import problems
from tests.report.pages import section

CAPTION = "Means over queries"
COLUMNS = ("all queries", "without near copies")


def pairs(query, gallery, *, within=False) -> Duplicates:
    ends = (torch.tensor(end, dtype=torch.int64) for end in (query, gallery))
    return Duplicates(*ends, torch.ones(len(query)), within, "cosine", 0.95, num_queries=3)


def numbers(page) -> list[list[str]]:
    rows = section(page, "duplicates").rows(CAPTION)
    return [[row["measure"], *(row[column] for column in COLUMNS)] for row in rows]


def test_numbers_stand_beside_those_without_the_queries_of_pairs(report):
    page = report(duplicates=pairs([0, 0], [1, 3]))
    # Average precision 5/6 of query 0 and 1/2 of query 1, of which only query 0 is right at first; query 2 has none.
    assert numbers(page) == [["mAP (%)", "66.67", "50.00"], ["Rank-1 (%)", "50.00", "0.00"]]
    sentence = "2 pairs of cosine 0.95 or more: 1 of 3 queries has a near copy."
    assert sentence in section(page, "duplicates").text
    assert not section(page, "duplicates").all("img")


def test_within_one_set_both_items_of_a_pair_are_left_out(report):
    page = report(duplicates=pairs([0], [1], within=True))
    assert numbers(page) == [["mAP (%)", "66.67", "n/a"], ["Rank-1 (%)", "50.00", "n/a"]]
    assert "1 pair of cosine 0.95 or more: 2 of 3 items have a near copy." in section(page, "duplicates").text


def test_a_report_has_no_such_section_unless_it_is_asked_for(report):
    assert not report().all("section", id="duplicates")


@pytest.mark.parametrize("given", ["pictures", "gallery_pictures", "duplicate_pictures"])
def test_pictures_of_pairs_are_those_of_queries_and_of_what_they_are_near_to(report, with_lists, given):
    asked = []

    def pictures(name):
        def picture(number):
            asked.append((name, number))
            return problems.picture(0)

        return picture

    options = ["pictures", "gallery_pictures", "duplicate_pictures"]
    options = {name: pictures(name) for name in options[: options.index(given) + 1]}
    page = report(with_lists, duplicates=pairs([1], [2]), num_hardest=1, num_mistakes=1, **options)
    assert section(page, "duplicates").one("img").attributes["alt"] == "pairs with the highest scores"
    index = int(with_lists.query_index[1])
    place = asked.index(("pictures", index))
    assert asked[place + 1] == (given, 2)


def test_within_one_set_pictures_of_both_are_those_of_the_queries(report, with_lists):
    asked = []

    def picture(number):
        asked.append(number)
        return problems.picture(0)

    found = pairs([0], [2], within=True)
    report(with_lists, duplicates=found, pictures=picture, gallery_pictures=lambda _: problems.picture(0))
    assert asked[:2] == with_lists.query_index[[0, 2]].tolist()


def test_pictures_in_an_array_are_taken(report, with_lists):
    images = np.zeros((50, 16, 8, 3), dtype=np.uint8)
    page = report(with_lists, duplicates=pairs([1], [2]), pictures=images, gallery_pictures=images)
    assert len(section(page, "duplicates").all("img")) == 1


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"duplicates": pairs([3], [0])}, ValueError, "`duplicates.query` must lie in [0, 3); got values from 3 to 3."),
        ({"duplicates": pairs([0], [3], within=True)}, ValueError, "`duplicates.query` must lie in [0, 3); got values"),
        ({"duplicates": [0]}, TypeError, "`duplicates` must be"),
        ({"duplicate_pictures": 3}, TypeError, "`duplicate_pictures` must be a function of a number"),
        ({"duplicate_pictures": problems.picture}, ValueError, "`duplicate_pictures` must come with `pictures` and"),
    ],
)
def test_arguments_that_do_not_fit_are_named(report, options, kind, said):
    with pytest.raises(kind, match=re.escape(said)):
        report(**options)
