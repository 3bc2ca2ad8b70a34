"""Runs GradBench's evaluations with tapeloom as the tool, by GradBench's own harness:

    python tests/gradbench/run.py CHECKOUT [EVAL ..]

CHECKOUT is a clone of GradBench. Its evaluations need Python with numpy, scipy and pydantic, its reference implementations a C++
compiler, make, and the header `cpp/json.hpp`, which its Makefile downloads. For each evaluation, this prints how many answers the
harness has found valid; the exit status is 1 if one was not. Each function runs once. `--timed` runs each for a second at least, as
GradBench does by default, and prints the harness's own table; the logs are written to target/gradbench.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
EVALS = ["hello", "gmm", "ba", "ht", "lstm", "kmeans", "llsq", "lse", "ode", "det", "particle", "saddle"]
# Of these evaluations, only the smaller data sets run, which are enough to compare answers.
LARGEST = {"ba": ["--max=4"], "ht": ["--max=2"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=pathlib.Path)
    parser.add_argument("evals", nargs="*", metavar="EVAL", help=", ".join(EVALS))
    parser.add_argument("--timed", action="store_true")
    of = parser.parse_args()
    checkout = of.checkout.resolve()
    unknown = [name for name in of.evals if name not in EVALS]
    if unknown:
        parser.error(f"there is no evaluation {unknown[0]}; they are {', '.join(EVALS)}")

    build = ["cargo", "build", "--release", "--package=tapeloom-tests", "--bin=gradbench"]
    subprocess.run(build, cwd=ROOT, check=True)
    tool = ROOT / "target/release/gradbench"
    logs = ROOT / "target/gradbench"
    logs.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "PYTHONPATH": str(checkout / "python/gradbench")}
    # The harness builds itself; its messages are not those of an evaluation.
    harness = [sys.executable, str(checkout / "gradbench")]
    subprocess.run([*harness, "--help"], cwd=checkout, check=True, capture_output=True)

    failed = False
    for name in of.evals or EVALS:
        log = logs / f"{name}.jsonl"
        options = LARGEST.get(name, []) if of.timed else [*LARGEST.get(name, []), "--min-seconds=0"]
        script = f"python/gradbench/gradbench/evals/{name}/run.py"
        evaluation = " ".join([sys.executable, script, *(options if name != "hello" else [])])
        command = [*harness, "run", "--eval", evaluation, "--tool", str(tool), "--output", str(log)]
        ran = subprocess.run(command, cwd=checkout, env=environment, capture_output=not of.timed, text=True)
        valid, invalid = answers(log)
        print(f"{name:9} {valid:4} valid {invalid:4} invalid", flush=True)
        if ran.returncode != 0 or invalid > 0 or valid == 0:
            failed = True
            print(f"  the harness ended with status {ran.returncode}; its log is {log}")
    sys.exit(1 if failed else 0)


def answers(log):
    """Returns how many answers of a log are valid, and how many are not."""
    valid = [0, 0]
    for line in log.read_text().splitlines() if log.exists() else []:
        message = json.loads(line).get("message", {})
        if message.get("kind") == "analysis":
            valid[not message["valid"]] += 1
    return valid


if __name__ == "__main__":
    main()
