"""`evaluate` takes what `read_samples` returns: the embeddings and labels of all shards."""

import numpy as np
import pytest
import torch

from reid_torchmetrics import evaluate
from reid_torchmetrics.data import read_samples

NUM_SHARDS, ROWS = 11, 4


@pytest.fixture
def samples(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    query, gallery = rng.normal(size=(6, 3)), rng.normal(size=(NUM_SHARDS * ROWS, 3))
    labels = [rng.integers(0, 3, len(side)) for side in (query, gallery)]
    positions = [rng.uniform(0, 9, (len(side), 2)) for side in (query, gallery)]
    np.savez("query.npz", feat=query, pids=labels[0], xy=positions[0])
    for shard, rows in enumerate(np.split(np.arange(len(gallery)), NUM_SHARDS)):
        np.savez(f"gallery-{shard}.npz", feat=gallery[rows], pids=labels[1][rows], xy=positions[1][rows])
        np.save(f"plain-{shard}.npy", gallery[rows])
    return query, gallery, *labels, *positions


def test_all_shards_and_their_labels_are_evaluated(samples):
    query, gallery, *labels = samples
    expected = evaluate(query, gallery, *labels[:2]).means
    assert evaluate(read_samples("query.npz"), read_samples("gallery-*.npz")).means == expected
    found = evaluate(torch.from_numpy(query), read_samples("plain-*.npy"), *labels[:2])
    assert found.means == expected
    near = {"radius": 2.0, "query_positions": labels[2], "gallery_positions": labels[3]}
    of_files = evaluate(read_samples("query.npz"), read_samples("gallery-*.npz"), radius=2.0)
    assert of_files.means == evaluate(query, gallery, *labels[:2], **near).means


def test_groups_of_queries_in_files_decide_nothing(samples):
    query, gallery, *labels = samples
    groups = labels[1] * 10 + np.arange(len(gallery)) % 2
    for role, side, identities in (("query", query, labels[0]), ("gallery", gallery, labels[1])):
        np.savez(f"{role}.npz", feat=side, pids=identities, groups=groups[: len(side)])
    expected = evaluate(query, gallery, *labels[:2], gallery_groups=groups).means
    assert evaluate(read_samples("query.npz"), read_samples("gallery.npz")).means == expected


def test_leave_one_out_takes_files(samples):
    _, gallery, _, identities, *_ = samples
    expected = evaluate(gallery, query_identities=identities).means
    assert evaluate(read_samples("gallery-*.npz")).means == expected


def test_a_label_comes_once(samples):
    *_, identities, _, _ = samples
    with pytest.raises(ValueError, match="`gallery_identities` must come once; got it, and `identities` in the files"):
        evaluate(read_samples("query.npz"), read_samples("gallery-*.npz"), gallery_identities=identities)
