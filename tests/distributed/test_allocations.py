"""A process that runs out of memory at any moment whatever is an error on all processes, and they go on in step."""

import pytest

from tests.distributed.allocations import CASES, Outcome, fail
from tests.profiles import of_each

SAID = {
    "DistributedMetricError: process 1: OutOfMemoryError: simulated",
    "DistributedMetricError: process 1: no memory for messages to the others",
}


@pytest.mark.parametrize("case", of_each(CASES))
def test_an_allocation_that_fails_on_one_process_is_an_error_on_all(processes, case):
    for *tried, last in processes.run(2, fail, case, 1, False):
        assert len(tried) > 20
        assert {outcome.num_raised for outcome in tried} == {2}
        assert {outcome.message for outcome in tried} == SAID
        assert last == Outcome(num_raised=0, num_failed=0, message="")
