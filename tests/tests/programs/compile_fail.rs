//! Compile errors of wrong programs.
//!
//! Each file of `tests/compile_fail` is a program that must not compile. Its head states a text that must appear
//! among the messages (`says:`) and the largest number of errors (`errors:`), because one mistake should give one
//! message. The rest of a message is rustc's own; it changes with rustc's version and is not compared.
//!
//! The test runs the compiler itself, on the library that the test was built with: a harness that builds a package
//! for each case (as `trybuild` does) would build all dependencies a second time.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

#[test]
fn compiler_errors_name_the_remedy() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("compile_fail");
    let library = library();
    let mut cases: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "rs"))
        .collect();
    cases.sort();
    assert!(cases.len() >= 10, "the cases were not found");
    let mut failures = Vec::new();
    for case in &cases {
        let text = std::fs::read_to_string(case).unwrap();
        let asked = |key: &str| {
            let prefix = format!("//! {key}: ");
            text.lines().filter_map(|l| l.strip_prefix(&prefix)).map(str::to_owned).collect()
        };
        let (says, errors): (Vec<String>, Vec<String>) = (asked("says"), asked("errors"));
        assert!(!says.is_empty(), "{} expects nothing", case.display());
        let messages = compile(case, &library);
        let found = messages
            .lines()
            .filter(|l| l.starts_with("error") && !l.starts_with("error: aborting"))
            .count();
        // rustc shortens long types but not lines of notes, so each expected text must be within one line.
        let mut missing: Vec<String> =
            says.into_iter().filter(|s| !messages.contains(s.as_str())).collect();
        if found == 0 {
            missing.push("any error".into());
        }
        if let Some(most) = errors.first().map(|n| n.parse::<usize>().unwrap())
            && found > most
        {
            missing.push(format!("not more than {most} errors, there are {found}"));
        }
        if !missing.is_empty() {
            failures.push(format!("{}: wanted {missing:#?} in\n{messages}", case.display()));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// Returns rustc's messages for the program in the file `case`.
fn compile(case: &Path, library: &Path) -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or("rustc".into());
    let output = Command::new(rustc)
        .args(["--edition", "2024", "--crate-type", "bin", "--emit", "metadata", "-A", "warnings"])
        .arg("--extern")
        .arg(format!("tapeloom={}", library.display()))
        .arg("-L")
        .arg(format!("dependency={}", library.parent().unwrap().display()))
        .arg("-o")
        .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("compile_fail"))
        .arg(case)
        .output()
        .unwrap();
    assert!(!output.status.success(), "{} compiles", case.display());
    String::from_utf8(output.stderr).unwrap()
}

/// Returns the path of the compiled tapeloom library that this test was built with. Builds with other features leave
/// other files in the same folder; cargo has just updated ours, so the newest file is ours or one of the same source.
fn library() -> PathBuf {
    let folder = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let age = |path: &PathBuf| -> SystemTime { path.metadata().unwrap().modified().unwrap() };
    let of_tapeloom = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libtapeloom-") && name.ends_with(".rlib")
    };
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(of_tapeloom).max_by_key(age).expect("the library is built for this test")
}
