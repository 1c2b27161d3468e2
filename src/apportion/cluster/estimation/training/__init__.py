"""Training applications as measured: step times by placement and batch, progress and gradient statistics."""

from apportion.cluster.estimation.training.application import (
    HOMOGENEOUS,
    Application,
    BatchSplit,
    read_applications,
    split_batch,
)
from apportion.cluster.estimation.training.step_times import StepTimes

__all__ = ["HOMOGENEOUS", "Application", "BatchSplit", "StepTimes", "read_applications", "split_batch"]
