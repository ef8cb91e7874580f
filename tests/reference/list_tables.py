"""Tables of ranked lists and judgements, read line by line from the definition of each form."""

import math
import re

COLUMNS = {"run": (6, 2, 4), "rank": (3, 1, 2), "qrels": (4, 2, 3), "grades": (3, 1, 2)}
"""of each form: how many columns, the item's, the number's"""


def read_table(text, form):
    """Return the numbers by query and item, and the line of the first fault: of the two one is None."""
    num_columns, item_column, number_column = COLUMNS[form]
    table = {}
    second_columns = set()
    for line_number, line in enumerate(text.split("\n"), start=1):
        words = line.split()
        if not words:
            continue
        if len(words) != num_columns or not is_number(words[number_column], form):
            return None, line_number
        second_columns.add(words[1])
        if form == "run" and len(second_columns) > 1:
            return None, line_number
        items = table.setdefault(words[0], {})
        if words[item_column] in items:
            return None, line_number
        items[words[item_column]] = float(words[number_column]) if form == "run" else int(words[number_column])
    return table, None


def is_number(word, form):
    """Tell whether a word is a number as a form has it: decimal, or an integer of up to 18 digits."""
    if form != "run":
        sign = "" if form == "rank" else "[-+]?"
        return re.fullmatch(sign + "[0-9]{1,18}", word) is not None
    try:
        number = float(word)
    except ValueError:
        return False
    is_spelled = word.lower().lstrip("+-") in ("nan", "inf", "infinity")
    return "_" not in word and not is_spelled and not math.isnan(number)
