"""The rules of a counter in one spelling."""

from reid_torchmetrics.tasks.streams.counts import in_one_spelling


def test_equal_rules_have_one_spelling():
    plain = in_one_spelling({})
    assert (plain["camera_map"], plain["search_cameras"], plain["junk_identities"], plain["radius"]) == (
        None,
        None,
        (-1,),
        None,
    )
    assert in_one_spelling({"camera_map": {1: 1}, "junk_identities": [-1, -1]}) == plain
    written = {"camera_map": {3: 2, 1: 0}, "search_cameras": [2, 1, 2], "junk_identities": {0, -1}, "radius": 25}
    rules = in_one_spelling(written)
    assert rules == plain | {
        "camera_map": {1: 0, 3: 2},
        "search_cameras": (1, 2),
        "junk_identities": (-1, 0),
        "radius": 25.0,
    }
    assert list(rules["camera_map"]) == [1, 3]
    assert type(rules["radius"]) is float
