"""Lists follow the rules that `evaluate` follows for the same labels, or say which label no rule reads."""

import numpy as np
import pytest
import torch

from reid_torchmetrics import compare, evaluate, evaluate_lists
from reid_torchmetrics.functional.retrieval.relevance import EXTRA, LABELS, OPTION_OF_LABEL, RELEVANCE_LABELS
from tests.profiles import each_row

GENERATOR = torch.Generator().manual_seed(0)
QUERY, GALLERY = torch.randn(6, 4, generator=GENERATOR), torch.randn(20, 4, generator=GENERATOR)
LISTS = (QUERY @ GALLERY.T).argsort(dim=1, descending=True)
IDENTITIES = {"query_identities": torch.arange(6) % 3, "gallery_identities": torch.arange(20) % 3 - 1}
CAMERAS = {"query_cameras": torch.arange(6) % 2, "gallery_cameras": torch.arange(20) % 2}
ROWS_OF_TWO_SIDES = [name for name in RELEVANCE_LABELS if len(LABELS[name].sides) == 2 and name != EXTRA]


def by_name(values: torch.Tensor, side: str) -> dict[str, int]:
    return {f"{side}{number}": value for number, value in enumerate(values.tolist())}


def test_lists_with_cameras_have_the_numbers_of_evaluate():
    exact = evaluate(QUERY, GALLERY, **IDENTITIES, **CAMERAS, similarity="dot")
    lists = evaluate_lists(LISTS, **IDENTITIES, **CAMERAS)
    named = evaluate_lists(
        {f"query{row}": [f"gallery{item}" for item in items] for row, items in enumerate(LISTS.tolist())},
        **{name: by_name(values, name.partition("_")[0]) for name, values in (IDENTITIES | CAMERAS).items()},
    )
    assert lists.means == named.means == exact.means
    assert lists.protocol == exact.protocol
    assert compare({"exact": exact, "lists": lists}).differences["map"].difference == 0


def test_lists_without_cameras_are_those_of_trec():
    positives = [[item for item in range(20) if IDENTITIES["gallery_identities"][item] == row % 3] for row in range(6)]
    for results in (evaluate_lists(LISTS, positives), evaluate_lists(LISTS, **IDENTITIES)):
        assert results.protocol.name == "trec"
        assert results.means == evaluate_lists(LISTS, positives, protocol="trec").means


def arguments_of(name: str) -> dict[str, torch.Tensor]:
    """A label of both sides, by which items differ."""
    sizes = {"query": 6, "gallery": 20}
    values = {f"{side}_{name}": torch.arange(size) % 2 for side, size in sizes.items()}
    if name == "positions":
        values = {argument: torch.stack([numbers, numbers], dim=1).double() for argument, numbers in values.items()}
    return values


@each_row("name", ROWS_OF_TWO_SIDES)
def test_a_label_is_read_or_an_error(name):
    labels = IDENTITIES | arguments_of(name)
    if name in OPTION_OF_LABEL:
        option = OPTION_OF_LABEL[name]
        text = (
            f"`query_{name}` must come with a rule that reads it, such as `{option}`, or with the name of a `protocol`"
        )
        with pytest.raises(ValueError, match=f"^{text}; got the default protocol 'trec', which ignores it.$"):
            evaluate_lists(LISTS, **labels)
    else:
        assert evaluate_lists(LISTS, **labels).means != evaluate_lists(LISTS, **IDENTITIES).means
    evaluate_lists(LISTS, **labels, protocol="trec")  # who names the protocol knows its rules


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("clothes", {"clothes": "drop_same"}),
        ("clothes", {"clothes": "keep"}),
        ("clothes", {"must_differ": ("clothes",)}),
        ("positions", {"radius": 1.0}),
    ],
)
def test_a_rule_reads_its_label_under_the_default_protocol(name, rule):
    labels = IDENTITIES | arguments_of(name)
    results = evaluate_lists(np.asarray(LISTS), **labels, **rule)
    assert results.means == evaluate_lists(LISTS, **labels, **rule, protocol="trec").means
