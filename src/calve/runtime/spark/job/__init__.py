"""A job: the sinks of a pipeline, as SQL defines them, on Spark.

sources   what a source is read as: a feed, or rows; bounded, for who compares
job       a sink's source, view and writer, put together
run       all of them at work, until they are done, a time is reached, or somebody says stop
preview   what a sink would do to its table
"""
