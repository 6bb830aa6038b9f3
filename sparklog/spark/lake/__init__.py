"""The table of a topic in Spark: alone, or before the log.

tables          tables in Spark's catalog; streams that begin with the table
table_options   their options
table_plan      a read of tables alone; table_part: the files of one table
history         a read of table and log as one DataFrame; history_plan: its ranges
history_stream  streams over both
location        the addresses of tables as Spark spells them
"""
