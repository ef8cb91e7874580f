"""Pictures that were renamed: the old names of 0.1.0 work, and warn once."""

import subprocess
import sys

import pytest

from reid_torchmetrics import plot

RENAMED = {"plot_precision_recall": "plot_detection_precision_recall", "plot_confidence": "plot_detection_confidence"}


@pytest.mark.parametrize("old", RENAMED)
def test_an_old_name_is_the_new_function_and_warns_once_in_a_process(old):
    new = RENAMED[old]
    program = f"""
import warnings
from reid_torchmetrics import plot
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from reid_torchmetrics.plot import {old}
    assert {old} is plot.{old} is plot.{new}
print(*((each.category.__name__, str(each.message)) for each in caught))
"""
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == str(("FutureWarning", f"`{old}` is now called `{new}`."))


def test_old_names_are_not_listed_and_unknown_ones_are_errors():
    assert not {*RENAMED} & {*plot.__all__}
    with pytest.raises(AttributeError, match=r"^module 'reid_torchmetrics\.plot' has no attribute 'plot_nothing'$"):
        plot.plot_nothing  # noqa: B018
