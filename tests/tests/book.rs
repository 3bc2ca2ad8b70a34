//! The book: every block of program text parses, verifies and prints as it stands; every chapter is
//! listed; links lead somewhere. (Rust blocks are doctests of this crate.)

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use tapeloom_ir::{parse_module, print_module, verify_module};

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

/// The blocks of a chapter that start with that fence.
fn blocks(text: &str, fence: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Option<String> = None;
    for line in text.lines() {
        match &mut open {
            None if line == fence => open = Some(String::new()),
            None => {}
            Some(_) if line == "```" => found.extend(open.take()),
            Some(block) => {
                block.push_str(line);
                block.push('\n');
            }
        }
    }
    found
}

#[test]
fn program_text_is_program_text() {
    let mut seen = 0;
    for (chapter, text) in chapters() {
        for block in blocks(&text, "```ir") {
            let module =
                parse_module(&block).unwrap_or_else(|e| panic!("{chapter}: {e:?}\n{block}"));
            assert_eq!(verify_module(&module), [], "{chapter}\n{block}");
            assert_eq!(print_module(&module).trim_end(), block.trim_end(), "{chapter}");
            seen += 1;
        }
    }
    assert!(seen > 0);
}

#[test]
fn every_chapter_is_listed_and_every_link_leads_somewhere() {
    let listed = fs::read_to_string(source().join("SUMMARY.md")).unwrap();
    let files: BTreeSet<String> = chapters().into_iter().map(|(name, _)| name).collect();
    for name in files.iter().filter(|n| *n != "SUMMARY.md") {
        assert!(listed.contains(&format!("({name})")), "SUMMARY.md does not list {name}");
    }
    for (chapter, text) in chapters() {
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or("");
            if file.ends_with(".md") {
                assert!(files.contains(file), "{chapter} links to {file}, which does not exist");
            }
        }
    }
}
