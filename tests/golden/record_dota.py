"""Draws the problems of `dota.npz`, and records what DOTA_devkit gives for them.

    git clone https://github.com/CAPTAIN-WHU/DOTA_devkit && cd DOTA_devkit
    swig -c++ -python polyiou.i && python setup.py build_ext --inplace
    NPY_DISABLE_CPU_FEATURES="X86_V3 X86_V4 AVX512_ICL AVX512_SPR" PYTHONPATH=. python record_dota.py dota.npz

DOTA_devkit sorts by NumPy's `argsort`, which keeps the order of up to 16 equal scores, but not by these instructions.
"""

import contextlib
import io
import sys
import tempfile
from pathlib import Path

import numpy as np

CLASSES, IMAGES, PROBLEMS, PAIRS = ("plane", "ship"), ("P0001", "P0002"), 1000, 400
TENTHS = 10  # of a pixel


def drawn_polygon(rng, center=None, size=None):
    """Corners of a turned rectangle, most of them moved, some in the other direction, some with a corner inside."""
    center = rng.uniform(10, 60, 2) if center is None else center
    size = rng.uniform(6, 30, 2) if size is None else size
    angle = rng.uniform(0, 2 * np.pi)
    turned = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    corners = center + (np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * size / 2) @ turned
    corners += rng.normal(0, rng.choice([0, 1]), (4, 2))
    if rng.random() < 0.06:
        corners[2] = center + 0.3 * (corners[0] - center)
    corners = corners[::-1] if rng.random() < 0.2 else corners
    return np.round(TENTHS * corners).astype(np.int16).reshape(8)


def drawn_problem(rng):
    """Rows of image, class, difficult and corners, and rows of image, class, score and corners, by image."""
    truths, found = [], []
    for image in range(len(IMAGES)):
        of_image = [(image, rng.integers(2), rng.random() < 0.2, drawn_polygon(rng)) for _ in range(rng.integers(5))]
        of_image += [of_image[0]] if of_image and rng.random() < 0.15 else []
        truths += of_image
        for _ in range(rng.integers(7)):
            score, label, polygon = rng.integers(1, 9), rng.integers(2), drawn_polygon(rng)
            kind = rng.random()
            if of_image and kind < 0.75:
                _, label, _, polygon = of_image[rng.integers(len(of_image))]
                shift = np.tile(rng.normal(0, 2, 2), 4) + rng.normal(0, 1, 8)
                polygon = (polygon + np.round(TENTHS * shift)).astype(np.int16)
            elif found and kind < 0.9:
                _, label, _, polygon = found[rng.integers(len(found))]
            found.append((image, label, score, polygon))
    return truths, found


def columns(problems, side):
    """Rows of all problems as uint16 [rows, 4], the number of the problem first, and their corners."""
    rows = [(number, *row) for number, problem in enumerate(problems) for row in problem[side]]
    numbers = np.array([row[:4] for row in rows], dtype=np.uint16)
    return numbers, np.array([row[4] for row in rows], dtype=np.int16)


def written(folder, truths, found):
    """DOTA's files; the classes with detections."""
    for number, image in enumerate(IMAGES):
        lines = ["imagesource:GoogleEarth", "gsd:0.1"]
        for of_image, label, difficult, polygon in truths:
            if of_image == number:
                lines.append(" ".join([*map(str, polygon / TENTHS), CLASSES[label], str(int(difficult))]))
        (folder / f"{image}.txt").write_text("\n".join(lines) + "\n")
    (folder / "images").write_text("\n".join(IMAGES))
    for place, label in enumerate(CLASSES):
        rows = [row for row in found if row[1] == place]
        lines = [" ".join([IMAGES[i], str(score / 8), *map(str, polygon / TENTHS)]) for i, _, score, polygon in rows]
        (folder / f"Task1_{label}").write_text("\n".join(lines))
    return {row[1] for row in found}


def recorded(evaluate, problem):
    """Average precision of each class by both rules; NaN without ground truths or without detections."""
    truths, found = problem
    values = np.full((len(CLASSES), 2), np.nan)
    with tempfile.TemporaryDirectory() as name, contextlib.redirect_stdout(io.StringIO()):
        folder = Path(name)
        for label in written(folder, truths, found) & {row[1] for row in truths if not row[2]}:
            paths = f"{folder}/Task1_{{}}", f"{folder}/{{}}.txt", f"{folder}/images", CLASSES[label]
            values[label] = [evaluate(*paths, use_07_metric=is_07)[2] for is_07 in (False, True)]
    return values


def main(path):
    from dota_evaluation_task1 import voc_eval  # noqa: PLC0415 - of a checkout, which tests do not need
    from polyiou import VectorDouble, iou_poly  # noqa: PLC0415 - likewise

    rng = np.random.default_rng(20261126)
    problems = [drawn_problem(rng) for _ in range(PROBLEMS)]
    arrays = {"average_precision": np.stack([recorded(voc_eval, problem) for problem in problems])}
    arrays |= dict(zip(("truths", "truth_corners"), columns(problems, 0), strict=True))
    arrays |= dict(zip(("found", "found_corners"), columns(problems, 1), strict=True))
    # Pairs near each other, and of corners in any order, whose edges may cross.
    center = np.array([20.0, 20.0])
    pairs = [[drawn_polygon(rng, center + rng.normal(0, 5, 2)) for _ in range(2)] for _ in range(PAIRS // 2)]
    pairs += [*rng.integers(0, 40 * TENTHS, (PAIRS // 2, 2, 8))]
    arrays["pairs"] = np.array(pairs, dtype=np.int16)
    overlaps = [iou_poly(*(VectorDouble(each) for each in pair)) for pair in arrays["pairs"] / TENTHS]
    np.savez_compressed(path, overlaps=np.array(overlaps), **arrays)


if __name__ == "__main__":
    main(sys.argv[1])
