//! Prints the errors of f32 functions over every `STEP`th f32: `ulp STEP`, or `ulp STEP --write FILE` for the table
//! that a test compares with. `ulp 1` covers all 2³² bit patterns, on all cores.

use std::fmt::Write;
use tapeloom_tests::f32_errors::all;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (step, file) = match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [step] => (step.parse()?, None),
        [step, "--write", file] => (step.parse()?, Some((*file).to_owned())),
        _ => return Err("usage: ulp STEP [--write FILE]".into()),
    };
    let mut table = format!("# one f32 in {step}\n");
    for f in all() {
        let worst = f.worst(step);
        println!("{} {worst}", f.name);
        writeln!(table, "{} {worst}", f.name)?;
    }
    if let Some(file) = file {
        std::fs::write(file, table)?;
    }
    Ok(())
}
