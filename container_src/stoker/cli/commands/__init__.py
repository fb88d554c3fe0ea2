"""One module per verb of `stoker`; each has `add_parser(subparsers)` and `run(args) -> int`."""
