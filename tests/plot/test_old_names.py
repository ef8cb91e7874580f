"""Pictures that were renamed: the old names of 0.1.0 work, and warn once."""

import subprocess
import sys

import pytest

from reid_torchmetrics import plot

RENAMED = {"plot_precision_recall": "plot_detection_precision_recall", "plot_confidence": "plot_detection_confidence"}


def test_an_old_name_is_the_new_function_and_warns_once_in_a_process():
    program = f"""
import warnings
from reid_torchmetrics import plot
for old, new in {RENAMED}.items():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec(f"from reid_torchmetrics.plot import {{old}} as imported")
        assert imported is getattr(plot, old) is getattr(plot, new)
    print(*((each.category.__name__, str(each.message)) for each in caught))
"""
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    said = [("FutureWarning", f"`{old}` is now called `{new}`.") for old, new in RENAMED.items()]
    assert printed.splitlines() == [*map(str, said)]


def test_old_names_are_not_listed_and_unknown_ones_are_errors():
    assert not {*RENAMED} & {*plot.__all__}
    with pytest.raises(AttributeError, match=r"^module 'reid_torchmetrics\.plot' has no attribute 'plot_nothing'$"):
        plot.plot_nothing  # noqa: B018
