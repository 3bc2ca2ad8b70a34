"""Rows of the command `bench` beside those of a peer, one row after the other, so that both see the same load of the machine."""

import json
import subprocess
import sys


def arguments():
    """Returns the words on the command line, and the command behind `--beside` (None without it)."""
    words, command = sys.argv[1:], None
    if "--beside" in words:
        at = words.index("--beside")
        command = words[at + 1]
        del words[at : at + 2]
    return words, command


def ours(command, group, word):
    """Returns the times of the rows that `COMMAND --json GROUP WORD` prints, by name; none without a command."""
    if command is None:
        return {}
    found = subprocess.run([*command.split(), "--json", group, word], check=True, capture_output=True, text=True)
    rows = (json.loads(line) for line in found.stdout.splitlines() if line.startswith("{"))
    return {row["name"]: row["value"] for row in rows}
