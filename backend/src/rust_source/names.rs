//! Identifiers for the printed Rust source, made from paths and primitives. Within a scope, all identifiers are
//! different.

use std::collections::{BTreeMap, BTreeSet};

/// Names that variables must not have: the keywords of Rust, and the names of the types that the printed text uses.
const RESERVED: &[&str] = &[
    "abstract", "as", "async", "await", "become", "bool", "box", "break", "const", "continue",
    "crate", "do", "dyn", "else", "enum", "extern", "f32", "f64", "false", "final", "fn", "for",
    "gen", "i32", "i64", "if", "impl", "in", "let", "loop", "macro", "match", "mod", "move", "mut",
    "override", "priv", "pub", "ref", "return", "self", "static", "std", "struct", "super",
    "trait", "true", "try", "type", "typeof", "u32", "u64", "unsafe", "unsized", "use", "usize",
    "vec", "virtual", "where", "while", "yield",
];

/// The names in the scopes of a function, from the outermost scope to the innermost.
#[derive(Clone, Debug)]
pub(super) struct Names {
    scopes: Vec<BTreeSet<String>>,
    /// For each scope and wished name, the number that was last appended to the name. The search for a free name starts
    /// at this number, which may be too small, but never too large.
    numbers: Vec<BTreeMap<String, usize>>,
}

impl Names {
    /// Returns the names of a module in which `taken` are already used.
    pub(super) fn new<'n>(taken: impl IntoIterator<Item = &'n str>) -> Names {
        let scopes = vec![taken.into_iter().map(str::to_owned).collect()];
        Names { scopes, numbers: vec![BTreeMap::new()] }
    }

    /// Begins a scope. When the scope ends, the names that were chosen in it are free again.
    pub(super) fn enter(&mut self) {
        self.scopes.push(BTreeSet::new());
        self.numbers.push(BTreeMap::new());
    }

    /// Ends the innermost scope.
    pub(super) fn leave(&mut self) {
        self.scopes.pop();
        self.numbers.pop();
    }

    fn is_free(&self, name: &str) -> bool {
        !RESERVED.contains(&name) && self.scopes.iter().all(|scope| !scope.contains(name))
    }

    /// Returns a new name in the innermost scope: the wished name if it is free, otherwise the wished name with a
    /// number.
    pub(super) fn fresh(&mut self, wish: &str) -> String {
        let wish = identifier(wish);
        // Start at the last number: trying 2, 3, .. for each name would take quadratic time in a long function.
        let known = self.numbers.iter().rev().find_map(|numbers| numbers.get(&wish).copied());
        let mut number = known.unwrap_or(1);
        let numbered = |n: usize| if n == 1 { wish.clone() } else { format!("{wish}_{n}") };
        while !self.is_free(&numbered(number)) {
            number += 1;
        }
        let name = numbered(number);
        if let Some(numbers) = self.numbers.last_mut() {
            numbers.insert(wish, number);
        }
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.clone());
        }
        name
    }

    /// Returns a new name for a loop counter.
    pub(super) fn counter(&mut self) -> String {
        let free = ["i", "j", "k", "l", "m", "n"].into_iter().find(|name| self.is_free(name));
        self.fresh(free.unwrap_or("i"))
    }
}

/// Returns whether a name is an identifier of Rust that is no keyword.
pub(super) fn is_identifier(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(letter)
        && name.chars().all(|c| letter(c) || c.is_ascii_digit())
        && name != "_"
        && !RESERVED.contains(&name)
}

/// Returns a text as an identifier in lower case, with `_` for all characters that an identifier cannot have.
pub(super) fn identifier(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    let name: String = text.chars().map(plain).collect();
    let words: Vec<&str> = name.split('_').filter(|word| !word.is_empty()).collect();
    let name = words.join("_");
    match name.chars().next() {
        None => "value".to_owned(),
        Some(c) if c.is_ascii_digit() => format!("x{name}"),
        Some(_) => name,
    }
}

/// Returns the name of an argument or a result from its path in the tree, such as `argument.0.weights`. If the path has
/// names of fields, the name is `fields` followed by these names; otherwise it is `root` followed by the numbers of the
/// path.
pub(super) fn of_path(path: &str, root: &str, fields: &str) -> String {
    let start = path.find(['.', '[']).unwrap_or(path.len());
    let words = path[start..].split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let is_number = |word: &str| word.chars().all(|c| c.is_ascii_digit());
    match words.iter().position(|word| !is_number(word)) {
        Some(first) => format!("{fields}{}", words[first..].join("_")),
        None => format!("{root}{}", words.join("_")),
    }
}

/// Returns the words of a text: its names, numbers and keywords.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
}

/// Returns whether a text has a name as a word.
pub(super) fn has_word(text: &str, name: &str) -> bool {
    words(text).any(|word| word == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_within_scopes() {
        let mut names = Names::new(["f"]);
        assert_eq!(names.fresh("f"), "f_2");
        assert_eq!(names.fresh("type"), "type_2");
        names.enter();
        assert_eq!(names.counter(), "i");
        assert_eq!(names.counter(), "j");
        assert_eq!(names.fresh("sum"), "sum");
        names.leave();
        assert_eq!(names.fresh("sum"), "sum");
        assert_eq!(names.fresh("sum"), "sum_2");
    }

    #[test]
    fn paths_become_names() {
        for (path, name) in [
            ("argument", "x"),
            ("argument.0", "x0"),
            ("argument.1[0]", "x1_0"),
            ("argument.0.alpha", "alpha"),
            ("argument.layers[3].w", "layers_3_w"),
        ] {
            assert_eq!(of_path(path, "x", ""), name);
        }
        assert_eq!(of_path("result.1.alpha", "y", "y_"), "y_alpha");
        assert!(is_identifier("_f2") && !is_identifier("2f") && !is_identifier("fn"));
    }
}
