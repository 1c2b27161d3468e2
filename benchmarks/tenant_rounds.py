"""``python -m benchmarks.tenant_rounds``: the preset of that name, see `benchmarks.presets`."""

from benchmarks.presets import main

if __name__ == "__main__":
    main("tenant_rounds")
