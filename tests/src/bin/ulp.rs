//! Prints the errors of f32 functions over every `STEP`th f32: `ulp STEP`, or `ulp STEP --write FILE` for the table
//! that a test compares with. `ulp STEP NAME ..` prints the rows of the named functions alone. `ulp 1` covers all 2³²
//! bit patterns, on all cores.

use std::fmt::Write;
use tapeloom_tests::f32_errors::all;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let (step, file, names) = match words.as_slice() {
        [step, "--write", file] => (step.parse()?, Some(*file), &[][..]),
        [step, names @ ..] => (step.parse()?, None, names),
        [] => return Err("usage: ulp STEP [--write FILE | NAME ..]".into()),
    };
    let mut table = format!("# one f32 in {step}\n");
    for f in all().into_iter().filter(|f| names.is_empty() || names.contains(&f.name.as_str())) {
        let worst = f.worst(step);
        println!("{} {worst}", f.name);
        writeln!(table, "{} {worst}", f.name)?;
    }
    if let Some(file) = file {
        std::fs::write(file, table)?;
    }
    Ok(())
}
