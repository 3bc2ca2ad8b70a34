//! The errors of functions that are computed in f32: `ulp` over every f32, `ulp --write FILE` as the table that a test holds
//! samples to. About a minute for each function.

use std::fmt::Write;
use tapeloom_tests::f32_errors::all;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let mut table = String::new();
    for f in all() {
        let worst = f.worst(1);
        println!("{} {worst}", f.name);
        writeln!(table, "{} {worst}", f.name)?;
    }
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => {}
        ["--write", file] => std::fs::write(file, table)?,
        _ => return Err("usage: ulp [--write FILE]".into()),
    }
    Ok(())
}
