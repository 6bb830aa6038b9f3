"""Transactions: one entry makes records of any topics, and a group's offsets, visible.

    InitProducerId ─▶ edit                      the transactional id's next epoch
    AddPartitions… ─▶ edit                      a transaction is open
    Produce ─────────▶ segment, edit             records, behind the last stable offset
    TxnOffsetCommit ─▶ edit                      offsets wait in the metadata
    EndTxn ──────────▶ shared segment ─▶ edit    markers of all partitions, and the group's offsets

`steps.Transactions` takes these steps, on any thread of any process. The state of every
transactional id is in the metadata log, so there is no coordinator.

    ending        the edit of an end; end_group: ends that share an entry; pieces: their batches
    timeouts      transactions that have timed out, and ids that have expired
    with_offsets  records and a group's offsets in one entry, without a transaction
    unended       an abort by hand: the log must not have the marker already
    undelete      a deleted topic comes back; the transactions that have left it are aborted
"""
