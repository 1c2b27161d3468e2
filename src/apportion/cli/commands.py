"""The commands of ``apportion``: the group each belongs to, its module, one line and two examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["COMMANDS", "GROUPS", "Listed", "epilog_of"]

GROUPS = ("Decide", "Look into", "Serve", "Simulate", "Live on Slurm", "Help")


@dataclass(frozen=True, slots=True)
class Listed:
    """A command as the list of all commands shows it, without importing it.

    Attributes
    ----------
    group
        One of `GROUPS`.
    line
        What it does, one sentence.
    examples
        Command lines, without the program's name.
    module
        Where it stands below ``apportion.cli``: a module, whose ``command`` it is, or ``"module:name"``; by
        default a module of its own name.
    doing
        What a terminal shows beside a clock while it runs; ``None`` for one that ends at once, or that says
        itself what it does all the time.
    """

    group: str
    line: str
    examples: tuple[str, ...] = ()
    module: str | None = None
    doing: str | None = None

    @property
    def epilog(self) -> str:
        """The examples as the end of a help page."""
        lines = "\n".join(f"  apportion {example}" for example in self.examples)
        return f"\b\nExamples:\n{lines}" if lines else ""


COMMANDS: Mapping[str, Listed] = MappingProxyType(
    {
        "solve": Listed(
            "Decide",
            "Decide what every job gets, and prove it.",
            ("solve round.json", "solve round.json --time-limit 3 --json -o plan.json"),
            "solve_instance",
            doing="reading",
        ),
        "explain": Listed(
            "Decide",
            "Say why the plan is as it is, or why there is none.",
            ("explain round.json", "explain round.json --job j0003 --option 2xv100"),
            doing="reading",
        ),
        "what-if": Listed(
            "Decide",
            "Compare the plans before and after a change.",
            ("what-if round.json --remove-job j0003", "what-if round.json --capacity v100=+8"),
            doing="reading",
        ),
        "price-of-fairness": Listed(
            "Decide",
            "Say what fair shares cost, from none of them kept to all.",
            ("price-of-fairness round.json", "price-of-fairness round.json --points 21 --plot price.svg"),
            "explain:price_of_fairness",
            doing="reading",
        ),
        "init": Listed(
            "Decide",
            "Write an instance to start from.",
            ("init gap_filling -o round.yaml", "init multiple_choice_knapsack -o round.csv"),
        ),
        "validate": Listed(
            "Look into",
            "List what is wrong with an instance or another input.",
            ("validate round.json", "validate jobs.csv --as jobs"),
            doing="reading and checking",
        ),
        "check": Listed(
            "Look into",
            "Verify a stored solution in exact arithmetic.",
            ("check round.json plan.json", "check round.json plan.json --json"),
            doing="verifying",
        ),
        "schema": Listed(
            "Look into",
            "Print the JSON Schema of a kind of instance.",
            ("schema gap_filling", "schema matching > matching.schema.json"),
            "init:schema",
        ),
        "convert": Listed(
            "Look into",
            "Read an instance in any format, write it as JSON.",
            ("convert mknap1.txt --index 3", "convert --from kueue dump.json -o cluster.json"),
            "init:convert",
            doing="reading",
        ),
        "export": Listed(
            "Look into",
            "Write the model for other solvers, or a plan for Kueue.",
            ("export round.json --to lp", "export round.json --to mps -o round.mps"),
            "init:export",
            doing="compiling",
        ),
        "backends": Listed(
            "Look into",
            "List the solvers and whether they are installed.",
            ("backends", "backends --json"),
            "doctor:backends_command",
            doing="looking for solvers",
        ),
        "serve": Listed(
            "Serve",
            "Serve sessions over HTTP, every decision on record.",
            ("serve", "serve --port 8765 --workers 4 --record /var/lib/apportion"),
        ),
        "history": Listed(
            "Serve",
            "Look into every decision on record.",
            ("history list --last 20", "history explain --at 14:05 --job j0003"),
        ),
        "simulate": Listed(
            "Simulate",
            "Simulate a cluster of training jobs under a policy.",
            (
                "simulate --profiles profiles --workload workload.csv --policy sia",
                "simulate --workload jobs.csv.gz --policy fifo --compare srtf --nodes 64 --report page.html",
            ),
            doing="reading",
        ),
        "replay": Listed(
            "Simulate",
            "Replay a log of idle nodes with malleable jobs.",
            (
                "replay --trace generated --machine-nodes 64 --days 1 --jobs generated",
                "replay --trace sacct.txt --machine-nodes 64 --jobs jobs.csv --report page.html",
            ),
            doing="reading",
        ),
        "report": Listed(
            "Simulate",
            "Write a page with several replays side by side.",
            ("report run.jsonl -o page.html", "report ours.jsonl theirs.jsonl -o page.html"),
            "replay:report",
            doing="drawing",
        ),
        "snapshot": Listed(
            "Simulate",
            "Write the instance at one instant of a trace.",
            (
                "snapshot --trace idle.npz --jobs jobs.csv --at 72800 --trainers 10",
                "snapshot --trace sacct.txt --machine-nodes 64 --jobs jobs.csv --at 3600 --trainers 10",
            ),
            "replay:snapshot",
            doing="reading the trace",
        ),
        "fit": Listed(
            "Simulate",
            "Fit step times to placement, batch and frozen depth.",
            (
                "fit steps.csv --hold-out depth=16 -o model.json --plot fit.svg",
                "fit steps.csv --layers layers.csv --gradients gradients.csv --profile bert.json",
            ),
            doing="fitting",
        ),
        "predict": Listed(
            "Simulate",
            "Predict relative speeds over a table of models.",
            (
                "predict --reference table.csv --base-column v100 --target-column a100",
                "predict --reference table.csv --base-column v100 --target-column a100 --model resnet50",
            ),
            doing="predicting",
        ),
        "submit": Listed(
            "Live on Slurm",
            "Queue a job for the idle nodes.",
            ("submit --max 4 python train.py", "submit --min 2 --max 8 --name lm python train.py"),
        ),
        "queue": Listed("Live on Slurm", "Show the queue.", ("queue", "queue --watch 5")),
        "doctor": Listed(
            "Live on Slurm",
            "Say what to mend before nodes are harvested.",
            (
                "doctor",
                "doctor --partition idle --address 10.1.0.5 --json",
            ),
            doing="looking",
        ),
        "harvest": Listed(
            "Live on Slurm",
            "Run the queue on idle nodes until drained.",
            ("harvest", "harvest --partition idle --dry-run"),
        ),
        "harvested": Listed(
            "Live on Slurm",
            "Report node hours harvested, to whom, at what cost.",
            ("harvested -o week.html", "harvested --days 1 --json"),
            "queue:harvested_hours",
            doing="reading the journal",
        ),
        "cancel": Listed(
            "Live on Slurm",
            "Cancel jobs, keeping their checkpoints.",
            ("cancel 3", "cancel 3 4"),
            "queue:cancel",
        ),
        "drain": Listed(
            "Live on Slurm",
            "Stop every job with a checkpoint, give back.",
            ("drain", "drain --no-wait"),
            "queue:drain",
        ),
        "help": Listed(
            "Help", "Show the help of a command.", ("help", "help solve"), "reference:help_command"
        ),
    }
)
"""A new command is a file with a ``command`` and an entry here."""


def epilog_of(name: str) -> str:
    """Return the examples of a command as the end of its help page."""
    return COMMANDS[name].epilog
