"""The gateway: Kafka's protocol on a log dir, without a broker and without a JVM.

    server             listeners, signals; settings, listeners, processes, side_port     asyncio
    connection         one client: frames in, answers out in the order of its requests  asyncio
    frames, headers    bytes to frames, and a frame's header                            sans I/O
    versions           THE table: the APIs that are served, and their versions
    messages           bodies of requests and answers, by kio's schemas                 sans I/O
    reading, writing   bodies of APIs that are called often, by hand                    sans I/O
    sending            answers to the socket, without a copy where that is possible     asyncio
    session            the client: sasl, scram (its authentication), authorization (its rights)
    handlers           make the answers to requests; one module for related APIs
    gateway            the state that handlers share: topics, commits, instances
    instances          the gateways of a log dir; membership: which of them are alive
    coordinators       the groups of this instance; owned_shard: one partition of them
    watch              fetches that wait for records; looks: reads of the newest image
    limits, throttle   how many connections and bytes there may be; when producers have to wait
    configs            configs as clients see them; broker_configs: the settings of this instance
    tidying            the housekeeper, a process beside the gateway: merges, compaction, folds
    transaction_ends   aborts transactions that have timed out

A handler calls the library and knows no socket. All produce requests that wait share one entry of
the metadata log; a fetch passes bytes of segments on. Every instance serves every topic.
"""
