"""Measure the cost of a vector index: its recall, the measures of re-identification beside exact search, and its speed.

    pip install faiss-cpu lancedb
    python examples/index_cost.py                          # drawn pedestrians: nothing to download, half a minute
    python examples/index_cost.py query.npz gallery.npz    # embeddings, identities and cameras in files

An index knows no cameras: it returns k items, and those of the query's person and camera are removed afterwards. Exact
search removes them first, and is cut after k items. So even an exact index loses a little, which a larger k wins back.
The picture shows recall and mAP against the time of a query.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import faiss
import lancedb
import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import torch
from lancedb.index import IvfPq
from torch import Tensor
from torch.nn import functional

from reid.embedding_network import EmbeddingNetwork, augment, batch_hard_triplet_loss
from reid.pedestrians import draw_pedestrians
from reid.person_dataset import IdentitySampler, PersonDataset
from reid_torchmetrics import compare, evaluate, evaluate_lists, index_recall
from reid_torchmetrics.data import read_samples

if TYPE_CHECKING:
    from collections.abc import Callable

    from reid_torchmetrics.tasks import Comparison, IndexRecall

    Search = Callable[[np.ndarray, int], np.ndarray]
    """returns the positions of k items for each query, -1 for nothing"""

PROTOCOL = "market1501"
NUM_TRAIN_IDENTITIES = 50
NUM_TEST_IDENTITIES = 200
NUM_EPOCHS = 6
LEAST_POINTS_PER_CLUSTER = 39  # faiss warns below
LEAST_ROWS_PER_PARTITION = 256  # LanceDB warns below


class Samples(NamedTuple):
    """Embeddings of length 1, and their labels."""

    embeddings: Tensor
    identities: Tensor
    cameras: Tensor


class Cost(NamedTuple):
    """The measurements of one index."""

    recall: IndexRecall
    seconds_per_query: float


def main() -> None:
    """Measure all indexes, print a table, and save the picture."""
    options = parse_options()
    torch.manual_seed(options.seed)
    query, gallery = read_files(options.files) if options.files else embed_pedestrians(options.seed)
    labels = {
        "query_identities": query.identities,
        "gallery_identities": gallery.identities,
        "query_cameras": query.cameras,
        "gallery_cameras": gallery.cameras,
    }
    models = {"exact search": evaluate(query.embeddings, gallery.embeddings, **labels, protocol=PROTOCOL)}
    costs: dict[str, Cost] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, search in build_indexes(gallery.embeddings.numpy(), folder).items():
            start = time.perf_counter()
            items = search(query.embeddings.numpy(), options.k)
            seconds = time.perf_counter() - start
            # Many indexes search more thoroughly if they return more: recall@10 is that of lists of 10.
            recall = index_recall(search(query.embeddings.numpy(), 10), query.embeddings, gallery.embeddings, k=10)
            costs[name] = Cost(recall, seconds / len(items))
            models[name] = evaluate_lists(items, **labels, protocol=PROTOCOL)
    comparison = compare(models, per_identity=True)
    print(
        f"{len(query.identities):,} queries, {len(gallery.identities):,} gallery items; each index returns {options.k}"
    )
    print("\n".join(table(comparison, costs, options.k)))
    options.output.mkdir(parents=True, exist_ok=True)
    draw(comparison, costs, options.k).savefig(options.output / "index_cost.png", dpi=150)
    print(f"\nPicture: {options.output / 'index_cost.png'}")


def read_files(paths: list[Path]) -> tuple[Samples, Samples]:
    """Read the queries and the gallery."""
    samples = []
    for role, path in zip(("query", "gallery"), paths, strict=True):
        (file,) = read_samples(path, role=role)
        labels = (torch.from_numpy(np.asarray(file.labels[name])) for name in ("identities", "cameras"))
        samples.append(Samples(unit(torch.as_tensor(file.embeddings[:])), *labels))
    query, gallery = samples
    return query, gallery


def embed_pedestrians(seed: int) -> tuple[Samples, Samples]:
    """Draw pedestrians, train a network on some of them, and embed the others."""
    splits = draw_pedestrians(NUM_TRAIN_IDENTITIES, NUM_TEST_IDENTITIES, seed=seed)
    network = train(splits.train, seed)
    return embed(network, splits.query), embed(network, splits.gallery)


def train(dataset: PersonDataset, seed: int) -> EmbeddingNetwork:
    """Train a network as `lightning_module.py` does, without Lightning."""
    identities = dataset.identities.unique()
    network = EmbeddingNetwork(len(identities))
    sampler = IdentitySampler(dataset, seed=seed)
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3, weight_decay=5e-4)
    num_steps = NUM_EPOCHS * len(sampler)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=num_steps)
    for _ in range(NUM_EPOCHS):
        for numbers in sampler:
            images = torch.stack([dataset.picture(number) for number in numbers])
            labels = torch.searchsorted(identities, dataset.identities[numbers])
            features = network.features(augment(images))
            logits = network.classify(network.neck(features))
            loss = functional.cross_entropy(logits, labels, label_smoothing=0.1)
            loss = loss + batch_hard_triplet_loss(features, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return network.eval()


@torch.inference_mode()
def embed(network: EmbeddingNetwork, dataset: PersonDataset) -> Samples:
    """Embed all pictures of a data set."""
    parts = []
    for numbers in torch.arange(len(dataset)).split(256):
        images = torch.stack([dataset.picture(number) for number in numbers.tolist()])
        parts.append(network(images))
    return Samples(unit(torch.cat(parts)), dataset.identities, dataset.cameras)


def unit(embeddings: Tensor) -> Tensor:
    """Divide embeddings by their norms, so that inner products are cosines."""
    return functional.normalize(embeddings.float())


def build_indexes(gallery: np.ndarray, folder: str) -> dict[str, Search]:
    """Build all indexes over a gallery; those of LanceDB are in a folder."""
    num_items, dimension = gallery.shape
    num_clusters = max(1, min(int(4 * num_items**0.5), num_items // LEAST_POINTS_PER_CLUSTER))
    num_bytes = max(size for size in range(1, dimension // 8 + 1) if dimension % size == 0)  # 8 dimensions in a byte
    num_probes = max(1, num_clusters // 10)
    inner_product = faiss.METRIC_INNER_PRODUCT

    hnsw = faiss.IndexHNSWFlat(dimension, 16, inner_product)
    hnsw.hnsw.efSearch = 64
    ivf = faiss.IndexIVFFlat(faiss.IndexFlatIP(dimension), dimension, num_clusters, inner_product)
    ivf.nprobe = num_probes
    ivf_pq = faiss.IndexIVFPQ(faiss.IndexFlatIP(dimension), dimension, num_clusters, num_bytes, 8, inner_product)
    ivf_pq.nprobe = num_probes
    ivf_pq.pq.cp.min_points_per_centroid = 1  # a small gallery is enough to see the loss
    indexes = {
        "faiss flat": search_faiss(faiss.IndexFlatIP(dimension), gallery),
        "faiss IVF": search_faiss(ivf, gallery),
        "faiss HNSW": search_faiss(hnsw, gallery),
        "faiss IVF-PQ": search_faiss(ivf_pq, gallery),
    }

    vectors = pa.FixedSizeListArray.from_arrays(pa.array(gallery.ravel()), dimension)
    items = pa.table({"vector": vectors, "item": np.arange(num_items)})
    lance_table = lancedb.connect(folder).create_table("gallery", items)
    num_partitions = max(1, num_items // LEAST_ROWS_PER_PARTITION)
    config = IvfPq(distance_type="cosine", num_partitions=num_partitions, num_sub_vectors=num_bytes)
    lance_table.create_index("vector", config=config)
    num_probes = max(1, num_partitions // 2)
    indexes["LanceDB IVF-PQ"] = search_lancedb(lance_table, num_probes, refine_factor=None)
    indexes["LanceDB IVF-PQ, refine 5"] = search_lancedb(lance_table, num_probes, refine_factor=5)
    return indexes


def search_faiss(index: faiss.Index, gallery: np.ndarray) -> Search:
    """Fill an index of faiss, and return its search."""
    index.train(gallery)
    index.add(gallery)

    def search(query: np.ndarray, k: int) -> np.ndarray:
        _, items = index.search(query, k)
        return items

    return search


def search_lancedb(lance_table: lancedb.table.Table, num_probes: int, refine_factor: int | None) -> Search:
    """Return the search of a table of LanceDB; with a refine factor, it compares as many times k exact vectors."""

    def search(query: np.ndarray, k: int) -> np.ndarray:
        items = np.full((len(query), k), -1)
        for row, vector in enumerate(query):
            request = lance_table.search(vector).distance_type("cosine").nprobes(num_probes).limit(k)
            if refine_factor is not None:
                request = request.refine_factor(refine_factor)
            retrieved = request.select(["item", "_distance"]).to_arrow()["item"].to_numpy()
            items[row, : len(retrieved)] = retrieved
        return items

    return search


def table(comparison: Comparison, costs: dict[str, Cost], k: int) -> list[str]:
    """Return the lines of a table with a row for exact search and for each index."""
    heading = (
        f"{'':<26}{'recall@10':>10}{'Rank-1':>8}{f'mAP@{k}':>9}{'mAP lost':>10}{'95% interval':>16}{'queries/s':>11}"
    )
    first = next(iter(comparison.by_name.values()))
    exact_map, exact_rank = first.differences["map"], first.differences["rank_1"]
    lines = [
        heading,
        f"{comparison.names[0]:<26}{'':>10}{100 * exact_rank.mean_a:>8.1f}{100 * exact_map.mean_a:>9.1f}",
    ]
    for name, pair in comparison.by_name.items():
        lost, rank = pair.differences["map"], pair.differences["rank_1"]
        cost = costs[name]
        interval = f"[{-100 * lost.high:.1f}, {-100 * lost.low:.1f}]"
        lines.append(
            f"{name:<26}{cost.recall.mean:>10.3f}{100 * rank.mean_b:>8.1f}{100 * lost.mean_b:>9.1f}"
            f"{-100 * lost.difference:>10.1f}{interval:>16}{1 / cost.seconds_per_query:>11,.0f}"
        )
    return lines


def draw(comparison: Comparison, costs: dict[str, Cost], k: int) -> plt.Figure:
    """Draw recall and mAP against the time of a query."""
    figure, (recall_axes, map_axes) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for name, cost in costs.items():
        milliseconds = 1000 * cost.seconds_per_query
        recall_axes.plot(milliseconds, 100 * cost.recall.mean, "o", label=name)
        map_axes.plot(milliseconds, 100 * comparison.by_name[name].differences["map"].mean_b, "o", label=name)
    exact = 100 * next(iter(comparison.by_name.values())).differences["map"].mean_a
    map_axes.axhline(exact, color="gray", linestyle=":", label="exact search")
    for axes, title in ((recall_axes, "Recall@10 (%)"), (map_axes, f"mAP@{k} (%)")):
        axes.set(xscale="log", xlabel="Time of a query (ms)", title=title)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.grid(alpha=0.3)
    figure.legend(*map_axes.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "files", type=Path, nargs="*", metavar="FILE", help="files of the queries and of the gallery; none: pedestrians"
    )
    parser.add_argument("--k", type=int, default=100, metavar="N", help="items that each index returns (100)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default 0")
    parser.add_argument(
        "--output", type=Path, default=Path("index_cost_output"), metavar="DIR", help="default %(default)s"
    )
    options = parser.parse_args()
    if len(options.files) not in (0, 2):
        parser.error("give a file of the queries and one of the gallery, or none")
    return options


if __name__ == "__main__":
    main()
