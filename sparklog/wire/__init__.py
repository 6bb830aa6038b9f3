"""The gateway: Kafka's protocol on a log dir, without a broker and without a JVM.

    serving/           listeners, signals; one client: frames in, answers out in order   asyncio
    handlers/          make the answers to requests: a function for each API
    gateway            the state that handlers share: topics, commits, instances
    security/          the client of a connection: its authentication and its rights
    groups/            the consumer groups of this instance
    protocol/          frames, headers, bodies; `versions`: THE table of APIs            sans I/O
    sending            answers to the socket, without a copy where that is possible      asyncio
    instances          the gateways of a log dir; each leads some partitions of a topic
    membership         an instance joins, shows that it lives, and leaves
    producer_ids       producer ids, each given once
    watch              fetches that wait for records; looks: reads of the newest image
    topic_bytes        topics as the bytes of Metadata; commit_forms: commits that come again
    limits, throttle   how many connections and bytes there may be; when producers have to wait
    long_produces      large Produce requests, one after another
    settings           the options; configs, broker_configs: configs as clients see them
    tidying            the housekeeper, a process beside the gateway: merges, compaction, folds
    transaction_ends   aborts transactions that have timed out

A handler calls the library and knows no socket. All produce requests that wait share one entry of
the metadata log; a fetch passes bytes of segments on. Every instance serves every topic.
"""
