"""Claims: from files to mAP a TREC run takes little longer than by pytrec_eval, and YOLO's boxes than by a NumPy loop.

    python benchmarks/reader_speed.py [PART ...]     # of trec, yolo

trec: a run of 1,000 queries with 1,000 items each, 1,000,000 lines, and 50 judged items for each query. yolo: 5,000
files of ground truths and 5,000 files of detections, ten boxes in each; the loop is that of Ultralytics, an array of
split lines for each file, in float32 and without checks. The times are of the CPU, with one thread. pytrec_eval may
not be installed: pip install --group bench.
"""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch

from harness.claims import compare, interleaved, is_there, main
from reid_torchmetrics.data import read_ground_truth, read_retrieved, read_yolo
from reid_torchmetrics.tasks import evaluate_lists

NUM_QUERIES = LENGTH = 1000
NUM_ITEMS, NUM_JUDGED = 5000, 50
NUM_FILES, NUM_BOXES, WIDTH, HEIGHT = 5000, 10, 640, 480
ROUNDS = 5


def write_lists(folder: Path) -> tuple[Path, Path]:
    """Write a run and its judgements."""
    random = np.random.default_rng(0)
    run, judgements = folder / "run.txt", folder / "qrels.txt"
    with run.open("w", encoding="utf-8") as file:
        for query in range(NUM_QUERIES):
            items = random.permutation(NUM_ITEMS)[:LENGTH].tolist()
            scores = (np.sort(random.random(LENGTH))[::-1] * 50).tolist()
            rows = zip(items, scores, strict=True)
            file.writelines(f"{query} Q0 d{item} {rank} {score:.6f} t\n" for rank, (item, score) in enumerate(rows, 1))
    with judgements.open("w", encoding="utf-8") as file:
        for query in range(NUM_QUERIES):
            items = random.permutation(NUM_ITEMS)[:NUM_JUDGED].tolist()
            file.writelines(f"{query} 0 d{item} 1\n" for item in items)
    return run, judgements


def trec() -> None:
    """Mean average precision of a run in files."""
    if not is_there("pytrec_eval"):
        return
    import pytrec_eval  # noqa: PLC0415

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        run, judgements = write_lists(Path(folder))

        def ours() -> float:
            return float(evaluate_lists(read_retrieved(run), read_ground_truth(judgements))["map"])

        def peer() -> float:
            with judgements.open(encoding="utf-8") as file:
                truth = pytrec_eval.parse_qrel(file)
            with run.open(encoding="utf-8") as file:
                lists = pytrec_eval.parse_run(file)
            rows = pytrec_eval.RelevanceEvaluator(truth, {"map"}).evaluate(lists)
            return float(np.mean([row["map"] for row in rows.values()]))

        np.testing.assert_allclose(ours(), peer(), rtol=1e-12)
        seconds = interleaved({"ours": ours, "pytrec_eval": peer}, ROUNDS, time.process_time)
    text = (
        "A TREC run of 1,000,000 lines takes little longer from its file to mAP than by pytrec_eval, with one thread."
    )
    compare(text, seconds["ours"], seconds["pytrec_eval"], 1.2)


def write_boxes(folder: Path) -> tuple[Path, Path]:
    """Write ground truths and detections."""
    random = np.random.default_rng(0)
    labels, results = folder / "labels", folder / "results"
    labels.mkdir()
    results.mkdir()
    for number in range(NUM_FILES):
        classes = random.integers(0, 80, NUM_BOXES).tolist()
        shares = random.uniform(0.1, 0.9, (NUM_BOXES, 4)).tolist()
        boxes = [
            f"{label} " + " ".join(f"{share:.6f}" for share in box) for label, box in zip(classes, shares, strict=True)
        ]
        (labels / f"{number:06}.txt").write_text("".join(f"{box}\n" for box in boxes), encoding="utf-8")
        (results / f"{number:06}.txt").write_text("".join(f"{box} 0.5\n" for box in boxes), encoding="utf-8")
    return labels, results


def read_by_loop(labels: Path, results: Path) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Read the classes and the corners, in pixels, of each file."""
    size = np.array([WIDTH, HEIGHT, WIDTH, HEIGHT], np.float32)
    files = []
    for folder in (labels, results):
        for path in sorted(folder.iterdir()):
            with path.open(encoding="utf-8") as file:
                rows = np.array([line.split() for line in file.read().strip().splitlines() if line], np.float32)
            pixels = rows[:, 1:5] * size
            halves = pixels[:, 2:] / 2
            corners = np.concatenate([pixels[:, :2] - halves, pixels[:, :2] + halves], axis=1)
            files.append((torch.from_numpy(rows[:, 0]).long(), torch.from_numpy(corners)))
    return files


def yolo() -> None:
    """Boxes in text files."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        labels, results = write_boxes(Path(folder))
        ours = partial(read_yolo, labels, results, image_sizes=(WIDTH, HEIGHT))
        peer = partial(read_by_loop, labels, results)
        _, ground_truths = ours()
        for ground_truth, (_, corners) in zip(ground_truths, peer(), strict=False):
            torch.testing.assert_close(ground_truth["boxes"].float(), corners, rtol=0, atol=1e-3)
        seconds = interleaved({"ours": ours, "a loop": peer}, ROUNDS, time.process_time)
    text = "YOLO's boxes in 2 x 5,000 files are read in little more time than by a NumPy loop, with one thread."
    compare(text, seconds["ours"], seconds["a loop"], 1.3)


if __name__ == "__main__":
    main(trec, yolo)
