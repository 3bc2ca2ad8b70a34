//! Random programs in bulk. `fuzz --cases N [--seed S]` checks the values, derivatives and batches of N programs by
//! all engines, passes and text. `fuzz --planned N [--seed S]` checks N programs with loops under policies and
//! budgets ([`tapeloom_tests::random_loops`]), and `fuzz --machines N [--seed S]` runs N such programs on simulated
//! machines. `fuzz --pieces N` and `fuzz --nests N` compare one thread and several threads, on programs without and with
//! loops, `fuzz --donated N` and `fuzz --donated-loops N` calls with and without donated arguments, `fuzz --recurrences N` loops over batches in pieces and whole ([`tapeloom_tests::random_batches`]), and
//! `fuzz --chunks N` batches of loops of different lengths ([`tapeloom_tests::random_chunks`]).
//! `fuzz --callers N [--seconds T]` compiles N programs, which sixteen threads call at the same time for T
//! seconds.
//!
//! Programs are split into chunks, each run by its own process, so that a crash is found too: the process prints the
//! index of its current program. Each program has a time limit, in addition to the budget of size and memory that it
//! has everywhere. Failures are shrunk and printed as text tests.
//!
//! The last line is `N programs, M differences`; the exit code is 1 if there are any.

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tapeloom_ir::Module;
use tapeloom_tests::fuzz::{self, Law, failure, seeds};
use tapeloom_tests::program_generator::Recipe;
use tapeloom_tests::random_batches::{self, Recurrence};
use tapeloom_tests::random_chunks::{self, Batch};
use tapeloom_tests::random_loops::{self, Program};
use tapeloom_tests::stress;
use tapeloom_tests::{Case, Failure};

/// A family of random programs, with the properties that are checked on each program.
#[derive(Clone, Copy)]
struct Family {
    /// The command line flag that gives the number of programs.
    flag: &'static str,
    /// Returns a report if the program of this seed violates a property.
    failure: fn(u64) -> Option<String>,
    /// Returns the program of this seed as text.
    show: fn(u64) -> String,
}

const FAMILIES: [Family; 9] = [
    Family { flag: "--cases", failure: |seed| failure(seed, everything), show: recipe },
    Family { flag: "--pieces", failure: |seed| failure(seed, fuzz::pieces), show: recipe },
    Family { flag: "--donated", failure: |seed| failure(seed, fuzz::donated), show: recipe },
    Family {
        flag: "--donated-loops",
        failure: |seed| random_loops::failure(Program::draw(seed), seed, random_loops::donated),
        show: |seed| format!("{:?}", Program::draw(seed)),
    },
    Family {
        flag: "--nests",
        failure: |seed| random_loops::failure(Program::draw(seed), seed, random_loops::pieces),
        show: |seed| format!("{:?}", Program::draw(seed)),
    },
    Family {
        flag: "--recurrences",
        failure: random_batches::failure,
        show: |seed| format!("{:?}", Recurrence::draw(seed)),
    },
    Family {
        flag: "--chunks",
        failure: random_chunks::failure,
        show: |seed| format!("{:?}", Batch::draw(seed)),
    },
    Family {
        flag: "--planned",
        failure: |seed| random_loops::failure(Program::draw(seed), seed, random_loops::in_turn),
        show: |seed| format!("{:?}", Program::draw(seed)),
    },
    Family {
        flag: "--machines",
        failure: |seed| {
            random_loops::failure(Program::with_nests(seed), seed, random_loops::machines)
        },
        show: |seed| format!("{:?}", Program::with_nests(seed)),
    },
];

/// The number of programs that one child process checks.
const CHUNK: u64 = 500;
/// The time limit for all checks of one program.
const LIMIT: Duration = Duration::from_secs(10);

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [mut of, ..] = FAMILIES;
    let (mut cases, mut seed, mut child) = (1000u64, 0u64, None);
    let (mut callers, mut seconds) = (false, 60);
    for pair in args.chunks(2) {
        let [name, value] = pair else { return Err(usage()) };
        if let Some(family) = FAMILIES.into_iter().find(|f| f.flag == name) {
            (of, cases) = (family, value.parse()?);
            continue;
        }
        match name.as_str() {
            "--seed" => seed = value.parse()?,
            "--callers" => (callers, cases) = (true, value.parse()?),
            "--seconds" => seconds = value.parse()?,
            // The flag of a child process, which checks one chunk of programs. Its value is the index of the chunk's
            // first program.
            "--chunk" => child = Some(value.parse()?),
            _ => return Err(usage()),
        }
    }
    if let Some(first) = child {
        chunk(of, seed, first, cases);
        return Ok(ExitCode::SUCCESS);
    }
    if callers {
        let drawn = seeds(seed).take(cases as usize);
        let calls = stress::callers(drawn, Duration::from_secs(seconds))?;
        println!("{calls} calls of {cases} programs in {seconds} s, no difference");
        return Ok(ExitCode::SUCCESS);
    }
    let start = Instant::now();
    let (next, wrong) = (AtomicU64::new(0), AtomicU64::new(0));
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let worker = || {
        loop {
            let first = next.fetch_add(CHUNK, Ordering::Relaxed);
            if first >= cases {
                return Ok(());
            }
            let found = supervise(of, seed, first, CHUNK.min(cases - first));
            wrong.fetch_add(found.map_err(|e| e.to_string())?, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| -> Result<(), String> {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|w| w.join().map_err(|_| "a worker died".to_owned())?)
    })?;
    let (seconds, wrong) = (start.elapsed().as_secs_f64(), wrong.into_inner());
    println!("seed {seed}, {seconds:.0} s, {:.0} programs a second", cases as f64 / seconds);
    println!("{cases} programs, {wrong} differences");
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn usage() -> Box<dyn Error> {
    "usage: fuzz --cases|--pieces|--nests|--recurrences|--chunks|--planned|--machines|--callers N [--seed S] [--seconds T]"
        .into()
}

/// Checks `count` programs from index `first` in a child process, prints its reports, and returns the number of
/// failures. If the process crashes, its current program counts as a failure, and another process continues with the
/// next program.
fn supervise(of: Family, seed: u64, mut first: u64, mut count: u64) -> Result<u64, Box<dyn Error>> {
    let mut wrong = 0;
    while count > 0 {
        let mut child = Command::new(std::env::current_exe()?)
            .args([of.flag, &count.to_string(), "--seed", &seed.to_string()])
            .args(["--chunk", &first.to_string()])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (mut at, mut report) = (0, String::new());
        for line in child.stdout.take().into_iter().flat_map(|s| BufReader::new(s).lines()) {
            let line = line?;
            if let Some(number) = line.strip_prefix("@ ") {
                at = number.parse()?;
                // Print a report as a whole, because other threads print too.
                print!("{}", std::mem::take(&mut report));
                continue;
            }
            wrong += u64::from(line.starts_with("! "));
            report += &format!("{line}\n");
        }
        print!("{report}");
        let status = child.wait()?;
        if status.success() {
            break;
        }
        wrong += 1;
        let last = seeds(seed).nth((first + at) as usize).unwrap_or_default();
        println!("! SWEEP_SEED={last}: the process ended with {status}\n{}", (of.show)(last));
        (first, count) = (first + at + 1, count - at - 1);
    }
    Ok(wrong)
}

/// Checks the programs of a chunk, in a child process. Prints the index of each program before its check, and the
/// report of a failed check.
fn chunk(of: Family, seed: u64, first: u64, count: u64) {
    for (i, seed) in seeds(seed).skip(first as usize).take(count as usize).enumerate() {
        println!("@ {i}");
        if let Some(failure) = (of.failure)(seed) {
            println!("! {failure}");
        }
    }
}

/// Returns the program of a seed as text.
fn recipe(seed: u64) -> String {
    let mut m = Module::new();
    let program = Recipe::draw(seed).program(&mut m);
    format!("{:?}", program.map(|case| tapeloom_ir::print_functions(&m, &[case.f])))
}

/// Checks the values of a random program and one further property, such as its derivatives or its batches. The further
/// property is selected by the sum of the seeds in the program's description.
fn everything(m: &mut Module, case: &Case, recipe: &Recipe) -> Result<(), Failure> {
    let start = Instant::now();
    let turns: [Law; 8] = [
        fuzz::derivatives,
        fuzz::batches,
        fuzz::words,
        fuzz::text,
        fuzz::recordings,
        fuzz::policies,
        fuzz::derivatives,
        fuzz::batches,
    ];
    fuzz::values(m, case, recipe)?;
    let turn = recipe.genes.iter().map(|g| usize::from(g.seed)).sum::<usize>();
    turns[turn % turns.len()](m, case, recipe)?;
    let took = start.elapsed();
    if took > LIMIT { Err(format!("it takes {} s", took.as_secs()).into()) } else { Ok(()) }
}
