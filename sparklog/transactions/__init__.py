"""Transactions: one entry makes records of any topics, and a group's offsets, visible.

    InitProducerId ─▶ edit                      the transactional id's next epoch
    AddPartitions… ─▶ edit                      a transaction is open
    Produce ─────────▶ segment, edit             records, behind the last stable offset
    TxnOffsetCommit ─▶ edit                      offsets wait in the metadata
    EndTxn ──────────▶ shared segment ─▶ edit    markers of all partitions, and the group's offsets

`steps.Transactions` takes these steps, on any thread of any process. The state of every
transactional id is in the metadata log, so there is no coordinator. `ending` makes the end.
"""
