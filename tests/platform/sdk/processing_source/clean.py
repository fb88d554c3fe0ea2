"""Imports the module that it is told to."""

import importlib
import sys

print(importlib.import_module(sys.argv[1]).__version__)
