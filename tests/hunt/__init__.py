"""A hunt for wrong answers: hostile instances, every inner path of the solvers, truth by enumeration.

``python -m tests.hunt --seconds 120 --seed 1`` draws instances, asks `apportion.solve`, and holds everything
it says against the truth, which is found in exact arithmetic from the JSON alone and shares no code with the
package. A mismatch is shrunk and stored as a JSON file; `tests/hunted` keeps every one that was mended.
"""
