"""The Iceberg side, on the driver: what is in a catalog and in a table's metadata.

catalogs   which catalog, one small module a back end
fileio     PyIceberg's files over our store
schema     Arrow types to Iceberg's and back
layout     partition specs and sort orders
create     a table that is made, or adopted
evolve     schema changes that data asks for
plan       what workers must know of a table
manifests  manifests and manifest lists, from FileClosed alone
merge      own manifests that grew too many
summary    what a snapshot says of itself
lineage    does main descend from what we committed
commit     one attempt: Landed, Conflict or Unknown
"""
