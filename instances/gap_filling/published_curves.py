"""The seven published throughput curves of BFTrainer's evaluation, as numbers.

Training throughput on ImageNet, images per second, against the number of Summit nodes. Source: the data set
of the BFTrainer replayer (Liu, Kettimuthu, Papka, Foster, *BFTrainer: Low-Cost Training of Neural Networks on
Unfillable Supercomputer Nodes*, arXiv:2106.12091). Only MobileNet's curve is concave.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from apportion.instances.gap_filling.schema import ScalingCurve

__all__ = ["PUBLISHED_CURVES"]

_NODES = (0, 1, 2, 4, 8, 16, 32, 64)

PUBLISHED_CURVES: Mapping[str, ScalingCurve] = MappingProxyType(
    {
        name: ScalingCurve(nodes=_NODES, rate=(0.0, *rate))
        for name, rate in (
            ("AlexNet", (7115.3, 13071.7, 21066.1, 40484.9, 74002.9, 130762.0, 202135.4)),
            ("VGG16", (1193.3, 2389.2, 4691.7, 9257.9, 18348.9, 36208.5, 70151.7)),
            ("ResNet18", (5218.8, 10582.5, 20436.0, 39584.0, 78023.8, 144762.5, 262723.0)),
            ("DenseNet", (989.9, 1952.5, 3849.8, 7608.1, 14993.2, 28812.2, 57773.9)),
            ("MnasNet1", (3245.7, 6001.9, 11489.3, 23075.6, 43899.7, 83474.2, 160493.6)),
            ("ShuffleNet", (2831.0, 5259.0, 9988.0, 20379.2, 38895.3, 74125.1, 145081.5)),
            ("MobileNet", (3039.9, 5893.0, 11386.0, 22024.8, 42488.4, 82268.3, 155213.8)),
        )
    }
)
"""Curve by model name, in the round-robin order of the published job mix."""
