"""The arguments of `stoker completion`."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb accepts."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))
    parser.epilog = (
        'bash, in ~/.bashrc: eval "$(stoker completion bash)"\n'
        'zsh, in ~/.zshrc:   eval "$(stoker completion zsh)"\n'
        "fish, once:         stoker completion fish > ~/.config/fish/completions/stoker.fish"
    )
