"""The command line.

    main      the way in; says in one line what is missing
    app       the commands
    demo      `calve demo`: a stream that is killed twice, and a table that is right all the same
    ledger    what the demo streams, and the truth after each epoch
    reading   the rows of a snapshot, with its deletes applied
"""
