"""Files of a table in, Arrow out. Runs in executors: imports pyarrow and nothing heavier, knows no catalog.

piece of a file ─▶ columns by their ids ─▶ rows, less those at deleted places

columns    the columns of a file under present names and types
files      a Parquet file, batch by batch, with the places of its rows
vectors    deletion vectors: bitmaps of deleted places
places     the deleted places of a data file, wherever they stand
task       all of it, as Spark calls it
"""
