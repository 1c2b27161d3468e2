"""Gap filling: idle nodes, malleable jobs, a horizon."""

from apportion.instances.gap_filling.schema import GapFillingInstance, GapFillingJob, ScalingCurve

__all__ = ["GapFillingInstance", "GapFillingJob", "ScalingCurve"]
