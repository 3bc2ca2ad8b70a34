"""Measures the seconds of the sweeps at the gate, and writes them into the rows of tests/src/sweeps.rs.

    python tests/measure/sweeps.py [--log FILE] [--write]

Runs `cargo test --workspace` with one test at a time, or reads FILE, the output of such a run with `.ci/timed` as the
runner. For each row, prints the seconds in the table and the measured seconds; a row that names a module gets the
sum over the module's tests. `--write` replaces the numbers in the table. Other work on the machine makes them larger.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "tests" / "src" / "sweeps.rs"
ROW = re.compile(r'(\w+ = "([\w:]+)", gate [\d_]+ in )([\d.]+)( s)')


def run():
    """Runs all tests one at a time, and returns their output with the seconds of each test."""
    host = re.search("host: (.*)", subprocess.check_output(["rustc", "-vV"], text=True))[1]
    runner = f"CARGO_TARGET_{host.upper().replace('-', '_')}_RUNNER"
    environment = dict(os.environ, CARGO_INCREMENTAL="0", RUST_TEST_THREADS="1")
    environment[runner] = str(ROOT / ".ci" / "timed")
    command = ["cargo", "test", "--workspace", "--lib", "--tests"]
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout


def measured(log):
    """Returns (path, seconds) per test; a path begins with the name of the test binary, or, in a library, of the module."""
    tests, binary = [], ""
    for line in log.splitlines():
        if found := re.search(r"Running (unittests )?(\S+) \(.*deps/(\w+)-", line):
            binary = "" if found[1] else found[3] + "::"
        elif found := re.match(r"test (\S+) .*<([\d.]+)s>$", line):
            tests.append((binary + found[1], float(found[2])))
    return tests


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--log", type=Path, help="the output of a run")
    parser.add_argument("--write", action="store_true", help="replace the numbers in the table")
    options = parser.parse_args()
    tests = measured(options.log.read_text() if options.log else run())
    missing = []

    def row(found):
        path, old = found[2], found[3]
        mine = [seconds for test, seconds in tests if test == path or test.startswith(path + "::")]
        if not mine:
            missing.append(path)
            return found[0]
        new = f"{max(sum(mine), 0.1):.1f}"
        print(f"{old:>6} {new:>6}  {path}")
        return found[1] + new + found[4]

    table = ROW.sub(row, TABLE.read_text())
    if options.write:
        TABLE.write_text(table)
    for path in missing:
        print(f"no test was run for the row of {path}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
