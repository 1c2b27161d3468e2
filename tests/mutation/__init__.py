"""Are the checkers tested? Every small change to one of them must make a test fail.

``python -m tests.mutation`` changes one operator, constant or statement of a checking module at a time and
runs the tests that belong to it, each mutant in a process forked from one that has collected the tests
already. `survivors.txt` names the mutants that no test can notice, and why.
"""
