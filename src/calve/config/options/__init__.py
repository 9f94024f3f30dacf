"""Options: the names under which SQL, the command line and `from_options` know the settings of a sink.

listing   the one list: name, field, kind, default, meaning
read      options ──▶ the arguments of a SinkConfig
page      the list as docs/options.md; `python -m calve.config.options` prints it
"""
