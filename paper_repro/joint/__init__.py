"""Matching, packing and the joint policy in the cluster simulation."""
