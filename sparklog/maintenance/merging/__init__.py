"""Merging: small segments and slices of shared segments become one sealed segment.

merge_segments  the job
merged          copies several segments into a sealed one
merged_slices   merges slices of many partitions into one new shared segment
joined_slices   joins the slices of a partition that follow each other
spans           reads slices that lie side by side at once
tail            merges the tails of logs, for gateways
"""
