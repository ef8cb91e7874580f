"""Files that are not there or may not be read, at every door."""

import os
import re

import pytest

from reid_torchmetrics import DetectionMAP, LvisMAP
from reid_torchmetrics.coco import COCO
from reid_torchmetrics.data import (
    read_ground_truth,
    read_labels,
    read_pairs,
    read_retrieved,
    read_samples,
    read_yolo_names,
)
from reid_torchmetrics.functional.detection import DetectionResults
from reid_torchmetrics.functional.retrieval import RetrievalResults
from reid_torchmetrics.tasks import Comparison

READERS = {
    **{f"read_labels.{suffix}": read_labels for suffix in ("csv", "parquet", "npy")},
    **{f"read_samples.{suffix}": read_samples for suffix in ("npz", "pt", "safetensors", "mat")},
    "read_pairs.csv": read_pairs,
    **{f"read_retrieved.{suffix}": read_retrieved for suffix in ("run", "npy", "json")},
    **{f"read_ground_truth.{suffix}": read_ground_truth for suffix in ("qrels", "json", "npy", "pkl")},
    **{f"read_yolo_names.{suffix}": read_yolo_names for suffix in ("yaml", "txt")},
    "coco_to_tm.json": lambda path: DetectionMAP.coco_to_tm(path, path),
    "read_frequencies.json": LvisMAP.read_frequencies,
    "COCO.json": COCO,
    "loadRes.json": COCO({"images": []}).loadRes,
    "RetrievalResults.npz": RetrievalResults.load,
    "DetectionResults.npz": DetectionResults.load,
    "Comparison.npz": Comparison.load,
}
OF_FOLDERS = (read_samples, read_retrieved, read_ground_truth)


@pytest.mark.parametrize("name", READERS)
def test_a_file_that_cannot_be_read_is_one_sentence(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    read, suffix = READERS[name], name.rpartition(".")[2]
    for missing in (f"no.{suffix}", f"no/no.{suffix}"):
        with pytest.raises(FileNotFoundError, match=f"^There is no file '{re.escape(missing)}'\\.$"):
            read(missing)
    if read not in OF_FOLDERS:
        (tmp_path / f"a.{suffix}").mkdir()
        with pytest.raises(IsADirectoryError, match=rf"^'a\.{suffix}' must be a file; got a folder\.$"):
            read(f"a.{suffix}")
    (tmp_path / f"b.{suffix}").touch()
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(
        PermissionError, match=rf"^'b\.{suffix}' must be a file that may be read; got one that may not\.$"
    ):
        read(f"b.{suffix}")
