"""Groups of the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

group              the state machine of one group
group_checks       refuses requests
member, members    its members
group_record       its record in __consumer_offsets
consumer_protocol  the bytes that its members exchange (Kafka's ConsumerProtocol, not KIP-848)
"""
