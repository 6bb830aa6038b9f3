"""Handlers of topics, configs and the cluster.

metadata, topic_partitions       topics and the instances that lead them
topics                           creates and deletes topics, adds partitions
alter_configs, describe_configs  configs
cluster, replicas, log_dirs      the cluster and its disks
users                            SCRAM credentials
"""
