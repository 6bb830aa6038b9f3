"""Groups of the consumer protocol (KIP-848): each heartbeat is a step.

consumer_group     the state machine of one group
consumer_member    a member, and its way to its target assignment
subscriptions      the topics that members read
consumer_requests  the form of requests, and descriptions of groups
consumer_records   the records of a group in __consumer_offsets
"""
