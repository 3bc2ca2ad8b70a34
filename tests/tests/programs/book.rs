//! The book: the programs on its pages give the output shown there.
//!
//! Fenced blocks of code are tested according to the words behind the opening fence.
//!
//! | fence | tested here |
//! |---|---|
//! | `ir` | the text parses, verifies and prints the same |
//! | `ir STEP STEP` | the last `ir` block before it, after these steps of a [`TextTest`] |
//! | `kernels` | the last `ir` block before it, prepared and lowered |
//! | `plan` | the last `ir` block before it, prepared and lowered, as the table of its memory plan |
//! | `diff` | the lines that it adds are in the file that it names |
//! | `rust` | a doctest of this crate (`tests/src/book.rs`), or of the chapter's own program |
//!
//! `BLESS=1 cargo test -p tapeloom-tests --test programs book::` writes the blocks that are derived from others.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tapeloom::prelude::*;
use tapeloom_ir::{Kind, parse_module, print_module, verify_module};
use tapeloom_tests::{Failure, TextTest};

/// The Rust blocks of this chapter build on each other, so `build.rs` joins them into one program.
const ONE_PROGRAM: &str = "from-scratch.md";

#[test]
fn program_text_in_the_book_is_current() {
    let bless = std::env::var_os("BLESS").is_some();
    let mut failures = Vec::new();
    let mut seen = 0;
    for (chapter, text) in chapters() {
        let mut program: Option<String> = None;
        let mut fresh = text.clone();
        for block in blocks(&text) {
            let Block { line, fence, body } = &block;
            let at = format!("{chapter}:{line}");
            let expected = match fence.split_once(' ').unwrap_or((fence, "")) {
                ("ir", "") => {
                    program = Some(body.clone());
                    same_again(body)
                }
                ("ir", steps) => with(&program, |p| steps_of(p, steps)),
                ("kernels", "") => with(&program, |p| Ok(lowered(p)?.0)),
                ("plan", "") => with(&program, |p| Ok(lowered(p)?.1)),
                _ => continue,
            };
            seen += 1;
            match expected {
                Ok(want) if want.trim_end() == body.trim_end() => {}
                Ok(want) if bless && fence != "ir" => {
                    let (old, new) = (format!("```{fence}\n{body}```"), want.trim_end());
                    fresh = fresh.replacen(&old, &format!("```{fence}\n{new}\n```"), 1);
                }
                Ok(want) => failures.push(format!("{at}: the block should be\n{want}")),
                Err(e) => failures.push(format!("{at}: {e}\n{body}")),
            }
        }
        if fresh != text {
            fs::write(source().join(&chapter), fresh).unwrap();
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(seen > 10, "only {seen} blocks");
}

/// Parses and verifies a program, and returns it printed again.
fn same_again(text: &str) -> Result<String, Failure> {
    let module = parse_module(text).map_err(|e| e[0].clone())?;
    match verify_module(&module).first() {
        None => Ok(print_module(&module)),
        Some(broken) => Err(broken.to_string().into()),
    }
}

/// Returns the output of a text test with these steps, separated by blanks, on a program.
fn steps_of(program: &str, steps: &str) -> Result<String, Failure> {
    let steps = steps.replace(' ', " | ");
    TextTest::read(&format!("// test: {steps}\n{program}\n"))?.output()
}

/// Lowers the last function of a program, and returns the text of the loop program and of its memory plan.
fn lowered(program: &str) -> Result<(String, String), Failure> {
    let prepared = steps_of(program, "expand cse dce peephole")?;
    let module = parse_module(&prepared).map_err(|e| e[0].clone())?;
    let (f, _) = module.iter().last().ok_or("no function")?;
    let (kernels, plan) = tapeloom_backend::lower::plan(&module, f)?;
    Ok((kernels.to_string(), plan.to_string()))
}

fn with(
    program: &Option<String>,
    f: impl FnOnce(&str) -> Result<String, Failure>,
) -> Result<String, Failure> {
    f(program.as_ref().ok_or("there is no `ir` block before this one")?)
}

/// The pictures in the chapter on memory must equal the drawings of this program's tape, with and without a byte
/// budget.
#[test]
fn pictures_of_memory_are_those_of_the_program() {
    let step = |(x, v): (Var, Var)| {
        let pull = x.slice_axis(0, ..198) - 2.0 * x.slice_axis(0, 1..199) + x.slice_axis(0, 2..);
        let v = v + 0.1 * pull.pad(&[(1, 1)], 0.0) - 0.01 * v * v * v;
        (x + 0.1 * v, v)
    };
    let energy = move |x: Var| {
        let (_, v) = fori_loop(1000, |(_, s): (Var, (Var, Var))| step(s), (x, x.zeros_like()));
        v.square().sum()
    };
    let x = Tensor::full(&[200], 0.5).unwrap();
    let all = jit(grad(energy)).explain(&x).unwrap();
    let few = jit(grad(checkpoint(energy, Policy::Bytes(100_000)))).explain(&x).unwrap();
    for (name, picture) in [("memory_all", all.tape()), ("memory_budget", few.tape())] {
        // Titles in the picture contain line numbers of this file, so they are left out of the comparison.
        let mut drawn = String::new();
        for (i, part) in picture.to_svg().split("<title>").enumerate() {
            drawn += if i == 0 { part } else { part.split_once("</title>").unwrap().1 };
        }
        compare_picture(name, &drawn);
    }
}

/// Asserts that the picture `name` of the book is `drawn`; `BLESS=1` writes it.
pub(super) fn compare_picture(name: &str, drawn: &str) {
    let file = source().join(format!("img/{name}.svg"));
    if std::env::var_os("BLESS").is_some() {
        fs::write(&file, drawn).unwrap();
    }
    let known = fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(
        known, drawn,
        "{name}: `BLESS=1 cargo test -p tapeloom-tests --test programs book` draws it"
    );
}

/// A page of the book shows 100 columns of code (`book/page.css`) and cuts longer lines, so no block may have any.
#[test]
fn programs_fit_on_the_page() {
    let mut long = Vec::new();
    for (chapter, text) in chapters() {
        for block in text.split("\n```rust").skip(1) {
            let program = block.split("\n```").next().unwrap_or_default();
            let lines = program.lines().filter(|line| line.chars().count() > 100);
            long.extend(lines.map(|line| format!("{chapter}: {line}")));
        }
    }
    assert_eq!(long, [""; 0]);
}

#[test]
fn every_chapter_is_listed_and_every_link_leads_somewhere() {
    let listed = fs::read_to_string(source().join("SUMMARY.md")).unwrap();
    let files: BTreeSet<String> = chapters().into_iter().map(|(name, _)| name).collect();
    for name in files.iter().filter(|n| *n != "SUMMARY.md") {
        assert!(listed.contains(&format!("({name})")), "SUMMARY.md does not list {name}");
    }
    for (chapter, text) in chapters() {
        for file in text.split("{{#include ").skip(1).filter_map(|rest| rest.split("}}").next()) {
            assert!(source().join(file).exists(), "{chapter} includes {file}, which is not there");
        }
        let prose = prose(&text);
        for link in prose.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (file, section) = link.split_once('#').unwrap_or((link, ""));
            if link.contains("://") {
                continue;
            }
            let target = if file.is_empty() { &chapter } else { file };
            assert!(
                source().join(target).exists(),
                "{chapter} links to {file}, which is not there"
            );
            if !section.is_empty() {
                let target = fs::read_to_string(source().join(target)).unwrap();
                let found = headings(&target).any(|h| anchor(h) == section);
                assert!(found, "{chapter} links to {link}, but there is no such heading");
            }
        }
    }
}

#[test]
fn every_rust_block_is_tested() {
    let list = include_str!("../../src/book.rs");
    for (chapter, text) in chapters() {
        let rust = blocks(&text).iter().any(|b| b.fence.starts_with("rust"));
        let included = list.contains(&format!("/{chapter}\""));
        assert_eq!(rust && chapter != ONE_PROGRAM, included, "tests/src/book.rs: {chapter}");
        for Block { line, fence, body } in blocks(&text) {
            let known =
                ["ir", "kernels", "plan", "rust", "text", "sh", "toml", "diff", "c", "python"];
            let language = fence.split([' ', ',']).next().unwrap_or_default();
            assert!(known.contains(&language), "{chapter}:{line}: what is ```{fence}?");
            // A block that includes a whole example is tested as that example (`prelude/tests/it/examples.rs`).
            // The programs of *Shipping a gradient* link an object (`objects.rs`, `object_rows.rs`).
            let example = body.starts_with("{{#include ../../prelude/examples/")
                || ["logistic", "logistic_rows"]
                    .iter()
                    .any(|name| body.contains(&format!("fn main() -> Result<(), {name}::Failed>")));
            assert!(example || !fence.contains("ignore"), "{chapter}:{line} is not tested");
        }
    }
}

#[test]
fn lines_added_by_diffs_are_in_the_source() {
    for (chapter, text) in chapters() {
        for Block { line, body, .. } in blocks(&text).iter().filter(|b| b.fence == "diff") {
            let mut lines = body.lines();
            let file = lines.next().and_then(|l| l.strip_prefix("+++ b/")).unwrap_or_default();
            let source = fs::read_to_string(source().join("../..").join(file))
                .unwrap_or_else(|e| panic!("{chapter}:{line}: {file}: {e}"));
            let added: String =
                lines.filter_map(|l| l.strip_prefix('+')).map(|l| format!("{l}\n")).collect();
            assert!(!added.is_empty() && source.contains(&added), "{chapter}:{line}: {file}");
        }
    }
}

#[test]
fn every_kind_of_error_has_its_section() {
    let text = fs::read_to_string(source().join("errors.md")).unwrap();
    for kind in Kind::ALL {
        let heading = format!("\n## {}\n", kind.name());
        let (_, section) = text.split_once(&heading).unwrap_or_else(|| panic!("no {heading}"));
        let section = section.split("\n## ").next().unwrap_or_default();
        // `Kind::Internal` needs no section: it is a bug of tapeloom, which no user's program should cause.
        if kind != Kind::Internal {
            let named = section.contains(&format!("Kind::{kind:?}"));
            assert!(section.contains("```rust") && named, "`{kind}` needs a failing program");
        }
    }
}

/// Every function in the last column of the book's tables of names must be a public name of this library.
#[test]
fn names_in_the_tables_exist() {
    let mut names = BTreeSet::new();
    for folder in [
        "../prelude/src",
        "../ir/src/tensor",
        "../ir/src/lang/types.rs",
        "../ir/src/policy_table.rs",
    ] {
        public_names(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut names);
    }
    let mut seen = 0;
    for chapter in ["coming-from-jax.md", "arrays.md"] {
        let text = fs::read_to_string(source().join(chapter)).unwrap();
        for row in text.lines().filter(|l| l.starts_with("| ") && !l.starts_with("| numpy")) {
            // The last column of the row names functions of this library. Its code is between backticks; in the code,
            // each word before an opening bracket is the name of a function.
            let ours = row.rsplit(" | ").next().unwrap_or_default();
            let codes = ours.split('`').skip(1).step_by(2);
            for code in codes.filter(|c| !c.starts_with('#')) {
                let called = code.split('(').rev().skip(1).map(|s| {
                    s.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
                });
                for name in called.filter(|n| n.starts_with(|c: char| c.is_ascii_lowercase())) {
                    seen += 1;
                    assert!(names.contains(name), "{chapter}: there is no `{name}`: {row}");
                }
            }
        }
    }
    assert!(seen > 80, "only {seen} names");
}

/// Adds to `names` the names that the file or folder declares with `pub fn`, and the names in macro rows `name = Op;`
/// or `name name_axis ..`.
fn public_names(path: &Path, names: &mut BTreeSet<String>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            public_names(&entry.unwrap().path(), names);
        }
        return;
    }
    for line in fs::read_to_string(path).unwrap().lines() {
        let line = line.trim_start();
        let word =
            |s: &str| s.split(|c: char| !c.is_alphanumeric() && c != '_').next().map(str::to_owned);
        if let Some((_, rest)) = line.split_once("pub fn ") {
            names.extend(word(rest));
        } else if let Some((name, _)) = line.split_once(" = ") {
            names.extend(word(name).filter(|w| w == name));
        } else if line.contains("_axis ") {
            names.extend(line.split(' ').take(3).map(str::to_owned));
        } else if line.starts_with("fn from") {
            names.insert("from".to_owned());
        }
    }
}

#[test]
fn the_book_builds() {
    let book = source().parent().unwrap().to_owned();
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("book");
    let build = Command::new("mdbook").arg("build").arg("-d").arg(&out).arg(&book).output();
    // If mdbook is not installed, only the other tests check chapters, links, blocks and included files.
    let Ok(output) = build else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

// -- Reading ----------------------------------------------------------------------------------------

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../book/src")
}

fn chapters() -> Vec<(String, String)> {
    let mut chapters: Vec<(String, String)> = fs::read_dir(source())
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "md"))
        .map(|p| {
            (p.file_name().unwrap().to_string_lossy().into_owned(), fs::read_to_string(p).unwrap())
        })
        .collect();
    chapters.sort();
    chapters
}

/// A fenced block of a page.
struct Block {
    /// The line number of the block's opening fence in the page.
    line: usize,
    /// The text after the three backticks.
    fence: String,
    body: String,
}

fn blocks(text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    for (i, line) in text.lines().enumerate() {
        match &mut open {
            None => {
                let fence = line.strip_prefix("```").map(str::to_owned);
                open = fence.map(|fence| Block { line: i + 1, fence, body: String::new() });
            }
            Some(_) if line == "```" => found.extend(open.take()),
            Some(block) => {
                block.body.push_str(line);
                block.body.push('\n');
            }
        }
    }
    assert!(open.is_none(), "a block is not closed");
    found
}

/// Returns the text of a page without fenced blocks and inline code.
fn prose(text: &str) -> String {
    let outside = text.split("\n```").step_by(2).collect::<Vec<_>>().join("\n");
    outside.split('`').step_by(2).collect()
}

fn headings(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|l| l.starts_with('#')).map(|l| l.trim_start_matches('#').trim())
}

/// Returns the anchor under which mdBook links a heading.
fn anchor(heading: &str) -> String {
    let words = heading.to_lowercase().replace(' ', "-");
    words.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect()
}
