"""The command line: its way in, its commands, and the demo.

    main      the way in; says in one line what is missing
    app       the commands
    demo      `calve demo`: a stream that is killed twice, and a table that is right all the same
    runs      its processes, and the kills that meet them
    ledger    what they stream, and the truth after each epoch
    reading   the rows of a snapshot, with its deletes applied
    show      what was found, for a terminal

Nothing of calve imports this room.
"""
