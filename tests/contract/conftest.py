"""Fixtures of the contract suites: one suite, all implementations."""

from tests.s3 import s3_log_dir, s3_server

__all__ = ["s3_log_dir", "s3_server"]
