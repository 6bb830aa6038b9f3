"""Transactions: what is written to any topics, and a group's offsets, become visible by one entry.

    InitProducerId ─▶ edit                      the transactional id's next epoch
    AddPartitions… ─▶ edit                      a transaction is open
    Produce ─────────▶ segment, edit             records, behind the last stable offset
    TxnOffsetCommit ─▶ edit                      offsets wait in the metadata
    EndTxn ──────────▶ shared segment ─▶ edit    markers of all partitions, and the group's offsets

`Transactions` has the steps, for any thread of any process: the state of every transactional id
lies in the metadata log, so nobody coordinates. `ending` writes the end.
"""
