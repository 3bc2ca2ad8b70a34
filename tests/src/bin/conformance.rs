//! Conformance to golden numbers: `conformance ops FILE.jsonl` and `conformance scalar FILE.json`.
//!
//! Prints a line for each operation with failures or unsupported cases, then the totals. The exit
//! code is 1 if anything failed.

use std::process::ExitCode;
use tapeloom_tests::conformance::{run_ops, run_scalar};

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let report = match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["ops", file] => run_ops(&std::fs::read_to_string(file)?)?,
        ["scalar", file] => run_scalar(&std::fs::read_to_string(file)?)?,
        _ => return Err("usage: conformance ops FILE.jsonl | conformance scalar FILE.json".into()),
    };
    for line in report.lines() {
        println!("{line}");
    }
    Ok(if report.failed() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
