"""Handlers of idempotent and transactional producers.

init_producer_id   a producer's id and epoch
transactions       the steps of a transaction
transaction_admin  an operator's requests
producers          the producers of partitions
"""
