"""``apportion serve``: sessions and decisions over HTTP, for schedulers in any language."""

from __future__ import annotations

from pathlib import Path

import click

from apportion.cli.output import say

__all__ = ["command"]


@click.command("serve")
@click.option(
    "--socket", "socket_path", metavar="PATH", help="Unix socket; default: in the user's own folder."
)
@click.option("--group", is_flag=True, help="The group of the socket's folder may use it too (mode 0660).")
@click.option("--port", type=click.IntRange(0, 65535), help="A port of 127.0.0.1 instead, with a token.")
@click.option("--token-file", metavar="FILE", help="The token for --port; made where it is missing.")
@click.option("--record", "folder", metavar="DIR", help="Folder of the record; default: the user's own.")
@click.option(
    "--workers", type=click.IntRange(1, 1024), default=2, show_default=True, help="Worker processes."
)
@click.option(
    "--waiting", type=click.IntRange(0), default=32, show_default=True, help="Requests that may wait for one."
)
@click.option("--sessions", type=click.IntRange(1), default=256, show_default=True, help="Open at a time.")
@click.option("--longest", type=float, default=600.0, show_default=True, help="Longest time limit, seconds.")
@click.option(
    "--grace", type=float, default=1.0, show_default=True, help="Seconds past it at which a worker is killed."
)
@click.option("--max-body", type=click.IntRange(1), default=64, show_default=True, help="MiB of a request.")
@click.option(
    "--max-record", type=click.IntRange(1), help="MiB of the record; by default what the disk holds."
)
@click.option("--log", type=click.Choice(["info", "warning", "error"]), default="info", show_default=True)
def command(
    socket_path: str | None,
    group: bool,
    port: int | None,
    token_file: str | None,
    folder: str | None,
    workers: int,
    waiting: int,
    sessions: int,
    longest: float,
    grace: float,
    max_body: int,
    max_record: int | None,
    log: str,
) -> None:
    """Serve sessions over HTTP, with every decision on record, until told to end (SIGTERM, Ctrl-C).

    Needs the extra: pip install 'apportion[serve]'. The page to look at is / and the OpenAPI document is
    /openapi.json. Sessions that were open when a service ended are open again when the next one starts.
    """
    import asyncio
    from importlib.util import find_spec

    missing = [
        name for name in ("litestar", "uvicorn", "httptools", "prometheus_client") if not find_spec(name)
    ]
    if missing:
        raise click.UsageError(f"{', '.join(missing)} not installed: pip install 'apportion[serve]'")
    if port is not None and (socket_path is not None or group):
        raise click.UsageError("name a socket or a port, not both")
    if port is None and token_file is not None:
        raise click.UsageError("--token-file goes with --port; on a socket its permissions decide")
    from apportion.service.app import log_to_stderr
    from apportion.service.messages import Limits
    from apportion.service.record import record_file
    from apportion.service.serving import default_socket, local_port, serve, token_of, unix_socket

    log_to_stderr(log)
    record = record_file(folder)
    if port is None:
        path = Path(socket_path).absolute() if socket_path is not None else default_socket()
        listening, token = unix_socket(path, 0o660 if group else 0o600), None
        message = f"listening on {path}"
    else:
        record.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        tokens = Path(token_file) if token_file is not None else record.with_name("token")
        token = token_of(tokens)
        listening = local_port(port)
        message = f"listening on http://127.0.0.1:{listening.getsockname()[1]}, token in {tokens}"
    try:
        asyncio.run(
            serve(
                listening,
                record,
                token=token,
                workers=workers,
                waiting=waiting,
                limits=Limits(sessions=sessions, longest_s=longest, grace_s=grace),
                max_body=max_body * 2**20,
                max_record=None if max_record is None else max_record * 2**20,
                ready=lambda: say(message),
            )
        )
    finally:
        listening.close()
        if port is None:
            path.unlink(missing_ok=True)
