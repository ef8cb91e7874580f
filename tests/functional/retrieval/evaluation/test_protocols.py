"""Protocols are values: they are found by name, print as the expression that makes them, and refuse nonsense."""

import json
from dataclasses import FrozenInstanceError, replace

import pytest

from reid_torchmetrics.functional.retrieval import PROTOCOLS, GalleryDraw, Protocol, find_protocol
from reid_torchmetrics.functional.retrieval.evaluation import Setup, describe
from reid_torchmetrics.functional.retrieval.measures import all_patterns, parse_report

EVERY = pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)


@EVERY
def test_a_protocol_is_found_by_its_name_and_is_json_safe(protocol):
    assert find_protocol(protocol.name) is protocol
    assert find_protocol(protocol) is protocol
    assert json.loads(json.dumps(protocol.to_dict()))["name"] == protocol.name


def test_a_protocol_cannot_be_written_to_and_can_be_a_key():
    protocol = PROTOCOLS["market1501"]
    with pytest.raises(FrozenInstanceError):
        protocol.rule = "trapezoid"
    assert {protocol: 1}[replace(protocol)] == 1


def test_a_changed_protocol_says_so_and_one_that_is_not_stays_itself():
    protocol = PROTOCOLS["market1501"]
    assert protocol.with_options({"rule": "rectangle", "k": None}) is protocol
    changed = protocol.with_options({"rule": "trapezoid", "camera_map": {3: 2}})
    assert (changed.rule, changed.camera_map) == ("trapezoid", ((3, 2),))
    assert changed.name == "market1501 with rule='trapezoid', camera_map=((3, 2),)"
    assert changed.with_options({"k": 5}).name == f"{changed.name}, k=5"
    assert PROTOCOLS["gldv2"].with_options({"k": None}).k is None


def test_a_camera_rule_that_is_given_holds_for_the_cmc_too():
    protocol = PROTOCOLS["cuhk03_openreid"]
    assert protocol.with_options({"same_camera": "keep"}).for_cmc.same_camera == "keep"
    assert protocol.with_options({"same_camera": "keep", "cmc_same_camera": "all"}).for_cmc.same_camera == "all"


def test_words_on_drawn_galleries_are_only_with_numbers_over_such():
    weighted = "queries weighted by their chance not to be drawn"
    protocols = [*PROTOCOLS.values(), replace(find_protocol("vehicleid"), gallery_draw_for_map=False)]
    for protocol in protocols:
        for name in protocol.reports:
            measure, _ = parse_report(name)
            words = describe(name, protocol, Setup("pessimistic", "cosine", cameras=True)).split("; ")
            expected = protocol.draws(measure) and protocol.queries_in_draw
            assert (weighted in words) == expected, (protocol.name, name)
            if protocol.gallery_draw is None:
                assert "expected over" not in " ".join(words)


SHOT = GalleryDraw(shots=1, per="identity")
BAD = [
    (
        {"rule": "rect"},
        "`rule` must be one of 'rectangle', 'trapezoid', 'interpolated_11', 'interpolated_101'; got 'rect'.",
    ),
    ({"k": 0}, "`k` must be at least 1; got 0."),
    ({"camera_map": ((1, 2), (2, 3))}, "`camera_map` must map to cameras that are not mapped themselves; got [2]"),
    (
        {"reports": ("map", "rank1")},
        "`reports` must be of a measure of `MEASURES`; got 'rank1', which may be 'rank_1'.",
    ),
    ({"reports": ("rank_0",)}, f" and {len(all_patterns()) - 10} more; got 'rank_0'."),
    ({"reports": ("mAP@5",)}, "got 'mAP@5', which may be 'map_5'."),
    (
        {"gallery_draw": SHOT, "reports": ("map_5",)},
        "`gallery_draw` has expectations of map, minp, rank_<k> only; got 'map_5' to report.",
    ),
    (
        {"gallery_draw": SHOT, "reports": ("map", "mrr")},
        "`gallery_draw` has expectations of map, minp, rank_<k> only; got 'mrr' to report.",
    ),
    (
        {"gallery_draw": SHOT, "reports": ("map", "precision_10")},
        "`gallery_draw` has expectations of map, minp, rank_<k> only; got 'precision_10' to report.",
    ),
    (
        {"gallery_draw": SHOT, "rule": "trapezoid"},
        "`gallery_draw` needs rule 'rectangle' without a cutoff `k`; got rule 'trapezoid'.",
    ),
    ({"gallery_draw": SHOT, "mode": "all_shots"}, "`gallery_draw` needs mode 'first_match'; got 'all_shots'."),
    (
        {"gallery_draw": SHOT, "k": 5},
        "`gallery_draw` needs rule 'rectangle' without a cutoff `k`; got rule 'rectangle' and k 5.",
    ),
    (
        {"rule": "interpolated_11", "normalizer": "hits"},
        "`normalizer` must be 'positives' with rule 'interpolated_11';",
    ),
    ({"reports": ()}, "`reports` must not be empty; got ()."),
    ({"queries_in_draw": True}, "`queries_in_draw` needs a drawn gallery; got no `gallery_draw`."),
]


@pytest.mark.parametrize(("fields", "message"), BAD)
def test_fields_that_do_not_fit_are_named(fields, message):
    with pytest.raises(ValueError, match="`") as raised:
        Protocol("own", "me", **fields)
    assert message in str(raised.value)


BAD_TYPES = [
    ({"gallery_draw": "single"}, "`gallery_draw` must be one of GalleryDraw or None; got str."),
    ({"search_cameras": (1.5,)}, "`search_cameras` must hold ints or names only; got 1.5."),
    ({"gallery_draw_for_map": 1}, "`gallery_draw_for_map` must be True or False; got int."),
    ({"camera_map": 5}, "`camera_map` must be a mapping of ints or names, or a tuple of pairs; got 5."),
]


@pytest.mark.parametrize(("fields", "message"), BAD_TYPES)
def test_fields_of_the_wrong_type_are_named(fields, message):
    with pytest.raises(TypeError, match="`") as raised:
        Protocol.__post_init__(SimpleProtocol(**fields))
    assert str(raised.value) == message


class SimpleProtocol:
    """The fields of a protocol, not checked by the tests' type checker."""

    def __init__(self, **changed):
        vars(self).update(vars(PROTOCOLS["market1501"]) | changed)
        self._check_fields = lambda: Protocol._check_fields(self)


def test_an_unknown_protocol_or_option_is_named():
    with pytest.raises(ValueError, match=r"^`protocol` must .*; got 'market', which may be 'market1501'\.$"):
        find_protocol("market")
    with pytest.raises(ValueError, match=r"^`options` must be some of name, source, .*; got 'color'\.$"):
        PROTOCOLS["market1501"].with_options({"color": 1})
