"""The gateway: Kafka's protocol on a log dir, without a broker and without a JVM.

    server       listeners, signals                                          asyncio
    connection   one client: frames in, answers out in the order of requests asyncio
    frames       bytes to frames                                             sans I/O
    headers      the headers of requests and answers                         sans I/O
    versions     THE table: the APIs that are served, and their versions
    messages     bodies of requests and answers, by kio                      sans I/O
    writing      bodies of the answers that are written often, by hand       sans I/O
    handlers     a request to its answer; one module for related APIs
    gateway      the state that handlers share: topics, commits, instances

A handler calls the library and knows no socket. All produce requests that wait share one entry of
the metadata log; a fetch passes bytes of segments on. Every instance serves every topic.
"""
