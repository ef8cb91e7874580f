"""Stand-ins for the files that the pages change: our words around the lines of their diffs, and what calls them."""

import re
import sys
from types import ModuleType

import pytest

from tests.coming_from.pages import PAGES, blocks, their_blocks

ENGINE = """
import torch

from torchreid import metrics


class Engine:
    def __init__(self, query, gallery):
        self.sides = query, gallery

    def test(self, **options):
        return self._evaluate(**options)

    def _evaluate(self, dist_metric="euclidean", use_metric_cuhk03=False, ranks=(1, 5, 10, 20), rerank=False):
        (qf, q_pids, q_camids), (gf, g_pids, g_camids) = self.sides
        distmat = metrics.compute_distance_matrix(qf, gf, dist_metric).numpy()

        print('Computing CMC and mAP ...')
        cmc, mAP = metrics.evaluate_rank(
            distmat,
            q_pids,
            g_pids,
            q_camids,
            g_camids,
            use_metric_cuhk03=use_metric_cuhk03
        )
        print(mAP, *(cmc[r - 1] for r in ranks))
        return cmc[0]
"""
"""calls what torchreid's engine calls, with the same arguments"""

REID_EVALUATOR = """
import numpy as np
import torch


class ReidEvaluator:
    def __init__(self, num_query, build_dist):
        self._num_query, self.build_dist, self._predictions = num_query, build_dist, []

    def process(self, inputs, outputs):
        self._predictions.append((outputs.float(), inputs["targets"], inputs["camids"]))

    def evaluate(self):
        columns = [torch.cat(parts) for parts in zip(*self._predictions)]
        (query, query_pids, query_camids), (gallery, gallery_pids, gallery_camids) = (
            [column.numpy()[part] for column in columns]
            for part in (slice(self._num_query), slice(self._num_query, None))
        )
        dist = self.build_dist(query, gallery)
        if False:
            dist = rerank_dist * (1 - lambda_value) + dist * lambda_value

        from .rank import evaluate_rank
        cmc, all_AP, all_INP = evaluate_rank(dist, query_pids, gallery_pids, query_camids, gallery_camids)

        results = {f"Rank-{r}": cmc[r - 1] * 100 for r in (1, 5, 10)}
        return results | {"mAP": np.mean(all_AP) * 100, "mINP": np.mean(all_INP) * 100}
"""
"""numbers as fast-reid's evaluator returns them, from batches of features"""

PROCESSOR = """
import torch
from utils.metrics import R1_mAP_eval


def do_inference(cfg, model, val_loader, num_query):
    evaluator = R1_mAP_eval(num_query, max_rank=50, feat_norm=cfg.TEST.FEAT_NORM, reranking=cfg.TEST.RE_RANKING)
    for _ in range(2):  # as after each epoch
        evaluator.reset()
        for img, pid, camid in val_loader:
            with torch.no_grad():
                feat = model(img)
                evaluator.update((feat, pid, camid))
    cmc, mAP, _, _, _, _, _ = evaluator.compute()
    return [f"mAP: {mAP:.1%}", *(f"CMC curve, Rank-{r:<3}:{cmc[r - 1]:.1%}" for r in [1, 5, 10])], cmc, mAP
"""
"""what the processor of TransReID, CLIP-ReID and SOLIDER-REID calls, and how it logs; labels come as tuples"""

EMBEDDING_METRICS = """
import numpy as np
import torch
from torch import FloatTensor, LongTensor


class Storage:
    def __init__(self, num_samples):
        self.storage = {"embeddings": [None] * num_samples}


class EmbeddingMetrics:
    def __init__(self, dataset, cmc_top_k=(5,), precision_top_k=(5,), map_top_k=(5,)):
        self.dataset = dataset
        self.cmc_top_k, self.precision_top_k, self.map_top_k = cmc_top_k, precision_top_k, map_top_k
        self._acc_embeddings_key, self.postprocessor = "embeddings", None

    def setup(self, num_samples=None):
        self.acc = Storage(len(self.dataset.get_labels()) if num_samples is None else num_samples)

    def update(self, embeddings, indices):
        for index, row in zip(indices, embeddings):
            self.acc.storage["embeddings"][index] = row

    def compute_metrics(self):
        self.acc.storage["embeddings"] = torch.stack(self.acc.storage["embeddings"])
        args_r = {name: getattr(self, name) for name in ("cmc_top_k", "precision_top_k", "map_top_k")}
        args_r |= {"rr": None, "reduce": False, "verbose": False}
        args_t = {"embeddings": None, "pcf_variance": (0.5,)}
        if False:
            pass

        else:
            metrics_r = calc_retrieval_metrics_rr(**args_r)  # type: ignore
            metrics_t = calc_topological_metrics(**args_t)  # type: ignore
            self.metrics_unreduced = {OVERALL_CATEGORIES_KEY: {**metrics_r, **metrics_t}}
        found = self.metrics_unreduced[OVERALL_CATEGORIES_KEY]
        return {name: {k: float(values.mean()) for k, values in by_k.items()} for name, by_k in found.items()}
"""
"""collects embeddings by their number in a data set, as OML's class, and asks one function for all measures"""

EVALUATORS = """
import torch

from .evaluation_metrics import cmc, mean_ap
from .feature_extraction import extract_cnn_feature


def evaluate_all(distmat, query_ids, gallery_ids, query_cams, gallery_cams):
    arrays = distmat, query_ids, gallery_ids, query_cams, gallery_cams
    configs = {
        "allshots": dict(separate_camera_set=False, single_gallery_shot=False, first_match_break=False),
        "cuhk03": dict(separate_camera_set=True, single_gallery_shot=True, first_match_break=False),
        "market1501": dict(separate_camera_set=False, single_gallery_shot=False, first_match_break=True),
    }
    return mean_ap(*arrays), {name: cmc(*arrays, **params) for name, params in configs.items()}
"""
"""asks for the three curves of open-reid's `evaluate_all`, by a tensor and lists"""

LIGHTNING_MODULE = """
import lightning
from reid_torchmetrics import DetectionMAP as MeanAveragePrecision


class Detection(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.mean_average_precision = MeanAveragePrecision(**OPTIONS)

    def validation_step(self, batch, batch_idx):
        preds, target = batch
        self.mean_average_precision(preds, target)

    def on_validation_epoch_end(self):
        self.log("validation/mean_average_precision", self.mean_average_precision.compute()["map"])
"""
"""calls the metric in a step, and logs one number of its dict"""


def changed(source: str, page: str) -> str:
    """A file after the change that a page shows or says; every hunk must be in it once, and count its lines right."""
    said = re.findall(r"replace\s+`([^`]+)`\s+by\s+`([^`]+)`", PAGES[page])
    for before, after in ([" ".join(text.split()) for text in pair] for pair in said):
        assert source.count(before) == 1, before
        source = source.replace(before, after)
    diff = "".join(re.findall(r"```diff\n(.*?)```", PAGES[page], flags=re.DOTALL))
    assert said or diff
    for header, hunk in re.findall(r"^@@ (.+?) @@\n(.*?)(?=^@@|\Z)", diff, flags=re.DOTALL | re.MULTILINE):
        lines = hunk.splitlines()
        before, after = ("".join(f"{line[1:]}\n" for line in lines if not line.startswith(sign)) for sign in "+-")
        sizes = [int(size) for size in re.findall(r",(\d+)", header)]
        assert sizes == [before.count("\n"), after.count("\n")], header
        assert source.count(before) == 1, before
        source = source.replace(before, after)
    return source


def saved(page: str) -> str:
    """The functions of a page and their imports, as a user saves them."""
    first, *others = blocks(page)
    return "\n".join([first.partition("\n# Made up")[0], *others])


def load(source: str, monkeypatch: pytest.MonkeyPatch, **modules: ModuleType | str) -> dict[str, object]:
    """Run a file; modules, by name or as their code, can be imported by it."""
    for name, module in modules.items():
        made = module
        if isinstance(module, str):
            made = ModuleType(name)
            exec(compile(module, name, "exec"), vars(made))  # noqa: S102 - our own text
        monkeypatch.setitem(sys.modules, name, made)
    found = {"__name__": "caller", "__package__": "caller"}
    exec(compile(source, "caller", "exec"), found)  # noqa: S102 - our own text
    return found


def script(page: str) -> str:
    """A page's functions with the lines that start them, which need files."""
    return "import os\n" + saved(page) + their_blocks(page)[-1]
