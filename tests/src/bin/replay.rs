//! Replay: `replay --write FILE` writes the fingerprints of all programs, `replay --check FILE` compares the
//! fingerprints of this build with them and lists differences; `--only FAMILY,..` restricts the families,
//! `--stages NAME,..` compares only the outputs of these stages.
//!
//! The last line of a check is `N programs, M differences`; the exit code is 1 if there are any.

use std::error::Error;
use std::fs;
use std::process::ExitCode;
use tapeloom_tests::replay::{differences, print, replay};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (mut write, mut check, mut families, mut stages) = (None, None, Vec::new(), Vec::new());
    let words = |list: &str| list.split(',').map(str::to_owned).collect::<Vec<String>>();
    for pair in args.chunks(2) {
        match pair {
            [flag, file] if flag == "--write" => write = Some(file.clone()),
            [flag, file] if flag == "--check" => check = Some(file.clone()),
            [flag, list] if flag == "--only" => families = words(list),
            [flag, list] if flag == "--stages" => stages = words(list),
            _ => {
                return Err(
                    "replay --write FILE | --check FILE [--only FAMILY,..] [--stages NAME,..]"
                        .into(),
                );
            }
        }
    }
    let programs = replay(&families)?;
    let text = print(&programs);
    if let Some(file) = write {
        fs::write(file, &text)?;
        println!("{} programs, {} stages", programs.len(), text.lines().count());
    }
    let Some(file) = check else { return Ok(ExitCode::SUCCESS) };
    let mut before = fs::read_to_string(file)?;
    if !families.is_empty() {
        let of = |l: &&str| families.iter().any(|f| l.starts_with(&format!("{f}/")));
        before = before.lines().filter(of).map(|l| format!("{l}\n")).collect();
    }
    let differ = differences(&before, &text, &stages);
    differ.iter().for_each(|line| println!("{line}"));
    println!("{} programs, {} differences", programs.len(), differ.len());
    Ok(if differ.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
