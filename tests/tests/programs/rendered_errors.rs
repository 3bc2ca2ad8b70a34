//! Errors must print as the book shows them: with the user's lines, the operands, their origins, and a fix.
//!
//! `BLESS=1 cargo test -p tapeloom-tests --test programs rendered_errors::` writes the printed errors into the
//! chapters: read the difference before you commit it.

#![allow(unused_variables, clippy::items_after_statements, reason = "code of the book")]

use std::fs;
use std::path::Path;

/// A Rust block of a chapter as a function; it returns the texts of the errors of the block.
type Block = fn() -> Result<Vec<String>, Box<dyn std::error::Error>>;

include!(concat!(env!("OUT_DIR"), "/errors.rs"));

#[test]
fn errors_print_as_the_book_says() {
    assert!(ERRORS.len() > 8, "only {} blocks", ERRORS.len());
    let mut failures = Vec::new();
    for (chapter, expected, line, block) in ERRORS {
        let printed: Vec<String> =
            block().unwrap().iter().map(|text| as_in_a_program(text, *line)).collect();
        if printed.iter().any(|text| text == expected) {
            continue;
        }
        // If no error equals the expected text, report one of the same kind.
        let kind = expected.split(']').next();
        let closest = printed.iter().find(|text| text.split(']').next() == kind);
        let Some(text) = closest.or(printed.first()) else { panic!("{chapter}: no error") };
        if std::env::var_os("BLESS").is_some() {
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../book/src");
            let file = file.join(format!("{chapter}.md"));
            let page = fs::read_to_string(&file).unwrap().replace(expected, text);
            fs::write(file, page).unwrap();
        } else {
            failures.push(format!("-- {chapter} shows\n{expected}\n-- but it prints\n{text}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Replaces locations in the generated file by locations in `src/main.rs`, as if the block began at its line 1.
fn as_in_a_program(text: &str, line: usize) -> String {
    let mut pieces = text.split(concat!(env!("OUT_DIR"), "/errors.rs:"));
    let mut result = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let digits = piece.find(|c: char| !c.is_ascii_digit()).unwrap_or(piece.len());
        let (number, rest) = piece.split_at(digits);
        let number: usize = number.parse().unwrap();
        result += &format!("src/main.rs:{}{rest}", number - line);
    }
    result
}
