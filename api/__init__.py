"""The REST service: a thin application over sparklog, stateless, without a JVM.

    settings   SPARKLOG_… from the environment          app        create_app and its lifespan
    server     uvicorn, listening on loopback           openapi    the document
    edge       limits, request ids, metrics, logs       security   bearer tokens, scopes, prefixes
    errors     every error -> status and error_code     models     bodies in and out; models3 of v3
    topics     the metadata log, followed               routes/    one module a subject
    fetch      records out                              records    records in
    poll       waiting for records                      group_commit/  one commit for many requests
    plain      routes that read their requests by hand

What a request may wait for (files, commits) runs on threads; the event loop only looks at what it
has. Any number of instances serve any request: what they share lies in the log dir.
"""
