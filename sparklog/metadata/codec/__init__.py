"""Edits as JSON and back: the `edits` of an entry. `edits` is where it begins. Pure."""
