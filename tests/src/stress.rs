//! Many threads that call the same compiled programs at the same time, each call on several threads.
//!
//! Every result is compared with that of one thread. The programs are small, so that most of the time goes to the
//! runtime of concurrent loops: opening and closing loops, helpers that come and go, pooled workspaces.

use crate::program_generator::Recipe;
use crate::transform_words::{Letter, unchecked};
use crate::{Agreement, Case, Failure, Rng};
use rayon_core::{ThreadPool, ThreadPoolBuilder};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};
use tapeloom_backend::{MachineModel, Options, Runnable, compile};
use tapeloom_ir::{Module, Tensor};

/// The number of threads that call programs.
const CALLERS: usize = 16;
/// If no call ends within this time, the test fails, because a caller hangs.
const HUNG: Duration = Duration::from_secs(120);

/// A compiled program with concurrent loops, its arguments, and its results on one thread.
struct Called {
    code: Runnable,
    args: Vec<Tensor>,
    want: Vec<Tensor>,
}

impl Called {
    /// Compiles a program; `None` if it has no concurrent loop.
    fn of(m: &Module, case: &Case) -> Result<Option<Called>, Failure> {
        let machine = MachineModel { piece_operations: 1, pieces: 8, ..MachineModel::MEASURED };
        let code = compile(m, case.f, &Options { machine, ..Options::default() })?;
        if !code.report().passes.iter().any(|step| step.pass.name == "cut_pieces") {
            return Ok(None);
        }
        let args = case.args.clone();
        let want = code.clone().with_threads(1).call(&args.iter().collect::<Vec<_>>())?;
        Ok(Some(Called { code, args, want }))
    }

    /// Calls the program on a number of threads, and compares the results.
    fn call(&self, threads: usize) -> Result<(), Failure> {
        let code = self.code.clone().with_threads(threads);
        let got = code.call(&self.args.iter().collect::<Vec<_>>())?;
        let wrong = |e| format!("{threads} threads: {e}\n{}", self.code.report().program);
        Ok(Agreement::Exact.check_all(&got, &self.want).map_err(wrong)?)
    }
}

/// Compiles random programs and their gradients. For `time`, threads call those that have concurrent loops, each call on one
/// to seven threads. Some of the callers are threads of small pools. Returns the number of calls.
///
/// # Errors
/// The first result that differs from that of one thread, or a caller that hangs.
pub fn callers(mut seeds: impl Iterator<Item = u64>, time: Duration) -> Result<u64, Failure> {
    let mut programs = Vec::new();
    seeds.try_for_each(|seed| {
        let mut m = Module::new();
        let case = Recipe::draw(seed).program(&mut m)?;
        let gradient = unchecked(&mut m, &case, Letter::Vjp, &mut Rng::new(seed))?;
        for case in [Some(case), gradient].into_iter().flatten() {
            programs.extend(Called::of(&m, &case)?);
        }
        Ok::<(), Failure>(())
    })?;
    if programs.is_empty() {
        return Err("no program has a concurrent loop".into());
    }
    let programs = Arc::new(programs);
    let counts: Arc<Vec<AtomicU64>> = Arc::new((0..CALLERS).map(|_| AtomicU64::new(0)).collect());
    let over = Arc::new(AtomicBool::new(false));
    let mut running: Vec<JoinHandle<Result<(), String>>> = Vec::new();
    for caller in 0..CALLERS {
        let (programs, counts, over) = (programs.clone(), counts.clone(), over.clone());
        let pool: Option<ThreadPool> = match caller % 4 {
            0 => Some(ThreadPoolBuilder::new().num_threads(1 + caller / 4).build()?),
            _ => None,
        };
        let calls = move || {
            let mut rng = Rng::new(caller as u64);
            while !over.load(Relaxed) {
                let called = &programs[rng.index(programs.len())];
                called.call(1 + rng.index(7)).map_err(|e| e.to_string())?;
                counts[caller].fetch_add(1, Relaxed);
            }
            Ok(())
        };
        running.push(spawn(move || match pool {
            Some(pool) => pool.install(calls),
            None => calls(),
        }));
    }
    let read = || counts.iter().map(|n| n.load(Relaxed)).collect::<Vec<u64>>();
    let (start, mut last) = (Instant::now(), vec![(u64::MAX, Instant::now()); CALLERS]);
    while start.elapsed() < time && !running.iter().any(JoinHandle::is_finished) {
        sleep(Duration::from_millis(100));
        for (caller, (n, last)) in read().into_iter().zip(&mut last).enumerate() {
            if n != last.0 {
                *last = (n, Instant::now());
            } else if last.1.elapsed() > HUNG {
                return Err(format!("caller {caller} hangs after {n} calls").into());
            }
        }
    }
    over.store(true, Relaxed);
    for caller in running {
        caller.join().map_err(|_| "a caller panicked")??;
    }
    Ok(read().into_iter().sum())
}
