"""Problems of boxes in files that name the class of each box: one function for each format writes the files."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import NamedTuple

from .problems import Made, Problem, Question

Files = dict[str, str]
"""contents by the name of the file"""


class Box(NamedTuple):
    """A ground truth, and the detection of it."""

    class_name: str
    edges: Sequence[int]
    is_difficult: bool
    detected_edges: Sequence[int]
    score: float


Images = Mapping[str, Sequence[Box]]


def in_words(values: Sequence[object]) -> str:
    """Return values with spaces between them."""
    return " ".join(map(str, values))


def corners(edges: Sequence[int]) -> list[int]:
    """Return the corners of a box in turn."""
    left, top, right, bottom = edges
    return [left, top, right, top, right, bottom, left, bottom]


def lines_of_classes(images: Images, class_names: Sequence[str], row: Callable[[str, Box], str]) -> dict[str, str]:
    """Return the lines of the detections of each class; `row` writes one of them, given the name of its image."""
    lines: dict[str, list[str]] = {class_name: [] for class_name in class_names}
    for image, boxes in images.items():
        for box in boxes:
            lines[box.class_name].append(row(image, box))
    return {class_name: "\n".join(rows) for class_name, rows in lines.items()}


def cartucho(images: Images, class_names: Sequence[str]) -> Files:
    """Write the files of Cartucho's mAP."""
    files = {}
    for image, boxes in images.items():
        truths = [f"{box.class_name} {in_words(box.edges)}{' difficult' * box.is_difficult}" for box in boxes]
        detections = [f"{box.class_name} {box.score} {in_words(box.detected_edges)}" for box in boxes]
        files |= {f"labels/{image}.txt": "\n".join(truths), f"results/{image}.txt": "\n".join(detections)}
    return files


def kitti(images: Images, class_names: Sequence[str]) -> Files:
    """Write the files of KITTI."""
    files, place = {}, "0 0 0 0 0 0 0"
    for image, boxes in images.items():
        truths = [f"{box.class_name} 0.0 0 0.0 {in_words(box.edges)} {place}" for box in boxes]
        detections = [f"{box.class_name} -1 -1 -10 {in_words(box.detected_edges)} {place} {box.score}" for box in boxes]
        files |= {f"labels/{image}.txt": "\n".join(truths), f"results/{image}.txt": "\n".join(detections)}
    return files


def voc(images: Images, class_names: Sequence[str]) -> Files:
    """Write the XML documents of Pascal VOC, and a file of detections for each class."""
    files = {}
    for image, boxes in images.items():
        objects = ""
        for box in boxes:
            tags = zip(("xmin", "ymin", "xmax", "ymax"), box.edges, strict=True)
            edges = "".join(f"<{tag}>{edge}</{tag}>" for tag, edge in tags)
            difficult = f"<difficult>{int(box.is_difficult)}</difficult>"
            objects += f"<object><name>{box.class_name}</name>{difficult}<bndbox>{edges}</bndbox></object>"
        files[f"labels/{image}.xml"] = f"<annotation>{objects}</annotation>"
    lines = lines_of_classes(images, class_names, lambda image, box: in_words((image, box.score, *box.detected_edges)))
    return files | {f"results/comp4_det_test_{name}.txt": text for name, text in lines.items()}


def dota(images: Images, class_names: Sequence[str]) -> Files:
    """Write the files of DOTA, whose boxes are corners."""
    files = {}
    for image, boxes in images.items():
        truths = [in_words((*corners(box.edges), box.class_name, int(box.is_difficult))) for box in boxes]
        files[f"labels/{image}.txt"] = "\n".join(truths)
    lines = lines_of_classes(
        images, class_names, lambda image, box: in_words((image, box.score, *corners(box.detected_edges)))
    )
    return files | {f"results/Task1_{name}.txt": text for name, text in lines.items()}


def open_images(images: Images, class_names: Sequence[str]) -> Files:
    """Write the two tables of Open Images, whose edges are shares of the image."""
    truths = ["ImageID,LabelName,XMin,YMin,XMax,YMax,IsGroupOf"]
    detections = ["ImageID,LabelName,XMin,YMin,XMax,YMax,Score"]
    for image, boxes in images.items():
        for box in boxes:
            for rows, edges, last in (
                (truths, box.edges, int(box.is_difficult)),
                (detections, box.detected_edges, box.score),
            ):
                rows.append(",".join(map(str, (image, box.class_name, *(edge / 100 for edge in edges), last))))
    return {"labels": "\n".join(truths), "results": "\n".join(detections)}


FORMATS: dict[str, tuple[Callable[[Images, Sequence[str]], Files], tuple[str, str]]] = {
    "read_cartucho": (cartucho, ("cat", "dog")),
    "read_kitti": (kitti, ("Car", "Pedestrian")),
    "read_voc": (voc, ("cat", "dog")),
    "read_dota": (dota, ("plane", "ship")),
    "read_open_images": (open_images, ("/m/01", "/m/02")),
}
"""a function that writes the files of each reader, and names of classes"""


def draw_box_files(random: Random) -> Problem:
    """Draw boxes in the files of one of the formats, and a metric that evaluates what is read."""
    reader = random.choice(list(FORMATS))
    write, class_names = FORMATS[reader]
    images = {}
    for number in range(random.choice((1, 3))):
        boxes = []
        for _ in range(random.choice((0, 1, 3))):
            left, top, right, bottom = (random.randint(*limits) for limits in ((1, 20), (1, 20), (30, 60), (30, 60)))
            detected_edges = [left + random.choice((0, 2, 9)), top, right, bottom]
            edges, is_difficult = [left, top, right, bottom], random.random() < 0.3
            score = random.choice((0.5, 0.9))
            boxes.append(Box(random.choice(class_names), edges, is_difficult, detected_edges, score))
        images[f"image_{number}"] = boxes
    metric, options = random.choice(("VocMAP", "DetectionMAP")), {}
    if reader == "read_dota":
        options["iou_type"] = "rotated"
    facts = {"reader": reader, "metric": metric, "options": options}
    arguments = facts | {"words": ("labels", "results"), "reading": {"class_names": class_names}}
    call = Made("steps.read_and_evaluated", arguments)
    return Problem(call, (Question(""),), facts=facts, files=write(images, class_names))
