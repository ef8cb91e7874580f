"""What one process refuses, or has otherwise than the others, is an error on all in the same words; then they go on.

`test_settings.py` has the options of all metrics, and `test_asked_for.py` different methods.
"""

import contextlib
from collections.abc import Callable
from functools import partial
from unittest import mock

import torch
from torch import Tensor, linalg

from reid_torchmetrics import DetectionMAP, EmbeddingQuality, PairVerification, ReIDMeanAP, ReIDMetrics, ReIDMINP
from reid_torchmetrics.functional.detection import evaluate_images
from reid_torchmetrics.functional.detection.evaluation import sharded_images
from reid_torchmetrics.metrics.base import DistributedWorld
from reid_torchmetrics.tasks.metrics import embedding_quality
from tests import executed_shapes
from tests.distributed.failures import message_of, out_of_memory
from tests.functional.detection.detection_samples import fed as fed_images
from tests.functional.detection.detection_samples import images, named
from tests.metrics.reid.samples import batches, fed
from tests.profiles import each_row

Ask = Callable[[], object]
EYE, LABELS = torch.eye(9), torch.arange(9)
IS_QUERY = LABELS < 3


def nan_similarity(query, gallery):
    return torch.full((len(query), len(gallery)), torch.nan)


def in_directions(process: int) -> ReIDMetrics:
    """A collection for two directions, which refuses the batch of process 1."""
    metrics = ReIDMetrics(directions=("t2i", "i2t"))
    with contextlib.suppress(ValueError):
        metrics.update(EYE, LABELS, is_query=None if process else IS_QUERY)
    return metrics


class Longer(ReIDMeanAP):
    """Has an attribute that the package's own classes derive from an option."""

    def __init__(self, longest: int) -> None:
        super().__init__()
        self.longest = longest


def of_batches(metric: ReIDMeanAP, process: int, change: Callable[[dict], dict] | None = None) -> Ask:
    """Ask for the value of every other batch; process 1 changes those that it has."""
    given = batches()[process::2]
    if process and change is not None:
        given = [batch | change(batch) for batch in given]
    return fed(metric, given).compute


def of_rows(process: int, ours: dict, *, theirs: dict, embeddings: Tensor = EYE, **options: object) -> Ask:
    """Ask for the value of rows with labels, which are others on process 1; it may refuse them."""
    metric = ReIDMeanAP(**options)
    with contextlib.suppress(ValueError):
        metric.update(embeddings, **{"is_query": IS_QUERY} | ours | (theirs if process else {}))
    return metric.compute


of_positions = partial(of_rows, ours={"positions": EYE[:, :2]}, protocol="pitts30k")
of_sides = partial(of_rows, ours={"identities": LABELS, "labels": {"side": LABELS}}, must_agree=("side",))
of_several = partial(of_rows, similarity="dot")


def in_memory() -> ReIDMeanAP:
    metric = ReIDMeanAP()
    metric.update(torch.eye(3), torch.tensor([1, 1, 2]))
    return metric


def of_pairs(process: int, *, index: bool = True, refused: bool = False) -> Ask:
    metric, first = PairVerification(), torch.arange(40.0).reshape(20, 2).cos()
    own = torch.arange(process, 20, 2)
    metric.update(first[own], first[own].flip(0), own % 3 == 0, index=own if index else None)
    if refused:
        with contextlib.suppress(ValueError):
            metric.update(torch.ones(2, 3), torch.ones(2, 4), torch.tensor([True, False]))

    def compute() -> object:
        try:
            return metric.compute()
        except ValueError as error:  # which both raise as it is
            return error

    return compute


def of_quality(*blocks: Tensor, measures: tuple[str, ...] = ("rankme", "alignment", "uniformity")) -> EmbeddingQuality:
    """A metric that is merged from those of some blocks."""
    merged = EmbeddingQuality(measures)
    for block in blocks:
        metric = EmbeddingQuality(measures)
        metric.update(block, torch.arange(len(block)) // 2)
        merged.merge_state(metric)
    return merged


def refuses_samples(process: int) -> Ask:
    metric = EmbeddingQuality(("alignment",))
    with contextlib.suppress(ValueError):
        metric.update(EYE, None if process else LABELS)
    return metric.compute


def fails(process: int, work: Ask, *place: object) -> Ask:
    """Do some work, in which a function of process 1 runs out of memory."""

    def ask() -> object:
        with out_of_memory(*place) if process else mock.MagicMock():
            return work()

    return ask


def of_images(process: int, *, with_ids: bool = True, limits: tuple[int, ...] = (1, 10, 100)) -> DetectionMAP:
    metric = DetectionMAP()
    metric.max_detection_thresholds[:] = limits
    return fed_images(metric, *(side[process::2] for side in images(5, 7, with_ids=with_ids)))


def boxes_of(process: int, image: object) -> Ask:
    """Ask for the boxes of images; a user has no annotations executed before the checks."""
    executed_shapes.execute(0)
    metric = of_images(process) if isinstance(image, list) and 1 in image else DetectionMAP()
    if not metric.update_called:
        preds, target = images(5, 7)
        fed_images(metric, preds, named(target, list("abcdefg")))
    return lambda: metric.boxes_of(image)


def by_function(process: int, **options: object) -> Ask:
    preds, target = images(5, 7, with_ids=True)
    missing = options.pop("missing", 0)
    return lambda: evaluate_images(
        preds, target[missing:], world=DistributedWorld(None, torch.device("cpu")), **options
    )


SAME = "All processes must have the same"
SAME_METHOD = "All processes must call the same method of the same class"
CASES: dict[str, tuple[str, Callable[[int], Ask]]] = {
    "similarity": (
        f"{SAME} `similarity`; got process 0: 'cosine'; process 1: '{__name__}.nan_similarity'.",
        lambda process: of_batches(ReIDMeanAP(similarity=nan_similarity if process else "cosine"), process),
    ),
    "class": (
        f"{SAME_METHOD}; got process 0: `ReIDMeanAP.compute`; process 1: `ReIDMINP.compute`.",
        lambda process: of_batches(ReIDMINP() if process else ReIDMeanAP(), process),
    ),
    "two options": (
        f"{SAME} `k` and `ties`; got process 0: k=None, ties='stable'; process 1: k=5, ties='pessimistic'.",
        lambda process: of_batches(ReIDMeanAP(k=5) if process else ReIDMeanAP(ties="stable"), process),
    ),
    "an attribute of a subclass": (
        f"{SAME} `longest`; got process 0: 1; process 1: 7.",
        lambda process: of_batches(Longer(1 + 6 * process), process),
    ),
    "dimension": (
        f"{SAME} embedding dimension; got process 0: 6; process 1: 4.",
        lambda process: of_batches(ReIDMeanAP(), process, lambda batch: {"embeddings": batch["embeddings"][:, :4]}),
    ),
    "cameras": (
        f"{SAME} use of `cameras`; got process 0: given; process 1: not given.",
        lambda process: of_batches(ReIDMeanAP(), process, lambda _: {"cameras": None}),
    ),
    "index": (
        f"{SAME} use of `index`; got process 0: not given; process 1: given.",
        lambda process: of_batches(
            ReIDMeanAP(), process, lambda batch: {"index": torch.arange(len(batch["cameras"])) + id(batch)}
        ),
    ),
    "positions on some processes": (
        "process 1: ValueError: `positions` must be given for `radius` 25.0; got none.",
        lambda process: of_positions(process, theirs={"positions": None, "identities": LABELS}),
    ),
    "columns of positions": (
        f"{SAME} use of `positions`; got process 0: 2 columns; process 1: given.",
        lambda process: of_positions(process, theirs={"positions": EYE[:, :1]}),
    ),
    "positions that are not finite": (
        "process 1: ValueError: `positions` must be finite; got 9 rows with NaN or infinity, first [",
        lambda process: of_positions(process, theirs={"positions": EYE[:, :2] / 0}),
    ),
    "other positions of the same index": (
        "`index` must be the number of a sample in its data set, the same only for repetitions",
        lambda process: of_rows(
            process,
            {"positions": EYE[:, :2], "index": LABELS},
            theirs={"positions": EYE[:, 1:3]},
            protocol="pitts30k",
        ),
    ),
    "other clothes of the same index": (
        "`index` must be the number of a sample in its data set, the same only for repetitions",
        lambda process: of_rows(
            process, {"identities": LABELS, "index": LABELS, "clothes": LABELS}, theirs={"clothes": LABELS + 1}
        ),
    ),
    "another number of labels": (
        f"{SAME} number of labels in `identities`",
        lambda process: of_several(process, {"identities": EYE.bool()}, theirs={"identities": EYE[:, :8].bool()}),
    ),
    "one label and several": (
        f"{SAME} number of labels in `identities`",
        lambda process: of_several(process, {"identities": EYE.bool()}, theirs={"identities": LABELS}),
    ),
    "other labels of the same index": (
        "`index` must be the number of a sample in its data set",
        lambda process: of_several(
            process,
            {"identities": EYE.bool(), "index": LABELS},
            theirs={"identities": EYE.bool().roll(1, 0)},
        ),
    ),
    "names and integers": (
        f"{SAME} kind of `labels['side']`; got process 0: integers; process 1: names.",
        lambda process: of_sides(process, theirs={"labels": {"side": list("abcdefghi")}}),
    ),
    "a label that no rule names": (
        "process 1: ValueError: `labels` must hold 'side', which `must_agree` names; got 'sid'.",
        lambda process: of_sides(process, theirs={"labels": {"sid": LABELS}}),
    ),
    "rules of labels": (
        f"{SAME} `must_agree` and `must_differ`; got process 0: must_agree=('side',), must_differ=(); process 1:",
        lambda process: of_rows(
            process,
            {"identities": LABELS, "labels": {"side": LABELS}},
            theirs={},
            **{"must_differ" if process else "must_agree": ("side",)},
        ),
    ),
    "k": (f"{SAME} `k`; got process 0: 2; process 1: 3.", lambda process: partial(in_memory().nearest, 2 + process)),
    "a wrong k": (
        "process 1: ValueError: `k` must be at least 1; got 0.",
        lambda process: partial(in_memory().nearest, 1 - process),
    ),
    "queries": (
        f"{SAME} `queries`; got process 0: [0]; process 1: [1].",
        lambda process: partial(in_memory().nearest, 2, torch.tensor([process])),
    ),
    "nearest": (
        f"{SAME} `nearest`; got process 0: 0; process 1: 1.",
        lambda process: partial(in_memory().results, nearest=process),
    ),
    "lists and values": (
        f"{SAME_METHOD}; got process 0: `ReIDMeanAP.compute`; process 1: `ReIDMeanAP.nearest`.",
        lambda process: partial(in_memory().nearest, 2) if process else in_memory().compute,
    ),
    "threshold": (
        f"{SAME} `threshold`; got process 0: 0.5; process 1: 0.75.",
        lambda process: partial(in_memory().duplicates, 0.5 + process / 4),
    ),
    "a wrong threshold": (
        "process 1: ValueError: `threshold` must lie in [-1, 1] under 'cosine'; got 2.0.",
        lambda process: partial(in_memory().duplicates, 2.0 * process),
    ),
    "index of some pairs": (
        "no error but `index` must be given for all samples or for none; got it for 10 of 20.",
        lambda process: of_pairs(process, index=not process),
    ),
    "sides of pairs": (
        "process 1: ValueError: `second` must have the shape of `first`, [2, 3]; got [2, 4].",
        lambda process: of_pairs(process, refused=bool(process)),
    ),
    "identities for alignment": (
        "process 1: ValueError: `identities` must be given for the measure 'alignment'; got none.",
        refuses_samples,
    ),
    "dimension of embeddings to look at": (
        f"{SAME} embedding dimension; got process 0: 2; process 1: 3.",
        lambda process: of_quality(EYE[:, : 2 + process]).compute,
    ),
    "dimensions of merged metrics": (
        "process 1: ValueError: `embeddings` must all have the same dimension; got 2, 3.",
        lambda process: of_quality(EYE[:, :2], EYE[:, : 2 + process]).compute,
    ),
    **{
        f"memory of {place[1]}": (
            "process 1: OutOfMemoryError: simulated",
            lambda process, place=place: fails(process, of_quality(torch.randn(20, 4)).compute, *place),
        )
        for place in ((embedding_quality, "_sum_by_identity"), (linalg, "eigvalsh"), (Tensor, "exp_"))
    },
    "memory behind an exchange": (
        "process 1: OutOfMemoryError: simulated",
        lambda process: fails(process, by_function(process, boxes=True), sharded_images, "merge_image_matches"),
    ),
    "an option that was changed later": (
        f"{SAME} `max_detection_thresholds`; got process 0: [1, 10, 100]; process 1: [1, 10, 50].",
        lambda process: of_images(process, limits=(1, 10, 50 if process else 100)).compute,
    ),
    "ids of images": (
        f"{SAME} use of `image_id`; got process 0: given; process 1: not given.",
        lambda process: of_images(process, with_ids=not process).compute,
    ),
    "boxes in results": (
        f"{SAME} `boxes`; got process 0: True; process 1: False.",
        lambda process: partial(of_images(process).results, boxes=not process),
    ),
    "boxes by the function": (
        f"{SAME} `boxes`; got process 0: True; process 1: False.",
        lambda process: by_function(process, boxes=not process),
    ),
    "roles with directions": (
        "process 1: ValueError: `is_query` must be given with `directions`",
        lambda process: in_directions(process).compute,
    ),
    "number of images": (
        "process 1: ValueError: Expected argument `preds` and `target`",
        lambda process: by_function(process, missing=process),
    ),
    "a name for all classes": (
        "process 1: TypeError: `class_names` must",
        lambda process: by_function(process, class_names="cats" if process else None),
    ),
    "one name for two classes": (
        "process 1: ValueError: `class_names` must",
        lambda process: by_function(process, class_names={0: "cat", 1: "cat"} if process else None),
    ),
    "images": (f"{SAME} `image`; got process 0: [1]; process 1: [1, 2].", lambda p: boxes_of(p, [1, 2][: 1 + p])),
    "names of images": (
        f"{SAME} `image`; got process 0: ['a']; process 1: ['ab'].",
        lambda process: boxes_of(process, ["ab" if process else "a"]),
    ),
    "a name for images": (
        "process 0: TypeError: `image` must hold integers or be a list of names; got str.",
        lambda process: boxes_of(process, ["a"] if process else "a"),
    ),
    "no image": (
        "process 1: TypeError: `image` must hold integers or be a list of names; got a list with int.",
        lambda process: boxes_of(process, [1, None] if process else [1]),
    ),
}
"""for each case the begin of the message, and what a process asks for"""


def said(process: int, size: int, case: str) -> str:
    return message_of(CASES[case][1](process))


@each_row("case", CASES)
def test_what_one_process_refuses_or_has_otherwise_is_an_error_on_all(processes, case):
    texts = processes.run(2, said, case)
    assert texts[0] == texts[1]
    assert CASES[case][0] in texts[0]
