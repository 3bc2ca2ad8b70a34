//! Reproduces the TapeFlow paper on streamed tapes: measures every claim on the simulated accelerator.
//!
//! ```text
//! cargo run --release -p tapeloom-tests --bin tapeflow               a table
//! cargo run --release -p tapeloom-tests --bin tapeflow -- --json     an object a line
//! cargo run --release -p tapeloom-tests --bin tapeflow -- --svg DIR  the study's figures
//! cargo run --release -p tapeloom-tests --bin tapeflow -- --quick    MTTKRP's replay, layers, and two kernels
//! ```
//!
//! Simulations are logged on stderr.
#![allow(clippy::print_stdout, reason = "a table")]

use serde_json::json;
use std::path::Path;
use std::time::Instant;
use tapeloom_tests::Failure;
use tapeloom_tests::tapeflow::{
    ArrayPlacement, CLAIMS, Claim, FIGURES, Outcome, Runs, STUDIES, Study, acceptance, smallest,
};

/// The claims of the TapeFlow paper that the quick form of this command measures, by number; below, the kernels, by
/// name.
const QUICK: [usize; 3] = [7, 14, 20];
const FEW: [&str; 2] = ["mttkrp", "nn"];

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    let svg = args.iter().position(|arg| arg == "--svg").and_then(|at| args.get(at + 1));
    let begin = Instant::now();
    let mut runs = Runs::new(move |what| {
        eprint!("\r{:5.0} s  {what:50}", begin.elapsed().as_secs_f64());
    });
    let quick = has("--quick");
    let chosen = |claim: &&Claim| !quick || QUICK.contains(&claim.number);
    let mut measured = Vec::new();
    for claim in CLAIMS.iter().filter(chosen) {
        let begin = Instant::now();
        measured.push((claim, (claim.measure)(&mut runs)?, begin.elapsed().as_secs_f64()));
    }
    let studies: Vec<Study> =
        STUDIES.into_iter().filter(|s| !quick || FEW.contains(&s.name)).collect();
    match has("--json") {
        true => measured.iter().for_each(|(claim, outcome, _)| lines(claim, outcome)),
        false => {
            table(&measured);
            println!(
                "\nBeside the authors' tables, 32 kB in 2 ways, streams free of time (* is outside its band):"
            );
            println!(
                "             misses       fewer lines   faster         accesses, ours over theirs"
            );
            println!(
                "kernel       cache streams  ours authors  ours authors  fwd  tape   rev  tape"
            );
            for row in acceptance(&mut runs, &studies)? {
                println!("{row}");
            }
            println!("\nWith the chains and the distances that the tables count:");
            let measured: Vec<Study> = studies.iter().filter_map(|s| s.measured()).collect();
            for row in acceptance(&mut runs, &measured)? {
                println!("{row}");
            }
            println!(
                "\nThe smallest tape on streams over the study's (* is more than a hundredth more):"
            );
            for (places, how) in ArrayPlacement::ALL {
                println!("\narrays: {how}");
                println!("kernel           tape            lines             ticks");
                for row in smallest(&mut runs, &studies, places)? {
                    println!("{row}");
                }
            }
        }
    }
    if let Some(folder) = svg {
        std::fs::create_dir_all(folder)?;
        for figure in FIGURES {
            let at = Path::new(folder).join(format!("figure-{}.svg", figure.number));
            std::fs::write(at, figure.svg(&mut runs)?)?;
        }
    }
    eprintln!("\r{:.0} s, {} simulations{:40}", begin.elapsed().as_secs_f64(), runs.made(), "");
    Ok(())
}

/// Prints the numbers that were measured for a claim of the TapeFlow paper, one JSON object per line.
fn lines(claim: &Claim, outcome: &Outcome) {
    for record in &outcome.records {
        let line = json!({
            "claim": claim.number,
            "kernel": record.kernel,
            "system": record.system,
            "value": record.value,
            "paper": record.paper,
            "raw": record.raw,
            "reproduced": outcome.reproduced,
            "beaten": outcome.beaten,
        });
        println!("{line}");
    }
}

fn table(measured: &[(&Claim, Outcome, f64)]) {
    for (claim, outcome, seconds) in measured {
        let verdict = if outcome.reproduced { "reproduced" } else { "not reproduced" };
        let beaten = match outcome.beaten {
            Some(true) => ", beaten",
            Some(false) => ", not beaten",
            None => "",
        };
        let marked = if claim.arithmetic { " (arithmetic)" } else { "" };
        println!("{:2} {}{marked}: {verdict}{beaten} ({seconds:.1} s)", claim.number, claim.claim);
        println!("   paper {}; authors' tables {}; ours {}", claim.paper, claim.raw, outcome.ours);
        println!("   criterion: {}", claim.criterion);
    }
    let count = |on: fn(&&(&Claim, Outcome, f64)) -> bool| measured.iter().filter(on).count();
    println!(
        "\n{} of {} reproduced, {} of them not arithmetic; {} of {} beaten",
        count(|m| m.1.reproduced),
        measured.len(),
        count(|m| m.1.reproduced && !m.0.arithmetic),
        count(|m| m.1.beaten == Some(true)),
        count(|m| m.1.beaten.is_some())
    );
}
