"""A drawing as PNG or PDF, set by Typst."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Literal

__all__ = ["rendered"]

_DOTS_PER_INCH = 192.0
_PAGE = '#set page(width: auto, height: auto, margin: 0pt)\n#image("drawing.svg")\n'


def rendered(svg: str, form: Literal["png", "pdf"]) -> bytes:
    """Return a drawing as a picture.

    Parameters
    ----------
    svg
        The drawing.
    form
        ``png`` (2,000 pixels for a drawing of 1,000) or ``pdf``.

    Raises
    ------
    ImportError
        If Typst is not installed; `apportion.plotting.check_name` says so before any work is done.
    """
    import typst

    with tempfile.TemporaryDirectory(prefix="apportion-") as folder:
        Path(folder, "drawing.svg").write_text(svg, encoding="utf-8")
        page = Path(folder, "page.typ")
        page.write_text(_PAGE, encoding="utf-8")
        return typst.compile(str(page), format=form, ppi=_DOTS_PER_INCH)
