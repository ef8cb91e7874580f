"""The devices that the tests of this room run on: a simulated one, and a GPU where there is one."""

import os
from collections.abc import Iterator

import pytest
import torch

from reid_torchmetrics.functional.retrieval.scores import products
from tests import profiles
from tests.device import simulated_device

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # products are deterministic only with it

_CAN_BE_SIMULATED = pytest.mark.skipif(
    simulated_device.MISSING is not None, reason=f"this PyTorch has {simulated_device.MISSING}"
)
_SIMULATED = pytest.param("sim", marks=_CAN_BE_SIMULATED)
_MODES = [_SIMULATED, *profiles.of_each([pytest.param("sim without float64", marks=_CAN_BE_SIMULATED)], suite=0)]
_GPUS = ["cuda"] if torch.cuda.is_available() else []


@pytest.fixture(params=[*_MODES, *_GPUS])
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    """Every device besides the CPU; a nightly run has the simulated one in both modes."""
    name, _, mode = request.param.partition(" ")
    if name == "sim":
        simulated_device.install()
    simulated_device.has_float64 = not mode
    yield name
    simulated_device.has_float64 = True


@pytest.fixture(params=[_SIMULATED, *_GPUS])
def full_device(request: pytest.FixtureRequest) -> str:
    """Those with float64; what lies on others is on the CPU as soon as it is given."""
    if request.param == "sim":
        simulated_device.install()
    return request.param


@pytest.fixture(params=[_SIMULATED])
def simulated(request: pytest.FixtureRequest) -> str:
    """The device that counts what waits for it."""
    simulated_device.install()
    return request.param


@pytest.fixture
def simulated_gpu(simulated: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The same with the products of a GPU, which have large blocks."""
    monkeypatch.delitem(products._SHAPES, simulated)
    return simulated


@pytest.fixture
def deterministic() -> Iterator[None]:
    """Refuse what adds up in an order that differs between runs."""
    torch.use_deterministic_algorithms(mode=True)
    yield
    torch.use_deterministic_algorithms(mode=False)
