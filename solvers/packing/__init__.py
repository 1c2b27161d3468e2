"""Packing jobs onto nodes: who stays, who moves, and weights that show why nothing fits."""
