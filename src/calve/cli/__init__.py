"""The command line: its way in, its commands, and the demo.

    main        the way in; says in one line what is missing
    app         the commands
    ground      what every command does when it begins and when it ends: manners, errors, exit codes
    console     output: results, tables, JSON, progress, errors
    layout      words in lines, names with values, rows in columns
    words       whatever was raised, as an error with a code
    signals     Ctrl-C and SIGTERM
    logs        warnings, as lines
    pages       docs/errors.md and docs/cli.md, made from the program
    arguments   what commands share: the table, its sink, its catalog
    pipeline    what commands over a pipeline share: the file, its sinks, a session of Spark's
    terms       points in time, durations and sizes, as they are shown
    init        `calve init`; questions: what it asks; asking: how
    plan        `calve plan`; planned: what a sink would do, as it is shown
    run         `calve run`; watching: what a person sees of it
    sql         `calve sql`; shell, typed: where a person types; answers: what statements say
    quarantine  `calve quarantine list`, `calve quarantine replay`
    verify      `calve verify`
    status      `calve status`
    history     `calve history`
    drop        `calve drop`
    doctor      `calve doctor`
    demo        `calve demo`: a stream whose driver is killed, and a table that is right all the same
    ledger      what is streamed, and the truth at any time
    feed        how it arrives: late, twice, file by file
    driver      a run: Spark and the pipeline, in a process of its own
    runs        its parent's side, and the kills
    reading     the rows of a snapshot, with its deletes applied
    show        what was found, for a terminal

Nothing of calve imports this room.
"""
