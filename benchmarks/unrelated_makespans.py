"""``python -m benchmarks.unrelated_makespans``: the preset of that name, see `benchmarks.presets`."""

from benchmarks.presets import main

if __name__ == "__main__":
    main("unrelated_makespans")
