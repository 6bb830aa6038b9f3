"""Group commit: requests that arrive together share one commit, whatever their topics.

A group has records, which are encoded here, or batches, which its clients have encoded.

    edit              the edit of a group of either kind; what is written again

    queue             requests wait, a group is taken, its requests are answered    asyncio
    writer            writes a group to segments, and commits one entry             on a thread
    share             the requests of one topic that go through a round together
    slices            encodes the small records of all topics together
    rows              the records of requests: columns, partitions, ranks           arrays

    appends           batches that clients have encoded wait for their commit       asyncio
    append_thread     the thread that writes groups
    append_writer     checks a group of them, writes it, and commits one entry      on a thread
    append_topics     the batches of a topic, and its part of the entry
    append_partition  the batches of a partition: verdicts, offsets, rows
    append_slots      a batch that waits, and its outcome
    append_ahead      checks batches of long requests before their group begins
    admission         whether a transactional batch may be appended
    failed_firsts     batches that the storage failed, before those of the same producer
    companions        requests of another kind that share a group's segment and entry

A request is acknowledged when the commit is durable, with the offsets of its records. The services
build on this package; it knows no protocol. Its names are imported from their modules: a service
that takes encoded batches does not load the encoder.
"""
