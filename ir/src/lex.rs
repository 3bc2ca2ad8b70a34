//! The lexer: splits text into tokens with positions.
//!
//! The lexer never fails. A character that begins no token becomes [`Tok::Stray`], which no rule of the grammar
//! accepts, so that the parser is the one place that reports errors.

use crate::lang::types::Dtype;
use std::fmt;

/// A token of the text form of programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tok<'t> {
    /// A value: `%3` without the `%`.
    Value(&'t str),
    /// A function: `@loss` without the `@`.
    Func(&'t str),
    /// A host (a Rust function that programs call): `&spline` without the `&`.
    Host(&'t str),
    /// A word: `mul`, `func`, `f64`, `true`.
    Word(&'t str),
    /// A number with its suffix, as text: `2.5f32`.
    Number(&'t str),
    /// A sign: one of `( ) { } [ ] < > , : ; = ?`.
    Sign(char),
    /// The arrow `->`.
    Arrow,
    /// A character that begins no token.
    Stray(char),
    /// The end of the text.
    End,
}

impl fmt::Display for Tok<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tok::Value(s) => write!(f, "`%{s}`"),
            Tok::Func(s) => write!(f, "`@{s}`"),
            Tok::Host(s) => write!(f, "`&{s}`"),
            Tok::Word(s) | Tok::Number(s) => write!(f, "`{s}`"),
            Tok::Sign(c) | Tok::Stray(c) => write!(f, "`{c}`"),
            Tok::Arrow => f.write_str("`->`"),
            Tok::End => f.write_str("the end of the text"),
        }
    }
}

/// A position in the text: line and column (in characters), both from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// A token and its position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'t> {
    pub(crate) tok: Tok<'t>,
    pub(crate) place: Place,
    /// Whether only white space precedes the token on its line.
    pub(crate) first: bool,
}

/// Returns whether a name may contain the character `c`.
pub(crate) fn in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '.'
}

/// Returns whether a text is a single word that is neither a truth value nor the name of a dtype.
pub fn is_word(text: &str) -> bool {
    let alone = |t: &Token<'_>| t.tok == Tok::Word(text) && !matches!(text, "true" | "false");
    lex(text).first().is_some_and(alone) && Dtype::from_name(text).is_none()
}

/// Returns all tokens of a text; the last is [`Tok::End`].
pub(crate) fn lex(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut end = Place { line: 1, column: 1 };
    for (i, line) in text.lines().enumerate() {
        let code = line.find("//").map_or(line, |at| &line[..at]);
        let mut rest = code;
        let mut column = 1;
        let mut first = true;
        while let Some(c) = rest.chars().next() {
            let (tok, length) = token(c, rest);
            let place = Place { line: i + 1, column };
            if let Some(tok) = tok {
                tokens.push(Token { tok, place, first });
                first = false;
            }
            column += rest[..length].chars().count();
            rest = &rest[length..];
        }
        end = Place { line: i + 1, column: line.chars().count() + 1 };
    }
    tokens.push(Token { tok: Tok::End, place: end, first: true });
    tokens
}

/// Returns the token at the beginning of `rest`, whose first character is `c`, and the token's length in bytes.
/// If `c` is white space, returns no token, and the length of `c`.
fn token(c: char, rest: &str) -> (Option<Tok<'_>>, usize) {
    let name = |from: usize| {
        let length = rest[from..].find(|c| !in_name(c)).unwrap_or(rest.len() - from);
        &rest[from..from + length]
    };
    match c {
        _ if c.is_whitespace() => (None, c.len_utf8()),
        '%' => (Some(Tok::Value(name(1))), 1 + name(1).len()),
        '@' => (Some(Tok::Func(name(1))), 1 + name(1).len()),
        '&' => (Some(Tok::Host(name(1))), 1 + name(1).len()),
        '(' | ')' | '{' | '}' | '[' | ']' | '<' | '>' | ',' | ':' | ';' | '=' | '?' => {
            (Some(Tok::Sign(c)), 1)
        }
        '-' if rest.starts_with("->") => (Some(Tok::Arrow), 2),
        _ if c == '-' || c.is_ascii_digit() => {
            let length = number(rest);
            (Some(Tok::Number(&rest[..length])), length)
        }
        _ if in_name(c) => (Some(Tok::Word(name(0))), name(0).len()),
        _ => (Some(Tok::Stray(c)), c.len_utf8()),
    }
}

/// Returns the length in bytes of the number at the beginning of `rest`: sign, digits, letters (suffix,
/// hexadecimal) and an exponent with its sign.
fn number(rest: &str) -> usize {
    let mut before = '-';
    let hexadecimal = rest.trim_start_matches('-').starts_with("0x");
    for (i, c) in rest.char_indices() {
        let exponent = matches!(c, '+' | '-') && matches!(before, 'e' | 'E') && !hexadecimal;
        if i > 0 && !in_name(c) && !exponent {
            return i;
        }
        before = c;
    }
    rest.len()
}
