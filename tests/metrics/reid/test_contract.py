"""What every metric class keeps to, those of users included."""

import pickle
from copy import deepcopy

import pytest
import torch

from reid_torchmetrics import GalleryDraw, KReciprocal, ReIDCMC, ReIDMeanAP, ReIDMeasure, ReIDMetrics
from tests.metrics.reid.samples import CLASSES, batches, expected, fed, reference_of

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
def test_reset_forgets_and_a_second_epoch_is_like_the_first(name):
    metric = fed(CLASSES[name](), batches())
    value = metric.compute()
    metric.reset()
    assert not metric.embeddings
    assert same(fed(metric, batches()).compute(), value)


COPIES = (deepcopy, lambda metric: metric.clone(), lambda metric: pickle.loads(pickle.dumps(metric)))


@pytest.mark.parametrize(
    ("name", "copy"), [*((name, deepcopy) for name in CLASSES), *(("own", copy) for copy in COPIES[1:])]
)
def test_copies_hold_the_samples_and_go_their_own_way(name, copy):
    given = batches()
    metric = fed(CLASSES[name](), given[:5])
    twin = copy(metric)
    assert same(fed(twin, given[5:]).compute(), fed(CLASSES[name](), given).compute())
    assert len(metric.embeddings) == 5


@EVERY_CLASS
def test_a_persistent_state_survives_a_checkpoint(name):
    metric = fed(CLASSES[name](), batches())
    assert metric.state_dict() == {}
    metric.persistent(mode=True)
    restored = CLASSES[name]()
    restored.persistent(mode=True)
    restored.load_state_dict(metric.state_dict())
    restored.update(**batches()[0])  # so that the base class does not warn of a metric without update
    restored.embeddings.pop(), restored.identities.pop(), restored.roles.pop(), restored.cameras.pop()
    assert same(restored.compute(), metric.compute())


@EVERY_CLASS
def test_merging_adds_samples_and_an_empty_metric_adds_none(name):
    given = batches()
    metric, other = fed(CLASSES[name](), given[:3]), fed(CLASSES[name](), given[3:])
    metric.merge_state(other)
    metric.merge_state(CLASSES[name]())
    assert same(metric.compute(), fed(CLASSES[name](), given).compute())
    assert len(other.embeddings) == len(given) - 3


@EVERY_CLASS
def test_forward_gives_the_value_of_the_batch_and_keeps_it(name):
    given = batches()
    mixed = {key: torch.cat([given[0][key], given[3][key]]) for key in ("embeddings", "identities", "cameras")}
    mixed["is_query"] = torch.arange(len(mixed["identities"])) < len(given[0]["identities"])
    metric = CLASSES[name]()
    value = metric(**mixed)
    assert same(value, fed(CLASSES[name](), [given[0], given[3]]).compute())
    metric(**given[1])
    assert same(metric.compute(), fed(CLASSES[name](), [given[0], given[3], given[1]]).compute())


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


@EVERY_CLASS
def test_inference_mode_changes_nothing(name):
    with torch.inference_mode():
        value = fed(CLASSES[name](), batches()).compute()
    assert same(value, fed(CLASSES[name](), batches()).compute())


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
