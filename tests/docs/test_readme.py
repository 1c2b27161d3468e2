"""The README's table of measurements: a ratio is the quotient of the figures beside it."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

_FIGURES = re.compile(r"(\d+(?:\.\d+)?)(?: / (\d+(?:\.\d+)?))? (?:CPU )?(ms|s)\b(?: CPU)?")
_UNIT = {"ms": 1e-3, "s": 1.0}


def _rows() -> list[list[str]]:
    text = Path("README.md").read_text()
    table = text.partition("| work | command |")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    return [row for row in rows if row[4]]


def _seconds(cell: str) -> list[float]:
    """Return the times that a cell tells; two with one unit are ``34 / 54 ms``."""
    found = []
    for match in _FIGURES.finditer(cell):
        found += [float(number) * _UNIT[match[3]] for number in match.groups()[:2] if number is not None]
    return found


@pytest.mark.parametrize("row", _rows(), ids=lambda row: row[0][:40])
def test_every_ratio_is_the_quotient_of_two_figures_of_its_row(row: list[str]) -> None:
    """14.4 s beside 17.1 ms were told as 381 and not 842: one of the figures was of other calls."""
    peers, ours = _seconds(row[2]), _seconds(row[3])
    if not peers:  # a limit of seconds that the text names
        peers = _seconds(row[4])
    quotients = [peer / our for peer, our in product(peers, ours)]
    quotients += [1 / quotient for quotient in quotients]
    told = re.findall(r"\d+(?:\.\d+)?(?! ?s\b)", re.sub(r"\d+ s\b", "", row[4]))
    assert told
    for number in told:
        digits = len(number.partition(".")[2])
        near = [quotient for quotient in quotients if abs(quotient - float(number)) <= 0.51 * 10**-digits]
        more = row[4].startswith("more than") and any(
            float(number) <= quotient < float(number) + 1.01 for quotient in quotients
        )
        assert near or more, f"{number} is none of {quotients}"


def test_there_are_ratios() -> None:
    assert len(_rows()) >= 8
