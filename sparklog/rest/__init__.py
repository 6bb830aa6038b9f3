"""The REST service: a thin application over sparklog, stateless, without a JVM.

    settings   SPARKLOG_… from the environment          app        create_app and its lifespan
    server     uvicorn, listening on loopback           openapi    the document
    edge       limits, request ids, metrics, logs       security   tokens in the headers of HTTP
    errors     every error -> status and error_code     models     bodies in and out; models3 of v3
    fetch      records out                              records    records in
    plain      routes that read their requests by hand  routes/    one module a subject

Below it, and free of HTTP: `sparklog.group_commit` (one commit for many requests),
`sparklog.log_reader.followed_topics` and `poll` (the newest metadata, and waiting for it), and
`sparklog.tokens`.

What a request may wait for (files, commits) runs on threads; the event loop only looks at what it
has. Any number of instances serve any request: what they share lies in the log dir.
"""
