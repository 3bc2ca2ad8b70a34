//! Tidy: rules about the source that no compiler checks.
//!
//! Each rule is a test. There are rules about allowed dependencies between crates, passes and backends that name no
//! primitive, files that begin with a description, rustfmt's formatting.

use std::path::{Path, PathBuf};
use std::process::Command;
use tapeloom_ir::fault::Fault;
use tapeloom_tests::Sweep;

/// For each crate of this repository, the crates of this repository that it may use.
const EDGES: &[(&str, &[&str])] = &[
    ("ir/math", &[]),
    ("ir/routines", &[]),
    ("ir", &["tapeloom-math", "tapeloom-routines"]),
    ("transforms", &["tapeloom-ir"]),
    ("backend", &["tapeloom-ir", "tapeloom-routines", "tapeloom-pjrt"]),
    ("backend/pjrt", &[]),
    ("backend/object_runtime", &["tapeloom-math", "tapeloom-routines"]),
    ("prelude/derive", &[]),
    ("prelude", &["tapeloom-ir", "tapeloom-transforms", "tapeloom-backend", "tapeloom-derive"]),
    (
        "tests",
        &[
            "tapeloom-ir",
            "tapeloom-transforms",
            "tapeloom-backend",
            "tapeloom-runtime",
            "tapeloom",
            "tapeloom-derive",
        ],
    ),
];

#[test]
fn crates_depend_as_the_architecture_says() {
    let mut wrong = Vec::new();
    for (folder, allowed) in EDGES {
        let file = root().join(folder).join("Cargo.toml");
        for (section, line) in entries(&read(&file)) {
            if !section.ends_with("dependencies") {
                continue;
            }
            let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
            if name.starts_with("tapeloom") && !allowed.contains(&name) {
                wrong.push(format!("{folder} must not depend on {name}"));
            }
            if !line.contains("workspace") {
                wrong.push(format!("{folder}: the version of {name} belongs to the workspace"));
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
    let members = read(&root().join("Cargo.toml"));
    let members = members.lines().find(|l| l.starts_with("members")).unwrap();
    for (folder, _) in EDGES {
        assert!(members.contains(&format!("\"{folder}\"")), "{folder} is not in the workspace");
    }
    assert_eq!(members.matches('"').count() / 2, EDGES.len(), "a crate without a rule: {members}");
}

#[test]
fn libraries_take_their_lints_from_the_workspace() {
    for (folder, _) in EDGES.iter().filter(|(folder, _)| *folder != "tests") {
        let manifest = read(&root().join(folder).join("Cargo.toml"));
        let inherits = entries(&manifest).contains(&("lints".into(), "workspace = true".into()));
        assert!(inherits, "{folder}/Cargo.toml does not say `[lints] workspace = true`");
    }
}

#[test]
fn declared_dependencies_are_used() {
    let mut wrong = Vec::new();
    let mut declared = Vec::new();
    for (folder, _) in EDGES {
        let manifest = read(&root().join(folder).join("Cargo.toml"));
        let source = |folders: &[&str]| -> String {
            let inside =
                |f: &PathBuf| folders.iter().any(|x| f.starts_with(root().join(folder).join(x)));
            files("rs").iter().filter(|f| inside(f)).map(|f| code(&read(f))).collect()
        };
        let (library, all) = (source(&["src"]), source(&["src", "tests", "examples"]));
        wrong.extend(unused(&manifest, &library, &all).map(|name| format!("{folder}: {name}")));
        declared.extend(dependencies(&manifest).map(|(_, name)| name));
    }
    assert_eq!(wrong, [""; 0], "declared and not used");
    let workspace = read(&root().join("Cargo.toml"));
    let nowhere: Vec<String> =
        dependencies(&workspace).map(|(_, name)| name).filter(|n| !declared.contains(n)).collect();
    assert_eq!(nowhere, [""; 0], "in the workspace, and no crate declares it");
}

#[test]
fn an_unused_dependency_is_found() {
    let manifest = "[dependencies]\nfast-hash.workspace = true\nmaps = \"1\"\n[dev-dependencies]\ntester = \"1\"\n";
    let of = |library: &str, all: &str| unused(manifest, library, all).collect::<Vec<_>>();
    let library = "use fast_hash::Hasher; fn f() -> maps::Map {}";
    assert_eq!(of(library, "use tester::check;"), [""; 0]);
    assert_eq!(of(library, "fn my_tester() {}"), ["tester"]);
    assert_eq!(of("use fast_hash::Hasher; use bitmaps::Map;", "tester::check()"), ["maps"]);
}

#[test]
fn passes_and_backends_name_no_primitive() {
    let list = read(&root().join("ir/src/prim/mod.rs"));
    let list = list.split("\nprimitives! {").nth(1).and_then(|l| l.split('}').next()).unwrap();
    let names: Vec<&str> = list
        .split([',', ';', ':', ' ', '\n'])
        .filter(|n| n.starts_with(char::is_uppercase))
        .collect();
    assert!(names.len() > 5 && names.contains(&"Call"), "the list of primitives was not found");
    let mut wrong = Vec::new();
    for file in files("rs") {
        let name = show(&file);
        let library = ["transforms/src/", "backend/src/"].iter().any(|f| name.starts_with(f));
        if !library || name.ends_with("tests.rs") {
            continue;
        }
        // Skip the tests in a source file, because tests may build programs directly from primitives.
        let code = code(&read(&file)).split("#[cfg(test)]").next().unwrap_or_default().to_owned();
        for primitive in &names {
            let mut uses = code.split("use ").skip(1).filter_map(|u| u.split(';').next());
            let imported = uses.any(|u| u.starts_with("tapeloom_ir") && has_word(u, primitive));
            let paths = ["Op", "prim", "tapeloom_ir"];
            let named = paths.iter().any(|p| has_word(&code, &format!("{p}::{primitive}")));
            if imported || named {
                wrong.push(format!("{name} names the primitive {primitive}"));
            }
        }
    }
    assert_eq!(wrong, [""; 0], "passes use the rules of a primitive, not its name");
}

#[test]
fn every_file_has_a_module_doc() {
    let mute: Vec<String> =
        files("rs").iter().filter(|f| !read(f).starts_with("//! ")).map(|f| show(f)).collect();
    assert_eq!(mute, [""; 0], "a source file begins with a `//!` comment about its subject");
}

#[test]
fn nothing_is_left_for_later() {
    let mut wrong = Vec::new();
    for file in files("rs") {
        let code = code(&read(&file));
        for name in ["todo", "unimplemented", "dbg"] {
            if has_word(&code, &format!("{name}!")) {
                wrong.push(format!("{} has {name}!", show(&file)));
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn no_path_of_a_machine() {
    let mut wrong = Vec::new();
    for file in files("") {
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        // No file may contain absolute paths of a developer's machine. The forbidden words are written in two halves,
        // so that this file does not contain them itself.
        for (a, b) in [("/wor", "k/"), ("/hom", "e/"), ("/roo", "t/"), ("/Use", "rs/")] {
            if text.contains(&format!("{a}{b}")) {
                wrong.push(format!("{} mentions {a}{b}", show(&file)));
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
}

/// Float functions that the standard library takes from the platform's C library, so that their bits differ between
/// platforms. The library must not call them.
const OF_THE_PLATFORM: &[&str] = &[
    "exp", "exp2", "exp_m1", "ln", "log2", "log10", "ln_1p", "sin", "cos", "tan", "sin_cos",
    "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "cbrt", "powf",
    "hypot", "atan2",
];

#[test]
fn functions_have_the_same_bits_on_every_platform() {
    let mut wrong = Vec::new();
    for file in files("rs").iter().filter(|f| f.starts_with(root().join("ir/math/src"))) {
        let code = code(&read(file));
        let calls = OF_THE_PLATFORM.iter().filter(|name| code.contains(&format!(".{name}(")));
        wrong.extend(calls.map(|name| format!("{} calls f64::{name}", show(file))));
    }
    // The table of scalar functions has functions as paths, such as `f64::exp`, not as calls.
    for file in files("rs").iter().filter(|f| f.starts_with(root().join("ir/src/prim/scalar"))) {
        let source = read(file);
        let rows = OF_THE_PLATFORM.iter().filter(|name| source.contains(&format!(" f64::{name})")));
        wrong.extend(rows.map(|name| format!("{} has f64::{name}", show(file))));
    }
    assert_eq!(
        wrong, [""; 0],
        "functions of `math` and of the crate `libm` are the same everywhere"
    );
}

/// The file with the table of sweeps: every test over many cases, with its number of cases.
const SWEEPS: &str = "tests/src/sweeps.rs";

/// The source files that may read the clock, besides those for machine code. All others run where there is no clock.
const CLOCKS: [&str; 3] =
    ["ir/src/stopwatch.rs", "backend/src/loop_ir/timers.rs", "backend/src/profile/session.rs"];

#[test]
fn the_clock_is_read_for_reports_alone() {
    let machine_code = ["backend/src/codegen", "backend/src/runtime", "backend/src/xla"];
    let mut wrong = Vec::new();
    for file in files("rs").iter().map(|file| show(file)) {
        let crates = ["ir/src", "transforms/src", "backend/src", "prelude/src"];
        let begins = |all: &[&str]| all.iter().any(|folder| file.starts_with(folder));
        if !begins(&crates) || begins(&machine_code) || CLOCKS.contains(&&*file) {
            continue;
        }
        let text = code(&read(&root().join(&file)));
        let clocks = ["Instant", "SystemTime"];
        wrong.extend(clocks.iter().filter(|clock| has_word(&text, clock)).map(|_| file.clone()));
    }
    assert_eq!(wrong, [""; 0], "use `tapeloom_ir::Stopwatch`");
}

#[test]
fn every_sweep_is_a_row_of_the_table() {
    let mut wrong = Vec::new();
    let mut all = String::new();
    for file in files("rs") {
        let name = show(&file);
        // Skip this file and the file of the table of sweeps: they contain the patterns that are searched for.
        if name == SWEEPS || name.ends_with("programs/tidy.rs") {
            continue;
        }
        let code = code(&read(&file));
        wrong.extend(unlisted(&code).into_iter().map(|line| format!("{name}: {line}")));
        all += &code;
    }
    assert_eq!(wrong, [""; 0], "take numbers and seeds from a row of {SWEEPS}");
    let rows = Sweep::ALL.iter().map(|sweep| format!("{sweep:?}"));
    let unused: Vec<String> = rows.filter(|n| !has_word(&all, &format!("Sweep::{n}"))).collect();
    assert_eq!(unused, [""; 0], "rows of {SWEEPS} that no test asks for");
}

/// The limits on the total of the stated times of all tests with random cases, in seconds of one core: in `cargo test`,
/// and in the nightly run. The times were measured on an AMD EPYC without AVX-512.
const BUDGETS: [f64; 2] = [335.0, 5300.0];

#[test]
fn sweeps_are_within_their_budget() {
    for (at, most) in BUDGETS.into_iter().enumerate() {
        let all: f64 = Sweep::ALL.iter().map(|sweep| sweep.seconds()[at]).sum();
        assert!(all <= most, "sweeps take {all:.0} s of {most}: give one fewer cases");
    }
}

/// Returns the lines that draw random cases without a row in the table of sweeps: loops over seeds, and reads of
/// environment variables. Loops over a grid cannot be recognized, so the author of such a loop must add the row.
fn unlisted(code: &str) -> Vec<&str> {
    let drawn = |line: &&str| {
        let seeds = line.contains("for seed in ") && !line.contains(".seeds()");
        let switch = ["FUZZ", "KERNELS", "SWEEP", "CASES", "SEED"];
        let asks = line.contains("env::var") || line.contains("number(");
        seeds || asks && switch.iter().any(|name| line.contains(&format!("\"{name}")))
    };
    // Exceptions: `fuzz` takes its number of cases from the command line, and `replay` compares two builds on the same
    // programs.
    let own = |line: &&str| !line.contains("seeds(seed)") && !line.contains("SEEDS[");
    code.lines().map(str::trim).filter(drawn).filter(own).collect()
}

#[test]
fn an_unlisted_sweep_is_found() {
    let listed = "for seed in Sweep::Text.seeds() {\n}\nfor seed in sweep.seeds() {";
    assert_eq!(unlisted(listed), [""; 0]);
    let loops = "for seed in 0..60 * scale {";
    let switch = "let n = std::env::var(\"FUZZ\").ok();";
    assert_eq!(unlisted(&format!("{loops}\n    {switch}\n{listed}")), [loops, switch]);
}

#[test]
fn the_test_named_by_each_fault_exists() {
    let wrong: Vec<String> = Fault::ALL
        .iter()
        .filter(|fault| !is_test_or_module(fault.caught_by()))
        .map(|fault| format!("{}: {}", fault.name(), fault.caught_by()))
        .collect();
    assert_eq!(wrong, [""; 0], "no such module of tests");
}

#[test]
fn rows_of_sweeps_name_tests() {
    let paths = Sweep::ALL.iter().map(|sweep| sweep.test());
    let wrong: Vec<&str> = paths.filter(|path| !is_test_or_module(path)).collect();
    assert_eq!(wrong, [""; 0], "{SWEEPS} names tests that do not exist");
}

/// Returns whether the path of a sweep names a test or a module of tests. A path begins with the name of the test
/// binary or, for a test inside a library, with the module of the library.
fn is_test_or_module(path: &str) -> bool {
    const FOLDERS: &[&str] = &[
        "tests/tests",
        "prelude/tests",
        "transforms/tests",
        "ir/tests",
        "ir/routines/tests",
        "ir/math/tests",
        "backend/src",
    ];
    let parts: Vec<&str> = path.split("::").collect();
    let (last, test) = (parts.len(), parts[parts.len() - 1]);
    let file = |n: usize| {
        let stem = parts[..n].join("/");
        let folders = FOLDERS.iter().map(|folder| root().join(folder).join(&stem));
        folders
            .flat_map(|path| [path.with_extension("rs"), path.join("mod.rs"), path.join("main.rs")])
            .find(|file| file.exists())
    };
    let holds = |file: PathBuf| {
        let text = read(&file);
        [format!("fn {test}("), format!("mod {test} {{")].iter().any(|item| text.contains(item))
    };
    // The tests of a file may stand in a module `tests` inside the file.
    let inside = last > 2 && parts[last - 2] == "tests" && file(last - 2).is_some_and(holds);
    last >= 2 && (file(last).is_some() || file(last - 1).is_some_and(holds) || inside)
}

/// Crates with integration tests, and the number of test binaries that each may have, because each binary is linked
/// with all dependencies.
const BINARIES: &[(&str, usize)] = &[
    ("ir", 1),
    ("ir/math", 1),
    ("ir/routines", 1),
    ("backend/pjrt", 1),
    ("prelude", 1),
    ("transforms", 1),
    ("tests", 5),
];

/// The documentation of `tapeloom::prelude` must list every name that the module exports.
#[test]
fn the_prelude_lists_its_names() {
    let library = read(&root().join("prelude/src/lib.rs"));
    let (above, module) = library.split_once("pub mod prelude {").expect("the prelude");
    let list =
        &above[above.rfind("/// The names that most programs need").expect("its documentation")..];
    let mut names = exported(module);
    names.extend(exported(&read(&root().join("prelude/src/control/mod.rs"))));
    names.extend(exported(&read(&root().join("prelude/src/implicit/mod.rs"))));
    names.extend(exported(&read(&root().join("prelude/src/transform/mod.rs"))));
    let functions = library_functions(&read(&root().join("prelude/src/ops/mod.rs")));
    names.extend(functions);
    assert!(names.len() > 100, "only {} names were found", names.len());
    names.retain(|name| {
        !["`]", "()`]", "`](trait"].iter().any(|end| list.contains(&format!("[`{name}{end}")))
    });
    assert!(names.is_empty(), "the documentation of the prelude lacks {names:?}");
}

/// Returns the names that `pub use` exports at any depth of `code`, and the public functions of `code`. Hidden names
/// are left out, and modules of which all items are exported (`path::*`).
fn exported(code: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (before, statement) in code.match_indices("pub use ").map(|(at, _)| code.split_at(at)) {
        if before.trim_end().ends_with("#[doc(hidden)]") {
            continue;
        }
        let path = statement["pub use ".len()..].split(';').next().unwrap_or_default();
        let items = path.split_once('{').map_or_else(
            || path.rsplit("::").next().unwrap_or_default(),
            |(_, items)| items.trim_end_matches('}'),
        );
        names.extend(items.split(',').map(|name| name.trim().to_string()));
    }
    for line in code.lines() {
        if let Some(rest) = line.strip_prefix("pub fn ") {
            names.push(rest.split(['<', '(']).next().unwrap_or_default().to_string());
        }
    }
    names.retain(|name| !name.is_empty() && name != "*");
    names
}

/// Returns the names that the module `functions` of the prelude's operations exports.
fn library_functions(code: &str) -> Vec<String> {
    let (_, module) = code.split_once("mod functions {").expect("the module of functions");
    exported(module.split_once("\n}").map_or(module, |(body, _)| body))
}

#[test]
fn test_binaries_are_few() {
    for (folder, _) in EDGES {
        let most = BINARIES.iter().find(|(name, _)| name == folder).map_or(0, |(_, n)| *n);
        let roots = std::fs::read_dir(root().join(folder).join("tests")).into_iter().flatten();
        // A folder with a `main.rs`, or a file of its own, is a test binary.
        let binary = |path: &PathBuf| {
            path.join("main.rs").exists() || path.extension().is_some_and(|e| e == "rs")
        };
        let found = roots.filter_map(|e| Some(e.ok()?.path())).filter(binary).count();
        assert_eq!(found, most, "{folder}/tests: add a module to a binary that is there");
    }
}

/// If a manifest disables the tests of a library (`test = false`), the library must contain none: they would never run.
#[test]
fn libraries_that_are_compiled_once_have_their_tests_elsewhere() {
    let mut wrong = Vec::new();
    let mut once = Vec::new();
    for (folder, _) in EDGES {
        let manifest = entries(&read(&root().join(folder).join("Cargo.toml")));
        if !manifest.contains(&("lib".into(), "test = false".into())) {
            continue;
        }
        once.push(*folder);
        let src = root().join(folder).join("src");
        for file in files("rs").iter().filter(|f| f.starts_with(&src)) {
            if read(file).contains("#[test]") {
                wrong.push(show(file));
            }
        }
    }
    assert_eq!(
        once,
        [
            "ir/math",
            "ir/routines",
            "ir",
            "transforms",
            "backend/object_runtime",
            "prelude/derive",
            "prelude"
        ]
    );
    assert_eq!(wrong, [""; 0], "move these to `tests` of the crate");
}

#[test]
fn commands_have_no_tests_of_their_own() {
    let manifest = read(&root().join("tests/Cargo.toml"));
    for file in files("rs").iter().filter(|f| show(f).starts_with("tests/src/bin/")) {
        let name = file.file_stem().unwrap_or_default().display();
        let entry = format!("[[bin]]\nname = \"{name}\"\ntest = false");
        assert!(manifest.contains(&entry), "tests/Cargo.toml does not say\n{entry}");
    }
}

/// Every file of tests must be declared by a `mod`: otherwise it is never compiled.
#[test]
fn every_file_of_tests_is_a_module() {
    let mut wrong = Vec::new();
    for (folder, _) in BINARIES {
        let tests = root().join(folder).join("tests");
        for file in files("rs").iter().filter(|file| file.starts_with(&tests)) {
            let stem = |path: &Path| path.file_stem().unwrap_or_default().display().to_string();
            let parent = file.parent().unwrap();
            // The module of a folder is declared in the file beside the folder.
            let (name, list) = match stem(file).as_str() {
                "main" => continue,
                "mod" => (stem(parent), parent.parent().unwrap()),
                name => (name.to_owned(), parent),
            };
            let lists = ["main.rs", "mod.rs"].map(|l| list.join(l));
            let named = |l: &PathBuf| l.exists() && read(l).contains(&format!("mod {name};"));
            if !lists.iter().any(named) {
                wrong.push(show(file));
            }
        }
    }
    assert_eq!(wrong, [""; 0], "no `mod` names it, so nothing in it is run");
}

#[test]
fn formatting_is_that_of_rustfmt() {
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let fmt =
        |args: &[&str]| Command::new(&cargo).arg("fmt").args(args).current_dir(root()).output();
    if !fmt(&["--version"]).is_ok_and(|o| o.status.success()) {
        // Without rustfmt in the toolchain, this test checks nothing. The script `.ci/run` installs rustfmt.
        return;
    }
    let output = fmt(&["--all", "--check"]).unwrap();
    let diff = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "run `cargo fmt`:\n{diff}");
}

// -- Reading ----------------------------------------------------------------------------------------

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

fn show(file: &Path) -> String {
    file.strip_prefix(root()).unwrap_or(file).display().to_string().replace('\\', "/")
}

/// Returns the files of the repository with this extension (all files, if it is empty), without build outputs and
/// recorded data.
fn files(extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                let skipped = name == "target" || name == ".git" || show(&path) == "tests/data";
                if !skipped {
                    folders.push(path);
                }
            } else if extension.is_empty() || path.extension().is_some_and(|e| e == extension) {
                // In a linked worktree, `.git` is a file with a path, so leave it out.
                found.extend((name != ".git").then_some(path));
            }
        }
    }
    found.sort();
    assert!(!found.is_empty());
    found
}

/// Returns the lines of a manifest, each with the name of its section.
fn entries(manifest: &str) -> Vec<(String, String)> {
    let mut section = String::new();
    let mut entries = Vec::new();
    for line in manifest.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
        match line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            Some(name) => section = name.to_owned(),
            None => entries.push((section.clone(), line.to_owned())),
        }
    }
    entries
}

/// Returns the dependencies of a manifest, each as its section and its name.
fn dependencies(manifest: &str) -> impl Iterator<Item = (String, String)> {
    let of_dependencies = |(section, _): &(String, String)| section.ends_with("dependencies");
    entries(manifest).into_iter().filter(of_dependencies).map(|(section, line)| {
        let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
        (section, name.to_owned())
    })
}

/// Returns the dependencies of a manifest that no path in the code begins with: in the library's code, or, for test
/// dependencies, anywhere in the crate.
fn unused(manifest: &str, library: &str, all: &str) -> impl Iterator<Item = String> {
    dependencies(manifest).filter_map(move |(section, name)| {
        let source = if section == "dependencies" { library } else { all };
        let path = name.replace('-', "_") + "::";
        let starts = |at: usize| !source[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        (!source.match_indices(&path).any(|(at, _)| starts(at))).then_some(name)
    })
}

/// Returns a source without the text behind `//` on each line.
fn code(source: &str) -> String {
    let line = |l: &str| l.split("//").next().unwrap_or_default().to_owned() + "\n";
    source.lines().map(line).collect()
}

/// Returns whether a text contains `word`, not as a part of a longer name.
fn has_word(text: &str, word: &str) -> bool {
    let letter = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].ends_with(letter) && !text[at + word.len()..].starts_with(letter)
    })
}

#[test]
fn words_are_found_whole() {
    for (word, found) in [("Call", true), ("x::Call", true), ("Cal", false), ("all", false)] {
        assert_eq!(has_word("use x::Call;", word), found, "{word}");
    }
}
