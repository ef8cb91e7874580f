"""Draws samples with labels, and options of evaluations of embeddings, from plain tables.

Few identities, cameras and values, so that scores tie, queries lack positives and rules drop items.
"""

from random import Random
from typing import Any

import numpy as np
import torch

from .problems import Made

PROTOCOLS: dict[str, tuple[str, ...]] = {
    "market1501": (),
    "market1501_official": (),
    "dukemtmc": (),
    "msmt17": (),
    "cuhk03_np": (),
    "cuhk03_openreid": ("cameras",),
    "cuhk03_torchreid": ("cameras",),
    "veri776": (),
    "mars": (),
    "aicity": (),
    "casia_b": (),
    "mars_official": (),
    "veri776_official": (),
    "veri776_image_to_track": ("groups",),
    "prcc": (),
    "prcc_single_shot": (),
    "deepchange": (),
    "vc_clothes": (),
    "celeb_reid": (),
    "ltcc": ("cameras",),
    "ltcc_cc": ("cameras", "clothes"),
    "ltcc_sc": ("cameras", "clothes"),
    "ccvid_cc": ("cameras", "clothes"),
    "pitts30k": ("positions",),
    "tokyo247": ("positions", "groups"),
    "msls": ("positions",),
    "nordland": ("positions",),
    "sysu_mm01_all_single": ("cameras",),
    "sysu_mm01_all_multi": ("cameras",),
    "sysu_mm01_indoor_single": ("cameras",),
    "sysu_mm01_indoor_multi": ("cameras",),
    "regdb": (),
    "llcm": ("cameras",),
    "cuhk_pedes": (),
    "icfg_pedes": (),
    "rstpreid": (),
    "flickr30k": (),
    "coco_captions": (),
    "msrvtt": (),
    "gldv2": (),
    "inshop": (),
    "trec": (),
    "sketchy": (),
    "hashing": ("codes",),
    "guie": (),
    "happywhale": (),
    "cuhk_sysu": (),
    "prw": (),
}
"""protocols with queries and a gallery, and the labels that they need"""
LEAVE_ONE_OUT = ("vehicleid", "cub200", "cars196", "sop")
DRAWN = ("cuhk03_openreid", "cuhk03_torchreid", "prcc_single_shot", "llcm", "sysu_mm01_all_single")
LISTED = {
    "oxford5k": ("good", "ok", "junk"),
    "paris6k": ("good", "ok", "junk"),
    "roxford5k_easy": ("easy", "junk", "hard"),
    "roxford5k_medium": ("easy", "hard", "junk"),
    "roxford5k_hard": ("easy", "hard", "junk"),
    "rparis6k_medium": ("easy", "hard", "junk"),
}
"""protocols with lists for each query, and the names of the lists"""
TIES = ("pessimistic", "optimistic", "stable", "grouped", "expected")
SIMILARITIES = ("cosine", "euclidean", "dot", "hamming")
CAMERA_RULES = ("same_identity", "all", "only", "keep")
REPORTS = (
    *("map", "map_5", "map_at_r", "minp", "rank_1", "rank_3", "hit_rate_2", "precision_3", "recall_5", "r_precision"),
    *(
        "mrr",
        "ndcg_2",
        "ndcg_5",
        "acg_3",
        "bpref",
        "mean_rank",
        "median_rank",
        "median_rank_lower",
        "median_rank_floor",
    ),
    *("anmrr", "anmrr_shrec22"),
)

# Options of a protocol, the label without which they have no meaning, and their values.
RULES: dict[str, tuple[str, tuple[Any, ...]]] = {
    "same_camera": ("cameras", CAMERA_RULES),
    "cmc_same_camera": ("cameras", CAMERA_RULES),
    "camera_map": ("cameras", ({1: 0}, {0: 2, 1: 2})),
    "search_cameras": ("cameras", ((0, 1), (2,))),
    "clothes": ("clothes", ("keep", "drop_same", "drop_other")),
    "radius": ("positions", (1.0, 2.0)),
    "must_agree": ("labels", (("side",),)),
    "must_differ": ("labels", (("side",),)),
    "junk_identities": ("", ((), (-1,), (0, 1))),
    "empty_target_action": ("", ("skip", "neg", "pos", "error")),
}
AVERAGES: dict[str, tuple[Any, ...]] = {
    "rule": ("rectangle", "trapezoid", "interpolated_11", "interpolated_101"),
    "k": (1, 3, 10),
    "normalizer": ("positives", "attainable", "hits", "k"),
    "precision_divisor": ("k", "attainable", "last_positive", "calibrated"),
    "mode": ("first_match", "all_shots"),
    "gain": ("linear", "exponential"),
}


def generator_of(random: Random) -> np.random.Generator:
    """Return a generator of arrays."""
    return np.random.default_rng(random.getrandbits(32))


def embeddings(random: Random, size: int, dim: int, kind: str) -> Any:
    """Return embeddings [size, dim] of few values, of any values, with zeros, or codes."""
    numbers = generator_of(random)
    if kind == "codes":
        return numbers.choice([-1.0, 1.0], (size, dim)).astype(np.float32)
    rows = numbers.integers(-2, 3, (size, dim)).astype(np.float64)
    if kind == "any":
        rows = rows + numbers.normal(size=(size, dim))
    if kind == "near":
        rows = np.ones((size, dim)) + 1e-4 * rows
    return rows.astype(np.float64 if kind == "double" else np.float32)


EMBEDDINGS = ("few", "few", "any", "near", "double")


def labels(random: Random, size: int, names: set[str]) -> dict[str, Any]:
    """Return integer labels of each sample by name; the members of a group agree."""
    numbers = generator_of(random)
    groups = numbers.integers(0, max(1, size // 2), size)
    drawn: dict[str, Any] = {}
    for name in sorted(names):
        if name == "positions":
            drawn[name] = numbers.integers(-2, 3, (size, 2)).astype(np.float64)
        elif name == "groups":
            drawn[name] = groups
        elif name == "labels":
            drawn[name] = {"side": numbers.integers(0, 2, size)}
        else:
            most = {"identities": 5, "cameras": 3, "sequences": 4, "clothes": 2}[name]
            drawn[name] = numbers.integers(-1 if name == "identities" else 0, most, size)
    if "groups" in names:
        for name in drawn.keys() - {"groups", "labels"}:
            drawn[name] = drawn[name][groups % max(1, size)] if size else drawn[name]
        if "labels" in names and size:
            drawn["labels"] = {"side": drawn["labels"]["side"][groups % size]}
    return drawn


def as_names(random: Random, sides: list[dict[str, Any]]) -> None:
    """Turn labels of both sides into names, or into other forms of integers."""
    for name in ("identities", "cameras", "sequences", "clothes"):
        form = random.choice(("array", "tensor", "list", "names"))
        for side in sides:
            if name not in side or side[name].ndim != 1:
                continue
            if form == "tensor":
                side[name] = torch.from_numpy(side[name])
            elif form == "list":
                side[name] = side[name].tolist()
            elif form == "names":
                side[name] = [f"{name[0]}{number}" for number in side[name].tolist()]


def several_labels(random: Random, sides: list[dict[str, Any]]) -> None:
    """Replace identities by several labels of each sample."""
    width = random.choice((2, 5, 70))
    patterns = generator_of(random).random((6, width)) < random.choice((0.1, 0.4))
    for side in sides:
        side["identities"] = torch.from_numpy(patterns[side["identities"] + 1])


def some_missing(random: Random, sides: list[dict[str, Any]]) -> None:
    """Replace some identities by None."""
    for side in sides:
        numbers = side["identities"].tolist()
        side["identities"] = [None if random.random() < 0.2 else f"i{number}" for number in numbers]


def options_of(random: Random, names: set[str], share: float = 0.15) -> dict[str, Any]:
    """Draw options that the labels allow; most are left out."""
    options: dict[str, Any] = {}
    for name, (label, values) in RULES.items():
        if (not label or label in names) and random.random() < (0.6 if name == "radius" else share):
            options[name] = random.choice(values)
    if "labels" in names:
        rule = random.choice(("must_agree", "must_differ"))
        options = {name: value for name, value in options.items() if name not in ("must_agree", "must_differ")}
        options[rule] = ("side",)
    for name, choices in AVERAGES.items():
        if random.random() < share / 2:
            options[name] = random.choice(choices)
    if options.get("normalizer") in ("attainable", "k"):
        options.setdefault("k", 3)
    if random.random() < 0.5:
        options["reports"] = tuple(random.sample(REPORTS, random.choice((1, 3, 8))))
    if random.random() < 0.6:
        options["ties"] = random.choice(TIES)
    if random.random() < 0.1:
        options["max_bytes"] = random.choice((1, 500, 20_000))
    return options


def fit_draws(random: Random, options: dict[str, Any]) -> dict[str, Any]:
    """Return options without those that have no expectation over drawn galleries, but for one problem in ten."""
    if random.random() < 0.1:
        return options
    options = {name: value for name, value in options.items() if name not in (*AVERAGES, "reports")}
    if "ties" in options:
        options["ties"] = random.choice(TIES[:3])
    if random.random() < 0.3:
        options["reports"] = random.choice((("map",), ("minp", "rank_1"), ("rank_2", "map")))
    return options


def own_items(random: Random, sides: list[dict[str, Any]], arrays: list[Any] | None = None) -> list[int]:
    """Make some queries copies of gallery items, and return the position of each query's own item or -1."""
    query, gallery = sides
    num_queries, num_gallery = (len(side["identities"]) for side in sides)
    places = [random.randint(-1, num_gallery - 1) for _ in range(num_queries)]
    for row, place in enumerate(places):
        if place < 0:
            continue
        for name in query:
            ours, theirs = (side[name]["side"] if name == "labels" else side[name] for side in (query, gallery))
            ours[row] = theirs[place]
        if arrays is not None:
            arrays[0][row] = arrays[1][place]
    return places


def gallery_draw(random: Random, names: set[str]) -> Made:
    """Describe a rule that draws galleries."""
    per = random.choice(("identity", "identity_and_camera")) if "cameras" in names else "identity"
    return Made("GalleryDraw", {"shots": random.choice((1, 1, 2, 10, None)), "per": per})


def reranking(random: Random) -> Made:
    """Describe a change of the scores."""
    return random.choice(
        (
            Made("KReciprocal", {"k1": 3, "k2": 2, "weight": random.choice((0.0, 0.3, 1.0))}),
            Made("KReciprocal", {"k1": 5, "k2": 1, "distance": "euclidean"}),
            Made("KReciprocal", {"k1": 4, "k2": 2, "normalize": True}),
            Made("QueryExpansion", {"k": random.choice((1, 3)), "alpha": random.choice((0.0, 1.0, 3.0))}),
            Made("QueryExpansion", {"k": 2, "expanded": random.choice(("gallery_first", "together"))}),
        )
    )


def sided(query: dict[str, Any], gallery: dict[str, Any]) -> dict[str, Any]:
    """Return the labels of both sides as keyword arguments."""
    arguments = {f"query_{name}": values for name, values in query.items() if name != "groups"}
    return arguments | {f"gallery_{name}": values for name, values in gallery.items()}


def label_names(random: Random) -> set[str]:
    """Draw which labels there are."""
    names = {"identities"}
    for name, share in (("cameras", 0.7), ("sequences", 0.15), ("clothes", 0.2), ("positions", 0.15), ("labels", 0.15)):
        if random.random() < share:
            names.add(name)
    return names


def draw_names_and_options(random: Random, *, with_groups: bool = True) -> tuple[set[str], dict[str, Any]]:
    """Draw the labels, and a protocol with what it needs or single options."""
    if random.random() < 0.4:
        protocol = random.choice([*PROTOCOLS])
        needed = set(PROTOCOLS[protocol])
        if protocol == "market1501" or (needed & {"groups"} and not with_groups):
            protocol, needed = "veri776", set()
        names = {"identities"} | needed - {"codes"} | ({"cameras"} if random.random() < 0.7 else set())
        options: dict[str, Any] = {"protocol": protocol}
        if random.random() < 0.4:
            options |= {name: value for name, value in options_of(random, set()).items() if name != "junk_identities"}
        return names, fit_draws(random, options) if protocol in DRAWN or protocol.startswith("sysu") else options
    names = label_names(random)
    if with_groups and random.random() < 0.1:
        names.add("groups")
    options = options_of(random, names)
    if "radius" not in options:
        names.discard("positions")
    return names, options


def draw_sides(random: Random, names: set[str], sizes: tuple[int, int]) -> list[dict[str, Any]]:
    """Draw the labels of queries and of gallery items."""
    return [labels(random, sizes[0], names - {"groups"}), labels(random, sizes[1], names)]
