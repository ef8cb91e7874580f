"""Forms of files of boxes without a reader, each with the line of Python that converts it, or with what to pass.

"must be a file of JSON; got '.xml': of CVAT; convert it by `globox.AnnotationSet.from_cvat(path)...`."
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from .access import has_json_lines, read_json
from .coco_columns import similar_key

_GLOBOX = "convert it by `globox.AnnotationSet.{}.save_coco('coco.json', auto_ids=True)`"
_LISTED = "convert it by `Path('results.json').write_text(json.dumps({}))`"
_MMDET = (
    "`reid_torchmetrics.DetectionMAP.update` takes the dicts of `pickle.load(file)`, and mmdet writes JSON of COCO,"
    " PREFIX.bbox.json with `test_evaluator.outfile_prefix='PREFIX'`"
)
_DETECTRON = (
    "`reid_torchmetrics.DetectionMAP.update` takes the dicts of `torch.load(path)`, and detectron2 writes JSON of COCO,"
    " coco_instances_results.json in the same folder"
)
_LINES = _LISTED.format("[json.loads(line) for line in file]")

_OF_SINK = _LISTED.format(
    "[dict(image_id=row[{key!r}], category_id=row['class_id'], category_name=row.get('class_name'), bbox=[row['x_min'],"
    " row['y_min'], row['x_max'] - row['x_min'], row['y_max'] - row['y_min']], score=row['confidence']) for row in"
    " {rows}]"
)
_OF_ULTRALYTICS = _LISTED.format(
    "[dict(image_id=name, category_id=row['class'], category_name=row['name'], rotated_box=box, bbox=[min(box[::2]),"
    " min(box[1::2]), max(box[::2]) - min(box[::2]), max(box[1::2]) - min(box[1::2])], score=row['confidence']) for"
    " name, image in {images} for row in image for box in [[*row['box'].values()]]]"
)
_OF_ROBOFLOW = _LISTED.format(
    "[dict(image_id=name, category_id=row.get('class_id', 0), category_name=row['class'], bbox=[row['x'] -"
    " row['width'] / 2, row['y'] - row['height'] / 2, row['width'], row['height']], score=row['confidence']) for"
    " name, image in {images} for row in image['predictions']]"
)
_OF_TASKS = (
    "convert it by `globox.AnnotationSet(globox.Annotation(Path(task['data']['image']).name, [*[(row['original_width'],"
    " row['original_height']) for row in rows], (1, 1)][0], [globox.BoundingBox.create("
    "label=row['value']['rectanglelabels'][0], coords=[row['value'][key] * row[side] / 100 for key, side in (('x',"
    " 'original_width'), ('y', 'original_height'), ('width', 'original_width'), ('height', 'original_height'))],"
    " box_format=globox.BoxFormat.LTWH, confidence=row.get('score')) for row in rows]) for task in json.load(file) for"
    " rows in [[row for labels in task[{!r}][-1:] for row in labels['result'] if 'rectanglelabels' in"
    " row.get('value', ())]]).save_coco('coco.json', auto_ids=True)`"
)
_FILES = "((path.stem, json.loads(path.read_text())) for path in Path(folder).glob('*.json'))"
_WITHOUT_NAMES = "images have no names; write a dict by their names in the place of the list"

_RENAMED = _LISTED.format("{{'annotations' if key == {!r} else key: rows for key, rows in json.load(file).items()}}")
_TABLE = "convert it by `{}.to_json('results.json', orient='records')`"

_BY_SUFFIX = {
    ".pkl": _MMDET,
    ".pickle": _MMDET,
    ".pt": _DETECTRON,
    ".pth": _DETECTRON,
    ".npy": "`reid_torchmetrics.coco.COCO.loadRes` takes an array of image, box, score and class",
    ".parquet": _TABLE.format("pandas.read_parquet(path)"),
    ".jsonl": _LINES,
    ".ndjson": _LINES,
    ".gz": "unpack it by `gunzip`",
    ".zip": "unpack it by `unzip`",
    ".xml": "pass the folder of the documents",
    ".txt": "pass the folder of the files",
    ".csv": "tables are read with the columns of Open Images on both sides: ImageID, LabelName, XMin, XMax, YMin, YMax",
}
"""remedies for files that are no JSON"""
CONVERSIONS = {
    "CVAT": _GLOBOX.format("from_cvat(path)"),
    "VIA": _GLOBOX.format("from_via_json(path, image_folder=folder)"),
    "CreateML": "convert it by `supervision.DetectionDataset.from_createml(folder, path)"
    ".as_coco(annotations_path='coco.json')`",
    "FiftyOne": "export it as `fiftyone.types.COCODetectionDataset`",
    "datumaro": "convert it by `datumaro.Dataset.import_from(folder, 'datumaro').export('coco', 'coco_instances')`",
    "BDD100K": "convert it by `globox.AnnotationSet(globox.Annotation(frame['name'], (1280, 720),"
    " [globox.BoundingBox.create(label=row['category'], coords=[row['box2d'][edge] for edge in ('x1', 'y1', 'x2',"
    " 'y2')], confidence=row.get('score')) for row in frame.get('labels') or [] if row.get('box2d')]) for frame in"
    " json.load(file)).save_coco('coco.json', auto_ids=True)`",
    "darknet": "convert it to a folder of YOLO's files by `Path('results').mkdir(); [Path('results',"
    " Path(image['filename']).stem + '.txt').write_text('\\n'.join(' '.join(map(str, [row['class_id'],"
    " *row['relative_coordinates'].values(), row['confidence']])) for row in image['objects'])) for image in"
    " json.load(file)]`",
    "LabelMe": _GLOBOX.format("from_labelme(folder)"),
    "Label Studio": _OF_TASKS.format("annotations"),
    "JSON-MIN of Label Studio": "export it as COCO",
    "MOT": "tracks are evaluated by other packages, such as `trackeval`",
}
"""remedies by the form of a file"""
_KEYS_OF_ROWS = {
    "CreateML": ("image", "annotations"),
    "BDD100K": ("name", "labels"),
    "darknet": ("frame_id", "filename", "objects"),
    "Label Studio": ("data", "annotations"),
    "JSON-MIN of Label Studio": ("image", "annotation_id"),
}
"""keys of a row of a list by its form"""
_KEYS_OF_DETECTIONS = {
    "Ultralytics": (_OF_ULTRALYTICS, ("name", "class", "confidence", "box")),
    "Roboflow": (_OF_ROBOFLOW, ("x", "y", "width", "height", "class", "confidence")),
}
"""the line that converts the detections of images, and the keys of a detection, by the form"""
_COLUMNS_OF_SINK = "x_min,y_min,x_max,y_max"
_NUM_ROWS = 100
"""rows at the start of a list that tell its form"""
_START = 1000
"""characters at the start of a text that tell its form"""
_NUM_MOT = 6
"""the fewest commas in a line of a track: frame, track, box, confidence"""
_WITHOUT_SCORES = ", a data set whose annotations have no `score`; the two files may be exchanged"


def remedy_of_file(path: Path) -> str:
    """Return the remedy for a file that is no JSON, by its suffix and its start; "" for an unknown form."""
    suffix = path.suffix.lower()
    if suffix not in _BY_SUFFIX:
        return f"an object in each line: {_LINES}" if has_json_lines(path) else ""
    form = ""
    if suffix in (".xml", ".txt", ".csv"):
        with path.open(encoding="utf-8", errors="replace") as file:
            start = file.read(_START)
        if suffix == ".xml" and "<annotations" in start:
            form = "CVAT"
        elif suffix == ".txt" and start.partition("\n")[0].count(",") >= _NUM_MOT:
            form = "MOT"
        elif suffix == ".csv" and start.startswith(_COLUMNS_OF_SINK):
            columns = start.partition("\n")[0].strip().split(",")
            return repr(suffix) + _remedy_of_sink(columns, "pandas.read_csv(path).to_dict('records')")
    remedy = f"of {form}; {CONVERSIONS[form]}" if form else _BY_SUFFIX[suffix]
    return f"{suffix!r}: {remedy}"


def remedy_of_results(content: Any) -> str:
    """Return the end of an error message about JSON in the place of results: its form, or where the results may be."""
    if _has_rows(content, "image_id", "score"):  # results of COCO, which may have further keys
        return ""
    remedy_of_form = _remedy_of_detections(content) or remedy_of_data_set(content)
    if remedy_of_form:
        return remedy_of_form
    if isinstance(content, Mapping) and "annotations" in content:
        return _WITHOUT_SCORES
    remedy = _remedy_of_rows(content)
    return f": {remedy}" if remedy else ""


def _remedy_of_detections(content: Any) -> str:
    """Return the end of an error message about detections in the form of another tool; "" for another one."""
    images = list(content.values()) if isinstance(content, Mapping) else content
    if not isinstance(images, list):
        return ""
    if images is content and _has_rows(images[:1], *_COLUMNS_OF_SINK.split(",")):
        return _remedy_of_sink(images[0], "json.load(file)")
    if _has_rows(content, "data", "predictions"):
        return f", of Label Studio; {_OF_TASKS.format('predictions')}"
    for form, (line, keys) in _KEYS_OF_DETECTIONS.items():
        if _are_detections(content, keys):
            return f", of {form}, for images in files that are named like them: {line.format(images=_FILES)}"
        if any(_are_detections(image, keys) for image in images[:_NUM_ROWS]):
            remedy = line.format(images="json.load(file).items()")
            return f", of {form}; {_WITHOUT_NAMES if images is content else remedy}"
    return ""


def _are_detections(image: Any, keys: Sequence[str]) -> bool:
    """Return whether detections of an image have some keys."""
    return _has_rows(image.get("predictions") if isinstance(image, Mapping) else image, *keys)


def _remedy_of_sink(columns: Iterable[str], rows: str) -> str:
    """Return the end of an error message about detections of supervision, given their keys and how they are read."""
    keys = dict.fromkeys(columns)
    key = "image_id" if "image_id" in keys else similar_key("image_id", keys)
    remedy = _OF_SINK.format(key=key, rows=rows) if key else "call `sink.append(detections, {'image': name})`"
    return f", of supervision; {remedy}"


def _remedy_of_rows(content: Any) -> str:
    """Return the line that converts results in another arrangement than a list; "" for an unknown one."""
    if isinstance(content, list):
        is_by_image = any(_has_rows(rows, "image_id") for rows in content)
        return _LISTED.format("[row for rows in json.load(file) for row in rows]") if is_by_image else ""
    if not isinstance(content, Mapping):
        return ""
    if "image_id" in content:  # columns, or the only line of a file
        return _TABLE.format("pandas.read_json(path)") if isinstance(content["image_id"], dict) else _LINES
    lists = [key for key, rows in content.items() if _has_rows(rows, "image_id")]
    if lists and "images" in content:  # a data set, whose ids are those of its own images and categories
        return _RENAMED.format(lists[0])
    if lists and len(content) > 1 and all(isinstance(rows, list) for rows in content.values()):
        return _LISTED.format("[row for rows in json.load(file).values() for row in rows]")
    return _LISTED.format(f"json.load(file)[{lists[0]!r}]") if len(lists) == 1 else ""


def remedy_of_data_set(content: Any) -> str:
    """Return the end of an error message about JSON in the place of a data set: its form."""
    form = _form_of(content)
    return f", of {form}; {CONVERSIONS[form]}" if form else ""


def remedy_of_json(path: Path) -> str:
    """Return the end of an error message about a file, or a folder of files: its form, if it is JSON of a known one."""
    with suppress(OSError, ValueError, RecursionError):
        if path.is_dir():
            return remedy_of_results(read_json(min(path.glob("*.json"))))
        return remedy_of_data_set(read_json(path))
    return ""


def _form_of(content: Any) -> str:
    """Return the form of JSON by its keys; "" for an unknown form."""
    for form, keys in _KEYS_OF_ROWS.items():
        if _has_rows(content, *keys):
            return form
    if not isinstance(content, Mapping):
        return ""
    if "dm_format_version" in content:
        return "datumaro"
    if content.keys() == {"classes", "labels"}:
        return "FiftyOne"
    if "imagePath" in content:
        return "LabelMe"
    by_image = content.get("_via_img_metadata", content)
    is_via = isinstance(by_image, Mapping) and _has_rows(list(by_image.values()), "filename", "regions")
    return "VIA" if is_via else ""


def _has_rows(rows: Any, *keys: str) -> bool:
    """Return whether one of the first values of a list is an object that has some keys."""
    if not isinstance(rows, list):
        return False
    return any(isinstance(row, dict) and all(key in row for key in keys) for row in rows[:_NUM_ROWS])
