"""Problems of files: embeddings, lists, pairs, COCO's JSON and other formats of boxes; and the command on them."""

from random import Random
from typing import Any

from tests.file_forms import CLASSES, FORMS

from . import samples
from .problems import Made, Problem, Question

ALL = (Question(""),)
SUFFIXES = (".npz", ".npz", ".csv", ".pt")
IMAGE_SIZE = (100, 80)
OPTIONS_OF_COMMAND: dict[str, tuple[tuple[str, ...], ...]] = {
    "--ties": tuple((name,) for name in ("pessimistic", "optimistic", "stable", "grouped", "expected")),
    "--similarity": (("cosine",), ("euclidean",), ("dot",)),
    "--reports": (("map", "rank_1"), ("mrr", "ndcg_5", "recall_3"), ("minp", "mean_rank")),
    "--same-camera": tuple((name,) for name in samples.CAMERA_RULES),
    "--junk-identities": (("0",), ("1", "2")),
    "--empty-target-action": (("neg",), ("pos",), ("skip",)),
    "--k": (("3",),),
    "--rule": (("trapezoid",), ("interpolated_11",)),
    "--mode": (("all_shots",),),
    "--max-rank": (("3",),),
    "--max-bytes": (("10000",),),
    "--search-cameras": (("0", "1"),),
}
OPTIONS_OF_DETECT: dict[str, tuple[tuple[str, ...], ...]] = {
    "--iou-thresholds": (("0.5",), ("0.5", "0.75")),
    "--rec-thresholds": (("0", "0.5", "1"),),
    "--thresholds": (("torchmetrics",),),
    "--max-detection-thresholds": (("1", "2", "3"),),
    "--average": (("micro",),),
    "--rule": (("voc07",), ("voc",)),
    "--area-ranges": (("{all: [0, 1e10], tiny: [0, 300]}",),),
    "--unknown-categories": (("drop",), ("raise",)),
}


def words_of(random: Random, table: dict[str, tuple[tuple[str, ...], ...]], share: float = 0.2) -> list[str]:
    """Draw options of a command."""
    words: list[str] = []
    for option, choices in table.items():
        if random.random() < share:
            words += [option, *random.choice(choices)]
    return words


def draw_files(random: Random) -> Problem:
    """Draw files and an evaluation of them."""
    ways = (sample_files, list_files, pair_files, coco_files, yolo_files, box_files)
    return random.choices(ways, weights=(2, 1, 1, 2, 1, 2))[0](random)


def sample_columns(random: Random, size: int, names: set[str], *, are_names: bool) -> dict[str, Any]:
    """Return embeddings and labels as arrays by name."""
    columns = {"embeddings": samples.embeddings(random, size, 3, random.choice(("few", "any")))}
    for name, values in samples.labels(random, size, names).items():
        columns[name] = values
        if are_names and name == "cameras":
            columns[name] = [f"c{number}" for number in values.tolist()]
    return columns


def sample_files(random: Random) -> Problem:
    """Return a problem of files of embeddings, read by a function or by the command."""
    names = {"identities", "cameras"} if random.random() < 0.8 else {"identities"}
    suffix = random.choice(SUFFIXES)
    are_names = random.random() < 0.3 and suffix == ".csv"
    sizes = random.choice((1, 4, 8)), random.choice((3, 12, 25))
    sides = [sample_columns(random, size, names, are_names=are_names) for size in sizes]
    files = {"query" + suffix: sides[0], "gallery" + suffix: sides[1]}
    words = [*files]
    if random.random() < 0.2:  # a gallery in two files
        files["gallery_2" + suffix] = sample_columns(random, 6, names, are_names=are_names)
        words.append("gallery_2" + suffix)
    facts: dict[str, Any] = {"files": words, "labels": sorted(names)}
    if random.random() < 0.3 and len(words) == 2:
        options = {"ties": random.choice(samples.TIES), "similarity": random.choice(samples.SIMILARITIES[:3])}
        call = Made("steps.sample_files", {"words": words, "options": options})
        return Problem(call, (Question("means"), Question("per_query")), facts=facts | options, files=files)
    if random.random() < 0.1:
        command = ["duplicates", *words, "--threshold", "0.9"]
        return Problem(Made("steps.command", {"words": command}), ALL, facts={"words": command}, files=files)
    command = ["evaluate", *words, "--json", "out.json", *words_of(random, OPTIONS_OF_COMMAND)]
    if random.random() < 0.3:
        command += ["--protocol", random.choice(("msmt17", "mars_official", "aicity", "regdb", "sysu_mm01_all_single"))]
    if random.random() < 0.1:
        command.append("--stream")
    return Problem(Made("steps.command", {"words": command}), ALL, facts=facts | {"words": command}, files=files)


def list_files(random: Random) -> Problem:
    """Return a problem of a run and its judgments, in one of the forms of text."""
    lines, truth = [], []
    for query in range(random.choice((1, 3))):
        for rank, item in enumerate(random.sample(range(9), random.choice((1, 5, 9)))):
            score = random.choice((0.5, 1 - rank / 10))
            lines.append(f"q{query} Q0 d{item} {rank + 1} {score} own")
        truth += [f"q{query} 0 d{item} {random.randint(-1, 2)}" for item in random.sample(range(9), 4)]
    reports = random.choice((["map"], ["ndcg_5", "bpref"], ["mrr", "precision_3", "recall_5"]))
    words = ["lists", "a.run", "a.qrels", "--json", "out.json", "--reports", *reports]
    words += random.choice(([], ["--missing-queries", "skip"], ["--gain", "exponential"], ["--ties", "expected"]))
    files = {"a.run": "\n".join(lines) + "\n", "a.qrels": "\n".join(truth) + "\n"}
    return Problem(Made("steps.command", {"words": words}), ALL, facts={"words": words}, files=files)


def pair_files(random: Random) -> Problem:
    """Return a problem of pairs with scores in a table."""
    total = random.choice((2, 20, 60))
    columns = {
        "score": [random.choice((0.25, 0.5, random.random())) for _ in range(total)],
        "same": [random.randrange(2) for _ in range(total)],
    }
    words = ["pairs", "pairs.csv", "--json", "out.json"]
    return Problem(Made("steps.command", {"words": words}), ALL, facts={"words": words}, files={"pairs.csv": columns})


def coco_rows(random: Random, iou_type: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a data set and results as JSON holds them."""
    width, height = IMAGE_SIZE
    numbers = random.sample(range(1, 50), random.choice((1, 2, 5)))
    categories = random.sample(range(1, 9), random.choice((1, 3)))

    def shape(row: dict[str, Any], box: list[float]) -> dict[str, Any]:
        x, y, w, h = box
        if iou_type == "segm":
            row["segmentation"] = [[x, y, x + w, y, x + w, y + h, x, y + h * 0.8]]
        if iou_type == "keypoints":
            row["keypoints"] = [value for _ in range(17) for value in (x + w / 2, y + h / 2, random.choice((0, 1, 2)))]
            row["num_keypoints"] = sum(value > 0 for value in row["keypoints"][2::3])
        return row

    def drawn_box() -> list[float]:
        return [random.uniform(0, 50), random.uniform(0, 40), random.choice((5.0, 32.0)), random.choice((10.0, 32.0))]

    annotations, results = [], []
    for image in numbers:
        for _ in range(random.choice((0, 1, 3))):
            box, category = drawn_box(), random.choice(categories)
            crowd = int(random.random() < 0.1) if iou_type != "segm" else 0
            area = random.choice((box[2] * box[3], 1024.0, 300.0))
            row = {"id": len(annotations) + 1, "image_id": image, "category_id": category, "bbox": box}
            annotations.append(shape(row | {"area": area, "iscrowd": crowd}, box))
            if random.random() < 0.8:
                moved = [value + random.choice((0, 1.5)) for value in box]
                score = random.choice((0.5, random.random()))
                row = {"image_id": image, "category_id": random.choice((category, *categories)), "score": score}
                results.append(shape(row | ({"bbox": moved} if random.random() < 0.9 else {}), moved))
    images = [{"id": number, "width": width, "height": height, "file_name": f"{number}.jpg"} for number in numbers]
    named = [{"id": number, "name": f"class {number}"} for number in categories]
    return {"images": images, "annotations": annotations, "categories": named}, results


def coco_files(random: Random) -> Problem:
    """Return a problem of COCO's files, by the metric, by the classes of `coco` or by the command."""
    iou_type = random.choice(("bbox", "bbox", "segm", "keypoints"))
    data_set, results = coco_rows(random, iou_type)
    if iou_type == "bbox" or random.random() < 0.5:
        for row in results:
            row.setdefault("bbox", [1.0, 2.0, 30.0, 20.0])
    if random.random() < 0.1 and results:
        results[0]["category_id"] = 77
    files = {"gt.json": data_set, "dt.json": results}
    facts: dict[str, Any] = {"iou_type": iou_type}
    way = random.choice(("steps.coco_files", "steps.coco_metric", "steps.command"))
    arguments: dict[str, Any] = {"iou_type": iou_type}
    if way == "steps.coco_metric":
        arguments["options"] = random.choice(({}, {"unknown_categories": "drop"}, {"invalid": "drop"}))
    if way == "steps.command":
        words = ["detect", "gt.json", "dt.json", "--json", "out.json", *words_of(random, OPTIONS_OF_DETECT, 0.1)]
        words += ["--iou-type", iou_type] if iou_type != "bbox" else []
        if random.random() < 0.3 and iou_type == "bbox":
            words += ["--evaluator", random.choice(("voc", "yolo"))]
        arguments = {"words": words}
    return Problem(Made(way, arguments), ALL, facts=facts | arguments | {"way": way}, files=files)


def yolo_files(random: Random) -> Problem:
    """Return a problem of YOLO's text files: boxes, polygons or boxes with keypoints."""
    iou_type = random.choice(("bbox", "bbox", "segm"))
    files: dict[str, Any] = {}

    def line(label: int, box: list[float], *score: float) -> str:
        x, y, w, h = box
        corners = [x - w / 2, y - h / 2, x + w / 2, y - h / 2, x + w / 2, y + h / 2, x - w / 2, y + h / 2]
        return " ".join(map(str, (label, *(corners if iou_type == "segm" else box), *score)))

    for image in range(random.choice((1, 3))):
        truths, detections = [], []
        for _ in range(random.choice((0, 1, 3))):
            box = [random.uniform(0.3, 0.7), random.uniform(0.3, 0.7), 0.3, random.choice((0.1, 0.25))]
            label = random.randrange(2)
            truths.append(line(label, box))
            moved = [box[0] + random.choice((0, 0.02)), *box[1:]]
            detections.append(line(label, moved, random.choice((0.5, 0.9))))
        files |= {f"labels/{image}.txt": "\n".join(truths), f"results/{image}.txt": "\n".join(detections)}
    words = ["detect", "labels", "results", "--json", "out.json", *words_of(random, OPTIONS_OF_DETECT, 0.1)]
    words += random.choice(([], ["--evaluator", "yolo"], ["--image-size", "100", "80"]))
    words += ["--iou-type", iou_type] if random.random() < 0.5 else []
    facts = {"iou_type": iou_type, "words": words}
    return Problem(Made("steps.command", {"words": words}), ALL, facts=facts, files=files)


READERS = ("cartucho", "kitti", "voc", "dota", "open_images")
"""forms of files that name the class of each box"""


def box_files(random: Random) -> Problem:
    """Return a problem of boxes in files that name the class of each, and a metric that evaluates what is read."""
    form = random.choice(READERS)
    contents = FORMS[form].write(random)
    metric = random.choice(("VocMAP", "DetectionMAP"))
    options = {"iou_type": "rotated"} if form == "dota" else {}
    facts = {"reader": f"read_{form}", "metric": metric, "options": options}
    suffix = ".csv" if form == "open_images" else ""
    arguments = facts | {"words": (f"truth{suffix}", f"found{suffix}"), "reading": {"class_names": CLASSES}}
    return Problem(Made("steps.read_and_evaluated", arguments), ALL, facts=facts, files=contents)
