"""Fixtures of the contract suites: one suite, all implementations."""

from tests.emulators import azure_log_dir, azurite, fake_gcs, gcs_log_dir, gcs_proxy
from tests.s3 import s3_log_dir, s3_server

__all__ = [
    "azure_log_dir",
    "azurite",
    "fake_gcs",
    "gcs_log_dir",
    "gcs_proxy",
    "s3_log_dir",
    "s3_server",
]
