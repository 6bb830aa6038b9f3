"""The REST service: a thin application over sparklog, stateless, without a JVM.

    server      uvicorn with limits on slow clients; `joined` joins its writes
    app         create_app, and the lifespan of its Service
    service     the state of an instance: threads, followed topics, group commit
    folding     the housekeeper's process, which folds the metadata log
    settings    options and environment
    edge        around every request: limits, request ids, metrics, logs
    routes/     the routes, a module for each subject; `plain`: routes that read requests by hand
    security    tokens in the headers of HTTP
    deps        the parts of a request that routes use; `parameters`: those that OpenAPI documents
    schemas/    pydantic models of requests and answers
    payloads/   bodies as bytes: JSON, records in, records out
    links       URLs of v3; `paging`: the pages of v3 lists
    errors      the status and the error_code of each error
    openapi     the OpenAPI document
    page_groups the groups on the HTML page; `lag_picture`: their lag as SVG

It builds on packages without HTTP: `sparklog.group_commit` (one commit for many requests),
`sparklog.log_reader.followed_topics` and `poll` (the newest metadata, and waiting for it), and
`sparklog.tokens`.

Work that may wait for files or commits runs on threads; only lookups that have proved quick run on
the event loop. Any instance can serve any request: instances share nothing but the log dir.
"""
