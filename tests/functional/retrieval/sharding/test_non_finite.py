"""Why there is no result where embeddings are not finite: numbers of all processes, names of the first."""

import pytest

from reid_torchmetrics.functional.retrieval.sharding.samples import why_undefined

FINITE = [50, 0, 0, 0, 0, 0, 0, 0, 0]
BAD = [20, 3, 1, 2, 4, 7, 9, 0, 0]  # 3 of 20, 1 of queries and 2 of gallery items, at these


def test_samples_are_named_by_their_process_where_there_are_several():
    for table, name in (
        ([BAD], "samples"),
        ([FINITE, BAD], "samples of process 1"),
        ([BAD, BAD], "samples of process 0"),
    ):
        assert f"first at {name} [4, 7, 9])" in why_undefined(table, has_index=False)
        assert "first at `index` [4, 7, 9])" in why_undefined(table, has_index=True)


@pytest.mark.parametrize(
    ("table", "has_index", "said"),
    [
        ([FINITE], False, None),
        ([BAD], False, "3 of 20 embeddings are NaN or infinite (1 of queries, 2 of gallery items; first at samples"),
        ([BAD], True, "3 of 20 embeddings are NaN or infinite (1 of queries, 2 of gallery items; first at `index`"),
        (
            [FINITE, BAD],
            False,
            "3 of 70 embeddings are NaN or infinite (1 of queries, 2 of gallery items; first at samples of process 1",
        ),
    ],
)
def test_embeddings_that_are_not_finite_are_reported_once_for_all_processes(table, has_index, said):
    text = why_undefined(table, has_index=has_index)
    assert text == (said and f"{said} [4, 7, 9]), so the result is NaN.")
