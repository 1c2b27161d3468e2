"""Reproductions of papers: one command each."""
