//! Profiles of all programs of a process, which an environment variable requests.
//!
//! The file is written whole: one table for each program that has run, the slowest program first. It is written after a
//! call if a tenth of a second has passed since the last time, and when a program is dropped.

use super::{Instrumented, Profile};
use crate::loop_ir::Timed;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The environment variable that names the file of the profiles.
pub(crate) const FILE: &str = "TAPELOOM_PROFILE";

/// The least time between two writes of the profile file while programs run.
const BETWEEN: Duration = Duration::from_millis(100);

/// A program's entry in the profiles of the process, with the counts of all its calls. Dropping a recorder writes the
/// profile file.
#[derive(Debug)]
pub(crate) struct Recorder(Arc<Recorded>);

#[derive(Debug)]
struct Recorded {
    name: String,
    program: Arc<Instrumented>,
    counts: Mutex<(Timed, u64)>,
}

#[derive(Default)]
struct Session {
    programs: Vec<Arc<Recorded>>,
    written: Option<Instant>,
}

static SESSION: Mutex<Session> = Mutex::new(Session { programs: Vec::new(), written: None });

fn path() -> Option<&'static PathBuf> {
    static PATH: OnceLock<Option<PathBuf>> = OnceLock::new();
    let path = || std::env::var_os(FILE).filter(|path| !path.is_empty()).map(PathBuf::from);
    PATH.get_or_init(path).as_ref()
}

/// Returns whether the environment variable `TAPELOOM_PROFILE` names a file for profiles.
pub(crate) fn wanted() -> bool {
    path().is_some()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recorder {
    /// Adds a program to the profiles of the process.
    pub(crate) fn new(name: &str, program: Arc<Instrumented>) -> Recorder {
        let recorded =
            Arc::new(Recorded { name: name.to_owned(), program, counts: Mutex::default() });
        locked(&SESSION).programs.push(recorded.clone());
        Recorder(recorded)
    }

    /// Adds the timers' counts of one call to the program's counts, and writes the profile file from time to time.
    pub(crate) fn add(&self, timed: &Timed) {
        let mut counts = locked(&self.0.counts);
        counts.0.add(timed);
        counts.1 += 1;
        drop(counts);
        locked(&SESSION).write(BETWEEN);
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        locked(&SESSION).write(Duration::ZERO);
    }
}

impl Session {
    /// Writes the profile file, unless less time than `between` has passed since the last write.
    fn write(&mut self, between: Duration) {
        if self.written.is_some_and(|written| written.elapsed() < between) {
            return;
        }
        let Some(path) = path() else { return };
        if let Err(error) = std::fs::write(path, self.text())
            && self.written.is_none()
        {
            eprintln!("{FILE}: cannot write {}: {error}", path.display());
        }
        self.written = Some(Instant::now());
    }

    fn text(&self) -> String {
        let mut profiles = Vec::new();
        for recorded in &self.programs {
            let counts = locked(&recorded.counts);
            let (timed, calls) = &*counts;
            if *calls > 0 {
                profiles.push(Profile::of(&recorded.name, &recorded.program, timed, *calls));
            }
        }
        profiles.sort_by_key(|profile| std::cmp::Reverse(profile.total));
        let tables: Vec<String> = profiles.iter().map(ToString::to_string).collect();
        tables.join("\n")
    }
}
