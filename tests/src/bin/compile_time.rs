//! Compile time for users: the seconds that rustc takes, in release, for `tests/data/compile_time.rs`, a file of sixty
//! small programs with closures of their own; then the time to trace, compile and run these programs.
//!
//! Libraries are built before and not timed. rustc's time is measured as wall-clock time and as processor time; the
//! latter hardly depends on other load.
//!
//! `compile_time FILE.ll` writes the LLVM IR from rustc to that file instead, for `cargo llvm-lines --files`.

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let build = ["build", "--release", "--package", "tapeloom"];
    succeed(Command::new(cargo).args(build).current_dir(&root))?;

    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let release = root.join(target).join("release");
    let program = release.join("compile_time_programs");
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc
        .args(["--edition", "2024", "--crate-name", "programs", "-C", "opt-level=3"])
        .args(["-C", "embed-bitcode=no"])
        .arg("--extern")
        .arg(format!("tapeloom={}", release.join("libtapeloom.rlib").display()))
        .arg("-L")
        .arg(format!("dependency={}", release.join("deps").display()))
        .arg(root.join("tests/data/compile_time.rs"));
    if let Some(lines) = std::env::args_os().nth(1) {
        rustc.args(["--emit", "llvm-ir", "-C", "codegen-units=1", "-C", "no-prepopulate-passes"]);
        return succeed(rustc.arg("-o").arg(lines));
    }
    let (start, before) = (Instant::now(), processors()?);
    succeed(rustc.arg("-o").arg(&program))?;
    let (clock, busy) = (start.elapsed().as_secs_f64(), processors()? - before);
    println!("compile_time_s {clock:.1}\ncompile_time_processor_s {busy:.1}");

    let start = Instant::now();
    succeed(&mut Command::new(program))?;
    println!("programs_s {:.2}", start.elapsed().as_secs_f64());
    Ok(())
}

fn succeed(command: &mut Command) -> Result<(), Box<dyn Error>> {
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}").into()) }
}

/// Returns the processor time of all child processes that have finished, in seconds; Linux counts hundredths of a
/// second.
fn processors() -> Result<f64, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The fields follow the program's name in parentheses, which may contain anything; the first of them is the third
    // field.
    let (_, fields) = stat.rsplit_once(')').ok_or("no fields in /proc/self/stat")?;
    let ticks = fields.split_whitespace().skip(13).take(2).map(str::parse::<f64>);
    Ok(ticks.sum::<Result<f64, _>>()? / 100.0)
}
