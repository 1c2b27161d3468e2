"""The multiple-choice knapsack as an instance kind."""

from apportion.instances.multiple_choice_knapsack.schema import (
    KnapsackJob,
    KnapsackOption,
    MultipleChoiceKnapsackInstance,
)

__all__ = ["KnapsackJob", "KnapsackOption", "MultipleChoiceKnapsackInstance"]
