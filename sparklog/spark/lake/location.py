"""Addresses of the log dir as Spark spells them: file://, s3a:// and abfss://."""

from typing import Final

from sparklog.errors import UsageError
from sparklog.storage.files import Files

_AZURE_ACCOUNT: Final = ("azure_storage_account_name", "account_name")


def spark_location(files: Files, directory: str) -> str:
    """Return the address of a directory of the log dir as Spark's file systems spell it.

    A path gets file://: Spark looks a bare one up in Hadoop's default file system (fs.defaultFS),
    which on a cluster is another. Raises UsageError for az:// without the account's name.
    """
    scheme, separator, rest = files.uri.partition("://")
    if not separator:
        return f"file://{files.uri}/{directory}"
    if scheme == "s3":
        return f"s3a://{rest}/{directory}"
    if scheme != "az":
        return f"{files.uri}/{directory}"
    options = {name.lower(): value for name, value in files.options.items()}
    account = next((options[name] for name in _AZURE_ACCOUNT if name in options), None)
    if account is None:
        raise UsageError(
            f"Spark reads {files.uri} as abfss://container@account.dfs.core.windows.net: give the "
            f"log dir in this form, or the setting storage.AZURE_STORAGE_ACCOUNT_NAME"
        )
    container, _, prefix = rest.partition("/")
    below = f"{prefix}/{directory}" if prefix else directory
    return f"abfss://{container}@{account}.dfs.core.windows.net/{below}"
