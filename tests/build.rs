//! Makes one Rust file of the blocks of the book's chapter "Differentiation from scratch".
//!
//! The blocks of that chapter build on each other, so they cannot be doctests of their own; joined
//! in order they are a program with its tests.

use std::path::Path;
use std::{env, fs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let chapter = Path::new("../book/src/from-scratch.md");
    println!("cargo:rerun-if-changed={}", chapter.display());
    let mut program = String::new();
    let mut inside = false;
    for line in fs::read_to_string(chapter)?.lines() {
        match line {
            "```rust" => inside = true,
            "```" => inside = false,
            _ if inside => {
                program.push_str(line);
                program.push('\n');
            }
            _ => {}
        }
    }
    fs::write(Path::new(&env::var("OUT_DIR")?).join("from_scratch.rs"), program)?;
    Ok(())
}
