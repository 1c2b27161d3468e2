"""Policies for a cluster of training jobs: each one small file, a callable over the same view."""
