"""``kbroker completion``: the script that lets a shell complete kbroker's commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

INSTALL = {
    "bash": 'eval "$(kbroker completion bash)"   # in ~/.bashrc',
    "zsh": 'eval "$(kbroker completion zsh)"    # in ~/.zshrc',
    "fish": "kbroker completion fish > ~/.config/fish/completions/kbroker.fish",
}


@click.command(epilog="\b\n" + "\n".join(INSTALL.values()))
@click.argument("shell", type=click.Choice(list(INSTALL)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script for the shell that completes commands and options."""
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(context.find_root().command, {}, "kbroker", "_KBROKER_COMPLETE").source())
