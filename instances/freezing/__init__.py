"""Layer freezing: GPUs and frozen depth of every job, for one round."""

from apportion.instances.freezing.schema import (
    FreezingConfiguration,
    FreezingInstance,
    FreezingJob,
    FreezingRow,
)

__all__ = ["FreezingConfiguration", "FreezingInstance", "FreezingJob", "FreezingRow"]
