"""Verify: files are compared with the image, and damage is repaired.

verify              the job
verified_image      compares an image with the names of files
verified            compares a segment with its row and its indexes
verified_log        compares what the image knows of transactions and producers with the batches
ended               closes and enters open transactions that the metadata have wrongly
walked              finds the transactions in a part of a log, for `ended`
verified_producers  reads producers and transactions from the batches of a segment
verify_table        compares a table with its log
repair              decides what is salvaged and what is built again
quarantine          puts a damaged `.log` aside, and keeps its sound batches
"""
