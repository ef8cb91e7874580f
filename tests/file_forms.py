"""Forms of files: a small correct document, what the package reads of it, and what a strict reading of it gives."""

import csv
import io
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

import numpy as np

from reid_torchmetrics import data, evaluate_lists
from tests.reference import lists as reference_lists

Texts = dict[str, str]
"""contents of files by path"""
CLASSES = ("dog", "cat", "bird")
IMAGES = ("a1", "b2", "c3")


class InvalidFileError(Exception):
    """What a strict reading says of a malformed file."""


class Form(NamedTuple):
    """A form of files, with both readings of it."""

    write: Callable[[Random], Texts]
    read: Callable[[Path], Any]
    """what the package reads in a folder, as plain values"""
    expect: Callable[[Texts], Any]
    """the same by a strict reading of the texts"""
    separator: str | None = None
    damage: Callable[[Any, Random], tuple[Any, str]] | None = None
    """what returns damaged contents and the path of the changed file, if these are bytes"""


def check(is_valid: bool) -> None:
    if not is_valid:
        raise InvalidFileError


def number(word: str) -> float:
    """A finite decimal number in digits of ASCII."""
    check(re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", word, re.ASCII) is not None)
    check(math.isfinite(float(word)))
    return float(word)


def whole(word: str) -> int:
    check(re.fullmatch(r"[+-]?\d+", word, re.ASCII) is not None)
    return int(word)


def lines(text: str) -> list[list[str]]:
    """The words of each line that is not blank."""
    return [line.split() for line in re.split(r"\r\n|\n|\r", text.removeprefix("\ufeff")) if line.strip()]


def corners(words: list[str], *, is_detection: bool) -> tuple[float, ...]:
    """The edges of a box; a detection may have a negative size, which counts as a mistake."""
    left, top, right, bottom = map(number, words)
    check(is_detection or (left <= right and top <= bottom))
    return left, top, right, bottom


def label(word: str) -> int:
    check(word in CLASSES)
    return CLASSES.index(word)


class Box(NamedTuple):
    """A ground truth, and the detection of it."""

    image: str
    name: str
    """of its class"""
    edges: list[int]
    is_difficult: bool
    detected_edges: list[int]
    score: str


def drawn_boxes(draw: Random) -> list[Box]:
    """Some objects, which are found nearly where they are; only the first image always has one."""
    rows = []
    for image in IMAGES:
        for _ in range(draw.choice((1, 3) if image == IMAGES[0] else (0, 1, 3))):
            x, y = draw.randint(0, 50), draw.randint(0, 50)
            right, bottom = x + draw.randint(10, 40), y + draw.randint(5, 40)
            detected = [x + draw.choice((0, 2, 9)), y, right, bottom]
            score = draw.choice(("0.5", "0.9", str(draw.randint(1, 99) / 100)))
            rows.append(Box(image, draw.choice(CLASSES), [x, y, right, bottom], draw.random() < 0.3, detected, score))
    return rows


def by_image(dicts: list[dict[str, Any]], target: list[dict[str, Any]], key: str = "boxes") -> dict[str, Any]:
    """Sorted rows of each image: class, shape, and score or whether it is a crowd or difficult."""
    images = {}
    for found, truth in zip(dicts, target, strict=True):
        rows = zip(found["labels"].tolist(), found[key].tolist(), found["scores"].tolist(), strict=True)
        flags = truth["iscrowd"] if "iscrowd" in truth else truth.get("difficult", truth["labels"] * 0)
        true_rows = zip(truth["labels"].tolist(), truth[key].tolist(), flags.tolist(), strict=True)
        images[truth["image_id"]] = (
            sorted((name, *rounded(box), score) for name, box, score in rows),
            sorted((name, *rounded(box), int(flag)) for name, box, flag in true_rows),
        )
    return {image: rows for image, rows in images.items() if rows != ([], [])}


def rounded(box: list[float] | tuple[float, ...]) -> list[float]:
    return [round(value, 9) + 0.0 for value in box]


def expected_images(found: list[tuple[Any, ...]], truth: list[tuple[Any, ...]]) -> dict[str, Any]:
    """The same of rows of image, class, shape, and score or flag."""
    images = {}
    for image in sorted({row[0] for row in (*found, *truth)}):
        images[image] = (
            sorted((row[1], *rounded(row[2]), row[3]) for row in found if row[0] == image),
            sorted((row[1], *rounded(row[2]), int(row[3])) for row in truth if row[0] == image),
        )
    return images


def two_folders(draw: Random, truth_line: Callable[[Box], str], found_line: Callable[[Box], str]) -> Texts:
    """A file for each image in both folders, with a line for each object."""
    rows = drawn_boxes(draw)
    texts = {}
    for folder, line in (("truth", truth_line), ("found", found_line)):
        for image in IMAGES:
            texts[f"{folder}/{image}.txt"] = "".join(f"{line(row)}\n" for row in rows if row.image == image)
    return texts


def in_words(*values: object) -> str:
    """Values with blanks between them."""
    return " ".join(map(str, values))


def rows_of_folders(texts: Texts, read_line: Callable[..., tuple[Any, ...]]) -> dict[str, Any]:
    """Rows of both folders by `read_line(words, has_score)`."""
    rows: dict[str, list[Any]] = {"truth": [], "found": []}
    for path, text in texts.items():
        folder, _, name = path.partition("/")
        for words in lines(text):
            rows[folder].append((name.removesuffix(".txt"), *read_line(words, folder == "found")))
    return expected_images(rows["found"], rows["truth"])


def write_yolo(draw: Random) -> Texts:
    def line(name: str, edges: list[int], *score: str) -> str:
        x1, y1, x2, y2 = (value / 128 for value in edges)
        return in_words(CLASSES.index(name), (x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1, *score)

    return two_folders(
        draw, lambda row: line(row.name, row.edges), lambda row: line(row.name, row.detected_edges, row.score)
    )


def read_yolo_line(words: list[str], has_score: bool) -> tuple[Any, ...]:
    has_id = has_score and len(words) == 7 and words[6].isdecimal()  # of a track
    check(len(words) == 5 + has_score or has_id)
    class_number = number(words[0])
    x, y, width, height = map(number, words[1:5])
    check(class_number.is_integer() and class_number >= 0 and width >= 0 and height >= 0)
    check(all(-0.01 <= value <= 1.01 for value in (x, y, width, height)))
    box = x - width / 2, y - height / 2, x + width / 2, y + height / 2
    return int(class_number), box, number(words[5]) if has_score else 0


def write_cartucho(draw: Random) -> Texts:
    return two_folders(
        draw,
        lambda row: in_words(row.name, *row.edges) + " difficult" * row.is_difficult,
        lambda row: in_words(row.name, row.score, *row.detected_edges),
    )


def read_cartucho_line(words: list[str], has_score: bool) -> tuple[Any, ...]:
    is_difficult = not has_score and len(words) == 6 and words[5] == "difficult"
    check(len(words) == 5 + has_score or is_difficult)
    box = corners(words[1 + has_score : 5 + has_score], is_detection=has_score)
    return label(words[0]), box, number(words[1]) if has_score else is_difficult


def write_kitti(draw: Random) -> Texts:
    place = "-1 -1 -1 -1000 -1000 -1000 -10"
    return two_folders(
        draw,
        lambda row: in_words(row.name, "0.0 0 -1.5", *row.edges, place),
        lambda row: in_words(row.name, "0.0 0 -1.5", *row.detected_edges, place, row.score),
    )


def read_kitti_line(words: list[str], has_score: bool) -> tuple[Any, ...]:
    check(len(words) == 15 + has_score)
    return label(words[0]), corners(words[4:8], is_detection=has_score), number(words[15]) if has_score else 0


def write_dota(draw: Random) -> Texts:
    rows = drawn_boxes(draw)
    texts = {f"truth/{image}.txt": "imagesource:x\ngsd:1\n" for image in IMAGES}
    texts |= {f"found/Task1_{name}.txt": "" for name in CLASSES}
    for row in rows:
        true, found = (in_words(x1, y1, x2, y1, x2, y2, x1, y2) for x1, y1, x2, y2 in (row.edges, row.detected_edges))
        texts[f"truth/{row.image}.txt"] += f"{true} {row.name} {int(row.is_difficult)}\n"
        texts[f"found/Task1_{row.name}.txt"] += f"{row.image} {row.score} {found}\n"
    return texts


def expect_dota(texts: Texts) -> Any:
    found, truth = [], []
    for path, text in texts.items():
        folder, _, name = path.partition("/")
        for words in lines(text):
            if folder == "found":
                check(len(words) == 10 and words[0].removesuffix(".png") in IMAGES)
                class_number = label(name.removeprefix("Task1_").removesuffix(".txt"))
                found.append((words[0], class_number, tuple(map(number, words[2:])), number(words[1])))
            elif not words[0].startswith(("imagesource", "gsd")):
                check(len(words) in (9, 10))
                is_difficult = len(words) == 10 and whole(words[9]) != 0
                truth.append((name.removesuffix(".txt"), label(words[8]), tuple(map(number, words[:8])), is_difficult))
    return expected_images(found, truth)


def write_open_images(draw: Random) -> Texts:
    header = "ImageID,LabelName,{}XMin,XMax,YMin,YMax,IsGroupOf"
    texts = {"truth.csv": [header.format("")], "found.csv": [header.format("Score,")]}
    for row in drawn_boxes(draw):
        true, found = (
            ",".join(str(value / 128) for value in (x1, x2, y1, y2))
            for x1, y1, x2, y2 in (row.edges, row.detected_edges)
        )
        texts["truth.csv"].append(f"{row.image},{row.name},{true},{int(row.is_difficult)}")
        texts["found.csv"].append(f"{row.image},{row.name},{row.score},{found},0")
    return {path: "".join(f"{line}\n" for line in table) for path, table in texts.items()}


def expect_open_images(texts: Texts) -> Any:
    rows: dict[str, list[Any]] = {}
    for path, text in texts.items():
        header, *table = csv_rows(text)
        check(path == "found.csv" or bool(table))
        names = [name.strip().lower() for name in header]
        needed = ["imageid", "labelname", "xmin", "ymin", "xmax", "ymax", *(["score"] if path == "found.csv" else [])]
        check(all(names.count(name) == 1 for name in needed))
        rows[path] = []
        for words in table:
            check(len(words) == len(names))
            row = dict(zip(names, map(str.strip, words), strict=True))
            group = row.get("isgroupof", "0")
            check(path == "found.csv" or group.lower() in ("", "0", "1", "-1", "true", "false"))
            box = corners([row[name] for name in ("xmin", "ymin", "xmax", "ymax")], is_detection=path == "found.csv")
            check(all(-0.01 <= value <= 1.01 for value in box))
            last = number(row["score"]) if path == "found.csv" else group.lower() in ("1", "true")
            rows[path].append((row["imageid"], label(row["labelname"]), box, last))
    return expected_images(rows["found.csv"], rows["truth.csv"])


def csv_rows(text: str) -> list[list[str]]:
    try:
        rows = [row for row in csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True) if row]
    except csv.Error:
        raise InvalidFileError from None
    check(bool(rows))
    return rows


def write_voc(draw: Random) -> Texts:
    rows = drawn_boxes(draw)
    texts = {f"found/comp4_det_test_{name}.txt": "" for name in CLASSES}
    for image in IMAGES:
        objects = ""
        for row in (row for row in rows if row.image == image):
            x1, y1, x2, y2 = row.edges
            box = f"<xmin>{x1}</xmin>\n<ymin>{y1}</ymin>\n<xmax>{x2}</xmax>\n<ymax>{y2}</ymax>"
            difficult = f"<difficult>{int(row.is_difficult)}</difficult>"
            objects += f"<object>\n<name>{row.name}</name>\n{difficult}\n<bndbox>\n{box}\n</bndbox>\n</object>\n"
        texts[f"truth/{image}.xml"] = f"<annotation>\n<filename>{image}.jpg</filename>\n{objects}</annotation>\n"
    for row in rows:
        texts[f"found/comp4_det_test_{row.name}.txt"] += f"{in_words(row.image, row.score, *row.detected_edges)}\n"
    return texts


def expect_voc(texts: Texts) -> Any:
    found, truth = [], []
    for path, text in texts.items():
        folder, _, name = path.partition("/")
        if folder == "found":
            for words in lines(text):
                check(len(words) == 6 and words[0] in IMAGES)
                class_number = label(name.removeprefix("comp4_det_test_").removesuffix(".txt"))
                found.append((words[0], class_number, tuple(map(number, words[2:])), number(words[1])))
            continue
        try:
            root = ET.fromstring(text)  # noqa: S314 - written above
        except (ET.ParseError, ValueError):
            raise InvalidFileError from None
        check(root.tag == "annotation")
        for node in root.findall("object"):
            box = only(node, "bndbox")
            words = [text_of(only(box, tag)) for tag in ("xmin", "ymin", "xmax", "ymax")]
            check(all(text_of(tag) in ("", "0", "-0", "1") for tag in node.findall("difficult")))
            flags = [text_of(tag) == "1" for tag in node.findall("difficult")]
            check(len(flags) <= 1)
            box = corners(words, is_detection=False)
            truth.append((name.removesuffix(".xml"), label(text_of(only(node, "name"))), box, any(flags)))
    return expected_images(found, truth)


def only(node: ET.Element, tag: str) -> ET.Element:
    found = node.findall(tag)
    check(len(found) == 1)
    return found[0]


def text_of(node: ET.Element) -> str:
    return (node.text or "").strip()


def write_trec(draw: Random) -> Texts:
    run, qrels = "", ""
    for query in ("q1", "q2", "q3"):
        items = draw.sample([f"d{number}" for number in range(8)], 6)
        for rank, item in enumerate(items):
            run += f"{query} Q0 {item} {rank} {9 - rank}.{draw.randint(10, 99)} tag\n"
        for item in draw.sample(items, 3):
            qrels += f"{query} 0 {item} {draw.randint(0, 2)}\n"
    return {"run.trec": run, "truth.qrels": qrels}


def read_trec(folder: Path) -> Any:
    truth = data.read_ground_truth(folder / "truth.qrels")
    retrieved = data.read_retrieved(folder / "run.trec")
    if not isinstance(retrieved, dict):
        raise TypeError("run.trec: names beside numbers")  # as the evaluation says
    evaluate_lists(retrieved, truth)
    return {"run": retrieved, "truth": truth}


def expect_trec(texts: Texts) -> Any:
    run: dict[str, Any] = {}
    truth: dict[str, Any] = {}
    for rows, lists in ((lines(texts["run.trec"]), run), (lines(texts["truth.qrels"]), truth)):
        if len(rows) == 1 and len(rows[0]) == 2 and rows[0][1] != "Q0":
            lists[rows[0][0]] = [rows[0][1]]  # a query and its item
    for words in [] if run else lines(texts["run.trec"]):
        check(len(words) == 6 and words[2] not in run.get(words[0], ()))
        run.setdefault(words[0], {})[words[2]] = number(words[4])
    for words in [] if truth else lines(texts["truth.qrels"]):
        check(len(words) == 4 and words[2] not in truth.get(words[0], ()))
        truth.setdefault(words[0], {})[words[2]] = whole(words[3])
    check(bool(run) and bool(truth))
    return {"run": run, "truth": truth}


def write_json(draw: Random) -> Texts:
    retrieved, truth = {}, {}
    for query in ("q1", "q2", "q3"):
        retrieved[query] = draw.sample([f"d{number}" for number in range(8)], 6)
        truth[query] = draw.sample(retrieved[query], 2)
    return {"retrieved.json": json.dumps(retrieved, indent=0), "truth.json": json.dumps(truth, indent=0)}


def read_json(folder: Path) -> Any:
    retrieved = data.read_retrieved(folder / "retrieved.json")
    return evaluate_lists(retrieved, data.read_ground_truth(folder / "truth.json"))["map"]


def expect_json(texts: Texts) -> Any:
    try:
        contents = [json.loads(text.removeprefix("\ufeff"), object_pairs_hook=distinct) for text in texts.values()]
    except ValueError:
        raise InvalidFileError from None
    retrieved, truth = contents
    for side in contents:
        check(isinstance(side, dict) and all(isinstance(items, list) for items in side.values()))
        check(all(isinstance(item, str) for items in side.values() for item in items))
    check(all(len({*items}) == len(items) for items in truth.values()))
    values = []
    for query, items in truth.items():
        check(query in retrieved and bool(items))
        values.append(reference_lists.average_precision(retrieved[query], dict.fromkeys(items, 1)))
    return math.fsum(values) / len(values)


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    check(len({key for key, _ in pairs}) == len(pairs))
    return dict(pairs)


def write_table(draw: Random) -> Texts:
    rows = [
        f"img{row}.jpg,{draw.randint(1, 4)},{draw.randint(1, 3)},{draw.random():.3f},{draw.random():.3f}"
        for row in range(6)
    ]
    return {"table.csv": "".join(f"{row}\n" for row in ("path,pid,camid,f0,f1", *rows))}


def share_of_vector(word: str) -> float:
    """A number, of which the evaluation tells if it is not finite."""
    return float(word or "nan") if word in ("", "nan", "inf", "-inf", "1e400") else number(word)


def groups(values: list[Any]) -> list[int]:
    """For each value the first place of an equal one: labels may be numbers or names."""
    return [values.index(value) for value in values]


def read_table(folder: Path) -> Any:
    (samples,) = data.read_samples(folder / "table.csv")
    if "identities" not in samples.labels:
        raise ValueError("table.csv: no identities")  # as the evaluation says
    identities = samples.labels["identities"].tolist()
    return {
        "vectors": str(np.round(samples.embeddings, 9).tolist()),
        "identities": groups(identities),
        "cameras": groups(samples.labels["cameras"].tolist()) if "cameras" in samples.labels else None,
    }


def expect_table(texts: Texts) -> Any:
    header, *rows = csv_rows(texts["table.csv"])
    check(bool(rows))
    names = [name.strip() for name in header]
    check(
        len({*names}) == len(names) and {"pid", "f0", "f1"} <= {*names} and all(len(row) == len(names) for row in rows)
    )
    table = [dict(zip(names, map(str.strip, row), strict=True)) for row in rows]
    identities = [row["pid"] for row in table]
    check("" not in identities and "nan" not in identities)
    vectors = [[row["f0"], row["f1"]] for row in table]
    cameras = groups([row["camid"] for row in table]) if "camid" in names else None
    return {
        "vectors": str([[round(share_of_vector(word), 9) for word in vector] for vector in vectors]),
        "identities": groups(identities),
        "cameras": cameras,
    }


def folders(read: Callable[..., Any], *names: Any, key: str = "boxes") -> Callable[[Path], Any]:
    def read_both(folder: Path) -> Any:
        return by_image(*read(folder / "truth", folder / "found", *names), key=key)

    return read_both


FORMS = {
    "yolo": Form(write_yolo, folders(data.read_yolo), lambda texts: rows_of_folders(texts, read_yolo_line)),
    "cartucho": Form(
        write_cartucho, folders(data.read_cartucho, CLASSES), lambda texts: rows_of_folders(texts, read_cartucho_line)
    ),
    "kitti": Form(
        write_kitti, folders(data.read_kitti, CLASSES), lambda texts: rows_of_folders(texts, read_kitti_line)
    ),
    "dota": Form(write_dota, folders(data.read_dota, CLASSES, key="rotated_boxes"), expect_dota),
    "voc": Form(write_voc, folders(data.read_voc, CLASSES), expect_voc),
    "open_images": Form(
        write_open_images,
        lambda folder: by_image(*data.read_open_images(folder / "truth.csv", folder / "found.csv", CLASSES)),
        expect_open_images,
        ",",
    ),
    "trec": Form(write_trec, read_trec, expect_trec),
    "json": Form(write_json, read_json, expect_json),
    "table": Form(write_table, read_table, expect_table, ","),
}
