"""The cost of vector indexes, in real engines: recall, points lost and the picture."""

import sys
from importlib import import_module

import numpy as np
import pytest
import torch

from reid_torchmetrics import evaluate

pytest.importorskip("faiss", reason="faiss is not installed")
pytest.importorskip("lancedb", reason="LanceDB is not installed")
pytest.importorskip("matplotlib")
index_cost = pytest.importorskip("index_cost")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
NAMES = ["faiss flat", "faiss IVF", "faiss HNSW", "faiss IVF-PQ", "LanceDB IVF-PQ", "LanceDB IVF-PQ, refine 5"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Embeddings of people in clusters, with identities and cameras."""
    folder = tmp_path_factory.mktemp("embeddings")
    rng = np.random.default_rng(0)
    people = rng.normal(size=(60, 32))
    for role, number in (("query", 120), ("gallery", 900)):
        identities = np.arange(number) % 60
        embeddings = (people[identities] + rng.normal(size=(number, 32))).astype(np.float32)
        np.savez(folder / role, embeddings=embeddings, identities=identities, cameras=np.arange(number) % 7)
    return [folder / "query.npz", folder / "gallery.npz"]


@pytest.fixture(scope="module")
def measured(files, tmp_path_factory):
    """What the script computes and prints for the files."""
    found = {}
    table = index_cost.table

    def keep(comparison, costs, k):
        found.update(comparison=comparison, costs=costs, lines=table(comparison, costs, k))
        return found["lines"]

    found["output"] = tmp_path_factory.mktemp("output")
    with pytest.MonkeyPatch.context() as patch:
        words = [*map(str, files), "--k", "40", "--output", str(found["output"])]
        patch.setattr(sys, "argv", ["index_cost.py", *words])
        patch.setattr(index_cost, "table", keep)
        index_cost.main()
    return found


def test_every_index_is_measured_and_an_exact_one_has_all_neighbors(measured):
    recalls = {name: cost.recall.mean for name, cost in measured["costs"].items()}
    assert list(recalls) == NAMES
    assert recalls["faiss flat"] == 1
    assert recalls["faiss IVF-PQ"] < recalls["faiss HNSW"] <= 1
    assert recalls["LanceDB IVF-PQ"] < recalls["LanceDB IVF-PQ, refine 5"]


def test_exact_search_has_the_numbers_of_evaluate_cut_at_k(measured, files):
    query, gallery = index_cost.read_files(files)
    labels = [query.identities, gallery.identities, query.cameras, gallery.cameras]
    exact = evaluate(query.embeddings, gallery.embeddings, *labels)
    pair = measured["comparison"].by_name["faiss flat"]
    assert pair.cutoff == 40
    assert pair.differences["rank_1"].mean_a == exact["rank_1"]
    assert pair.differences["map"].mean_a <= exact["map"]
    # The first item after those of the same camera is in the list of an exact index, too.
    assert pair.differences["rank_1"].difference == pytest.approx(0, abs=0.02)


def test_the_table_has_a_row_for_exact_search_and_for_each_index(measured):
    heading, exact, *rows = measured["lines"]
    assert heading.split() == ["recall@10", "Rank-1", "mAP@40", "mAP", "lost", "95%", "interval", "queries/s"]
    assert exact.startswith("exact search")
    assert [row[:26].strip() for row in rows] == NAMES
    assert (measured["output"] / "index_cost.png").read_bytes().startswith(b"\x89PNG")


def test_lists_of_lancedb_hold_positions_in_the_gallery_and_the_nearest_first(files, tmp_path):
    query, gallery = index_cost.read_files(files)
    search = index_cost.build_indexes(gallery.embeddings.numpy(), str(tmp_path))["LanceDB IVF-PQ, refine 5"]
    items = torch.from_numpy(search(query.embeddings.numpy()[:5], 10))
    assert items.min() >= 0
    scores = query.embeddings[:5] @ gallery.embeddings.T
    listed = scores.gather(1, items)
    assert bool((listed[:, 1:] <= listed[:, :-1] + 1e-5).all())


def test_the_script_wants_two_files_or_none(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["index_cost.py", "query.npz"])
    with pytest.raises(SystemExit):
        index_cost.parse_options()
    assert "give a file of the queries and one of the gallery, or none" in capsys.readouterr().err


def test_drawn_pedestrians_are_embedded_with_their_labels(monkeypatch):
    for name, value in (("NUM_TRAIN_IDENTITIES", 4), ("NUM_TEST_IDENTITIES", 3), ("NUM_EPOCHS", 1)):
        monkeypatch.setattr(index_cost, name, value)
    query, gallery = import_module("index_cost").embed_pedestrians(0)
    for samples in (query, gallery):
        assert len(samples.embeddings) == len(samples.identities) == len(samples.cameras)
        torch.testing.assert_close(samples.embeddings.norm(dim=1), torch.ones(len(samples.embeddings)))
    assert set(query.identities.tolist()) <= set(gallery.identities.tolist())
