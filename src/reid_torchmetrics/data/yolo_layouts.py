"""What the numbers in lines of YOLO's files are: boxes, polygons, corners of rotated boxes, or boxes with keypoints.

The layout is found for all lines of both folders together, as a single line may have several meanings: 8 numbers are
four corners of a rotated box, a polygon, or a box with two keypoints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from .yolo_lines import Line, are_shares

NUM_BOX = 4
"""numbers of a box: center, width and height"""
_NUM_CORNERS = 8  # numbers of four corners
_MIN_POLYGON = 6  # numbers of three corners
_MIN_SHARE_INSIDE = 0.9  # of the keypoints that lie in their box
_TOLERANCE = 0.01  # how far keypoints may leave their box, a share of the image
_SLANT = 0.05  # difference of opposite edges, and from the axes, as a share of the extent: corners are often pixels
_MIN_TRACK = 2  # a coordinate may be 1, so ids of polygons are told from coordinates by one that is larger

Kind = Literal["polygons", "corners", "pose"]


@dataclass(frozen=True)
class Layout:
    """The numbers of the shape in a line."""

    kind: Kind
    description: str
    """for messages"""
    may_be_box: bool = False
    """whether a box may stand in place of the shape"""
    num_keypoints: int = 0
    label_width: int = 0
    """numbers of a keypoint in a ground truth, 2 or 3"""
    result_width: int = 0
    """numbers of a keypoint in a detection, 2 or 3"""

    def allows(self, size: int, *, is_result: bool) -> bool:
        """Return whether a shape may have `size` numbers."""
        if size == NUM_BOX and self.may_be_box:
            return True
        if self.kind == "polygons":
            return size >= _MIN_POLYGON and size % 2 == 0
        if self.kind == "corners":
            return size == _NUM_CORNERS
        width = self.result_width if is_result else self.label_width
        return self.num_keypoints > 0 and size == NUM_BOX + self.num_keypoints * width

    def width(self, *, is_result: bool) -> int:
        """Numbers of a keypoint."""
        return self.result_width if is_result else self.label_width


BOXES = Layout(kind="polygons", description="a box or polygon", may_be_box=True)
POLYGONS = Layout(kind="polygons", description="a polygon")
CORNERS = Layout(kind="corners", description="x and y of four corners")
KEYPOINTS = Layout(kind="pose", description="a box and keypoints of 2 or 3 numbers, as many in each line,")


def sizes_by_length(lines: Sequence[Line], layout: Layout, *, is_result: bool) -> dict[int, int | None]:
    """Return how many numbers of a line are the shape, by how many it has; None if they do not fit the layout.

    In results a confidence follows, and perhaps a tracking id: a whole number in all lines that are one number longer.
    """
    has_ids = is_result and _have_ids(lines, layout)
    by_length: dict[int, int | None] = {}
    for length in {len(line.numbers) for line in lines}:
        by_length[length] = _shape_size(length, layout, is_result=is_result, has_ids=has_ids)
    return by_length


def _shape_size(length: int, layout: Layout, *, is_result: bool, has_ids: bool) -> int | None:
    """Return how many of the numbers of a line are the shape; None if their number is not allowed."""
    candidates = [length]
    if is_result:
        candidates = [length - 1, length - 2] if has_ids else [length - 1]
    for size in candidates:
        if layout.allows(size, is_result=is_result):
            return size
    return None


def fits(labels: Sequence[Line], results: Sequence[Line], layout: Layout) -> bool:
    """Return whether all lines fit a layout."""
    label_sizes = sizes_by_length(labels, layout, is_result=False).values()
    result_sizes = sizes_by_length(results, layout, is_result=True).values()
    return None not in label_sizes and None not in result_sizes


def find_layout(labels: Sequence[Line], results: Sequence[Line], iou_type: str | None) -> Layout | None:
    """Return the layout of all lines; None if some line does not fit.

    Args:
        labels: the lines of ground truths.
        results: the lines of detections.
        iou_type: what is read; None infers it.

    Raises:
        ValueError: `iou_type` is None and the lines may be of several kinds.
    """
    if not labels and not results:
        return KEYPOINTS if iou_type == "keypoints" else BOXES
    if iou_type == "keypoints":
        return find_pose(labels, results, needs_box=False)
    layout = {"segm": POLYGONS, "rotated": CORNERS}.get(iou_type or "", BOXES)
    is_fitting = fits(labels, results, layout)
    if layout is not BOXES:
        return layout if is_fitting else None
    pose = find_pose(labels, results, needs_box=True)
    sizes = _sizes(labels, results, layout) if is_fitting else set()
    if sizes in ({_MIN_POLYGON}, {_NUM_CORNERS}):
        # Few numbers can be many things.
        return _layout_of_few(labels, results, pose) if iou_type is None else BOXES
    if pose is not None:
        return pose
    return BOXES if is_fitting else None


def find_pose(labels: Sequence[Line], results: Sequence[Line], *, needs_box: bool) -> Layout | None:
    """Return the layout of boxes with keypoints; None if lines do not fit.

    Args:
        labels: the lines of ground truths.
        results: the lines of detections.
        needs_box: whether the keypoints must lie in their boxes, which tells them from polygons; lines with a box
            alone are allowed then.
    """
    poses = [
        layout for layout in _pose_candidates(labels, results, may_be_box=needs_box) if fits(labels, results, layout)
    ]
    with_boxes = [layout for layout in poses if _are_in_boxes(labels, results, layout)]
    if with_boxes or needs_box:
        return with_boxes[0] if with_boxes else None
    return poses[0] if poses else None


def usual_layout(labels: Sequence[Line], results: Sequence[Line], iou_type: str | None) -> Layout:
    """Return the layout that most lines have, to name the first line of another."""
    if iou_type in ("segm", "rotated"):
        return POLYGONS if iou_type == "segm" else CORNERS
    usual_labels, usual_results = _of_usual_size(labels), _of_usual_size(results)
    needs_box = iou_type != "keypoints"
    pose = find_pose(usual_labels, usual_results, needs_box=needs_box)
    if pose is None:
        pose = find_pose(usual_labels, [], needs_box=needs_box)
    if pose is not None:
        return pose
    return BOXES if needs_box else KEYPOINTS


def first_fault(labels: Sequence[Line], results: Sequence[Line], layout: Layout) -> ValueError:
    """Return the error for the first line that does not fit a layout: its rule, the line and its numbers."""
    for argument, lines in (("labels", labels), ("results", results)):
        is_result = argument == "results"
        sizes = sizes_by_length(lines, layout, is_result=is_result)
        for line in lines:
            if sizes[len(line.numbers)] is None:
                rule = f"a class, {layout.description}{' and a confidence' * is_result}"
                hint = _hint(line, layout, is_result=is_result)
                got = f"{line} with {len(line.numbers)} numbers behind the class"
                return ValueError(f"`{argument}` must have {rule} in a line; got {got}{hint}.")
    return ValueError("`labels` and `results` must have lines of one kind; got several.")


def _hint(line: Line, layout: Layout, *, is_result: bool) -> str:
    """Say why a line may have the wrong number of words."""
    size = len(line.numbers)
    hint = ""
    if is_result and layout.allows(size, is_result=True):
        hint += "; Ultralytics writes confidences with `save_conf=True`"
    if is_result and layout.allows(size - 2, is_result=True):
        hint += "; a tracking id may follow the confidence if it is a whole number in all such lines"
    if layout is BOXES and size - is_result > NUM_BOX and (size - is_result - NUM_BOX) % 3 == 0:
        hint += "; iou_type='keypoints' reads boxes and keypoints, also those that do not lie in their boxes"
    return hint


def _have_ids(results: Sequence[Line], layout: Layout) -> bool:
    """Return whether all lines that are too long for a shape and a confidence end with a tracking id."""
    lengths = set()
    for length in {len(line.numbers) for line in results}:
        is_shape = layout.allows(length - 1, is_result=True)
        if not is_shape and layout.allows(length - 2, is_result=True):
            lengths.add(length)
    lines = [line for line in results if len(line.numbers) in lengths] if lengths else []
    words = [line.last_word for line in lines]
    if not all(word.isdecimal() for word in words):
        return False
    pairs = zip(lines, words, strict=True)
    return any(len(line.numbers) - 2 == NUM_BOX or int(word) >= _MIN_TRACK for line, word in pairs)


def _sizes(labels: Sequence[Line], results: Sequence[Line], layout: Layout) -> set[int | None]:
    label_sizes = sizes_by_length(labels, layout, is_result=False)
    result_sizes = sizes_by_length(results, layout, is_result=True)
    return set(label_sizes.values()) | set(result_sizes.values())


def _layout_of_few(labels: Sequence[Line], results: Sequence[Line], pose: Layout | None) -> Layout:
    """Return the layout where all shapes have 6 or all have 8 numbers.

    Raises:
        ValueError: they may be several things.
    """
    shapes = [line.numbers[:_NUM_CORNERS] for line in (*labels, *results)]
    first = (*labels, *results)[0]
    is_four_corners = fits(labels, results, CORNERS)
    if not is_four_corners and pose is None:
        return BOXES
    if is_four_corners and pose is None and _are_rotated(shapes):
        return CORNERS
    candidates = ["'segm' for polygons", "'bbox' for the boxes around them"]
    if is_four_corners:
        candidates.insert(0, "'rotated' for four corners of rotated boxes")
    if pose is not None:
        candidates.insert(0, "'keypoints' for a box and keypoints")
    *others, last = candidates
    names = f"{', '.join(others)} or {last}"
    raise ValueError(f"`iou_type` must be given where lines may be several things: {names}; got None for {first}.")


def _are_rotated(shapes: Sequence[Sequence[float]]) -> bool:
    """Return whether four corners are parallelograms, as rotated boxes are in shares, and one is not along the axes."""
    is_any_slanted = False
    for x1, y1, x2, y2, x3, y3, x4, y4 in shapes:
        extents = max(x1, x2, x3, x4) - min(x1, x2, x3, x4), max(y1, y2, y3, y4) - min(y1, y2, y3, y4)
        tolerance = _SLANT * max(extents)
        if max(abs(x1 - x2 + x3 - x4), abs(y1 - y2 + y3 - y4)) > tolerance:
            return False
        along_axes = min(abs(x1 - x2), abs(y1 - y2)), min(abs(x2 - x3), abs(y2 - y3))
        is_any_slanted |= max(along_axes) > tolerance
    return is_any_slanted


def _pose_candidates(labels: Sequence[Line], results: Sequence[Line], *, may_be_box: bool) -> list[Layout]:
    """Return the layouts of boxes with keypoints that a line with keypoints may have; three numbers come first."""
    sizes = {len(line.numbers) for line in labels} - ({NUM_BOX} if may_be_box else set())
    is_result = not sizes
    if is_result:
        sizes = {len(line.numbers) - 1 for line in results} - ({NUM_BOX} if may_be_box else set())
        if len(sizes) == 2 and max(sizes) - min(sizes) == 1:
            sizes = {min(sizes)}
    if len(sizes) != 1:
        return []
    (size,) = sizes
    candidates = []
    for width in (3, 2):
        number, rest = divmod(size - NUM_BOX, width)
        if number < 1 or rest:
            continue
        pose = Layout(
            kind="pose",
            description=f"a box and {number} keypoints",
            may_be_box=may_be_box,
            num_keypoints=number,
            label_width=width,
            result_width=width,
        )
        other_width = 2 if width == 3 else 3
        mixed = replace(pose, label_width=other_width) if is_result else replace(pose, result_width=other_width)
        candidates.append(pose)
        candidates.append(mixed)
    return candidates


def _are_in_boxes(labels: Sequence[Line], results: Sequence[Line], layout: Layout) -> bool:
    """Return whether lines begin with a box in the image that holds the keypoints that follow; few may leave it."""
    is_result = all(len(line.numbers) == NUM_BOX for line in labels)
    lines = results if is_result else labels
    width = layout.width(is_result=is_result)
    num_inside = num_points = 0
    for line in lines:
        x, y, box_width, box_height = line.numbers[:NUM_BOX]
        if box_width <= 0 or box_height <= 0:
            return False
        left, right = x - box_width / 2, x + box_width / 2
        top, bottom = y - box_height / 2, y + box_height / 2
        if not are_shares([left, top, right, bottom]):
            return False
        # Behind a box alone there are at most a confidence and a tracking id.
        has_points = len(line.numbers) > NUM_BOX + 2 * is_result
        points = line.numbers[NUM_BOX : NUM_BOX + layout.num_keypoints * width] if has_points else []
        if width == 3 and not _are_visibilities(points[2::3], is_result=is_result):
            return False
        for px, py in zip(points[::width], points[1::width], strict=True):
            if px == py == 0:  # not labeled
                continue
            num_points += 1
            is_in_columns = left - _TOLERANCE <= px <= right + _TOLERANCE
            num_inside += is_in_columns and top - _TOLERANCE <= py <= bottom + _TOLERANCE
    return num_inside >= _MIN_SHARE_INSIDE * num_points


def _are_visibilities(numbers: Sequence[float], *, is_result: bool) -> bool:
    """Return whether numbers are visibilities of ground truths, or confidences of detected keypoints."""
    if is_result and are_shares(numbers):
        return True
    return all(number in (0, 1, 2) for number in numbers)


def _of_usual_size(lines: Sequence[Line]) -> list[Line]:
    """Return the lines with the most common number of numbers."""
    if not lines:
        return []
    counts = Counter(len(line.numbers) for line in lines)
    ((size, _),) = counts.most_common(1)
    return [line for line in lines if len(line.numbers) == size]
