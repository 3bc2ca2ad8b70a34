//! Every file of `tests/filetests` is a text test; see [`TextTest`].
//!
//! `BLESS=1 cargo test -p tapeloom-tests --test laws filetests::` writes the output into the files: read the
//! difference before you commit it.
//!
//! Programs in the documentation of the source are text too, and must print the same.

use std::path::{Path, PathBuf};
use tapeloom_backend::passes::PASSES;
use tapeloom_ir::{parse_module, print_module};
use tapeloom_tests::{Failure, TextTest};

#[test]
fn text_tests() {
    let bless = std::env::var_os("BLESS").is_some();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("filetests");
    let mut files = Vec::new();
    find(&root, "ir", &mut files);
    files.sort();
    assert!(files.len() > 30, "only {} files under {}", files.len(), root.display());
    let failures: Vec<String> = files
        .iter()
        .filter_map(|file| {
            let name = file.strip_prefix(&root).unwrap_or(file).display();
            check(file, bless).err().map(|e| format!("-- {name}: {e}"))
        })
        .collect();
    let (n, all) = (failures.len(), files.len());
    assert!(n == 0, "{n} of {all} text tests fail:\n{}", failures.join("\n"));
}

fn check(file: &Path, bless: bool) -> Result<(), Failure> {
    let text = std::fs::read_to_string(file)?;
    let test = TextTest::read(&text)?;
    let output = test.output()?;
    if bless {
        let blessed = test.blessed(&output);
        if blessed != text {
            std::fs::write(file, blessed)?;
        }
        return Ok(());
    }
    if output == test.expected {
        return Ok(());
    }
    Err(format!("expected\n{}got\n{output}", test.expected).into())
}

/// Each pass on the loop IR must have a folder of its name in `tests/filetests`. The folder must contain a program that
/// the pass changes, a program that it leaves unchanged, and a program that is run before and after the pass.
#[test]
fn every_pass_on_kernels_has_its_cases() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("filetests");
    for pass in PASSES {
        let (folder, mut files) = (root.join(pass.name), Vec::new());
        assert!(folder.is_dir(), "there is no folder {}", folder.display());
        find(&folder, "ir", &mut files);
        let (mut changed, mut left, mut run) = (0, 0, 0);
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            // Skip a file without `// expect:` here: another test reports it.
            let Some((input, _)) = text.split_once("// expect:") else { continue };
            run += usize::from(input.contains("\n// args:"));
            let steps = input.lines().next().unwrap();
            let named = steps.split('|').any(|s| s.split_whitespace().next() == Some(pass.name));
            assert!(named, "{}: {steps}", file.display());
            let program: String = input
                .lines()
                .filter(|line| !line.is_empty() && !line.starts_with("//"))
                .map(|line| format!("{line}\n"))
                .collect();
            let same = TextTest::read(&text).unwrap().expected == program;
            if same { left += 1 } else { changed += 1 }
        }
        assert!(
            changed > 0 && left > 0 && run > 0,
            "{}: {changed} changed, {left} left alone, {run} run",
            pass.name
        );
    }
}

/// Each pass on functions must have a folder of its name in `tests/filetests`. The folder must contain a program that
/// the pass changes, a program that it leaves unchanged, and a program that is run before and after the pass.
#[test]
fn every_pass_on_functions_has_its_cases() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("filetests");
    for pass in tapeloom_transforms::PASSES {
        let (folder, mut files) = (root.join(pass.name), Vec::new());
        assert!(folder.is_dir(), "there is no folder {}", folder.display());
        find(&folder, "ir", &mut files);
        let (mut changed, mut left, mut run) = (0, 0, 0);
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            let steps = text.lines().next().unwrap();
            let steps = steps.strip_prefix("// test:").unwrap().split('|').map(str::trim);
            assert!(steps.clone().any(|step| step == pass.name), "{}", file.display());
            let alone = steps.clone().all(|step| tapeloom_transforms::by_name(step).is_ok());
            let changes = TextTest::read(&text).unwrap().changes().unwrap();
            match changes.iter().any(|step| step == pass.name) {
                true => changed += 1,
                false => left += 1,
            }
            run += usize::from(alone && text.contains("\n// args:"));
        }
        assert!(
            changed > 0 && left > 0 && run > 0,
            "{}: {changed} changed, {left} left alone, {run} run",
            pass.name
        );
    }
}

#[test]
fn programs_in_documentation_print_as_they_stand() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    for folder in ["ir/src", "transforms/src", "backend/src", "prelude/src"] {
        find(&root.join(folder), "rs", &mut files);
    }
    files.sort();
    let mut seen = 0;
    let mut failures = Vec::new();
    for file in &files {
        let source = std::fs::read_to_string(file).unwrap();
        let comment = |l: &str| {
            let l = l.trim_start();
            let l = l.strip_prefix("//!").or(l.strip_prefix("///"))?;
            Some(l.strip_prefix(' ').unwrap_or(l).to_owned() + "\n")
        };
        let comments: String = source.lines().filter_map(comment).collect();
        for block in comments.split("```text\n").skip(1) {
            let block = block.split("```").next().unwrap_or_default();
            // Skip blocks that show a program before and after a pass in two columns, which do not parse.
            let columns = block.lines().any(|l| l.trim().contains("    "));
            if !block.contains("func @") || columns {
                continue;
            }
            seen += 1;
            let name = file.strip_prefix(root).unwrap_or(file).display();
            let code: String =
                block.lines().filter(|l| !l.starts_with("//")).map(|l| format!("{l}\n")).collect();
            match parse_module(&code) {
                Err(e) => failures.push(format!("-- {name}: {}\n{block}", e[0])),
                Ok(m) if print_module(&m) != code => {
                    failures.push(format!("-- {name}: prints as\n{}", print_module(&m)));
                }
                Ok(_) => {}
            }
        }
    }
    assert!(seen >= 5, "only {seen} programs found");
    let n = failures.len();
    assert!(n == 0, "{n} of {seen} programs are wrong:\n{}", failures.join("\n"));
}

fn find(folder: &Path, extension: &str, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find(&path, extension, files);
        } else if path.extension().is_some_and(|e| e == extension) {
            files.push(path);
        }
    }
}
