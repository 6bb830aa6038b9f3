"""One module a subject; each has a `router`."""
