"""A whole day of Rota in a minute: real files, two workers, failures, one worker killed, and a check.

It starts a server and workers as any user would, with tokens that hold the least rights, and at the end
compares what the server tells with what it counts itself.
"""
