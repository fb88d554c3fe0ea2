"""The arguments of `stoker completion`."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb accepts."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))
    parser.epilog = (
        "examples:\n"
        '  eval "$(stoker completion bash)"      in ~/.bashrc; zsh: in ~/.zshrc, after compinit\n'
        "  stoker completion fish > ~/.config/fish/completions/stoker.fish"
    )
