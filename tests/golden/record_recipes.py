"""Draws the problems of `recipes.npz`, and records what code that pages replace gives for them, with all its arguments.

    git clone https://github.com/damo-cv/TransReID && git -C TransReID checkout dec5504
    git clone https://github.com/layumi/Person_reID_baseline_pytorch layumi && git -C layumi checkout 82ff40f
    git clone https://github.com/serizba/salad && git -C salad checkout e593005
    git clone https://github.com/amaralibey/OpenVPRLab && git -C OpenVPRLab checkout 517be0c
    python record_recipes.py TransReID layumi salad OpenVPRLab recipes.npz

TransReID ranks again in float16; its code was run in float32, too. layumi's script moves tensors to a GPU, which is
left out. Both functions for places call `numpy.in1d`, which NumPy 2.4 no longer has, and got `numpy.isin`. Needs faiss.
"""

import ast
import contextlib
import io
import itertools
import sys
import tempfile
from pathlib import Path
from unittest import mock

import faiss
import numpy as np
import scipy.io
import torch

QUERIES, GALLERY, PEOPLE, LENGTH = 24, 70, 9, 6
CUTOFFS = [1, 5, 10]


def drawn_problem(rng):
    """Features and labels of people, several images of each query, and descriptors of places with positives."""
    identities = np.concatenate([np.arange(QUERIES) % PEOPLE, rng.integers(0, PEOPLE, GALLERY)])
    identities[0] = 99  # a query without a positive
    features = rng.normal(size=(100, LENGTH))[identities] + 1.5 * rng.normal(size=(len(identities), LENGTH))
    images = np.concatenate([np.arange(QUERIES), rng.integers(0, QUERIES, 40)])  # some queries have several
    positives = rng.random((QUERIES, GALLERY)) < 0.03
    return {
        "features": features.astype(np.float32),
        "identities": identities,
        "cameras": rng.integers(0, 4, len(identities)),
        "images": images,
        "image_features": (features[images] + rng.normal(size=(len(images), LENGTH))).astype(np.float32),
        "positives": positives,
    }


def transreid(folder, problem, **arguments):
    """CMC and mAP of `R1_mAP_eval`."""
    sys.path.insert(0, folder)
    from utils.metrics import R1_mAP_eval  # noqa: PLC0415 - of the clone

    evaluator = R1_mAP_eval(QUERIES, **arguments)
    evaluator.reset()
    evaluator.update((torch.from_numpy(problem["features"]), problem["identities"], problem["cameras"]))
    curve, mean_precision, *_ = evaluator.compute()
    return np.append(curve, mean_precision)


def layumi(folder, problem):
    """The eight numbers that `evaluate_gpu.py` prints, of single and of several images of a query."""
    sides = {"query": slice(QUERIES), "gallery": slice(QUERIES, None)}
    names = {"f": "features", "label": "identities", "cam": "cameras"}
    single = {f"{side}_{end}": problem[name][part] for side, part in sides.items() for end, name in names.items()}
    several = {"mquery_f": problem["image_features"]}
    several |= {f"mquery_{end}": problem[names[end]][problem["images"]] for end in ("label", "cam")}
    source = Path(folder, "evaluate_gpu.py").read_text(encoding="utf-8").replace(".cuda()", "")
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        scipy.io.savemat("pytorch_result.mat", single)
        scipy.io.savemat("multi_query.mat", several)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(source, "evaluate_gpu", "exec"), {})  # noqa: S102 - of the code base that is named above
    lines = [line for line in printed.getvalue().splitlines() if "Rank@1" in line]
    return [[float(word.partition(":")[2]) for word in line.split() if ":" in word] for line in lines]


def function_of(path, name):
    """One function of a file, and nothing else that it does."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    scope = {"np": np, "faiss": faiss}
    exec(compile(tree, path, "exec"), scope)  # noqa: S102 - of the code bases that are named above
    return scope[name]


def places(salad, lab, problem):
    """Recalls of both functions, and the positions that the first one returns for a test."""
    recalls = function_of(Path(salad, "utils", "validation.py"), "get_validation_recalls")
    performance = function_of(Path(lab, "src", "utils", "metrics.py"), "compute_recall_performance")
    query, gallery = np.split(problem["features"], [QUERIES])
    positives = [np.flatnonzero(row) for row in problem["positives"]]
    silent = {"print_results": False, "dataset_name": "drawn", "faiss_gpu": False}
    with mock.patch.object(np, "in1d", np.isin, create=True), mock.patch.dict(sys.modules, prettytable=mock.Mock()):
        of_salad = recalls(gallery, query, CUTOFFS, positives, **silent)
        positions = recalls(gallery, query, CUTOFFS, None, testing=True, **silent)
        of_lab = performance(np.concatenate([gallery, query]), GALLERY, QUERIES, positives, CUTOFFS)
    return {"salad": list(of_salad.values()), "salad_testing": positions, "openvprlab": list(of_lab.values())}


def main():
    """Record the numbers of all code bases."""
    reid, baseline, salad, lab, written = sys.argv[1:]
    problem = drawn_problem(np.random.default_rng(0))
    outputs = {"transreid_float16": transreid(reid, problem, feat_norm=True, reranking=True)}
    with mock.patch.object(np, "float16", np.float32):
        for feat_norm, reranking in itertools.product((False, True), repeat=2):
            values = transreid(reid, problem, feat_norm=feat_norm, reranking=reranking)
            outputs[f"transreid_{feat_norm}_{reranking}"] = values
    outputs |= {"layumi": layumi(baseline, problem), **places(salad, lab, problem)}
    np.savez_compressed(written, **problem, **outputs)


if __name__ == "__main__":
    main()
