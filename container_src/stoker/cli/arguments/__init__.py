"""What each verb accepts, one module per verb.

They are apart from what the verbs do (`stoker.cli.commands`), so that `stoker VERB --help` and a
mistake in an argument load argparse alone: these modules import nothing heavy.
"""
