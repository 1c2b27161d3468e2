"""Work that is given up when its caller goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from litestar import Request

from apportion.service.errors import Gone

__all__ = ["while_there"]

_T = TypeVar("_T")


async def while_there(request: Request[Any, Any, Any], work: Coroutine[Any, Any, _T]) -> _T:
    """Return what work returns; it is cancelled when the caller of a request closes the connection.

    Raises
    ------
    Gone
        If the caller did.
    """
    task = asyncio.create_task(work)
    gone = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise Gone("the caller has gone away")
    finally:
        gone.cancel()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _disconnected(request: Request[Any, Any, Any]) -> None:
    await request.body()
    while (await request.receive())["type"] != "http.disconnect":
        pass
