"""Stand-ins for the files that the pages change, where no package has them, and what makes the changes.

The files of torchreid, fast-reid and OML are changed as they are, in `test_installed_evaluators.py`.
"""

import re
import sys
from types import ModuleType

import pytest

from tests.coming_from.pages import PAGES, blocks, their_blocks

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
