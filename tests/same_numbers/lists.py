"""Problems of ranked lists that come from elsewhere."""

from random import Random
from typing import Any

import numpy as np

from . import samples
from .problems import Made, Problem
from .retrieval import asked, facts_of


def draw_lists(random: Random) -> Problem:
    """Draw a call of `evaluate_lists`, with relevance by lists, grades or labels."""
    num_queries, num_items = random.choice((1, 3, 6)), random.choice((1, 5, 12))
    length = random.choice((1, num_items, num_items, max(1, num_items // 2)))
    lists = [random.sample(range(num_items), random.randint(0, length)) for _ in range(num_queries)]
    unread = ("junk_identities", "ties", "max_bytes")
    options = {name: value for name, value in samples.options_of(random, set()).items() if name not in unread}
    options |= {"max_rank": 5} if random.random() < 0.2 else {}
    draw = random.choice((positions, named, scored, labeled, labeled))
    arguments, facts = draw(random, lists, num_items)
    if random.random() < 0.2 and "positives" in arguments and "num_positives" not in arguments:
        options |= {"missing_queries": random.choice(("neg", "skip")), "unknown_queries": "skip"}
    if random.random() < 0.2:
        fields = {"reports": ("map", "rank_1", "ndcg_5"), "ties": random.choice(samples.TIES)}
        arguments.pop("protocol", None)
        options = {"protocol": Made("Protocol", {"name": "own", "source": "", **fields})}
    call = Made("evaluate_lists", arguments | options)
    return Problem(call, asked(random), facts=facts_of("evaluate_lists", set(), options, **facts))


Drawn = tuple[dict[str, Any], dict[str, Any]]


def positions(random: Random, lists: list[list[int]], num_items: int) -> Drawn:
    """Return a matrix or lists of positions, and positives in one of their forms."""
    width = max(map(len, lists), default=0)
    arrays = np.full((len(lists), width), -1)
    for row, items in zip(arrays, lists, strict=True):
        row[: len(items)] = items
    right = [random.sample(range(num_items), random.randint(0, num_items)) for _ in lists]
    form = random.choice(("lists", "grades", "matrix", "gains"))
    arguments: dict[str, Any] = {"retrieved": arrays if random.random() < 0.5 else lists, "positives": right}
    if form == "grades":
        arguments["positives"] = [{item: random.randint(-1, 3) for item in items} for items in right]
    elif form == "matrix":
        marks = np.zeros((len(lists), num_items), bool)
        for row, items in zip(marks, right, strict=True):
            row[items] = True
        arguments["positives"] = marks
    elif form == "gains":
        arguments["gains"] = [[random.randint(1, 3) for _ in items] for items in right]
    elif random.random() < 0.3:
        arguments["num_positives"] = num_items
    return arguments, {"form": form}


def named(random: Random, lists: list[list[int]], num_items: int) -> Drawn:
    """Return lists by the names of queries, and some queries on one side only."""
    names = [f"q{number}" for number in range(len(lists) + 1)]
    retrieved = {name: [f"d{item}" for item in items] for name, items in zip(names, lists, strict=False)}
    judged = names[random.choice((0, 0, 1)) :]
    right = {name: {f"d{random.randrange(num_items + 2)}": random.randint(-1, 3) for _ in range(4)} for name in judged}
    return {"retrieved": retrieved, "positives": right}, {"form": "names"}


def scored(random: Random, lists: list[list[int]], num_items: int) -> Drawn:
    """Return items with scores, which are ordered by them."""
    retrieved = {
        f"q{number}": {f"d{item}": random.choice((0.5, random.random())) for item in items}
        for number, items in enumerate(lists)
    }
    right = {name: {f"d{random.randrange(num_items)}": random.randint(0, 2) for _ in range(3)} for name in retrieved}
    return {"retrieved": retrieved, "positives": right}, {"form": "scores"}


def labeled(random: Random, lists: list[list[int]], num_items: int) -> Drawn:
    """Return lists whose relevance follows from labels under a protocol that reads them."""
    names = {"identities"} | {name for name in ("cameras", "clothes") if random.random() < 0.5}
    sides = samples.draw_sides(random, names, (len(lists), num_items))
    protocol = random.choice(("market1501", "veri776", "aicity", "cub200", "trec", None))
    if "clothes" in names and "cameras" in names:
        protocol = random.choice(("ltcc_cc", "market1501"))
    own = samples.own_items(random, sides) if random.random() < 0.2 or protocol == "cub200" else None
    if protocol == "cub200" and own is not None and min(own) < 0:
        protocol = "market1501"
    if random.random() < 0.2:
        samples.several_labels(random, sides)
    else:
        samples.as_names(random, sides)
    arguments = {"retrieved": lists} | samples.sided(*sides)
    if protocol is not None:
        arguments["protocol"] = protocol
    if own is not None:
        arguments["self_index"] = own
    return arguments, {"form": "labels", "names": sorted(names), "protocol": protocol}
