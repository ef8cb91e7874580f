"""The texts of figures."""


def legend(axes) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def labels(axis) -> list[str]:
    return [label.get_text() for label in axis.get_ticklabels()]
