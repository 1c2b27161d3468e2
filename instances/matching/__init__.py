"""Matching jobs to machines as an instance kind: makespan, cost or value."""

from apportion.instances.matching.schema import MatchingEntry, MatchingInstance, MatchingJob, MatchingMachine

__all__ = ["MatchingEntry", "MatchingInstance", "MatchingJob", "MatchingMachine"]
