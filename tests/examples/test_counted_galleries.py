"""A gallery of files that engines count in two worker processes: the numbers of the whole, also where a worker dies."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

import reid_torchmetrics
from reid_torchmetrics.functional.retrieval import evaluate, rank_positives
from reid_torchmetrics.tasks import RankCounter, evaluate_stream
from tests.stream_problems import assert_equal

pytest.importorskip("pyarrow")
parquet_gallery = pytest.importorskip("reid.parquet_gallery")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # they start processes; engines warn

ROOT = Path(__file__).parents[2]
PATHS = os.pathsep.join(map(str, (ROOT, ROOT / "examples", Path(reid_torchmetrics.__file__).parents[1])))
SPARK = {"PYTHONPATH": PATHS, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
TIMEOUT = 240  # seconds; Spark's first workers take a while
DIE_AT = ["part-1.parquet", "part-3.parquet"]


class MortalCounter(RankCounter):
    """Kills each process that is the first to count one of two files."""

    marks: Path

    def count(self, *items, key):
        if key in DIE_AT and not (mark := self.marks / key).exists():
            mark.write_text(str(os.getpid()), encoding="utf-8")
            os.kill(os.getpid(), signal.SIGKILL)
        return super().count(*items, key=key)


def make_mortal(marks, query, positives):
    counter = parquet_gallery.make_counter(query, positives)
    counter.__class__, counter.marks = MortalCounter, marks
    return counter


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("drawn")
    parquet_gallery.draw_gallery(path)
    return path


@pytest.fixture(scope="module")
def whole(folder):
    """Query and gallery in memory, as arguments of `evaluate`."""
    query = parquet_gallery.read_items(folder / "query.parquet")
    gallery = zip(*map(parquet_gallery.read_items, parquet_gallery.gallery_files(folder)), strict=True)
    pairs = zip(query, map(np.concatenate, gallery), strict=True)
    return [torch.from_numpy(each) for pair in pairs for each in pair]


@pytest.fixture(scope="module")
def ray_workers():
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    pytest.importorskip("ray.data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", PATHS)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        ray.shutdown()  # what another test has started
        ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100 << 20, logging_level="ERROR")
        yield
        ray.shutdown()


@pytest.fixture(scope="module")
def dask_workers():
    distributed = pytest.importorskip("dask.distributed", reason="Dask is not installed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        with distributed.Client(cluster):
            yield


@pytest.fixture(scope="module")
def spark_workers():
    pytest.importorskip("pyspark", reason="Spark is not installed")
    if shutil.which("java") is None:
        pytest.skip("Java is not installed")
    sql = pytest.importorskip("pyspark.sql")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SPARK.items():
            patch.setenv(name, value)
        builder = sql.SparkSession.builder.master("local[2,4]")  # two workers; a task is tried four times
        session = builder.config("spark.ui.enabled", value=False).getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        yield
        session.stop()


@pytest.fixture(params=["ray", "dask", "spark"])
def engine(request) -> Iterator[ModuleType]:
    """The example of an engine, whose workers are ready; a test that hangs is interrupted."""
    request.getfixturevalue(f"{request.param}_workers")

    def interrupt(*_):
        raise TimeoutError(f"{TIMEOUT} seconds")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(TIMEOUT)
    yield import_module(f"{request.param}_gallery")
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def check(counter, counts, whole):
    """Compare with the whole gallery in memory, to the bit."""
    assert counts.keys == {f"part-{number}.parquet" for number in range(parquet_gallery.NUM_FILES)}
    (query, gallery, query_identities, identities, query_cameras, cameras) = whole
    labels = query_identities, identities, query_cameras, cameras
    assert_equal(counter.ranks(counts), rank_positives(query, gallery, *labels))
    results, expected = evaluate_stream(counter, counts), evaluate(query, gallery, *labels)
    assert results.means == expected.means
    assert results.per_query.keys() == expected.per_query.keys()
    assert all(torch.equal(results.per_query[name], expected.per_query[name]) for name in expected.per_query)


def test_two_workers_count_what_the_whole_gallery_has(engine, folder, whole):
    check(*engine.count_gallery(folder), whole)


def test_workers_that_are_killed_and_what_is_done_again_change_nothing(engine, folder, whole, tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "make_counter", partial(make_mortal, tmp_path))
    counter, counts = engine.count_gallery(folder)
    killed = {mark.name: int(mark.read_text(encoding="utf-8")) for mark in tmp_path.iterdir()}
    assert sorted(killed) == DIE_AT
    assert len({*killed.values(), os.getpid()}) == 3
    check(counter, counts, whole)


def test_a_file_that_is_counted_twice_is_an_error(engine, folder, monkeypatch):
    files = parquet_gallery.gallery_files(folder)
    monkeypatch.setattr(engine, "gallery_files", lambda _: [*files, files[2]])
    with pytest.raises(ValueError, match=r"^`other` must have no key in common.*got 'part-2\.parquet' twice\.$"):
        engine.count_gallery(folder)


def counted(process, num_processes, folder):
    """What two processes of a group count."""
    sys.path.insert(0, str(ROOT / "examples"))
    return import_module("torchrun_gallery").count_gallery(folder)


def test_each_process_of_a_group_has_the_counts_of_all(processes, folder, whole):
    (counter, counts), (_, others) = processes.run(2, counted, folder)
    check(counter, counts, whole)
    check(counter, others, whole)


@pytest.mark.parametrize(
    ("name", "needs", "options"),
    [
        ("ray", "ray.data", ""),
        ("dask", "dask.distributed", ""),
        ("spark", "pyspark.sql", ""),
        ("torchrun", "torch.distributed.run", "-m torch.distributed.run --standalone --nproc-per-node 2"),
    ],
    ids=["ray", "dask", "spark", "torchrun"],
)
@pytest.mark.skipif(sys.platform != "linux", reason="torchrun finds its processes by the name of the host elsewhere")
def test_an_example_runs_alone_on_what_it_draws(name, needs, options, whole):
    pytest.importorskip(needs)
    if name == "spark" and shutil.which("java") is None:
        pytest.skip("Java is not installed")
    script = str(ROOT / "examples" / f"{name}_gallery.py")
    finished = subprocess.run(
        [sys.executable, *options.split(), script],
        env=os.environ | SPARK | {"RAY_USAGE_STATS_ENABLED": "0"},
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    query, gallery, *labels = whole
    assert str(evaluate(query, gallery, *labels)) in finished.stdout


@pytest.mark.parametrize("positives", [[], ["empty"], ["empty", "empty"]])
def test_a_gallery_without_an_identity_of_a_query_is_named(folder, positives):
    query = parquet_gallery.read_items(folder / "query.parquet")
    empty = parquet_gallery.Items(*(values[:0] for values in query))
    with pytest.raises(
        ValueError, match="must have an item with the identity of a query; got none in any of its files"
    ):
        parquet_gallery.make_counter(query, [empty for _ in positives])
