//! The dependencies between the files of a crate, read from the text of its sources.
//!
//! A file needs another if a `use` declaration or a path in its code leads to an item that the other one defines.
//! Re-exports are followed to the definition. A file that imports `crate::Function` needs `lang/function.rs`, and a
//! `mod.rs` that only lists and re-exports files needs none of them.
//!
//! This is no compiler, and has these limits:
//!
//! - Items defined by macros are not seen; paths to them count as paths to the file of the module named in the path.
//! - A `use` inside a function counts for its whole module.
//! - A name that is imported by `*`, or re-exported by the file with `pub use`, counts as needed wherever the word occurs
//!   in the code, whatever it means there. A name in small letters counts only where it is called, so functions passed as
//!   values are not seen.
//! - Methods, traits that are not imported by name, and paths inside string literals (`format!("{X}")`) are not seen.
//! - Items under `#[cfg(test)]` and `#[cfg(all(test, ..))]` are left out; under any other `cfg` they count.

use std::collections::{BTreeMap, BTreeSet};

/// The path of a module from the root of its crate.
type Path = Vec<String>;

/// A module of a crate: a file, or `mod name { .. }` in a file.
#[derive(Default)]
struct Module {
    /// The path of the module's file below `src`.
    file: String,
    defined: BTreeSet<String>,
    uses: Vec<Import>,
    /// Paths of two or more words in the module's code, outside of `use`.
    paths: BTreeSet<Path>,
    /// Words of the module's code, outside of `use` and paths, that may name an item: capitalized words, and words that
    /// are called.
    words: BTreeSet<String>,
}

/// A name that a `use` declaration imports; `*` stands for all names of a module.
struct Import {
    public: bool,
    path: Path,
    name: String,
}

/// The modules of a crate, parsed from its sources.
#[derive(Default)]
pub struct Crate {
    modules: BTreeMap<Path, Module>,
    /// Paths of modules that are compiled for tests only.
    tests: BTreeSet<Path>,
}

/// The result of resolving a path in the code.
enum Found {
    /// An item defined in this file.
    Item(String),
    /// A module of this crate.
    Module(Path),
    /// An item of another crate.
    Outside,
}

/// The largest number of re-exports that are followed for one path, so that cycles end.
const FOLLOWED: usize = 6;

impl Crate {
    /// Returns the crate that consists of these files, each a path below `src` and the text.
    pub fn of(files: impl IntoIterator<Item = (String, String)>) -> Crate {
        let mut all = Crate::default();
        for (file, text) in files {
            let stem = file.trim_end_matches(".rs");
            let module = stem.split('/').filter(|part| !["lib", "mod"].contains(part));
            let module: Path = module.map(String::from).collect();
            all.read(&file, module, &tokens(&text));
        }
        all
    }

    /// Returns the paths of the files that are not compiled for tests only.
    pub fn files(&self) -> BTreeSet<&str> {
        let module = |(path, _): &(&Path, &Module)| !self.is_test(path);
        self.modules.iter().filter(module).map(|(_, m)| m.file.as_str()).collect()
    }

    /// Returns the dependencies between files, as pairs (file, file that it needs), without files for tests only.
    pub fn arrows(&self) -> BTreeSet<(String, String)> {
        let files = self.files();
        let mut arrows = BTreeSet::new();
        for (path, module) in self.modules.iter().filter(|(path, _)| !self.is_test(path)) {
            for found in self.needs(path, module) {
                if found != module.file && files.contains(found.as_str()) {
                    arrows.insert((module.file.clone(), found));
                }
            }
        }
        arrows
    }

    fn is_test(&self, path: &[String]) -> bool {
        (0..=path.len()).any(|n| self.tests.contains(&path[..n]))
    }

    /// Returns the files that a module's imports and paths lead to, its own file included.
    fn needs(&self, path: &[String], module: &Module) -> Vec<String> {
        let mut found = Vec::new();
        for import in &module.uses {
            let target = self.resolve(path, &import.path, FOLLOWED);
            match target {
                Some(Found::Module(of)) if import.name == "*" => {
                    let own = |word: &str| {
                        module.defined.contains(word) || module.uses.iter().any(|u| u.name == word)
                    };
                    let words = module.words.iter().filter(|word| !own(word));
                    found.extend(
                        words.map(|word| self.look(&of, std::slice::from_ref(word), FOLLOWED)),
                    );
                }
                // A `pub use` alone does not need the file that defines the name; the module must also use the name.
                target if !import.public || module.words.contains(&import.name) => {
                    found.push(target);
                }
                Some(_) | None => {}
            }
        }
        found.extend(module.paths.iter().map(|path_in| self.resolve(path, path_in, FOLLOWED)));
        let file = |found| match found {
            Some(Found::Item(file)) => Some(file),
            // A path that ends at a module adds no file, because each path to an item in that module is resolved on
            // its own.
            Some(Found::Module(_) | Found::Outside) | None => None,
        };
        found.into_iter().filter_map(file).collect()
    }

    /// Resolves a path that occurs in the code of a module; `left` counts the re-exports followed so far.
    fn resolve(&self, module: &[String], path: &[String], left: usize) -> Option<Found> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => {
                let root = self.modules.get(&[][..])?;
                self.look(&[], rest, left).or_else(|| Some(Found::Item(root.file.clone())))
            }
            "self" => self.look(module, rest, left),
            "super" => {
                let (_, parent) = module.split_last()?;
                match rest.first().is_some_and(|next| next == "super") {
                    true => self.resolve(parent, rest, left),
                    false => self.look(parent, rest, left),
                }
            }
            _ => self.look(module, path, left),
        }
    }

    /// Resolves a path from a module downwards, through re-exports; `left` counts the re-exports followed so far.
    fn look(&self, module: &[String], path: &[String], left: usize) -> Option<Found> {
        let here = self.modules.get(module)?;
        let Some((name, rest)) = path.split_first() else {
            return Some(Found::Module(module.to_vec()));
        };
        let left = left.checked_sub(1)?;
        let child = [module, std::slice::from_ref(name)].concat();
        let below = self.modules.get(&child);
        if let Some(below) = below.filter(|_| !rest.is_empty()) {
            // If the module has no such item, a macro may define it: count the module's file.
            let found = self.look(&child, rest, left + 1);
            return found.or_else(|| Some(Found::Item(below.file.clone())));
        }
        if here.defined.contains(name) {
            return Some(Found::Item(here.file.clone()));
        }
        let by_name = here.uses.iter().filter(|import| import.name == *name);
        let by_name = by_name.map(|import| [&import.path, rest].concat());
        let by_name: Vec<Path> = by_name.collect();
        if let Some(found) = by_name.iter().find_map(|to| self.resolve(module, to, left)) {
            return Some(found);
        }
        if !by_name.is_empty() {
            return Some(Found::Outside);
        }
        if below.is_some() {
            return Some(Found::Module(child));
        }
        here.uses.iter().filter(|import| import.name == "*").find_map(|import| {
            match self.resolve(module, &import.path, left)? {
                Found::Module(of) if of != module => self.look(&of, path, left),
                Found::Module(_) | Found::Item(_) | Found::Outside => None,
            }
        })
    }

    /// Adds the modules, imports, paths and words of a file, given as tokens.
    fn read(&mut self, file: &str, module: Path, tokens: &[&str]) {
        let new = || Module { file: file.to_owned(), ..Module::default() };
        let mut here = module;
        // For each enclosing `mod name {`, the number of braces that are open before it.
        let mut around: Vec<usize> = Vec::new();
        let (mut at, mut depth) = (0, 0);
        self.modules.insert(here.clone(), new());
        while at < tokens.len() {
            let next = |n: usize| tokens.get(at + n).copied().unwrap_or_default();
            let before = |n: usize| at.checked_sub(n).map_or("", |i| tokens[i]);
            let is_top = depth == around.last().copied().unwrap_or(0);
            let Some(module) = self.modules.get_mut(&here) else { return };
            match tokens[at] {
                "#" if TESTS.iter().any(|test| tokens[at..].starts_with(test)) => {
                    let from = attributes(tokens, at);
                    if tokens[from..].starts_with(&["mod"]) && is_word(tokens[from + 1]) {
                        self.tests.insert([&here[..], &[tokens[from + 1].to_owned()]].concat());
                    }
                    at = item(tokens, from);
                }
                "{" => (at, depth) = (at + 1, depth + 1),
                "}" => {
                    if around.last() == Some(&depth) {
                        around.pop();
                        here.pop();
                    }
                    (at, depth) = (at + 1, depth.saturating_sub(1));
                }
                "mod" if next(2) == "{" => {
                    here.push(next(1).to_owned());
                    self.modules.insert(here.clone(), new());
                    depth += 1;
                    around.push(depth);
                    at += 3;
                }
                // `mod name;` alone is no dependency on the file of that module.
                "mod" if next(2) == ";" => at += 3,
                "use" if next(1) != "<" => {
                    let public = before(1) == "pub" || before(1) == ")";
                    at = tree(tokens, at + 1, &[], public, &mut module.uses);
                }
                word if is_word(word) => {
                    if is_top && ITEMS.contains(&word) && is_word(next(1)) {
                        module.defined.insert(next(1).to_owned());
                    }
                    if is_top && word == "macro_rules" {
                        module.defined.insert(next(2).to_owned());
                    }
                    let mut path = vec![word.to_owned()];
                    at += 1;
                    if !["::", "."].contains(&tokens[..at - 1].last().copied().unwrap_or("")) {
                        while tokens.get(at) == Some(&"::")
                            && tokens.get(at + 1).is_some_and(|t| is_word(t))
                        {
                            path.push(tokens[at + 1].to_owned());
                            at += 2;
                        }
                        let calls = ["(", "!"].contains(&tokens.get(at).copied().unwrap_or(""));
                        let is_new = tokens[..at - 1].last() == Some(&"fn");
                        if path.len() > 1 {
                            module.paths.insert(path);
                        } else if word.starts_with(char::is_uppercase) || calls && !is_new {
                            module.words.insert(word.to_owned());
                        }
                    }
                }
                _ => at += 1,
            }
        }
    }
}

/// The first tokens of attributes that mark an item as test-only.
const TESTS: [&[&str]; 2] =
    [&["#", "[", "cfg", "(", "test", ")"], &["#", "[", "cfg", "(", "all", "(", "test", ","]];

/// Keywords that stand before the name in a definition of an item.
const ITEMS: [&str; 8] = ["fn", "struct", "enum", "union", "trait", "type", "const", "static"];

/// Returns the index of the token after an item's attributes and visibility, which begin at token `at`.
fn attributes(tokens: &[&str], mut at: usize) -> usize {
    while tokens.get(at) == Some(&"#") {
        at = group(tokens, at + 1);
    }
    if tokens.get(at) == Some(&"pub") {
        at += 1;
        if tokens.get(at) == Some(&"(") {
            at = group(tokens, at);
        }
    }
    at
}

/// Returns the index of the token after the item, statement or field that begins at token `at`.
fn item(tokens: &[&str], mut at: usize) -> usize {
    let lists = ["mod", "use", "impl", "unsafe", "macro_rules", "let"];
    let first = tokens.get(at).copied().unwrap_or_default();
    let is_item = ITEMS.contains(&first) || lists.contains(&first);
    while at < tokens.len() {
        match tokens[at] {
            "{" => return group(tokens, at),
            ";" => return at + 1,
            "," if !is_item => return at + 1,
            "}" => return at,
            "(" | "[" => at = group(tokens, at),
            _ => at += 1,
        }
    }
    at
}

/// Returns the index of the token after the brackets that open at token `at`.
fn group(tokens: &[&str], mut at: usize) -> usize {
    let mut depth = 0;
    while at < tokens.len() {
        match tokens[at] {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            break;
        }
    }
    at
}

/// Adds the names of the `use` tree that begins at a token, and returns the index of the token after the tree.
fn tree(
    tokens: &[&str],
    mut at: usize,
    prefix: &[String],
    public: bool,
    uses: &mut Vec<Import>,
) -> usize {
    let mut path = prefix.to_vec();
    while at < tokens.len() {
        match tokens[at] {
            "::" => at += 1,
            "{" => {
                at += 1;
                while tokens.get(at).is_some_and(|t| *t != "}") {
                    at = tree(tokens, at, &path, public, uses);
                    at += usize::from(tokens.get(at) == Some(&","));
                }
                return at + 1;
            }
            "*" => {
                uses.push(Import { public, path, name: "*".to_owned() });
                return at + 1;
            }
            word if is_word(word) && word != "as" => {
                // `self` in braces means the path before the braces.
                if word != "self" || path.is_empty() {
                    path.push(word.to_owned());
                }
                at += 1;
            }
            _ => break,
        }
    }
    let mut name = path.last().cloned().unwrap_or_default();
    if tokens.get(at) == Some(&"as") {
        name = tokens.get(at + 1).copied().unwrap_or_default().to_owned();
        at += 2;
    }
    uses.push(Import { public, path, name });
    // If the tree ends at a token that cannot follow a tree, skip it, so that it is not read again.
    let ends = tokens.get(at).is_none_or(|t| ["}", ",", ";"].contains(t));
    at + usize::from(!ends)
}

fn letter(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn is_word(token: &str) -> bool {
    token.starts_with(letter)
}

/// Splits a source into words and signs, `::` as one token, without comments and string literals.
fn tokens(source: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        let length = match skipped(rest) {
            Some(length) => length,
            None => {
                let word = rest.find(|c| !letter(c)).unwrap_or(rest.len());
                let length = match rest.starts_with("::") {
                    true => 2,
                    false => word.max(c.len_utf8()),
                };
                found.extend((!c.is_whitespace()).then_some(&rest[..length]));
                length
            }
        };
        rest = &rest[length..];
    }
    found
}

/// Returns the length in bytes of the comment, string or character literal at the start of `rest`, or `None`.
fn skipped(rest: &str) -> Option<usize> {
    let to = |from: usize, end: &str| {
        let found = rest.get(from..)?.find(end);
        Some(found.map_or(rest.len(), |at| from + at + end.len()))
    };
    if rest.starts_with("//") {
        return to(2, "\n");
    }
    if rest.starts_with("/*") {
        return to(2, "*/");
    }
    let text = rest.strip_prefix(['b', 'c']).unwrap_or(rest);
    let prefix = rest.len() - text.len();
    if let Some(raw) = text.strip_prefix('r') {
        let quote = raw.trim_start_matches('#');
        let hashes = raw.len() - quote.len();
        if quote.starts_with('"') {
            return to(prefix + hashes + 2, &format!("\"{}", "#".repeat(hashes)));
        }
    }
    let escaped = |quote: char| {
        let mut escape = false;
        let end = text.char_indices().skip(1).find(|(_, c)| {
            let is_end = *c == quote && !escape;
            escape = *c == '\\' && !escape;
            is_end
        });
        Some(prefix + end.map_or(text.len(), |(at, _)| at + 1))
    };
    if text.starts_with('"') {
        return escaped('"');
    }
    let mut inside = text.strip_prefix('\'')?.chars();
    let first = inside.next()?;
    // A quote that closes after one character (or an escape) is a character literal; otherwise a lifetime.
    if first == '\\' || inside.next() == Some('\'') { escaped('\'') } else { None }
}
