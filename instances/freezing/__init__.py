"""Layer freezing: GPUs and frozen depth of every job, for one round."""

from apportion.instances.freezing.job import FreezingConfiguration, FreezingJob, FreezingRow
from apportion.instances.freezing.schema import FreezingInstance

__all__ = ["FreezingConfiguration", "FreezingInstance", "FreezingJob", "FreezingRow"]
