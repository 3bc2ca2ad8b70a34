//! Sums over processes that end within a limit, whatever happens to a process.
//!
//! A call of MPI that waits for a process that died may wait forever. So the sum does not wait: it is started, and asked
//! until a deadline whether it is complete. After the deadline there is a roll call: each process sends its step to all
//! others and collects theirs. The message of the error then names the ranks that did not answer.

use mpi::Threading;
use mpi::collective::SystemOperation;
use mpi::environment::Universe;
use mpi::request::StaticScope;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Destination, Source};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The time that processes have to answer a roll call. They reach their deadlines one after the other, at most a step
/// apart.
const ROLL_CALL: Duration = Duration::from_secs(2);

/// The time between the error of a process and the end of the job, in which other processes can write their errors.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The tag of messages of a roll call.
const HERE: i32 = 1;

/// Starts MPI for a program in which only the main thread calls MPI. Returns `None` if MPI was started before.
pub fn start(limit: Duration) -> Option<Universe> {
    let start = || mpi::initialize_with_threading(Threading::Funneled);
    within(limit, "start", start).map(|(universe, _)| universe)
}

/// Ends MPI. The call waits for all processes; if it takes longer than `limit`, this process ends with an error.
pub fn end(universe: Universe, limit: Duration) {
    within(limit, "end", || drop(universe));
}

/// Returns the sum of each element of `own` over all processes.
///
/// If a process does not take part within the limit, this function writes an error, ends the job and does not return.
pub fn sum(world: &SimpleCommunicator, own: &[f64], step: u64, limit: Duration) -> Vec<f64> {
    let mut sums = vec![0.0; own.len()];
    let start = Instant::now();
    mpi::request::scope(|scope| {
        let add = SystemOperation::sum();
        let mut request = world.immediate_all_reduce_into(scope, own, &mut sums[..], add);
        while let Err(open) = request.test() {
            if start.elapsed() > limit {
                // Do not return: MPI uses both vectors until the sum is complete, and a return would free them.
                fail(world, step, limit);
            }
            request = open;
            thread::yield_now();
        }
    });
    sums
}

/// Writes an error that names the lost processes, and ends the job.
fn fail(world: &SimpleCommunicator, step: u64, limit: Duration) -> ! {
    let answers = roll_call(world, step);
    let lost = answers.iter().enumerate().filter(|(_, answer)| answer.is_none());
    let lost: Vec<String> = lost.map(|(rank, _)| rank.to_string()).collect();
    let steps: Vec<&u64> = answers.iter().flatten().collect();
    let cause = match lost.is_empty() {
        false => format!("no answer from rank {}", lost.join(", ")),
        true => format!("all ranks answer, and are at the steps {steps:?}"),
    };
    let rank = world.rank();
    eprintln!(
        "rank {rank}: error: no sum of the gradients of step {step} within {limit:?}: {cause}"
    );
    thread::sleep(LAST_WORDS);
    world.abort(1)
}

/// Sends the number of this process's step to all other processes. Returns, for each process that answered, the number
/// of its step.
fn roll_call(world: &SimpleCommunicator, step: u64) -> Vec<Option<u64>> {
    let mut answers = vec![None; usize::try_from(world.size()).unwrap_or(0)];
    // Leak the message: a message to a lost process never completes, so its memory can never be freed.
    let sent: &'static u64 = Box::leak(Box::new(step));
    for rank in 0..world.size() {
        let to = world.process_at_rank(rank);
        std::mem::forget(to.immediate_send_with_tag(StaticScope, sent, HERE));
    }
    let start = Instant::now();
    while start.elapsed() < ROLL_CALL && answers.contains(&None) {
        if let Some((message, status)) = world.any_process().immediate_matched_probe_with_tag(HERE)
        {
            let from = usize::try_from(status.source_rank()).unwrap_or(0);
            answers[from] = Some(message.matched_receive().0);
        }
        thread::yield_now();
    }
    answers
}

/// Calls `f`, and ends this process with an error if the call takes longer than the limit.
fn within<T>(limit: Duration, name: &'static str, f: impl FnOnce() -> T) -> T {
    let (done, ended) = channel::<()>();
    thread::spawn(move || {
        if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            eprintln!(
                "error: the {name} of MPI took more than {limit:?}, because a process is lost"
            );
            // Abort, because `exit` would run handlers that call MPI, while the main thread may be inside a call of
            // MPI.
            std::process::abort();
        }
    });
    let result = f();
    drop(done);
    result
}
