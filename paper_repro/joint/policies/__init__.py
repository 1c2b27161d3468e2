"""Policies that only this study compares: in turn, blind to types, by observed or discounted speeds."""
