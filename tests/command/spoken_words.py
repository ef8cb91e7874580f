"""Words in backticks in what the command prints: they must be words of its users, and no arguments of functions."""

import inspect
import re
from contextlib import suppress
from functools import cache
from pathlib import Path

import reid_torchmetrics
from reid_torchmetrics import data
from reid_torchmetrics.command.options import COMMANDS, command_options
from reid_torchmetrics.data.array_names import FIELD_NAMES
from reid_torchmetrics.functional import detection, retrieval

KEYS_OF_FILES = {"same", "keypoints", *FIELD_NAMES, *" ".join(FIELD_NAMES.values()).split()}
"""what files call their arrays, columns and lists, which functions may have as arguments, too"""


@cache
def words_of_python():
    """Names of public functions and classes, and of their arguments."""
    words = set()
    for module in (reid_torchmetrics, retrieval, detection, data):
        for name in module.__all__:
            words.add(name)
            for part in (getattr(module, name), getattr(getattr(module, name), "update", None)):
                with suppress(TypeError, ValueError):  # a table, or a class without a signature
                    words.update(inspect.signature(part).parameters)
    return words


@cache
def words_of_command(command):
    """The options of a command and their fields, and the names of its files."""
    options = command_options(command)
    return {option.flag for option in options} | {
        field for option in options for row in option.value_kind.classes.values() for field in row
    }


def foreign_words(command, printed):
    """Words in backticks that a user of the command cannot write, in what it printed on standard error."""
    foreign = []
    for line in printed.splitlines():
        text = re.sub(r"^reid-torchmetrics: (warning: )?", "", line)
        head = re.match(r"`?([^`]*?)(`| and |:\d*:? )", text)
        is_about_file = line.startswith("guessed: ") or (head is not None and Path(head[1]).exists())
        for word in re.findall(r"`([^`]+)`", text):
            name = re.split(r"[ .=\[]", word)[0]
            if word.startswith("--"):
                is_known = name in words_of_command(command) or name.replace("--no-", "--") in words_of_command(command)
            elif re.fullmatch(r"[A-Za-z]\w*=.*", word):  # a value of an argument
                is_known = False
            else:
                is_known = name in COMMANDS or name in words_of_command(command) or name not in words_of_python()
                is_known |= name in KEYS_OF_FILES or is_about_file
            if not is_known:
                foreign.append(f"{word} in {line}")
    return foreign
