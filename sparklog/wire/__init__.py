"""The gateway: Kafka's protocol on a log dir, without a broker and without a JVM.

    serving/           listeners, signals; one client: frames in, answers out in order   asyncio
    protocol/          frames, headers, bodies; `versions`: THE table of APIs            sans I/O
    security/          the client of a connection: its authentication and its rights
    handlers/          make the answers to requests; one module for related APIs
    sending            answers to the socket, without a copy where that is possible      asyncio
    gateway            the state that handlers share: topics, commits, instances
    instances          the gateways of a log dir; membership: which of them are alive
    groups/            the groups of this instance
    watch              fetches that wait for records; looks: reads of the newest image
    limits, throttle   how many connections and bytes there may be; when producers have to wait
    settings           the options; configs: those of topics and brokers, as clients see them
    tidying            the housekeeper, a process beside the gateway: merges, compaction, folds
    transaction_ends   aborts transactions that have timed out

A handler calls the library and knows no socket. All produce requests that wait share one entry of
the metadata log; a fetch passes bytes of segments on. Every instance serves every topic.
"""
