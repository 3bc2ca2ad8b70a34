"""Processes that add their gradients by MPI: equal losses, and an error if one of them is lost.

    python tests/peers/mpi.py [--trials 20] [--seed 0]

Builds `prelude/examples/mpi`, which needs an MPI library and libclang; without `mpirun` nothing is run. The losses of 2 and 4
processes must be those of one to 1e-9. Then one of 2 or 4 processes is lost at a random moment of the training, in three
ways, and all others have to end with an error within the printed bound:

killed      SIGKILL; `mpirun` sees it and ends the job with a message that names the rank.
unnoticed   SIGKILL, with `mpirun --enable-recovery`, which leaves the job alone, as it does if a host is gone.
stopped     SIGSTOP; `mpirun` sees nothing.

In the last two, each other process must itself write an error that names the lost rank. Prints one object per line.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "prelude/examples/mpi"
PROGRAM = EXAMPLE / "target/release/tapeloom-mpi"
MPIRUN = ["mpirun", "--oversubscribe", "--allow-run-as-root"]
# Seconds that a process waits for a sum, and for how long after a loss the last one may run: the limit, 2 s of the roll call,
# 1 s before the job ends, and time for a busy machine.
LIMIT = 2
BOUND = {"killed": 5, "unnoticed": LIMIT + 3 + 5, "stopped": LIMIT + 3 + 5}


def watched(folder, command):
    """Runs one process of a job and writes its number, and its errors and exit status once it has ended.

    `mpirun` gives no status of single processes, so it runs this function in their place. It ends as its process does.
    """
    own = Path(folder) / os.environ["OMPI_COMM_WORLD_RANK"]
    with open(own.with_suffix(".err"), "w") as errors:
        process = subprocess.Popen(command, stderr=errors)
        signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        write(own.with_suffix(".pid"), process.pid)
        status = process.wait()
    write(own.with_suffix(".status"), f"{status} {time.time()}")
    if status == -signal.SIGKILL:
        os.kill(os.getpid(), signal.SIGKILL)
    sys.exit(status if status >= 0 else 128 - status)


def write(path, text):
    """Writes a file that never exists in part."""
    part = path.with_suffix(path.suffix + ".part")
    part.write_text(str(text))
    part.rename(path)


def losses(processes):
    """Returns the losses of 200 steps of a job, every tenth one."""
    job = subprocess.run([*MPIRUN, "-n", str(processes), PROGRAM, "200"], capture_output=True, text=True)
    if job.returncode:
        sys.exit(f"{processes} processes failed:\n{job.stderr}")
    return [float(line.split()[-1]) for line in job.stdout.splitlines() if line.startswith("step")]


def trial(way, processes, lost, moment):
    """Loses a process `moment` seconds after the first steps. Returns the seconds until all others have ended, and faults."""
    with tempfile.TemporaryDirectory() as folder:
        own = lambda rank, kind: Path(folder) / f"{rank}.{kind}"
        recovery = ["--enable-recovery"] if way == "unnoticed" else []
        run = [sys.executable, __file__, "--watched", folder, PROGRAM, "1000000000", str(LIMIT)]
        job = subprocess.Popen(
            [*MPIRUN, *recovery, "-n", str(processes), *run], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        # Training has begun when rank 0 has printed a loss.
        if not job.stdout.readline().startswith("step"):
            return None, ["no step: " + job.communicate()[1]]
        time.sleep(moment)
        pids = [int(own(rank, "pid").read_text()) for rank in range(processes)]
        os.kill(pids[lost], signal.SIGSTOP if way == "stopped" else signal.SIGKILL)
        start, faults = time.time(), []
        try:
            _, said = job.communicate(timeout=BOUND[way] + 20)
        except subprocess.TimeoutExpired:
            faults.append("mpirun has not ended")
            job.kill()
            _, said = job.communicate()
        # A job that may go on without a process is no failure of `mpirun --enable-recovery`.
        if job.returncode == 0 and way != "unnoticed":
            faults.append("mpirun ended without an error")
        ended, over = 0.0, time.time()
        for rank in (rank for rank in range(processes) if rank != lost):
            # A process that `mpirun` killed together with the one that watches it has no status, and ended before `mpirun`.
            status, at = -signal.SIGKILL, over
            if own(rank, "status").exists():
                status, at = own(rank, "status").read_text().split()
            ended = max(ended, float(at) - start)
            if status == "0":
                faults.append(f"rank {rank} ended without an error")
            written = own(rank, "err").read_text()
            if way != "killed" and f"no answer from rank {lost}\n" not in written:
                faults.append(f"rank {rank} wrote {written!r}")
        time.sleep(0.5)
        for rank in [rank for rank, pid in enumerate(pids) if runs(pid)]:
            faults.append(f"rank {rank} still runs")
            os.kill(pids[rank], signal.SIGKILL)
        if way == "killed" and f"rank {lost} " not in said:
            faults.append(f"mpirun wrote {said!r}")
        if ended > BOUND[way]:
            faults.append(f"the bound is {BOUND[way]} s")
        return ended, faults


def runs(pid):
    """Returns whether a process still runs, or is stopped."""
    state = subprocess.run(["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
    return state not in ("", "Z")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    o = parser.parse_args()
    if not shutil.which("mpirun"):
        print("skipped, because there is no mpirun: install an MPI library, such as Debian's libopenmpi-dev")
        return
    subprocess.run(["cargo", "build", "--release", "--manifest-path", EXAMPLE / "Cargo.toml"], check=True)

    wrong = 0
    one = losses(1)
    for processes in [2, 4]:
        found = losses(processes)
        difference = max(abs(a / b - 1) for a, b in zip(found, one, strict=True))
        wrong += difference > 1e-9
        row = {"name": f"mpi_losses_{processes}", "losses": len(found), "last": found[-1], "difference": difference}
        print(json.dumps(row), flush=True)

    draw = random.Random(o.seed)
    for way, bound in BOUND.items():
        for number in range(o.trials):
            processes = draw.choice([2, 4])
            lost, moment = draw.randrange(processes), draw.uniform(0, 2)
            ended, faults = trial(way, processes, lost, moment)
            wrong += bool(faults)
            row = {"name": f"mpi_{way}_{number}", "processes": processes, "lost": lost, "after_s": round(moment, 3)}
            row |= {"ended_s": ended and round(ended, 3), "bound_s": bound} | ({"faults": faults} if faults else {})
            print(json.dumps(row), flush=True)
    if wrong:
        sys.exit(f"{wrong} trials failed")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--watched"]:
        watched(sys.argv[2], sys.argv[3:])
    main()
