"""Damaged files of every format that is read: one of the package's own errors or a value, nothing else.

``python -m tests.fuzz_readers --seconds 600`` runs one process per reader, guided by coverage where `atheris`
(libFuzzer) is installed and by a plain mutator of valid files where it is not. No input may raise a foreign
exception, end the process by a signal, take longer than its time or more memory than its limit.
"""
