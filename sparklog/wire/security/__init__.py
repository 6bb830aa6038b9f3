"""The client of a connection: its encryption, its identity, its rights.

tls            the certificate of the listeners
sasl           the exchange of one connection; scram: one of its mechanisms
session        the client
authorization  the scope that a request needs
"""
