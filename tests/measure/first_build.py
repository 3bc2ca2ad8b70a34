"""Measures the time of the first build of the README's main job, and the share of each crate.

    python tests/measure/first_build.py [--jobs N] [--offline] [--rows N] [--json FILE] [-- CARGO ARGUMENTS]
    python tests/measure/first_build.py --program {none,default,all} [--lines] [--debug] ..

Clones the last commit of this repository into a temporary directory, which is removed at the end, and runs
`cargo build --release --example fit_gmm` there, or cargo with the arguments behind `--`. With `--program`, builds the first
program of the README in a crate of its own, which depends on the clone's crate `tapeloom` without features, with the default
features or with all of them; `--lines` gives it the profiles that the README proposes. Prints the wall time, the
CPU-seconds (user and system, of all processes) and the size of the example, then one row per crate, most expensive first.

The CPU-seconds of a crate are those of its rustc and linker, which this file measures as cargo's `RUSTC_WRAPPER`.
Other work on the same cores makes wall times meaningless and CPU-seconds a tenth to a third larger: compare only
figures that were measured one after the other on an otherwise idle machine.
Sources of dependencies are downloaded first (`cargo fetch`); that time is not counted. Needs Linux or macOS.
"""

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOG = "FIRST_BUILD_LOG"


def as_wrapper(command):
    """Runs rustc and appends a line about it to the log; a line is one write, so lines of parallel rustcs do not mix."""
    status = subprocess.call(command, close_fds=False)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    if "--crate-name" in command:
        name = command[command.index("--crate-name") + 1]
        # All build scripts have the same crate name, so name each after the package to which it belongs.
        if name.startswith("build_script_"):
            name = os.environ.get("CARGO_PKG_NAME", "?") + " (build script)"
        line = {"crate": name, "seconds": used.ru_utime + used.ru_stime, "rss": used.ru_maxrss}
        with open(os.environ[LOG], "a") as log:
            log.write(json.dumps(line) + "\n")
    return status


def program(folder, clone, features, lines):
    """Writes a crate with the first program of the README into a folder, and returns its folder."""
    readme = (clone / "README.md").read_text()
    main = re.search(r"```rust\n(.*?)```", readme, re.S)[1]
    profiles = re.search(r"```toml\n.*?\n(#[^\n]*\n\[profile\..*?)```", readme, re.S)[1] if lines else ""
    crate = Path(folder) / "program"
    (crate / "src").mkdir(parents=True)
    (crate / "src" / "main.rs").write_text(main)
    of = {"none": "default-features = false", "default": "default-features = true", "all": "features = ALL"}[features]
    if features == "all":
        table = re.search(r"\[features\]\n(.*?)\n\n", (clone / "prelude" / "Cargo.toml").read_text(), re.S)[1]
        of = of.replace("ALL", json.dumps(re.findall(r"^([\w-]+) =", table, re.M)))
    manifest = '[package]\nname = "program"\nversion = "0.1.0"\nedition = "2024"\n\n[workspace]\n\n[dependencies]\n'
    manifest += f'tapeloom = {{ path = "{clone / "prelude"}", {of} }}\n\n{profiles}'
    (crate / "Cargo.toml").write_text(manifest)
    (crate / "Cargo.lock").write_text((clone / "Cargo.lock").read_text())
    return crate


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--jobs", type=int, help="how many cores cargo takes")
    parser.add_argument("--offline", action="store_true", help="dependencies have been downloaded before")
    parser.add_argument("--rows", type=int, default=30, help="how many crates are listed")
    parser.add_argument("--json", type=Path, help="a file for the whole table")
    parser.add_argument("--program", choices=["none", "default", "all"], help="the features of the README's program")
    parser.add_argument("--lines", action="store_true", help="the program has the profiles of the README")
    parser.add_argument("--debug", action="store_true", help="the program is built in the profile dev")
    parser.add_argument("cargo", nargs="*", help="arguments of cargo instead of those of the main job")
    options = parser.parse_args()
    cargo = options.cargo or ["build", "--release", "--example", "fit_gmm"]

    with tempfile.TemporaryDirectory(prefix="first_build_") as folder:
        clone, log = Path(folder) / "clone", Path(folder) / "log"
        subprocess.run(["git", "clone", "--quiet", "--depth", "1", ROOT.as_uri(), clone], check=True)
        network = ["--offline"] if options.offline else []
        subprocess.run(["cargo", "fetch", "--locked", "--quiet", *network], cwd=clone, check=True)
        where, locked = clone, ["--locked"]
        if options.program:
            # The lock file of the clone has more packages than the program needs, so cargo may write it again.
            where, locked = program(folder, clone, options.program, options.lines), []
            cargo = ["build"] if options.debug else ["build", "--release"]

        wrapper = Path(folder) / "wrapper"
        wrapper.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "{Path(__file__).resolve()}" "$@"\n')
        wrapper.chmod(0o755)
        environment = dict(os.environ, RUSTC_WRAPPER=str(wrapper), CARGO_INCREMENTAL="0")
        environment[LOG] = str(log)
        # Build inside the clone, even if the environment sets another target directory.
        environment["CARGO_TARGET_DIR"] = str(clone / "target")
        jobs = [f"--jobs={options.jobs}"] if options.jobs else []
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.monotonic()
        subprocess.run(["cargo", *cargo, *jobs, *locked, "--offline"], cwd=where, env=environment, check=True)
        wall = time.monotonic() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        target = clone / "target"
        made = [target / "release" / "examples" / "fit_gmm", target / "release" / "program", target / "debug" / "program"]
        size = next((file.stat().st_size / 1e6 for file in made if file.exists()), None)
        lines = [json.loads(line) for line in log.read_text().splitlines()]

    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    crates = {}
    for line in lines:
        crates[line["crate"]] = crates.get(line["crate"], 0.0) + line["seconds"]
    crates["(cargo, runs of build scripts, this file)"] = seconds - sum(crates.values())
    table = sorted(crates.items(), key=lambda row: -row[1])
    if options.json:
        figures = {"wall": wall, "seconds": seconds, "megabytes": size, "crates": dict(table)}
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    cores = options.jobs or os.cpu_count()
    print(f"cargo {' '.join(cargo)}: {wall:.0f} s on {cores} cores, {seconds:.0f} CPU-seconds")
    if size is not None:
        print(f"the binary has {size:.0f} MB")
    for name, of in table[: options.rows]:
        print(f"{of:8.1f}  {of / seconds:6.1%}  {name}")
    rest = table[options.rows :]
    if rest:
        print(f"{sum(of for _, of in rest):8.1f}          {len(rest)} others")
    return 0


if __name__ == "__main__":
    sys.exit(as_wrapper(sys.argv[1:]) if LOG in os.environ else main())
