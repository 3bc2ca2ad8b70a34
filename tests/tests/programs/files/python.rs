//! Files that numpy and the `safetensors` package of Python read, and files that they write.
//!
//! Skipped with a message where Python or a package is missing.

use super::{Folder, every_dtype};
use std::io::Write;
use std::process::Command;
use tapeloom::files::{self, Arrays};
use tapeloom::prelude::*;

/// Runs a program in Python with a folder as its argument. Returns false, with a message, if a package that it needs
/// is not installed.
fn ran(packages: &str, program: &str, folder: &Folder) -> bool {
    let python = |code: &str| Command::new("python3").args(["-c", code]).arg(&folder.0).output();
    let installed = python(&format!("import {packages}")).is_ok_and(|out| out.status.success());
    if !installed {
        // Write to stderr directly and not by `eprintln`, because the test harness drops the captured output of tests
        // that pass.
        let text = format!("skipped: python3 has no {packages}\n");
        drop(std::io::stderr().write(text.as_bytes()));
        return false;
    }
    let out = python(program).unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    true
}

/// Reads `ours.*`, which this library wrote, compares the values, and writes the same arrays as `theirs.*`.
const NUMPY: &str = r#"
import sys, numpy as np
folder = sys.argv[1] + "/"
ours = dict(np.load(folder + "ours.npz"))
assert sorted(ours) == sorted(np.load(folder + "ours.npz").files)
assert ours["mask"].dtype == bool and ours["mask"].tolist() == [True, False]
assert ours["[0].i32"].tolist() == [[-2**31, 1], [2, 2**31 - 1]]
assert ours["i64"].shape == () and int(ours["i64"]) == -2**63
assert ours["a/b.u32"].tolist() == [2**32 - 1]
assert ours['keys["a\\\\b"]'].dtype == np.uint64
assert ours["müller"].dtype == np.float32 and ours["müller"].shape == (1, 2, 2)
assert ours["f64"][2] == 0.1 and ours["nothing"].shape == (3, 0, 2)
np.savez(folder + "theirs.npz", **ours)
np.savez_compressed(folder + "small.npz", **ours)
np.savez(folder + "fortran.npz", **{k: x.copy(order="F") for k, x in ours.items()})
np.savez(folder + "big.npz", **{k: x.astype(x.dtype.newbyteorder(">"), order="F") for k, x in ours.items()})
one = np.load(folder + "ours.npy")
assert one.tolist() == [[1.0, 2.0], [3.0, 4.0]] and one.flags["C_CONTIGUOUS"]
np.save(folder + "theirs.npy", one.T)
"#;

#[test]
fn numpy_reads_and_writes_the_same_arrays() {
    let (folder, all) = (Folder::new(), every_dtype());
    all.save_npz(folder.file("ours.npz")).unwrap();
    files::save_npy(folder.file("ours.npy"), &Tensor::from([[1.0, 2.0], [3.0, 4.0]])).unwrap();
    if !ran("numpy", NUMPY, &folder) {
        return;
    }
    for name in ["theirs", "small", "fortran", "big"] {
        let theirs = Arrays::load_npz(folder.file(&format!("{name}.npz"))).unwrap();
        assert!(theirs.iter().eq(all.iter()), "{name}: {theirs:?}");
    }
    let one = files::load_npy(folder.file("theirs.npy")).unwrap();
    assert_eq!(one, Tensor::from([[1.0, 3.0], [2.0, 4.0]]));
}

const SAFETENSORS: &str = r#"
import sys, numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
folder = sys.argv[1] + "/"
ours = load_file(folder + "ours.safetensors")
assert ours["mask"].dtype == bool and ours["mask"].tolist() == [True, False]
assert ours["[0].i32"].tolist() == [[-2**31, 1], [2, 2**31 - 1]]
assert ours["i64"].shape == () and int(ours["i64"]) == -2**63
assert ours["müller"].dtype == np.float32 and ours["nothing"].shape == (3, 0, 2)
with safe_open(folder + "ours.safetensors", framework="np") as f:
    assert f.metadata() == {"about": "a test", "format": "pt"}
    save_file(ours, folder + "theirs.safetensors", metadata=f.metadata())
"#;

#[test]
fn the_safetensors_package_reads_and_writes_the_same_arrays() {
    let folder = Folder::new();
    let all = every_dtype().with_metadata("about", "a test").with_metadata("format", "pt");
    all.save_safetensors(folder.file("ours.safetensors")).unwrap();
    if !ran("numpy, safetensors.numpy", SAFETENSORS, &folder) {
        return;
    }
    let theirs = Arrays::load_safetensors(folder.file("theirs.safetensors")).unwrap();
    assert!(theirs.iter().eq(all.iter()), "{theirs:?}");
    assert_eq!(theirs.metadata(), all.metadata());
}
