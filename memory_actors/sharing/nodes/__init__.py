"""Nodes: processes on many machines that share a store in a database, each with some of its users.

`opening.py` opens a node, `placement.py` says which users are live in it, `node.py` carries a call
out there or asks the node that has the user, over the connections of `peers.py`.
"""
