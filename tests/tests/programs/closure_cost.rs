//! The code that rustc generates from tapeloom for each user closure, in lines of LLVM IR: the difference between a
//! file with three copies of some programs and a file with one.
//!
//! Every closure has its own type, so generic code is compiled again for each. `tests/src/bin/compile_time.rs`
//! measures the seconds.

#![allow(clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// The largest average number of lines of LLVM IR for one more program, lines of the user's own code included.
const MOST: usize = 400;
const PROGRAMS: &[&str] = &[
    "run(|x: Var| x + 1.0, 0.0).is_ok()",
    "record(|x: Var| x * x, 0.0).is_ok()",
    "jit(|x: Var| x + 1.0).call(0.0).is_ok()",
    "jit(grad(|x: Var| x * x)).call(0.0).is_ok()",
    "jit(vmap(hessian(|x: Var| x.sum()))).call([[0.0]]).is_ok()",
    "jit(|x: Var| jvp(|x: Var| x * x)((x, x))).call(0.0).is_ok()",
    "jit(|x: Var| vjp(|x: Var| x * x)(x).1(x)).call(0.0).is_ok()",
    "jit(|x: Var| cond(x.gt(0.0), |x: Var| x, |x: Var| -x, x)).call(0.0).is_ok()",
    "jit(|x: Var| fori_loop(3, |(_, y): (Var, Var)| y * x, x)).call(0.0).is_ok()",
    "jit(|x: Var| while_loop(|x: Var| x.lt(1.0), |x: Var| x * x, x)).call(2.0).is_ok()",
    "jit(|x: Var| scan(|(s, x): (Var, Var)| (s, x), x.sum(), x).0).call([0.0]).is_ok()",
    "jit(|x: Var| associative_scan(|(a, b): (Var, Var)| a * b, x)).call([0.0]).is_ok()",
    "jit(|x: Var| fixed_point(|y: Var| 0.5 * y + x, x)).call(0.0).is_ok()",
    "jit(|x: Var| cg(|y: Var| 0.5 * y, x, Until::default())).call(0.0).is_ok()",
    "jit(|x: Var| tree_map2(|x, y| x * y, &x, &x)).call(0.0).is_ok()",
    "jit(checkpoint(|x: Var| x * x, Policy::Nothing)).call(0.0).is_ok()",
    "jit(outline(|x: Var| x * x)).call(0.0).is_ok()",
    "jit(custom_jvp(|x: Var| x, |x: Var, dx: Var| (x, dx))).call(0.0).is_ok()",
    "jit(custom_vjp(|x: Var| x, |x: Var| (x, x), |_: Var, ct: Var| ct)).call(0.0).is_ok()",
    "check_grads(|x: Var| x * x, 1.0, 1).is_ok()",
];

#[test]
fn a_closure_more_is_little_to_compile() {
    let one_more = |programs: &[&str]| (lines(programs, 3) - lines(programs, 1)) / 2;
    let mean = one_more(PROGRAMS) / PROGRAMS.len();
    if mean > MOST {
        let each = PROGRAMS.iter().map(|program| format!("{} {program}", one_more(&[program])));
        panic!("{mean} lines, and not {MOST}:\n{}", each.collect::<Vec<_>>().join("\n"));
    }
}

/// Returns the number of lines of LLVM IR that rustc emits for a file with this number of copies of the programs.
fn lines(programs: &[&str], copies: usize) -> usize {
    let mut source = "use tapeloom::prelude::*;\nfn main() {\n".to_owned();
    for program in programs.iter().cycle().take(copies * programs.len()) {
        writeln!(source, "    assert!({program});").unwrap();
    }
    source.push_str("}\n");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (file, llvm) = (folder.join("closure_cost.rs"), folder.join("closure_cost.ll"));
    std::fs::write(&file, source).unwrap();
    let library = library();
    let output = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()))
        .args(["--edition", "2024", "--emit", "llvm-ir", "-C", "codegen-units=1"])
        .arg("--extern")
        .arg(format!("tapeloom={}", library.display()))
        .arg("-L")
        .arg(format!("dependency={}", library.parent().unwrap().display()))
        .arg("-o")
        .args([&llvm, &file])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(llvm).unwrap();
    text.lines().filter(|l| l.starts_with("  ")).count()
}

/// Returns the path of the compiled tapeloom library that this test was built with. Builds with other features leave
/// other files in the same folder; cargo has just updated ours, so the newest file is ours or one of the same source.
fn library() -> PathBuf {
    let folder = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let age = |path: &PathBuf| -> SystemTime { path.metadata().unwrap().modified().unwrap() };
    let of_tapeloom = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libtapeloom-") && name.ends_with(".rlib")
    };
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(of_tapeloom).max_by_key(age).expect("the library is built for this test")
}
