//! Layering: dependencies between the files of a crate follow an order of its folders.
//!
//! A *room* is a folder of a crate, or a file beside its folders. Each crate has an order of its rooms, and a file
//! imports from its own room and earlier ones. A folder of many files may have rooms of its own, which have an order,
//! too. Few files may form a cycle of imports.

mod imports;

use imports::Crate;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The rooms (folders, or files beside them) of each crate in order: the files of a room may need files of the same
/// room and of earlier ones.
const ROOMS: [(&str, &str); 5] = [
    (
        "ir",
        "address_space stopwatch map lang lex tensor limits policy_table policy sharding prim text lints analysis revolve \
         fingerprint trace lib",
    ),
    ("transforms", "passes ad loops pipeline checkpoint dispatch api vjp lib"),
    (
        "backend",
        "allocation machine stablehlo xla loop_ir results workspace runtime passes codegen layout accelerator target report \
         profile lower fingerprint executable without_native compile object rust_source lib",
    ),
    (
        "backend/pjrt",
        "error element proto sharding options compile_options program api ffi_api library calls plugin custom_call completion \
         shared buffer executable client lib",
    ),
    (
        "prelude",
        "error dtype function var ops tree sized state staging prng transform control implicit distributions random \
         linalg stats interpolate quadrature ode complex fft conv host_calls jit optim nn define_by_run check files xla elsewhere lib",
    ),
];

/// The folders inside of which rooms are ordered, too: the crate, the folder, and its rooms in order.
const INNER: [(&str, &str, &str); 1] = [(
    "backend",
    "lower/",
    "graph trees operands build candidates elements fusion emission pipeline mod",
)];

/// Known dependencies on a later room (a folder, or a file beside the folders): the crate, the file, and the file that
/// it needs. This list may only become shorter.
const AGAINST: [(&str, &str, &str); 15] = [
    // Reason: constants in a program are tensors, and functions hold primitives.
    ("ir", "lang/builder.rs", "prim/mod.rs"),
    ("ir", "lang/builder.rs", "prim/rules/mod.rs"),
    ("ir", "lang/eval.rs", "tensor/mod.rs"),
    ("ir", "lang/function.rs", "prim/mod.rs"),
    ("ir", "lang/host.rs", "tensor/mod.rs"),
    ("ir", "lang/module.rs", "prim/mod.rs"),
    ("ir", "lang/module.rs", "prim/rules/mod.rs"),
    ("ir", "lang/module.rs", "prim/rules/region.rs"),
    ("ir", "lang/query.rs", "policy.rs"),
    ("ir", "lang/query.rs", "policy_table.rs"),
    ("ir", "lang/remap.rs", "prim/mod.rs"),
    ("ir", "lang/value.rs", "tensor/mod.rs"),
    ("ir", "lang/verify.rs", "prim/mod.rs"),
    ("ir", "lang/verify.rs", "prim/rules/mod.rs"),
    ("ir", "lang/verify.rs", "text/print.rs"),
];

/// The largest number of files that may need one another in a cycle.
const CIRCLE: usize = 6;

/// The crate and rooms (folders) of the one cycle of files that may be larger: functions hold primitives, and a
/// primitive's rules make functions, so the closed list of primitives and the language depend on each other.
const LANGUAGE: (&str, [&str; 2]) = ("ir", ["lang", "prim"]);

/// Files of other rooms that belong to this larger cycle.
const WITH_LANGUAGE: &[&str] = &["text/print.rs"];

type Arrows = BTreeSet<(String, String)>;

#[test]
fn rooms_are_in_order() {
    let (mut wrong, mut against) = (Vec::new(), BTreeSet::new());
    let crates = ROOMS.map(|(name, order)| (name, "", order));
    for (name, folder, order) in crates.into_iter().chain(INNER) {
        let of = sources(name);
        let files = of.files();
        let inside = files.iter().filter_map(|file| file.strip_prefix(folder));
        let rooms: BTreeSet<&str> = inside.map(room).collect();
        let order: Vec<&str> = order.split(' ').collect();
        let listed: BTreeSet<&str> = order.iter().copied().collect();
        assert_eq!(rooms, listed, "{name}/{folder}: the entries, and those in the order");
        let back = back(&of.arrows(), folder, &order);
        against.extend(back.into_iter().map(|(from, to)| (name, from, to)));
    }
    let known = |(a, b, c): &(&str, String, String)| AGAINST.contains(&(*a, b, c));
    wrong.extend(against.iter().filter(|arrow| !known(arrow)).map(|arrow| format!("{arrow:?}")));
    assert_eq!(wrong, [""; 0], "these files import from later entries in the order");
    let stale = AGAINST.iter().filter(|(a, b, c)| {
        let arrow = (*a, (*b).to_owned(), (*c).to_owned());
        !against.contains(&arrow)
    });
    assert_eq!(stale.collect::<Vec<_>>(), [&("", "", ""); 0], "exceptions that no longer apply");
}

#[test]
fn circles_are_small() {
    let mut report = String::new();
    let mut wrong = Vec::new();
    let mut with_language = BTreeSet::new();
    for (name, _) in ROOMS {
        let of = sources(name);
        let (files, arrows) = (of.files().len(), of.arrows());
        let circles = circles(&arrows);
        let sizes: Vec<usize> = circles.iter().map(Vec::len).collect();
        report +=
            &format!("{name}: {files} files, {} arrows, circles of {sizes:?}\n", arrows.len());
        for circle in circles.iter().filter(|circle| circle.len() > CIRCLE) {
            let (of, rooms) = LANGUAGE;
            let outside = circle.iter().filter(|file| !rooms.contains(&room(file)));
            let outside: Vec<&str> = outside.map(String::as_str).collect();
            if name == of && outside.iter().all(|file| WITH_LANGUAGE.contains(file)) {
                with_language.extend(outside.into_iter().map(String::from));
            } else {
                // If a cycle of files contains the known `LANGUAGE` cycle, report only the dependencies of its other
                // files.
                let all = outside.len() == circle.len();
                let listed = |file: &str| all || outside.contains(&file);
                let inside = |(a, b): &&(String, String)| {
                    circle.contains(a) && circle.contains(b) && (listed(a) || listed(b))
                };
                let lines = arrows.iter().filter(inside).map(|(a, b)| format!("  {a} -> {b}\n"));
                wrong.push(format!("{name}: {outside:?}\n{}", lines.collect::<String>()));
            }
        }
    }
    println!("{report}");
    assert!(
        wrong.is_empty(),
        "{report}files that need one another in a circle:\n{}",
        wrong.concat()
    );
    let listed: BTreeSet<String> = WITH_LANGUAGE.iter().map(|file| (*file).to_owned()).collect();
    assert_eq!(with_language, listed, "files in the circle of the language");
}

/// Returns the room of a file: its first folder, or its own name without `.rs`.
fn room(file: &str) -> &str {
    file.split_once('/').map_or(file.trim_end_matches(".rs"), |(room, _)| room)
}

/// Returns the imports that break the order of rooms, the files and folders of `folder`: imports from a room that is
/// later in `order` than the importing file. The folder `""` is the whole crate.
fn back(arrows: &Arrows, folder: &str, order: &[&str]) -> Arrows {
    let place = |file: &str| {
        let own = room(file.strip_prefix(folder)?);
        order.iter().position(|room| *room == own)
    };
    let later =
        |from: &str, to: &str| matches!((place(from), place(to)), (Some(a), Some(b)) if a < b);
    arrows.iter().filter(|(from, to)| later(from, to)).cloned().collect()
}

/// Returns the sets of files that need one another, directly or through others, the largest first.
fn circles(arrows: &Arrows) -> Vec<Vec<String>> {
    let mut next: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (from, to) in arrows {
        next.entry(from).or_default().push(to);
    }
    let mut behind: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in next.keys() {
        let (mut seen, mut open) = (BTreeSet::new(), vec![*file]);
        while let Some(at) = open.pop() {
            let more = next.get(at).into_iter().flatten();
            open.extend(more.copied().filter(|file| seen.insert(*file)));
        }
        behind.insert(file, seen);
    }
    let mut found: BTreeSet<Vec<String>> = BTreeSet::new();
    for (file, all) in behind.iter().filter(|(file, all)| all.contains(*file)) {
        let back = |other: &&&str| behind.get(**other).is_some_and(|all| all.contains(file));
        found.insert(all.iter().filter(back).map(|other| (*other).to_owned()).collect());
    }
    let mut found: Vec<Vec<String>> = found.into_iter().collect();
    found.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    found
}

/// Parses the files in `src` of the crate `name`.
fn sources(name: &str) -> Crate {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(name).join("src");
    let (mut files, mut folders) = (Vec::new(), vec![root.clone()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let name = path.strip_prefix(&root).unwrap().display().to_string();
                files.push((name.replace('\\', "/"), std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    files.sort();
    Crate::of(files)
}

/// Returns the dependencies `from -> to` between the given files, for the tests of the parser.
fn arrows_of(files: &[(&str, &str)]) -> Vec<String> {
    let files = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    let arrows = Crate::of(files).arrows();
    arrows.into_iter().map(|(from, to)| format!("{from} -> {to}")).collect()
}

#[test]
fn arrows_follow_imports_to_definitions() {
    // Each row below is the text of a file `b.rs`, with the files that it needs. The crate also has a folder `a` of two
    // files; `a/mod.rs` re-exports a type and a module.
    let lib = "pub mod a;\nmod b;\npub use a::One;\npub use a::two as second;\npub use std::fmt::Outer;\npub use b::*;";
    let list = "mod one;\npub mod two;\npub use one::{One, make};";
    let one = "pub struct One;\npub fn make() -> One { One }\n";
    let two = "pub enum Two { X }\npub fn f() {}\n#[macro_export]\nmacro_rules! m { () => {} }";
    for (text, needs) in [
        ("use crate::One;", "a/one.rs"),
        ("use crate::a::One as Other;", "a/one.rs"),
        ("use crate::a::{self, make}; fn g() { a::two::f() }", "a/one.rs a/two.rs"),
        ("use crate::{a::{one::{One}, two::Two}};", "a/one.rs a/two.rs"),
        ("use super::second; fn g() { second::f() }", "a/two.rs"),
        ("use super::second;", ""),
        ("fn g() { crate::second::Two::X; }", "a/two.rs"),
        ("use super::a as letters; fn g() -> letters::One { letters::make() }", "a/one.rs"),
        ("use crate::a::*; fn g() -> One { make() }", "a/one.rs"),
        ("use crate::a::*; struct One;", ""),
        ("use crate::a::*; impl X { fn make() {} } fn g() { make() }", "a/one.rs"),
        ("mod inside { struct One; } use crate::a::*; fn g(_: One) {}", "a/one.rs"),
        // An item that a macro defines counts as defined by the module that the path names.
        ("use crate::a::two::Made;", "a/two.rs"),
        ("fn g() { $crate::a::two::m!() }", "a/two.rs"),
        ("mod inside { use super::super::a::One; }", "a/one.rs"),
        ("use crate::Outer; fn g() -> crate::Outer {}", ""),
        ("use crate::a::*; fn g(make: u8) -> u8 { make }", ""),
        ("use std::fmt; use other::a::One; fn g() { fmt::f(); other::a::one::make() }", ""),
        // Paths in comments, string literals and test-only items must not count.
        ("// crate::a::One\n/* crate::One */ const X: &str = \"crate::a::One\";", ""),
        (
            "const X: &str = r#\"\" crate::a::One\"#; const Y: char = '\"'; use crate::One;",
            "a/one.rs",
        ),
        ("#[cfg(test)]\n#[allow(x)]\nmod tests { use crate::a::One; }", ""),
        ("#[cfg(all(test, unix))] mod tests { use crate::a::One; }", ""),
        ("#[cfg(any(test, unix))] mod x { use crate::a::One; }", "a/one.rs"),
        ("#[cfg(test)] use crate::a::One; use crate::a::two::Two;", "a/two.rs"),
        ("struct S { #[cfg(test)] x: crate::a::One, y: crate::a::two::Two }", "a/two.rs"),
        (
            "#[cfg(test)] fn f(x: [u8; 3]) -> crate::a::One {} type T<'a> = crate::second::Two;",
            "a/two.rs",
        ),
    ] {
        let files = [("lib.rs", lib), ("a/mod.rs", list), ("a/one.rs", one), ("a/two.rs", two)];
        let found = arrows_of(&[&files[..], &[("b.rs", text)]].concat());
        let needs: Vec<String> =
            needs.split_whitespace().map(|to| format!("b.rs -> {to}")).collect();
        assert_eq!(found, needs, "{text}");
    }
}

#[test]
fn reexports_are_no_dependencies() {
    let types = ("a/types.rs", "pub struct T;");
    let listed = ("a/mod.rs", "mod types;\npub use types::T;");
    assert_eq!(arrows_of(&[listed, types]), [""; 0]);
    let used = ("a/mod.rs", "mod types;\npub use types::T;\nstruct All(T);");
    assert_eq!(arrows_of(&[used, types]), ["a/mod.rs -> a/types.rs"]);
    let glob = ("b.rs", "use crate::a::*;\nfn f(_: T) {}");
    let lib = ("lib.rs", "mod a;\nmod b;");
    assert_eq!(arrows_of(&[lib, listed, types, glob]), ["b.rs -> a/types.rs"]);
    // If the module of a file is test-only, the file must have no dependencies.
    let tests = ("a/mod.rs", "mod types;\n#[cfg(test)]\nmod cases;\nfn f() { cases::x() }");
    let cases = ("a/cases.rs", "use super::types::T;\npub fn x() {}");
    assert_eq!(arrows_of(&[tests, types, cases]), [""; 0]);
}

#[test]
fn a_circle_and_an_arrow_against_the_order_are_found() {
    let arrow = |(a, b): &(&str, &str)| ((*a).to_owned(), (*b).to_owned());
    let arrows = [
        ("low/mod.rs", "low/x.rs"),
        ("low/x.rs", "high.rs"),
        ("high.rs", "low/y.rs"),
        ("low/y.rs", "low/mod.rs"),
        ("top.rs", "high.rs"),
        ("a.rs", "b.rs"),
        ("b.rs", "a.rs"),
    ];
    let all: Arrows = arrows.iter().map(arrow).collect();
    let found = circles(&all);
    assert_eq!(
        found,
        [vec!["high.rs", "low/mod.rs", "low/x.rs", "low/y.rs"], vec!["a.rs", "b.rs"]]
    );
    let order = ["a", "b", "low", "high", "top"];
    let against = [("a.rs", "b.rs"), ("low/x.rs", "high.rs")];
    assert_eq!(back(&all, "", &order), against.iter().map(arrow).collect());
    // Only dependencies between files of the folder count.
    let against = [("low/mod.rs", "low/x.rs")];
    assert_eq!(back(&all, "low/", &["mod", "x", "y"]), against.iter().map(arrow).collect());
    assert_eq!(back(&all, "low/", &["x", "mod", "y"]), Arrows::new());
}
