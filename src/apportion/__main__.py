"""``python -m apportion`` is ``apportion``."""

from apportion.cli.main import main

main()
