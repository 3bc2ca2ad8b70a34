//! Builds with fewer features: the crates that they need not build.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Returns the names of all crates on which `tapeloom` depends if only these features are on.
fn dependencies(features: &str) -> BTreeSet<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let output = Command::new(cargo)
        .args(["tree", "--package=tapeloom", "--no-default-features", "--edges=normal,build"])
        .args(["--prefix=none", "--format={p}", "--offline", "--locked", "--features", features])
        .current_dir(root)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| Some(line.split(' ').next()?.to_owned())).collect()
}

/// Returns whether a crate belongs to the generation of machine code. All crates here use the ids and sets of
/// `cranelift-entity`, so it does not count.
fn makes_code(name: &str) -> bool {
    let ids = ["cranelift-entity", "cranelift-bitset"];
    (name.starts_with("cranelift") && !ids.contains(&name)) || name == "iced-x86"
}

#[test]
fn builds_have_no_crates_of_other_features() {
    for features in ["", "linalg"] {
        let names = dependencies(features);
        let found: Vec<_> = names.iter().filter(|name| makes_code(name)).collect();
        assert_eq!(found, [""; 0], "with the features `{features}`");
        assert_eq!(names.contains("gemm-f64"), features == "linalg", "faer alone needs it");
        assert!(!names.contains("rayon-core"));
        assert!(!names.contains("egg"));
    }
    let names = dependencies("native");
    assert!(names.contains("cranelift-codegen") && names.contains("gemm-f64"));
    assert!(!names.contains("faer") && !names.contains("cranelift-object"));
    assert!(dependencies("object").contains("cranelift-object"));
    assert!(dependencies("relaxed").contains("egg"));
}
