//! The list of names that must exist, and the book's page that says how each is called here.
//!
//! A name exists if a public item of the library has it as its name or as `#[doc(alias)]`; both are read from the
//! source. `BLESS=1 cargo test -p tapeloom-tests --test laws vocabulary::` writes the page.

use super::values::INTENDED;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Names that exist here with another meaning than in numpy or JAX, and the name of our function with the expected
/// meaning.
const MEANT: &[(&str, &str)] =
    &[("ravel", "flatten"), ("round", "round_ties_even"), ("select", "select_first")];

#[test]
fn every_name_is_there() {
    let there = there();
    let names = sections().into_iter().flat_map(|(_, names)| names);
    let missing: Vec<String> = names.filter(|name| !there.contains_key(name)).collect();
    assert!(missing.is_empty(), "missing: {}", missing.join(", "));
}

/// Search terms of numpy users in the documentation, and the item that each must find.
const SEARCHES: [(&str, &str); 48] = [
    ("concatenate", "concat"),
    ("lstsq", "lstsq"),
    ("arctan2", "atan2"),
    ("einsum", "einsum"),
    ("where", "select"),
    ("astype", "convert"),
    ("amax", "max"),
    ("power", "pow"),
    ("expand_dims", "expand_dims"),
    ("newaxis", "expand_dims"),
    ("cumsum", "cumsum"),
    ("polyfit", "polyfit"),
    ("percentile", "percentile"),
    ("convolve", "convolve"),
    ("default_rng", "key"),
    ("rfft", "rfft"),
    ("interp", "interp"),
    ("gammaln", "lgamma"),
    ("solve_ivp", "dopri5"),
    ("curve_fit", "curve_fit"),
    ("least_squares", "levenberg_marquardt"),
    ("loadtxt", "load_npy"),
    ("apply_along_axis", "vmap_axes"),
    ("ptp", "ptp"),
    ("bmm", "matmul"),
    ("addmm", "matmul"),
    ("scatter_add", "add"),
    ("tensordot", "tensordot"),
    ("chain_matmul", "multi_dot"),
    ("trapz", "trapezoid"),
    ("simpson", "quad"),
    ("interp1d", "interp"),
    ("RegularGridInterpolator", "map_coordinates"),
    ("mgrid", "meshgrid_ij"),
    ("row_stack", "vstack"),
    ("fsolve", "custom_root"),
    ("lfilter", "scan"),
    ("convolve2d", "conv"),
    ("expand_as", "broadcast_to"),
    ("diag_embed", "diag"),
    ("clamp_min", "maximum"),
    ("clamp_max", "minimum"),
    ("sgn", "signum"),
    ("setdiff1d", "intersect1d"),
    ("norm.cdf", "ndtr"),
    ("norm.ppf", "ndtri"),
    ("sum(axis)", "sum_axis"),
    ("mean(axis)", "mean_axis"),
];

#[test]
fn searches_find_their_function() {
    let there = there();
    // Features that tapeloom does not have: a search must find the section of the documentation that names an
    // alternative.
    let missing = [
        ("csr_matrix", "sparse"),
        ("pmap", "devices"),
        ("Linear", "layers"),
        ("nanmedian", "masked_arrays"),
        ("zero_grad", "accumulated_gradients"),
        ("set_default_dtype", "global_settings"),
    ];
    for (search, want) in SEARCHES.into_iter().chain(missing) {
        let found = there.get(search).unwrap_or_else(|| panic!("{search} finds nothing"));
        assert_eq!(found, want, "{search}");
    }
}

#[test]
fn page_is_fresh() {
    let file = root().join("book/src/vocabulary.md");
    let page = page();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, page).unwrap();
        return;
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        found == page,
        "book/src/vocabulary.md differs from the source; rewrite it with `BLESS=1 cargo test -p \
         tapeloom-tests --test laws vocabulary::`"
    );
}

/// Returns the lists of names of other libraries by section, sections of numpy and JAX first.
fn sections() -> Vec<(String, Vec<String>)> {
    let numpy = listed(include_str!("../../../data/vocabulary/names.txt"));
    assert_eq!(numpy.iter().map(|(_, names)| names.len()).sum::<usize>(), 437);
    [numpy, listed(include_str!("../../../data/vocabulary/torch.txt"))].concat()
}

fn listed(text: &str) -> Vec<(String, Vec<String>)> {
    let mut sections: Vec<(String, Vec<String>)> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("# "), sections.last_mut()) {
            (Some(title), _) => sections.push((title.to_owned(), Vec::new())),
            (None, Some((_, names))) => names.extend(line.split_whitespace().map(str::to_owned)),
            (None, None) => panic!("the list begins with a section"),
        }
    }
    sections
}

/// Returns every name and `#[doc(alias)]` of a public item of this library, with the item's name.
fn there() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for file in sources() {
        let text = std::fs::read_to_string(&file).unwrap();
        // Cut off the tests at the end of a file.
        let text = text.split("#[cfg(test)]\nmod").next().unwrap_or_default();
        let mut aliases: Vec<String> = Vec::new();
        let mut of_an_operator = false;
        for line in text.lines().map(str::trim).filter(|l| !l.starts_with("//")) {
            // An attribute with several names may span several lines.
            if line.starts_with("#[doc(alias") || line.starts_with("alias = \"") {
                aliases.extend(quoted(line));
                continue;
            }
            // Methods in `impl` blocks of operator traits are public although they have no `pub`; other functions
            // without `pub` are not.
            if line.starts_with("impl") {
                of_an_operator = line.contains("ops::");
            }
            let line = match line.strip_prefix("fn ") {
                Some(_) if of_an_operator => &format!("pub {line}"),
                _ => line,
            };
            let Some((name, more)) = item(line) else { continue };
            // A row of the macro's table of reductions may have a search term (doc alias) for the reduction over some
            // axes.
            if let Some((_, rest)) = line.split_once(" axis \"") {
                let search = rest.split('"').next().unwrap_or_default();
                found.entry(search.to_owned()).or_insert(format!("{name}_axis"));
            }
            // Operators, and rows of macros, have their aliases on their own line.
            aliases.extend(more.iter().filter(|m| **m != name).cloned());
            for alias in aliases.drain(..) {
                found.entry(alias).or_insert(name.clone());
            }
            found.insert(name.clone(), name);
        }
    }
    for (name, ours) in MEANT {
        assert!(found.contains_key(*ours), "{name} is listed as {ours}, which does not exist");
        found.insert((*name).to_owned(), (*ours).to_owned());
    }
    found
}

/// Returns the name of the public item that this line declares, with the aliases on the same line.
fn item(line: &str) -> Option<(String, Vec<String>)> {
    let word = |text: &str| -> String {
        text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    for start in ["pub fn ", "pub struct ", "pub enum ", "pub trait ", "pub mod "] {
        if let Some(rest) = line.strip_prefix(start) {
            return Some((word(rest), Vec::new()));
        }
    }
    let mut words = line.split_whitespace();
    let (first, second, third) = (words.next()?, words.next()?, words.next());
    let is_name =
        |w: &str| w.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    // A row `name = Scalar;` in the tables of elementwise functions declares the function `name`.
    if is_name(first) && second == "=" && third.is_some_and(|t| t.ends_with(';') && starts_upper(t))
    {
        return Some((first.to_owned(), Vec::new()));
    }
    // A row `name: kind Distribution;` in the table of initial weights declares the function `name`.
    if let (Some(name), Some(third)) = (first.strip_suffix(':'), third)
        && is_name(name)
        && third.ends_with(';')
        && starts_upper(third)
    {
        return Some((name.to_owned(), Vec::new()));
    }
    // A row `name name_axis name_keepdims ["alias"]` in the table of reductions declares the function `name`.
    if is_name(first) && second == format!("{first}_axis") {
        let aliases =
            line.split_once('[').map(|(_, rest)| quoted(rest.split(']').next().unwrap_or("")));
        return Some((first.to_owned(), aliases.unwrap_or_default()));
    }
    // A row `Trait method Scalar "alias" "alias"` in the tables of operators declares the function `method`.
    let operator = starts_upper(first) && is_name(second) && line.contains('"');
    operator.then(|| (second.to_owned(), quoted(line)))
}

fn starts_upper(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_uppercase())
}

/// Returns the strings between double quotes on a line.
fn quoted(line: &str) -> Vec<String> {
    line.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Returns the source files of the prelude, and of the tensors that it reexports.
fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join("prelude/src"), root().join("ir/src/tensor")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    assert!(found.len() > 30);
    found
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

const INTRODUCTION: &str = "\
# Vocabulary

<!-- Printed from the source. After a change of names run
`BLESS=1 cargo test -p tapeloom-tests --test laws vocabulary::`. -->

You know the name of a function in numpy, JAX or PyTorch and look for its name here.
A name in the first column is found by the search of the documentation, too.
Names are Rust's where `f64` has the method.
[Arrays](arrays.md) introduces the ideas; values and derivatives of the composed functions are tested against recorded numbers of numpy, scipy and JAX.

A reduction over some axes has a name of its own: `x.sum(0)` is `x.sum_axis(0)` here, and `x.mean(0, keepdims=True)` is `x.mean_keepdims(0)`. `x.sum()` sums all elements.

## The same name, another meaning

| Name | Here | Elsewhere |
|---|---|---|
| `std`, `var` | divide by the number of elements, as in numpy and JAX | torch divides by one less |
| `gelu` | exact, by the normal distribution function, as in torch | the default of `jax.nn.gelu` is `gelu_tanh` here |
| `repeat` | repeats each element, as in numpy | torch's `repeat` is `tile` here |
| `gather` | `take_along_axis` is torch's `gather` | `jax.lax.gather` is more general |
| `select` | picks elements by a condition (`where`) | torch's `select(dim, i)` is `index_axis(dim, i)` here |
| `transpose` | `permute(order)` is numpy's `transpose(order)`, and `t()` reverses all axes | torch's `transpose(a, b)` is `swap_axes(a, b)` here |
| `take` | takes along one axis | numpy's `take` without an axis is that of `flatten()` |
| `view` | `reshape`: every array is a value, and no view is aliased | torch's `view` shares memory |
| `max`, `min` | return values alone | torch's `max(dim)` returns positions, too: `argmax` |
| `sort` | returns values alone | torch's `sort` returns positions, too: `argsort` |
";

fn page() -> String {
    let there = there();
    let mut page = INTRODUCTION.to_owned();
    for (title, names) in sections() {
        let mut same = Vec::new();
        let mut other = Vec::new();
        for name in names {
            match there.get(&name) {
                Some(ours) if *ours == name => same.push(format!("`{name}`")),
                Some(ours) => other.push((name, ours)),
                None => {}
            }
        }
        page += &format!("\n## {title}\n");
        if !same.is_empty() {
            page += &format!("\nUnder the same name: {}.\n", same.join(", "));
        }
        if !other.is_empty() {
            page += "\n| there | here |\n|---|---|\n";
            for (name, ours) in other {
                page += &format!("| `{name}` | `{ours}` |\n");
            }
        }
    }
    page += "\n## Derivatives that are not JAX's\n\n";
    page += "Among the tested points, a derivative of a composed function differs on purpose at \
             these only.\n\n";
    page += "| function | at | why |\n|---|---|---|\n";
    for (names, at, _, why) in INTENDED {
        let names: Vec<String> = names.iter().map(|n| format!("`{n}`")).collect();
        page += &format!("| {} | {at} | {why} |\n", names.join(", "));
    }
    page
}

#[test]
fn items_are_read() {
    let none: Vec<String> = Vec::new();
    for (line, want) in [
        ("pub fn abs(self) -> Var {", Some(("abs", none.clone()))),
        ("ln = Log;", Some(("ln", none.clone()))),
        ("he_normal: normal He;", Some(("he_normal", none.clone()))),
        ("max max_axis max_keepdims [\"amax\"]", Some(("max", vec!["amax".to_owned()]))),
        ("Shl shl ShiftLeft \"left_shift\"", Some(("shl", vec!["left_shift".to_owned()]))),
        ("let x = Log;", None),
        ("pub(crate) fn hidden()", None),
    ] {
        let want = want.map(|(name, more)| (name.to_owned(), more));
        assert_eq!(item(line), want, "{line}");
    }
}
