"""The commands `produce` and `consume`, and the texts that they read and print.

produce     the command; production: its commits
input       bytes to records
consume     the command; printing: its blocks
render      records to bytes; escape: as JSON strings
"""
