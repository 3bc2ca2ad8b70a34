//! Broken programs: no text makes the parser, the verifier or a primitive's type inference panic.
//!
//! The text of every sample is damaged at random positions, where a token is replaced, left out or doubled. The parser
//! must return a list of mistakes, or a program that prints as the text. Seeds are fixed.

use std::collections::BTreeSet;
use std::panic::catch_unwind;
use tapeloom_ir::{Module, parse_module, print_function, print_module};
use tapeloom_tests::{Rng, Sweep, cases};

/// Replacements of tokens: numbers at the ends of their ranges, types, signs, names.
const REPLACEMENTS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "-1",
    "9223372036854775807",
    "-9223372036854775808",
    "4294967296",
    "18446744073709551615u64",
    "1e999",
    "0x7ff0000000000000f64",
    "true",
    "f64",
    "i64",
    "bool",
    "f32",
    "[]",
    "[0]",
    "[0,0]",
    "[7]",
    "[9223372036854775807]",
    "[1,1,1,1,1,1]",
    "[-1]",
    "f64[0]",
    "ref<f64[2]>",
    "tape<f64[]>",
    "%0",
    "%1",
    "%9",
    "@f",
    "call",
    "neg",
    "add",
    "dot",
    "clip",
    "drop",
    ";",
    ",",
    "}",
    "{",
    "(",
    ")",
    "=",
    "->",
    "return",
    "\n",
    "π",
];

#[test]
fn broken_text_does_not_panic() {
    let mut module = Module::new();
    let texts: BTreeSet<String> =
        cases(&mut module).iter().map(|c| print_function(&module, c.f)).collect();
    let mut rng = Rng::new(Sweep::Damage.seed());
    let mut good = 0;
    let mut panics = Vec::new();
    for text in &texts {
        for _ in 0..Sweep::Damage.cases() {
            let broken = damage(text, &mut rng);
            let outcome = catch_unwind(|| match parse_module(&broken) {
                Err(errors) => {
                    assert!(!errors.is_empty());
                    assert!(errors.iter().all(|e| e.line <= broken.lines().count().max(1)));
                    false
                }
                Ok(m) => {
                    let printed = print_module(&m);
                    let again = parse_module(&printed).map(|m| print_module(&m));
                    assert_eq!(again.as_deref(), Ok(printed.as_str()));
                    true
                }
            });
            match outcome {
                Ok(parsed) => good += usize::from(parsed),
                Err(_) => panics.push(broken),
            }
        }
    }
    let n = panics.len();
    panics.truncate(20);
    assert!(n == 0, "{n} texts panic, among them\n{}", panics.join("\n"));
    assert!(good > 100, "hardly any text was still a program: {good}");
}

/// Returns the text of a program with one to three tokens replaced, left out or doubled at random.
fn damage(text: &str, rng: &mut Rng) -> String {
    let mut tokens = tokens(text);
    for _ in 0..1 + rng.index(3) {
        let at = rng.index(tokens.len());
        match rng.index(4) {
            0 => drop(tokens.remove(at)),
            1 => tokens.insert(at, tokens[at]),
            _ => tokens[at] = REPLACEMENTS[rng.index(REPLACEMENTS.len())],
        }
    }
    tokens.concat()
}

/// Splits a text into words, numbers and single signs; concatenated, they are the text.
fn tokens(text: &str) -> Vec<&str> {
    let word = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '%' | '@');
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length =
            if word(c) { rest.find(|c| !word(c)).unwrap_or(rest.len()) } else { c.len_utf8() };
        let (token, after) = rest.split_at(length);
        tokens.push(token);
        rest = after;
    }
    tokens
}
