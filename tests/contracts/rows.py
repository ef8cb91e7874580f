"""All kinds of truth, a row for each."""

from functools import partial

from reid_torchmetrics.functional.retrieval import GalleryDraw
from tests.contracts.problems import REPORTS, Row

FEW_REPORTS = ("map", "rank_1", "precision_5", "mean_rank")
"""the numbers of rows that differ in who is relevant, and not in what is computed"""
DRAWN_REPORTS = ("map", "minp", "rank_1", "rank_3")
"""the numbers that have an expectation over drawn galleries"""
CAMERAS = ("identities", "cameras")
BY_USERS = ("identities", "labels")
AGREE, DIFFER = {"must_agree": ("side",)}, {"must_differ": ("batch",)}
row_of_rule = partial(Row, reports=FEW_REPORTS)
LISTS_BY_NAME = {"positive_lists": ("ok", "good"), "junk_lists": ("junk",)}
ONE_LIST = {"positive_lists": ("ok",), "junk_lists": ("good", "junk")}

ROWS = [
    # Identities.
    Row("identities"),
    Row("identities that are names", names=("identities",)),
    Row("several identities", has_several=True, reports=(*REPORTS, "acg_5")),
    Row("several identities under exponential gains", has_several=True, options={"gain": "exponential"}),
    Row("several identities and cameras", CAMERAS, has_several=True),
    Row("junk identities", options={"junk_identities": (-1, 2)}),
    Row("no junk identities", options={"junk_identities": ()}),
    Row("junk identities by name", names=("identities",), options={"junk_identities": ("identity 2", "-1")}),
    Row("missing identities that are junk", has_missing=True, options={"missing_identities": "junk"}),
    Row("missing names that are junk", names=("identities",), has_missing=True, options={"missing_identities": "junk"}),
    Row("missing identities", has_missing=True, options={"missing_identities": "error"}),
    Row("missing names", names=("identities",), has_missing=True, options={"missing_identities": "error"}),
    # Cameras.
    Row("cameras", CAMERAS, options={"same_camera": "same_identity"}),
    Row("cameras that are names", CAMERAS, names=CAMERAS),
    Row("all of the query's camera", CAMERAS, options={"same_camera": "all"}),
    Row("cameras that decide nothing", CAMERAS, options={"same_camera": "keep"}),
    Row("a camera rule of the CMC that drops all", CAMERAS, options={"cmc_same_camera": "all"}),
    Row("a camera rule of the CMC that keeps all", CAMERAS, options={"same_camera": "all", "cmc_same_camera": "keep"}),
    Row(
        "a camera rule of the CMC that drops its identity",
        CAMERAS,
        options={"same_camera": "all", "cmc_same_camera": "same_identity"},
    ),
    Row("cameras that count as another", CAMERAS, options={"same_camera": "all", "camera_map": {3: 2, 4: 1}}),
    Row(
        "cameras that count as another by name",
        CAMERAS,
        names=("cameras",),
        options={"same_camera": "all", "camera_map": {"camera 3": "camera 2", "camera 4": "camera 1"}},
    ),
    Row("cameras that are searched", CAMERAS, options={"search_cameras": (1, 2)}),
    Row(
        "cameras that are searched by name",
        CAMERAS,
        names=("cameras",),
        options={"search_cameras": ("camera 1", "camera 2")},
    ),
    Row("the query's camera alone", CAMERAS, options={"same_camera": "only"}),
    Row(
        "a camera rule of the CMC that drops other cameras",
        CAMERAS,
        options={"same_camera": "keep", "cmc_same_camera": "only"},
    ),
    # Other labels.
    Row("sequences", ("identities", "sequences")),
    Row("sequences that are names", ("identities", "sequences"), names=("sequences",)),
    Row("clothes", ("identities", "clothes"), options={"clothes": "keep"}),
    Row("changed clothes", ("identities", "clothes"), options={"clothes": "drop_same"}),
    Row("the same clothes", ("identities", "clothes"), options={"clothes": "drop_other"}),
    Row("clothes that are names", ("identities", "clothes"), names=("clothes",), options={"clothes": "drop_same"}),
    Row("positions with identities and cameras", (*CAMERAS, "positions"), options={"radius": 10.0}),
    Row("positions", ("positions",), options={"radius": 10.0}),
    Row("groups", ("identities", "cameras", "groups")),
    Row("groups that are names", ("identities", "groups"), names=("groups",)),
    Row("numbers of samples", ("identities", "index")),
    # Labels that users name, and rules on them.
    row_of_rule("labels that agree", BY_USERS, options=AGREE),
    row_of_rule("labels that differ", BY_USERS, options=DIFFER),
    row_of_rule("labels that agree and differ", BY_USERS, options=AGREE | DIFFER),
    row_of_rule("two labels that agree", BY_USERS, options={"must_agree": ("side", "batch")}),
    row_of_rule("two labels that differ", BY_USERS, options={"must_differ": ("side", "batch")}),
    row_of_rule("names that agree", BY_USERS, names=("side",), options=AGREE),
    row_of_rule("names that differ", BY_USERS, names=("batch",), options=DIFFER),
    row_of_rule("names that agree and numbers that differ", BY_USERS, names=("side",), options=AGREE | DIFFER),
    row_of_rule("names that agree and differ", BY_USERS, names=("side", "batch", "identities"), options=AGREE | DIFFER),
    row_of_rule("labels without a rule", BY_USERS),
    row_of_rule("labels that agree, and cameras", (*CAMERAS, "labels"), options=AGREE),
    row_of_rule(
        "labels that agree, and a camera rule of the CMC",
        (*CAMERAS, "labels"),
        options=AGREE | {"same_camera": "only", "cmc_same_camera": "keep"},
    ),
    row_of_rule("cameras that agree", CAMERAS, options={"same_camera": "keep", "must_agree": ("cameras",)}),
    row_of_rule(
        "cameras that agree and count as another",
        CAMERAS,
        names=("cameras",),
        options={"same_camera": "keep", "must_agree": ("cameras",), "camera_map": {"camera 3": "camera 2"}},
    ),
    row_of_rule("cameras that differ", CAMERAS, options={"must_differ": ("cameras",)}),
    row_of_rule(
        "cameras and labels that differ",
        (*CAMERAS, "labels"),
        names=("batch",),
        options={"must_differ": ("cameras", "batch")},
    ),
    row_of_rule("clothes that agree", ("identities", "clothes"), options={"must_agree": ("clothes",)}),
    row_of_rule("clothes that differ", ("identities", "clothes"), options={"must_differ": ("clothes",)}),
    row_of_rule("sequences that differ", ("identities", "sequences"), options={"must_differ": ("sequences",)}),
    row_of_rule("several identities, and labels that agree", BY_USERS, has_several=True, options=AGREE | DIFFER),
    row_of_rule(
        "missing names, and labels that agree",
        BY_USERS,
        names=BY_USERS[:1],
        has_missing=True,
        options=AGREE | {"missing_identities": "junk"},
    ),
    row_of_rule("positions, and labels that agree", ("positions", "labels"), options=AGREE | {"radius": 20.0}),
    row_of_rule("groups, and labels that agree", (*BY_USERS, "groups"), options=AGREE),
    row_of_rule("numbers of samples, and labels that agree", (*BY_USERS, "index"), names=("side",), options=AGREE),
    row_of_rule("lists, and labels that agree", ("labels",), truth="positions", options=AGREE),
    row_of_rule("lists, and labels without a rule", ("labels",), truth="positions"),
    row_of_rule(
        "lists, and cameras that differ", ("cameras",), truth="positions", options={"must_differ": ("cameras",)}
    ),
    row_of_rule("junk pairs, and labels that agree", BY_USERS, has_junk_pairs=True, options=AGREE),
    row_of_rule("own places, and labels that agree", BY_USERS, has_own_places=True, options=AGREE),
    row_of_rule("labels that agree among all others", BY_USERS, options=AGREE | {"leave_one_out": True}),
    row_of_rule(
        "several identities, and names that agree among all others",
        BY_USERS,
        has_several=True,
        names=("side",),
        options=AGREE | {"leave_one_out": True},
    ),
    row_of_rule("labels that agree under expected ties", BY_USERS, ties="expected", options=AGREE),
    Row(
        "drawn galleries, and labels that agree",
        BY_USERS,
        options=AGREE | {"gallery_draw": GalleryDraw(shots=1)},
        reports=DRAWN_REPORTS,
    ),
    Row(
        "queries that are drawn, and labels that agree",
        BY_USERS,
        options=AGREE | {"gallery_draw": GalleryDraw(shots=1), "queries_in_draw": True, "leave_one_out": True},
        has_junk=False,
        reports=DRAWN_REPORTS,
    ),
    # Lists and pairs.
    Row("lists of positions", (), truth="positions"),
    Row("lists as a bool matrix", (), truth="bool matrix"),
    Row("lists by name", (), truth="lists by name", options=LISTS_BY_NAME),
    Row("lists of one name", (), truth="lists by name", options=ONE_LIST),
    Row("lists and cameras", ("cameras",), truth="positions"),
    Row("lists and sequences", ("sequences",), truth="positions"),
    Row("lists of each sample among all others", (), truth="positions", options={"leave_one_out": True}),
    Row("names of lists without lists", options=LISTS_BY_NAME),
    Row("junk pairs", has_junk_pairs=True),
    Row("junk pairs and cameras", CAMERAS, has_junk_pairs=True),
    Row("lists and junk pairs", (), truth="positions", has_junk_pairs=True),
    # Queries in the gallery.
    Row("own places", has_own_places=True),
    Row("own places and cameras", CAMERAS, has_own_places=True, options={"same_camera": "keep"}),
    Row("own places and lists", (), truth="positions", has_own_places=True),
    Row("each sample among all others", options={"leave_one_out": True}),
    Row("several identities among all others", has_several=True, options={"leave_one_out": True}),
    # Ties.
    *(Row(f"ties {ties}", ties=ties) for ties in ("optimistic", "stable", "grouped", "expected")),
    Row("several identities under optimistic ties", has_several=True, ties="optimistic"),
    Row("several identities under stable ties", has_several=True, ties="stable"),
    # Drawn galleries.
    Row("drawn galleries", options={"gallery_draw": GalleryDraw(shots=1)}, reports=DRAWN_REPORTS),
    Row(
        "drawn galleries of the CMC alone",
        options={"gallery_draw": GalleryDraw(shots=1), "gallery_draw_for_map": False},
        reports=DRAWN_REPORTS,
    ),
    Row(
        "queries that are drawn",
        options={"gallery_draw": GalleryDraw(shots=1), "queries_in_draw": True, "leave_one_out": True},
        has_junk=False,
        reports=DRAWN_REPORTS,
    ),
    # Numbers.
    *(
        Row(f"queries without positives: {action}", options={"empty_target_action": action})
        for action in ("skip", "neg", "pos", "error")
    ),
    *(
        Row(f"average precision by {rule}", options={"rule": rule})
        for rule in ("rectangle", "trapezoid", "interpolated_11", "interpolated_101")
    ),
    *(
        Row(f"average precision of the first 3, over {name}", options={"k": 3, "normalizer": name})
        for name in ("positives", "attainable", "hits", "k")
    ),
    *(
        Row(f"precision over {name}", options={"precision_divisor": name})
        for name in ("k", "attainable", "last_positive", "calibrated")
    ),
    *(Row(f"CMC by {mode}", options={"mode": mode}) for mode in ("first_match", "all_shots")),
    Row("linear gains", options={"gain": "linear"}),
]
"""all kinds of truth"""
