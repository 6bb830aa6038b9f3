"""The routes: a module for each subject, with its `router`."""
