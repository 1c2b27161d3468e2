"""An HTML page around a drawing."""

from __future__ import annotations

from apportion.plotting.svg import escaped

__all__ = ["page"]


def page(svg: str, name: str) -> str:
    """Return a complete page that shows a drawing; nothing is loaded from anywhere."""
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escaped(name or 'apportion')}</title>",
            "<style>",
            ":root { color-scheme: light dark; }",
            "body { margin: 0; background: #f6f8fa; }",
            "main { max-width: 1040px; margin: 24px auto; background: #fff; border: 1px solid #d1d9e0; }",
            "svg { display: block; width: 100%; height: auto; }",
            "@media (prefers-color-scheme: dark) {",
            "body { background: #010409; } main { background: #0d1117; border-color: #30363d; }",
            "}",
            "</style>",
            "</head>",
            f"<body><main>\n{svg}</main></body>",
            "</html>",
            "",
        ]
    )
