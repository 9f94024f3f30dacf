"""The command line: its way in, its commands, and the demo.

    main        the way in; says in one line what is missing
    app         the commands
    words       errors for people
    quarantine  `calve quarantine list`, `calve quarantine replay`
    needs       what a command needs of the machine
    demo        `calve demo`: a stream whose driver is killed, and a table that is right all the same
    ledger      what is streamed, and the truth at any time
    feed        how it arrives: late, twice, file by file
    driver      a run: Spark and the pipeline, in a process of its own
    runs        its parent's side, and the kills
    reading     the rows of a snapshot, with its deletes applied
    show        what was found, for a terminal

Nothing of calve imports this room.
"""
