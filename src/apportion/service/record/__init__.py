"""Every decision on record: what was asked, what was answered, and what shows that the answer is right.

One SQLite file in a private folder, written ahead. A session is an instance and the deltas since; a decision
names the revision of its session that it is about, so that its instance can be had again, and with it every
figure of its result.
"""

from __future__ import annotations

from apportion.service.record.entries import (
    Asked,
    Decided,
    DecisionSummary,
    Entry,
    NotOnRecord,
    RecordDamaged,
    RecordFull,
    SessionEntry,
    default_folder,
    record_file,
)
from apportion.service.record.reading import History
from apportion.service.record.writing import Record

__all__ = [
    "Asked",
    "Decided",
    "DecisionSummary",
    "Entry",
    "History",
    "NotOnRecord",
    "Record",
    "RecordDamaged",
    "RecordFull",
    "SessionEntry",
    "default_folder",
    "record_file",
]
