"""The error tree of sparklog. The docstring of a class names the problem.

    SparklogError
    ├── UsageError
    │   ├── InvalidTopicError
    │   ├── UnknownTopicError
    │   ├── TopicExistsError
    │   ├── InvalidPartitionsError
    │   ├── InvalidConfigError
    │   ├── InvalidOptionError
    │   ├── SchemaError
    │   ├── InvalidRecordError
    │   ├── InvalidTimestampError
    │   ├── RecordTooLargeError
    │   ├── RecordBatchTooLargeError
    │   ├── InvalidTxnStateError
    │   ├── OffsetOutOfRangeError
    │   ├── VersionOutOfRangeError
    │   ├── UnexpectedAppendOffsetError
    │   ├── PolicyViolationError
    │   ├── LogDirError
    │   │   └── UnsupportedFeatureError
    │   ├── InvalidRequestError
    │   │   └── InvalidFrameError
    │   ├── SaslAuthenticationError
    │   ├── InvalidGroupIdError
    │   ├── GroupIdNotFoundError
    │   └── GroupNotEmptyError
    ├── CorruptionError
    │   ├── CorruptRecordError
    │   │   ├── UnsupportedCodecError
    │   │   └── UnknownRecordTypeError
    │   ├── CorruptIndexError
    │   ├── CorruptMetadataError
    │   └── PassedOverError
    ├── StorageError
    │   ├── MissingFileError
    │   │   └── ForgottenTopicError
    │   ├── ExistingFileError
    │   ├── StorageFullError
    │   └── StoragePermissionError
    └── CommitError
        ├── ThrottlingQuotaExceededError
        ├── CommitConflictError
        ├── CommitOutcomeUnknownError
        ├── TopicClosedError
        │   └── ForgottenTopicError
        ├── LateWriterError
        ├── FencedLeaderEpochError
        ├── OutOfOrderSequenceError
        ├── InvalidProducerEpochError
        ├── ProducerFencedError
        ├── DuplicateBrokerRegistrationError
        ├── NotCoordinatorError
        └── CoordinatorNotAvailableError

Codes are those of org.apache.kafka.common.protocol.Errors. Names may change, codes may not.
"""

from typing import Any, ClassVar

from sparklog.error_codes import ErrorCode as ErrorCode  # noqa: PLC0414 - it is exported


class SparklogError(Exception):
    """The root. `code` is Kafka's number; `retriable` says whether the same call may succeed later.

    Keyword details (`file=`, `position=` …) become attributes and survive pickling.
    """

    code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR
    retriable: ClassVar[bool] = False

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.__dict__.update(details)

    @property
    def message(self) -> str:
        """The text: the problem, its place, and the allowed values."""
        return str(self)


class SparklogWarning(UserWarning):
    """The call did not do exactly what was asked; no data is lost."""


class UsageError(SparklogError):
    """The caller asked for something that is not allowed; nothing was changed."""

    code = ErrorCode.INVALID_REQUEST


class InvalidTopicError(UsageError):
    """An illegal topic name, or an internal topic."""

    code = ErrorCode.INVALID_TOPIC_EXCEPTION


class UnknownTopicError(UsageError):
    """No such topic, or no such partition of it."""

    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class TopicExistsError(UsageError):
    """The name is taken by a live topic."""

    code = ErrorCode.TOPIC_ALREADY_EXISTS


class InvalidPartitionsError(UsageError):
    """A partition count that is not positive, or that does not grow."""

    code = ErrorCode.INVALID_PARTITIONS


class InvalidConfigError(UsageError):
    """An unknown configuration key, or a value out of its bounds."""

    code = ErrorCode.INVALID_CONFIG


class InvalidOptionError(UsageError):
    """An unknown or misused option of a call, a command or a data source."""


class SchemaError(UsageError):
    """A column that is missing, misspelt or of the wrong type."""


class InvalidRecordError(UsageError):
    """A record that the topic refuses, such as one without a key where the topic is compacted."""

    code = ErrorCode.INVALID_RECORD


class InvalidTimestampError(UsageError):
    """A timestamp that is negative or outside the allowed skew."""

    code = ErrorCode.INVALID_TIMESTAMP


class RecordTooLargeError(UsageError):
    """A record larger than max.message.bytes."""

    code = ErrorCode.MESSAGE_TOO_LARGE


class RecordBatchTooLargeError(UsageError):
    """A client's batch that is larger than a segment of its topic may be."""

    code = ErrorCode.RECORD_LIST_TOO_LARGE


class InvalidTxnStateError(UsageError):
    """A transactional batch of a producer that has no transaction open in this partition."""

    code = ErrorCode.INVALID_TXN_STATE


class OffsetOutOfRangeError(UsageError):
    """An offset outside [log start offset, log end offset]."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE


class VersionOutOfRangeError(UsageError):
    """A version of the metadata log that does not exist yet, or that its history has dropped."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE


class UnexpectedAppendOffsetError(UsageError):
    """Records that bring offsets, and these do not continue the log."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE


class PolicyViolationError(UsageError):
    """The topic's cleanup policy does not allow it."""

    code = ErrorCode.POLICY_VIOLATION


class LogDirError(UsageError):
    """Not a log dir, or one of a version that this release cannot read."""

    code = ErrorCode.LOG_DIR_NOT_FOUND


class UnsupportedFeatureError(LogDirError):
    """The log dir uses a feature that this release does not know: upgrade sparklog."""

    code = ErrorCode.UNSUPPORTED_VERSION


class InvalidRequestError(UsageError):
    """Bytes that are no request of Kafka's protocol. The connection ends, as a broker's would."""


class InvalidFrameError(InvalidRequestError):
    """A frame with a negative size, or a size above the limit (InvalidReceiveException)."""


class SaslAuthenticationError(UsageError):
    """A client that fails to prove its name, or breaks the rules of its mechanism."""

    code = ErrorCode.SASL_AUTHENTICATION_FAILED


class InvalidGroupIdError(UsageError):
    """A group id that is empty, or that no record can have."""

    code = ErrorCode.INVALID_GROUP_ID


class GroupIdNotFoundError(UsageError):
    """No such consumer group."""

    code = ErrorCode.GROUP_ID_NOT_FOUND


class GroupNotEmptyError(UsageError):
    """The group has members: only they may commit or delete its offsets."""

    code = ErrorCode.NON_EMPTY_GROUP


class CorruptionError(SparklogError):
    """Bytes on disk that no writer can have written."""

    code = ErrorCode.CORRUPT_MESSAGE


class CorruptRecordError(CorruptionError):
    """A damaged `.log`: the damage, and its file, position and offset as far as they are known."""

    file: str | None
    position: int | None
    offset: int | None

    def __init__(
        self,
        reason: str,
        *,
        file: str | None = None,
        position: int | None = None,
        offset: int | None = None,
    ) -> None:
        super().__init__(reason, file=file, position=position, offset=offset)

    def __str__(self) -> str:
        places = (("position", self.position), ("offset", self.offset))
        known = [f"{name} {value}" for name, value in places if value is not None]
        place = ", ".join(known if self.file is None else [self.file, *known])
        return f"{place}: {self.args[0]}" if place else str(self.args[0])

    def in_file(self, file: str, origin: int = 0, shift: int = 0) -> "CorruptRecordError":
        """Return the same error, in `file`: its position plus `origin`, its offset plus `shift`.

        The buffer that was read begins at `origin` in the file; `shift` leads to log offsets.
        """
        position = None if self.position is None else self.position + origin
        offset = None if self.offset is None else self.offset + shift
        return type(self)(self.args[0], file=file, position=position, offset=offset)


class CorruptIndexError(CorruptionError):
    """A damaged `.index` or `.timeindex`; readers warn, and scan the segment instead."""


class CorruptMetadataError(CorruptionError):
    """A file of `__cluster_metadata` that is damaged, missing, or of another log."""


class UnsupportedCodecError(CorruptRecordError):
    """Codec bits that no release of Kafka defines, or that this message format does not allow."""

    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class UnknownRecordTypeError(CorruptRecordError):
    """A record of `__consumer_offsets` whose key has a type that sparklog does not know."""


class PassedOverError(CorruptionError):
    """A file that `dump-log` skips: it prints a line and goes on with the next file."""


class StorageError(SparklogError):
    """The file system or object store failed."""

    code = ErrorCode.KAFKA_STORAGE_ERROR
    retriable = True


class MissingFileError(StorageError):
    """A file that should be there is not."""


class ExistingFileError(StorageError):
    """A file that should be new is there already; it was not touched."""

    retriable = False


class StorageFullError(StorageError):
    """No space is left; nothing that was acknowledged is lost."""


class StoragePermissionError(StorageError):
    """Not allowed to read or write."""

    retriable = False


class CommitError(SparklogError):
    """A commit did not happen, or may not have."""


class ThrottlingQuotaExceededError(CommitError):
    """Too much waits already: bytes for their commit, or calls for a thread. Nothing was done."""

    code = ErrorCode.THROTTLING_QUOTA_EXCEEDED
    retriable = True


class CommitConflictError(CommitError):
    """Other commits landed first until the timeout; nothing was changed."""

    code = ErrorCode.REQUEST_TIMED_OUT
    retriable = True


class CommitOutcomeUnknownError(CommitError):
    """The commit may have landed. To learn it, repeat it with the same txnAppId and txnVersion."""

    code = ErrorCode.REQUEST_TIMED_OUT


class TopicClosedError(CommitError):
    """The topic's deletion has begun."""

    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class ForgottenTopicError(TopicClosedError, MissingFileError):
    """The topic was deleted, its files are gone, and the metadata log has forgotten it."""


class LateWriterError(CommitError):
    """A commit of files older than the vacuum horizon: they may be deleted, so write again."""

    retriable = True


class FencedLeaderEpochError(CommitError):
    """The partition's leader epoch has risen since the commit was planned: plan it again."""

    code = ErrorCode.FENCED_LEADER_EPOCH
    retriable = True


class OutOfOrderSequenceError(CommitError):
    """A producer's batch that does not follow its last one in this partition."""

    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class InvalidProducerEpochError(CommitError):
    """A batch with an old producer epoch: another producer has the producer id now."""

    code = ErrorCode.INVALID_PRODUCER_EPOCH


class ProducerFencedError(CommitError):
    """The transactional id has another producer now, or a newer epoch."""

    code = ErrorCode.PRODUCER_FENCED


class DuplicateBrokerRegistrationError(CommitError):
    """Another incarnation of a gateway is registered with this node id."""

    code = ErrorCode.DUPLICATE_BROKER_REGISTRATION


class NotCoordinatorError(CommitError):
    """Another gateway is the group's coordinator: find the coordinator again."""

    code = ErrorCode.NOT_COORDINATOR
    retriable = True


class CoordinatorNotAvailableError(CommitError):
    """The group has to be read from the log again."""

    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    retriable = True
