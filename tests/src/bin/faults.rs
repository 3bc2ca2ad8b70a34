//! Planted faults: `faults` builds the tests with every fault of [`Fault::ALL`] disabled, enables one after the
//! other, and prints the test that catches it; `faults NAME..` tries the named faults alone.
//!
//! The build is an ordinary one plus `--cfg tapeloom_faults`, which this program adds as the wrapper of the compiler;
//! dependencies are taken from the existing build. Tests beside the code do not count as catching a fault, because they
//! may have been written for the faulty line. A run stops at the first failing test, and that test must pass in a run
//! without any fault.
//!
//! The last line is `N of M faults caught`; the exit code is 1 unless all are.

use serde_json::Value;
use std::error::Error;
use std::io::{BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use tapeloom_ir::fault::Fault;

/// The environment variable that makes this program act as the compiler's wrapper (`RUSTC_WRAPPER`), which adds the
/// flag.
const WRAPPER: &str = "TAPELOOM_FAULTS_WRAPPER";
/// The environment variable that holds the name of the enabled fault, which the tested code reads.
const FAULT: &str = "TAPELOOM_FAULT";
/// The test modules most likely to catch a fault. They run after the module that the table of faults names. A name
/// without a module is a whole binary.
const FIRST: &[&str] = &["random::fuzz", "random::random_loops", "laws"];
/// The binaries whose tests check a single source file. A fault in that file must be caught by other tests, so these do
/// not count.
const OF_FILES: &[&str] = &["ir", "math", "routines"];
/// The time after which a test counts as hanging, and its fault as caught.
const LIMIT: Duration = Duration::from_secs(600);

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if std::env::var_os(WRAPPER).is_some() {
        let (rustc, rest) = args.split_first().ok_or("the wrapper needs a compiler")?;
        let status = Command::new(rustc).args(rest).args(["--cfg", "tapeloom_faults"]).status()?;
        return Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let mut faults = Vec::new();
    for name in &args {
        let fault = Fault::ALL.iter().find(|f| f.name() == name);
        faults.push(*fault.ok_or(format!("there is no fault `{name}`"))?);
    }
    if faults.is_empty() {
        faults = Fault::ALL.to_vec();
    }
    let binaries = build()?;
    let outcomes = try_all(&faults, &binaries);
    let mut caught = 0;
    println!("| fault | wrong behaviour | caught by | s |\n|---|---|---|---|");
    for (fault, (outcome, seconds)) in faults.iter().zip(outcomes) {
        let (name, about) = (fault.name(), fault.about());
        let by = match outcome? {
            Some(test) => {
                caught += 1;
                match fault.caught_by() {
                    said if !test.starts_with(said) => format!("{test}, not {said}"),
                    _ => test,
                }
            }
            None => "**nothing**".to_owned(),
        };
        println!("| {name} | {about} | {by} | {seconds:.0} |");
    }
    println!("{caught} of {} faults caught", faults.len());
    Ok(if caught == faults.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A test binary, and the folder of its crate, in which the binary must run.
struct Binary {
    name: String,
    path: PathBuf,
    folder: PathBuf,
}

/// Builds the integration tests of all crates with `--cfg tapeloom_faults`, and returns their binaries.
fn build() -> Result<Vec<Binary>, Box<dyn Error>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["test", "--workspace", "--test", "*", "--no-run", "--message-format=json"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .env("RUSTC_WORKSPACE_WRAPPER", std::env::current_exe()?)
        .env(WRAPPER, "1")
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err("the tests do not build with their faults".into());
    }
    let mut binaries = Vec::new();
    for line in output.stdout.split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
        let message: Value = serde_json::from_slice(line)?;
        let text = |v: &Value| v.as_str().map(str::to_owned);
        let test = message["target"]["kind"].as_array().is_some_and(|k| k.contains(&"test".into()));
        let (Some(path), true) = (text(&message["executable"]), test) else { continue };
        let manifest = PathBuf::from(text(&message["manifest_path"]).unwrap_or_default());
        let name = text(&message["target"]["name"]).unwrap_or_default();
        if OF_FILES.contains(&&*name) {
            continue;
        }
        binaries.push(Binary {
            name,
            path: path.into(),
            folder: manifest.parent().map(Into::into).unwrap_or_default(),
        });
    }
    binaries.sort_by_key(|b| b.name.clone());
    Ok(binaries)
}

/// The name of the test that caught a fault, if any did, and the time in seconds.
type Outcome = (Result<Option<String>, std::io::Error>, f64);

/// Tries several faults in parallel, each in its own processes.
fn try_all(faults: &[Fault], binaries: &[Binary]) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut mine = Vec::new();
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(fault) = faults.get(i) else { return mine };
            let start = Instant::now();
            let outcome = try_one(*fault, binaries);
            let seconds = start.elapsed().as_secs_f64();
            eprintln!("{}: {outcome:?}, {seconds:.0} s", fault.name());
            mine.push((i, (outcome, seconds)));
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let mut all: Vec<(usize, Outcome)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().filter_map(|w| w.join().ok()).flatten().collect()
    });
    all.sort_by_key(|(i, _)| *i);
    all.into_iter().map(|(_, outcome)| outcome).collect()
}

/// A set of tests, as arguments of a test binary: the tests of one module, or of all modules but some.
struct Tests<'a> {
    binary: &'a Binary,
    args: Vec<String>,
}

/// Returns the sets of tests to try for a fault, in order: the module that the table of faults names, the modules
/// likely to catch a fault, and all other tests.
fn in_order(fault: Fault, binaries: &[Binary]) -> Vec<Tests<'_>> {
    let first: Vec<&str> =
        std::iter::once(fault.caught_by()).chain(FIRST.iter().copied()).collect();
    let mut all = Vec::new();
    for path in &first {
        let (name, module) = path.split_once("::").unwrap_or((path, ""));
        let args = if module.is_empty() { vec![] } else { vec![module.to_owned()] };
        all.extend(
            binaries
                .iter()
                .filter(|b| b.name == name)
                .map(|binary| Tests { binary, args: args.clone() }),
        );
    }
    for binary in binaries.iter().filter(|b| !first.contains(&b.name.as_str())) {
        let modules = first.iter().filter_map(|path| path.split_once("::"));
        let done = modules.filter(|(name, _)| *name == binary.name);
        let args = done.flat_map(|(_, module)| ["--skip".to_owned(), module.to_owned()]).collect();
        all.push(Tests { binary, args });
    }
    all
}

/// Returns the first test that fails with the fault enabled and passes without it.
fn try_one(fault: Fault, binaries: &[Binary]) -> Result<Option<String>, std::io::Error> {
    for Tests { binary, args } in in_order(fault, binaries) {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        if let Some((test, how)) = first_failure(binary, Some(fault), &args)? {
            let place = format!("{}::{test}{how}", binary.name);
            if first_failure(binary, None, &["--exact", &test])?.is_none() {
                return Ok(Some(place));
            }
            eprintln!("{place} fails without any fault, too");
        }
    }
    Ok(None)
}

/// Runs tests of a binary with a fault enabled, and returns the first that fails, with the signal if the process
/// crashed.
fn first_failure(
    binary: &Binary,
    fault: Option<Fault>,
    args: &[&str],
) -> Result<Option<(String, &'static str)>, std::io::Error> {
    let mut command = Command::new(&binary.path);
    // With one thread, the name of a test is printed before it runs, so a crash can be attributed to it.
    command.arg("--test-threads=1").args(args).current_dir(&binary.folder);
    command.env_remove(FAULT).stdout(Stdio::piped()).stderr(Stdio::null());
    if let Some(fault) = fault {
        command.env(FAULT, fault.name());
    }
    let mut child = command.spawn()?;
    let (sender, lines) = channel();
    let stdout = child.stdout.take();
    std::thread::spawn(move || {
        let mut line = Vec::new();
        for byte in stdout.into_iter().flat_map(|s| BufReader::new(s).bytes()).flatten() {
            line.push(byte);
            // The line so far is the name of a test, before the test runs, or its outcome.
            if line.ends_with(b" ... ") || byte == b'\n' {
                let text = String::from_utf8_lossy(&line).into_owned();
                if sender.send(text).is_err() {
                    return;
                }
                line.clear();
            }
        }
    });
    let end = Instant::now() + LIMIT;
    let mut test = String::new();
    let how = loop {
        match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(line) => match (line.strip_prefix("test "), line.trim_end()) {
                (_, "FAILED") => break Some(""),
                (Some(name), _) if line.ends_with(" ... ") => {
                    let name = name.trim_end_matches(" ... ");
                    test = name.trim_end_matches(" - should panic").to_owned();
                }
                _ => {}
            },
            Err(RecvTimeoutError::Timeout) => break Some(" (does not end)"),
            Err(RecvTimeoutError::Disconnected) => break None,
        }
    };
    if how.is_some() {
        child.kill()?;
    }
    let status = child.wait()?;
    Ok(match how {
        Some(how) => Some((test, how)),
        None if status.success() => None,
        None => Some((test, " (dies)")),
    })
}
