"""The REST service: a thin application over sparklog, stateless, without a JVM.

    settings   SPARKLOG_… from the environment          app        create_app and its lifespan
    server     uvicorn, listening on loopback           openapi    the document
    edge       limits, request ids, metrics, logs       security   tokens in the headers of HTTP
    errors     every error -> status and error_code     models     bodies in and out; models3 of v3
    fetch      records out                              records    records in
    plain      routes that read their requests by hand  routes/    one module a subject
    folding    the housekeeper: a process that folds

It builds on packages without HTTP: `sparklog.group_commit` (one commit for many requests),
`sparklog.log_reader.followed_topics` and `poll` (the newest metadata, and waiting for it), and
`sparklog.tokens`.

Work that may wait for files or commits runs on threads; only lookups that have proved quick run on
the event loop. Any instance can serve any request: instances share nothing but the log dir.
"""
