//! Generates Rust files from chapters of the book, for the tests of this crate.
//!
//! - "Differentiation from scratch": its blocks build on each other, so they cannot be separate doctests; joined in
//!   order they are a program with its tests.
//! - Rendered errors: a block of Rust followed by a `text` block that starts with `error[` becomes a function that
//!   collects the errors; a test compares their text with that block.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

/// The chapters of the book that show tapeloom's error messages, as it prints them.
const RENDERED: [&str; 2] = ["errors", "quick-start"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let out = env::var("OUT_DIR")?;
    let program: String = blocks("from-scratch")?
        .iter()
        .filter(|(fence, _)| fence == "rust")
        .flat_map(|(_, lines)| lines.iter().map(|l| format!("{l}\n")))
        .collect();
    fs::write(Path::new(&out).join("from_scratch.rs"), program)?;

    let (mut functions, mut list) = (String::new(), String::new());
    for chapter in RENDERED {
        let blocks = blocks(chapter)?;
        for (i, pair) in blocks.windows(2).enumerate() {
            let [(before, code), (fence, text)] = pair else { continue };
            if before != "rust" || fence != "text" || !text[0].starts_with("error[") {
                continue;
            }
            let name = format!("{}_{i}", chapter.replace('-', "_"));
            functions += &format!(
                "fn {name}() -> Result<Vec<String>, Box<dyn std::error::Error>> {{ let mut seen = Vec::new();\n"
            );
            // An error names a line by its number within the book's block. Remember the line before the block, to
            // convert line numbers.
            let line = functions.lines().count();
            for l in code.iter().filter(|l| !l.starts_with("# ")) {
                let l = l.replace(".unwrap_err();", ".unwrap_err(); seen.push(error.to_string());");
                writeln!(functions, "{l}")?;
            }
            functions += "Ok(seen) }\n";
            writeln!(list, "    ({chapter:?}, {:?}, {line}, {name}),", text.join("\n"))?;
        }
    }
    let list = format!("const ERRORS: &[(&str, &str, usize, Block)] = &[\n{list}];\n");
    fs::write(Path::new(&out).join("errors.rs"), functions + &list)?;
    Ok(())
}

/// Returns the fenced blocks of a chapter, each as the text behind the opening fence, and the block's lines.
fn blocks(chapter: &str) -> Result<Vec<(String, Vec<String>)>, std::io::Error> {
    let file = format!("../book/src/{chapter}.md");
    println!("cargo:rerun-if-changed={file}");
    let mut blocks: Vec<(String, Vec<String>)> = Vec::new();
    let mut inside = false;
    for line in fs::read_to_string(file)?.lines() {
        match (line.strip_prefix("```"), blocks.last_mut()) {
            (Some(_), _) if inside => inside = false,
            (Some(fence), _) => {
                inside = true;
                blocks.push((fence.to_owned(), Vec::new()));
            }
            (None, Some((_, lines))) if inside => lines.push(line.to_owned()),
            (None, _) => {}
        }
    }
    Ok(blocks)
}
