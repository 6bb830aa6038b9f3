"""Edits as JSON and back: start with `edits`. `entry` is one entry, byte for byte. Pure."""
