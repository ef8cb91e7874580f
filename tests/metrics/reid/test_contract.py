"""What every metric class keeps to, those of users included."""

import pytest
import torch

from reid_torchmetrics import GalleryDraw, KReciprocal, ReIDCMC, ReIDMeanAP, ReIDMeasure, ReIDMetrics
from tests.metrics.held_samples import check_held_samples
from tests.metrics.reid.samples import CLASSES, batches, expected, fed, mixed, reference_of

EVERY_CLASS = pytest.mark.parametrize("name", CLASSES)


def same(first, second) -> bool:
    return torch.allclose(first, second, rtol=0, atol=1e-7, equal_nan=True)


@pytest.mark.parametrize(("name", "max_bytes"), [*((name, 2000) for name in CLASSES), ("map", 10**8)])
def test_the_value_is_that_of_the_slow_reference(name, max_bytes):
    given = batches()
    value = fed(CLASSES[name](max_bytes=max_bytes), given).compute()
    assert value.reshape(-1).tolist() == pytest.approx(expected(name, reference_of(given)), abs=1e-6)


@EVERY_CLASS
def test_batch_size_and_order_of_batches_change_nothing(name):
    value = fed(CLASSES[name](), batches()).compute()
    assert same(fed(CLASSES[name](), batches(size=1)).compute(), value)
    assert same(fed(CLASSES[name](), batches(size=1000)).compute(), value)
    assert same(fed(CLASSES[name](), batches()[::-1]).compute(), value)


@EVERY_CLASS
def test_samples_are_held_until_a_reset(name):
    check_held_samples(CLASSES[name], mixed(batches()), same)


@EVERY_CLASS
def test_integers_are_never_cast_and_floats_only_by_set_dtype(name):
    metric = CLASSES[name]()
    given = batches()
    given[-1]["identities"][:] = 70001
    fed(metric, given)
    metric.half()
    assert metric.embeddings[0].dtype == torch.float32
    metric.set_dtype(torch.float16)
    assert metric.embeddings[0].dtype == torch.float16
    assert metric.identities[-1].tolist() == [70001] * len(metric.identities[-1])
    assert {block.dtype for block in metric.identities + metric.cameras} == {torch.int64}
    assert metric.set_dtype(torch.float64).compute().dtype == torch.float64


@EVERY_CLASS
def test_compute_on_cpu_keeps_states_where_they_are(name):
    metric = fed(CLASSES[name](compute_on_cpu=True), batches())
    metric.to("meta")  # Lightning does this at every log
    assert {block.device.type for block in metric.embeddings} == {"cpu"}


class Holder(torch.nn.Module):
    """A network that holds a metric, as a LightningModule does."""

    def __init__(self, held: torch.nn.Module) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)
        self.held = held

    def forward(self, values):
        return self.layer(values)


class WithProperty(ReIDMeanAP):
    """A user's class with a property that no script can have."""

    @property
    def options(self):
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}


SCRIPTED = {
    "map": ReIDMeanAP,
    "property": WithProperty,
    "own": CLASSES["own"],
    "collection": ReIDMetrics,
    "leave-one-out": lambda: ReIDMetrics(protocol="cub200"),
    "measure": lambda: ReIDMeasure("precision_10"),
    "function": lambda: ReIDMeanAP(similarity=lambda query, gallery: query @ gallery.T),
    "re-ranked": lambda: ReIDMeanAP(rerank=KReciprocal(k1=5, k2=2)),
    "drawn": lambda: ReIDCMC(gallery_draw=GalleryDraw(1, "identity")),
    "options": lambda: ReIDCMC(3, mode="all_shots", camera_map={1: 0}, search_cameras=(0, 1), compute_on_cpu=True),
}


@pytest.mark.sampled
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of `torch.jit.script` itself
@pytest.mark.parametrize("name", SCRIPTED)
@pytest.mark.slow
def test_a_module_that_holds_a_metric_is_scripted_before_and_after_it_was_used(name):
    module, values = Holder(SCRIPTED[name]()), torch.ones(1, 2)
    given = [batch | ({"is_query": None} if name == "leave-one-out" else {}) for batch in batches()]
    for use in (lambda: None, lambda: fed(module.held, given), module.held.compute, module.held.reset):
        use()
        if name in ("map", "collection") or use == module.held.compute:  # the others have other attributes at most
            assert torch.equal(torch.jit.script(module)(values), module(values))
