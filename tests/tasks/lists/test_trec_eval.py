"""Runs with near ties, unjudged items and unknown queries have the numbers of trec_eval, recorded and drawn."""

import json
from random import Random

import pytest

from reid_torchmetrics.tasks import evaluate_lists
from tests.golden.coco_cases import FOLDER

PROBLEMS = json.loads((FOLDER / "trec_eval.json").read_text(encoding="utf-8"))
EVERYTHING = 1_000_000  # a cutoff beyond every list
NAMES = {"map": "map", "bpref": "bpref", "recip_rank": "mrr", "Rprec": "r_precision", "ndcg": f"ndcg_{EVERYTHING}"}
NAMES |= {"recall_3": "recall_3"}
for k in (1, 3, 5):
    NAMES |= {f"P_{k}": f"precision_{k}", f"ndcg_cut_{k}": f"ndcg_{k}"}


def values_of(run, qrels):
    """Values of each query that both have, as pytrec_eval returns them."""
    options = {"missing_queries": "skip", "unknown_queries": "skip"}
    results = evaluate_lists(run, qrels, reports=[*NAMES.values()], **options)
    columns = {name: results.per_query[report] for name, report in NAMES.items()}
    columns |= {"map_cut_3": evaluate_lists(run, qrels, k=3, **options).per_query["map"]}
    rows = zip(*(values.nan_to_num().tolist() for values in columns.values()), strict=True)
    return {query: dict(zip(columns, row, strict=True)) for query, row in zip(results.query_names, rows, strict=True)}


def assert_same(ours, theirs):
    assert ours.keys() == theirs.keys()
    for query, values in theirs.items():
        assert ours[query] == pytest.approx(values, abs=1e-12), query


@pytest.mark.parametrize("problem", PROBLEMS, ids=map(str, range(len(PROBLEMS))))
def test_a_recorded_problem_has_the_numbers_of_trec_eval(problem):
    assert_same(values_of(problem["run"], problem["qrels"]), problem["values"])


def test_a_thousand_drawn_runs_have_the_numbers_of_trec_eval():
    pytrec_eval = pytest.importorskip("pytrec_eval")
    random, items = Random(0), [f"d{number}" for number in range(30)]  # noqa: S311 - no secret
    kinds = (
        lambda: 0.7 + random.randrange(5) * 1e-8,  # the eighth digit
        lambda: 2.0**24 + random.randrange(4),
        lambda: random.choice([1e39, 2e39, 3e38, -1e39, -2e39, 1e-46, 0.0, -0.0]),
        random.random,
    )
    run, qrels = {}, {}
    for query in map("q{}".format, range(1_000)):
        kind = random.choice(kinds)
        if random.random() < 0.95:
            run[query] = {item: kind() for item in random.sample(items, random.randint(0, 25))}
        if random.random() < 0.95:
            grades = {item: random.choice([-2, -1, 0, 0, 0, 1, 1, 2, 3]) for item in random.sample(items, 12)}
            qrels[query] = grades | {random.choice(items): 0}  # with negative grades alone it reads beyond an array
    measures = {"map", "bpref", "recip_rank", "Rprec", "ndcg", "recall.3", "P.1,3,5", "ndcg_cut.1,3,5", "map_cut.3"}
    assert_same(values_of(run, qrels), pytrec_eval.RelevanceEvaluator(qrels, measures).evaluate(run))
