"""Problems that are wrong at one place: the error must have the same type and the same text."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import torch

from . import detection, files, lists, pairs, retrieval
from .problems import Made, Problem

DRAWS: tuple[Callable[[Random], Problem], ...] = (
    retrieval.draw_embeddings,
    retrieval.draw_scores,
    retrieval.draw_metrics,
    retrieval.draw_drawn,
    lists.draw_lists,
    pairs.draw_verification,
    pairs.draw_models,
    *(detection.drawer(shape) for shape in ("bbox", "segm", "keypoints", "rotated")),
    files.draw_files,
)
WRONG: tuple[Any, ...] = (
    *(None, True, "", "none", "market", 0, -1, 2.5, 10**30, float("nan"), float("inf"), "3", "é", b"x"),
    *([], {}, (), [None], [1, "a"], [[1, 2], [3]], {"a": 1}, {1: [2]}, object, 1j),
    *(np.zeros(0), np.zeros((2, 2, 2)), np.array(["a", "b"]), np.array([None, 1], dtype=object)),
    *(torch.zeros(3, dtype=torch.complex64), torch.tensor(1.0), torch.zeros(1, 3), torch.full((2, 3), torch.nan)),
)
NAMES = ("tie", "nearest", "similarty", "protocols", "iou", "threshold", "cameras", "max_ranks", "query_ids", "areas")


def draw_hostile(random: Random) -> Problem:
    """Draw a right problem, and replace an argument or a value, remove one, or add one."""
    problem = random.choice(DRAWS)(random)
    facts = {"call": problem.call.name} | dict(problem.facts)
    if problem.files and random.random() < 0.7:
        contents, change = changed_file(random, dict(problem.files))
        return replace(problem, files=contents, facts=facts | {"change": change})
    if problem.batches and random.random() < 0.7:
        batches = list(problem.batches)
        place = random.randrange(len(batches))
        batches[place], change = changed(random, batches[place])
        return replace(problem, batches=batches, facts=facts | {"change": f"batch {place}: {change}"})
    arguments, change = changed(random, problem.call.arguments)
    call = Made(problem.call.name, arguments, problem.call.positional)
    return replace(problem, call=call, facts=facts | {"change": change})


def changed(random: Random, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return arguments with one change, and the change in words."""
    arguments = dict(arguments)
    names = list(arguments)
    kind = random.choice(("value", "value", "value", "inside", "inside", "remove", "add"))
    if kind == "add" or not names:
        name, value = random.choice(NAMES), random.choice(WRONG)
        return arguments | {name: value}, f"{name} added"
    name = random.choice(names)
    if kind == "remove":
        del arguments[name]
        return arguments, f"{name} removed"
    value = changed_inside(random, arguments[name]) if kind == "inside" else random.choice(WRONG)
    arguments[name] = value
    text = repr(value)
    return arguments, f"{name} = {text if len(text) < 200 else text[:200] + ' ...'}"


def changed_inside(random: Random, value: Any) -> Any:
    """Return an array, a sequence or a mapping in which one value is wrong, or that has another length."""
    if isinstance(value, torch.Tensor):
        changed_array = changed_inside(random, value.numpy())
        return torch.from_numpy(changed_array) if isinstance(changed_array, np.ndarray) else changed_array
    if isinstance(value, np.ndarray):
        return changed_array_of(random, value)
    if isinstance(value, Mapping) and value:
        return changed(random, value)[0]
    if isinstance(value, (list, tuple)) and value and not isinstance(value, Made):
        items = list(value)
        place = random.randrange(len(items))
        items[place] = changed_inside(random, items[place])
        return random.choice((items, items, items[:-1], [*items, items[-1]]))
    return random.choice(WRONG)


def changed_array_of(random: Random, array: np.ndarray) -> Any:
    """Return an array of another length, dtype or shape, or with a value that is not finite or out of range."""
    kind = random.choice(("shorter", "longer", "dtype", "flat", "more dims", "value", "value"))
    if kind == "value" and array.size and array.dtype.kind in "fi":
        copy = array.copy()
        values = (np.nan, np.inf, -np.inf, -1.0, 1e38) if array.dtype.kind == "f" else (-1, -7, 10**6, 2**40)
        copy.flat[random.randrange(array.size)] = random.choice(values)
        return copy
    if kind == "shorter":
        return array[:-1].copy()
    if kind == "longer":
        return np.concatenate([array, array[:1]]) if array.ndim else array
    if kind == "flat":
        return array.reshape(-1).copy()
    if kind == "more dims":
        return array[None].copy()
    return array.astype(random.choice((np.float64, np.int64, np.float16, np.uint8, np.bool_)))


CHARACTERS = ("", "x", ",", "-1", "nan", "\n", "\t", " ", "1e999", "é", "0", "null", "[", '"')


def changed_file(random: Random, contents: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Return files of which one is missing, empty, cut or wrong at one place, and the change in words."""
    name = random.choice(list(contents))
    content = contents[name]
    kind = random.choice(("missing", "empty", "inside", "inside", "inside"))
    if kind == "missing":
        del contents[name]
    elif kind == "empty":
        contents[name] = ""
    elif isinstance(content, str):
        place = random.randrange(len(content) + 1)
        contents[name] = content[:place] + random.choice(CHARACTERS) + content[place + random.randint(0, 2) :]
    elif name.endswith((".npz", ".csv", ".pt")):
        column = random.choice(list(content))
        contents[name] = dict(content)
        if random.random() < 0.5:
            del contents[name][column]
        elif isinstance(content[column], np.ndarray):
            contents[name][column] = changed_array_of(random, content[column])
    else:
        contents[name] = json_changed(random, content)
    return contents, f"{kind} in {name}"


JSON_VALUES = (None, True, "", "7", -1, 2.5, 10**30, float("nan"), [], [1, 2], {}, "cat")


def json_changed(random: Random, content: Any) -> Any:
    """Return JSON in which a value is removed or replaced."""
    if isinstance(content, dict) and content:
        key = random.choice(list(content))
        rest = {name: value for name, value in content.items() if name != key}
        if isinstance(content[key], (dict, list)) and content[key] and random.random() < 0.8:
            return rest | {key: json_changed(random, content[key])}
        return random.choice((rest, rest | {key: random.choice(JSON_VALUES)}, rest | {f"{key}s": content[key]}))
    if isinstance(content, list) and content:
        items = list(content)
        place = random.randrange(len(items))
        items[place] = json_changed(random, items[place])
        return items
    return random.choice(JSON_VALUES)
