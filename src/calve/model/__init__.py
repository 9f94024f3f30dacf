"""Values: what the rooms above speak of. Standard library only, no clock, no I/O.

time      a totally ordered integer, and the HLC text form at the door
meaning   what the times of a sink are, for people
batch     [lower, upper) in that time
file      FileClosed: what a worker reports of one file
progress  what the table remembers of a sink
error     what every error has: a code, what is known, what to do
errors    the tree of everything that can go wrong
"""
