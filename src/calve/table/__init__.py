"""The Iceberg side, on the driver: what is in a catalog and in a table's metadata.

catalogs    which catalog, one small module a back end
fileio      PyIceberg's files over our store
location    local folders as URIs
types       one Arrow type to Iceberg's and back
schema      whole schemas, names and keys
layout      partition specs and sort orders
properties  what a table's properties say of its files
create      a table that is made, or adopted
evolve      schema changes that data asks for
plan        what workers must know of a table
premises    what a batch took for granted
avro        containers
entries     the files of a manifest, as bytes
manifests   manifests, from FileClosed alone
partitions  what a manifest says of its partitions
lists       manifest lists
merge       own manifests that grew too many
summary     what a snapshot says of itself
base        a table as it was last read
refs        the moves of main and of a tag
fence       what keeps an overtaken run out, and where progress is found
unchanged   a snapshot that shows what its parent shows
build       the request that moves a table
commit      one attempt: Landed, Conflict or Unknown
lineage     does main descend from what we committed
sinks       which sinks a table knows
history     what each snapshot is
as_of       which snapshot shows a source at a time
forget      the request that takes a sink's progress out
readers     which engines read a table right
at          which snapshot is meant
fields      what columns are and were
live        the files of a snapshot, whoever wrote them
overlap     whether a delete can match a row of a file
scan        which deletes reach which data file
"""
