//! Every file of `tests/filetests` is a text test; see [`TextTest`].
//!
//! `BLESS=1 cargo test -p tapeloom-tests --test filetests` writes what comes out into the files:
//! read the difference before you commit it.

use std::path::{Path, PathBuf};
use tapeloom_tests::{Failure, TextTest};

#[test]
fn text_tests() {
    let bless = std::env::var_os("BLESS").is_some();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("filetests");
    let mut files = Vec::new();
    find(&root, &mut files);
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

fn find(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find(&path, files);
        } else if path.extension().is_some_and(|e| e == "ir") {
            files.push(path);
        }
    }
}
