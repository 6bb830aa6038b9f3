"""Imports the log directories of brokers: topics, consumer groups and transactional ids.

import_log         all topics, in one commit
import_partition   one partition; take_files links or copies its files, sealed makes its rows
broker_dirs        several directories as one
offsets_topic      checks __consumer_offsets
consumer_offsets   the offsets of groups
take_over          makes transactional ids here; transaction_state: those of the broker
coordinator_log    a partition of a coordinator's topic, batch by batch
"""
