//! Tests that sizes and offsets of structs are those of the C header.

use crate::api::{Api, FUNCTIONS, LAYOUTS};
use crate::ffi_api;

/// Numbers that a C compiler computed from the header.
const EXPECTED: &str = include_str!("layout.txt");

/// Returns a name without the characters in which names in C and in Rust differ.
fn plain(name: &str) -> String {
    name.trim_start_matches("r#").trim_start_matches("PJRT_").replace('_', "").to_lowercase()
}

fn lines() -> impl Iterator<Item = Vec<&'static str>> {
    EXPECTED.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(' ').collect())
}

#[test]
fn structs_have_the_sizes_and_offsets_of_the_header() {
    let mut checked = 0;
    for layout in LAYOUTS.iter().chain(ffi_api::LAYOUTS) {
        let line = lines()
            .find(|words| words[0] == layout.name)
            .unwrap_or_else(|| panic!("{}", layout.name));
        assert_eq!(line[1], layout.size.to_string(), "size of {}", layout.name);
        let fields = layout
            .fields
            .iter()
            .map(|(field, offset)| format!("{}={offset}", field.trim_start_matches("r#")));
        assert_eq!(line[2..], fields.collect::<Vec<_>>(), "{}", layout.name);
        checked += 1;
    }
    assert_eq!(checked, lines().filter(|words| !words[0].starts_with("PJRT_")).count());
}

#[test]
fn functions_have_the_offsets_of_the_header() {
    let expected = lines().filter(|words| words[0].starts_with("PJRT_"));
    let expected: Vec<(String, String)> =
        expected.map(|words| (plain(words[0]), words[1].to_owned())).collect();
    let found = FUNCTIONS.iter().map(|(name, offset)| (plain(name), offset.to_string()));
    let found: Vec<(String, String)> = found.collect();
    assert!(found.len() > 90);
    assert_eq!(found, expected[..found.len()]);
    let end = FUNCTIONS[FUNCTIONS.len() - 1].1 + size_of::<usize>();
    assert_eq!(size_of::<Api>(), end);
}
