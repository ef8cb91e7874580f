"""Files that are not there or may not be read, at every door."""

import os
import re

import pytest

from reid_torchmetrics import DetectionMAP, LvisMAP
from reid_torchmetrics.coco import COCO
from reid_torchmetrics.data import read_ground_truth, read_labels, read_pairs, read_retrieved, read_samples
from reid_torchmetrics.functional.detection import DetectionResults
from reid_torchmetrics.functional.retrieval import RetrievalResults
from reid_torchmetrics.tasks import Comparison

READERS = {
    "read_labels.csv": read_labels,
    "read_labels.parquet": read_labels,
    "read_labels.npy": read_labels,
    "read_samples.npz": read_samples,
    "read_samples.pt": read_samples,
    "read_samples.safetensors": read_samples,
    "read_samples.mat": read_samples,
    "read_pairs.csv": read_pairs,
    "read_retrieved.run": read_retrieved,
    "read_retrieved.npy": read_retrieved,
    "read_retrieved.json": read_retrieved,
    "read_ground_truth.qrels": read_ground_truth,
    "read_ground_truth.json": read_ground_truth,
    "read_ground_truth.npy": read_ground_truth,
    "read_ground_truth.pkl": read_ground_truth,
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
