"""Sockets and processes: the only modules of the gateway that listen.

server      signals, start and end
listeners   addresses and sockets
connection  one client: frames in, answers out in order; slot: one request of it
grants      rights of open connections, when the file of tokens changes
side_port   /metrics and /ready
processes   several instances on one machine
"""
