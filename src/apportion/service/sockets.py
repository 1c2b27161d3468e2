"""Where the service listens: a Unix socket in a private folder, or a port of this machine."""

from __future__ import annotations

import os
import secrets
import socket
import stat
from pathlib import Path

from apportion.errors import InvalidOption
from apportion.files import write_whole
from apportion.live.record.store import private_folder

__all__ = ["default_socket", "local_port", "token_of", "unix_socket"]

_BACKLOG = 512


def default_socket() -> Path:
    """Return the socket used where none is named: in the user's runtime folder, else beside the record."""
    from apportion.record import default_folder

    base = os.environ.get("XDG_RUNTIME_DIR")
    return (Path(base) / "apportion" if base else default_folder()) / "serve.sock"


def unix_socket(path: Path, mode: int = 0o600) -> socket.socket:
    """Return a listening Unix socket that only those may connect to whom its mode names.

    Parameters
    ----------
    path
        Where; a socket that nobody listens on any more is replaced. A folder that is missing is made private;
        with mode 0600 its folder must be its user's own.
    mode
        ``0o600``, its user alone, or ``0o660``, the group of its folder too.

    Raises
    ------
    InvalidOption
        If the path is too long, is no socket, or somebody listens on it.
    """
    if len(os.fsencode(path)) > 107:
        raise InvalidOption(f"a socket's path has at most 107 bytes; {path} is longer")
    if mode == 0o600 or not path.parent.exists():
        private_folder(path.parent)
    if path.exists():
        _replaceable(path)
        path.unlink()
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o777 & ~mode)
    try:
        listening.bind(os.fspath(path))
    finally:
        os.umask(mask)
    path.chmod(mode)
    listening.listen(_BACKLOG)
    return listening


def local_port(port: int) -> socket.socket:
    """Return a listening socket on a port of 127.0.0.1; 0 for any that is free."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        listening.close()
        raise InvalidOption(f"port {port} cannot be listened on: {error}") from None
    listening.listen(_BACKLOG)
    return listening


def token_of(path: Path) -> str:
    """Return the token in a file, which is made, for its user alone, where it is missing.

    Raises
    ------
    InvalidOption
        If others may read the file, or it holds less than 16 characters.
    """
    if not path.exists():
        mask = os.umask(0o077)
        try:
            write_whole(path, secrets.token_urlsafe(32).encode() + b"\n")
        finally:
            os.umask(mask)
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InvalidOption(f"{path} may be read by others; chmod 600 it")
    token = path.read_text().strip()
    if len(token) < 16:
        raise InvalidOption(f"{path} holds no token of at least 16 characters")
    return token


def _replaceable(path: Path) -> None:
    if not stat.S_ISSOCK(path.stat().st_mode):
        raise InvalidOption(f"{path} is no socket; it is left alone")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(os.fspath(path))
        except OSError:
            return
    raise InvalidOption(f"a service listens on {path} already")
