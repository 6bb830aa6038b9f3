"""Entries and edits as bytes, and back. Pure.

entry         one entry, byte for byte
edits         its edits as JSON
appends       edits of appends and of steps of transactions: a gateway writes little else
segments      the segments of an edit
transactions  its transactional ids
types         the JSON values of each type, checked
"""
