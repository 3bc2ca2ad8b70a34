//! Files of tensors: round trips, errors that list all differences, damaged files, other libraries, killed programs.
#![allow(clippy::unwrap_used, reason = "tests")]

mod damage;
#[cfg(unix)]
mod killed;
mod python;
mod resume;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use tapeloom::files::{self, Arrays};
use tapeloom::prelude::*;
use tapeloom::{ArrayType, Kind};

/// A folder that is removed at the end of a test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tapeloom-files-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// Returns the bytes of a file that numpy wrote.
fn of_numpy(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/numpy");
    std::fs::read(folder.join(name)).unwrap()
}

/// Returns arrays of every dtype, also without elements and without axes, under names that formats could confuse.
fn every_dtype() -> Arrays {
    let mut all = Arrays::new();
    all.insert("mask", [true, false]);
    all.insert("[0].i32", [[i32::MIN, 1], [2, i32::MAX]]);
    all.insert("i64", i64::MIN);
    all.insert("a/b.u32", [u32::MAX]);
    all.insert(r#"keys["a\\b"]"#, [u64::MAX, 0, 1]);
    all.insert("müller", [[[0.1f32, -0.0], [f32::NAN, f32::INFINITY]]]);
    all.insert("f64", [f64::MIN_POSITIVE / 4.0, f64::NEG_INFINITY, 0.1]);
    all.insert("nothing", Tensor::zeros(&[3, 0, 2], Dtype::F64).unwrap());
    all
}

#[derive(Tree, Clone, Debug)]
struct Layer<T> {
    w: T,
    b: T,
}

fn layers(n: usize) -> Vec<Layer<Tensor>> {
    (0..n)
        .map(|i| Layer { w: Tensor::from([[i as f64, 0.5]]), b: Tensor::from([0.25f32, -1.0]) })
        .collect()
}

#[test]
fn every_dtype_comes_back_from_every_format() {
    let (folder, all) = (Folder::new(), every_dtype());
    let all = all.with_metadata("about", "a \"test\"\n").with_metadata("format", "pt");
    let path = folder.file("all.safetensors");
    all.save_safetensors(&path).unwrap();
    let back = Arrays::load_safetensors(&path).unwrap();
    assert!(back.iter().eq(all.iter()), "{back:?}");
    assert_eq!(back.metadata(), all.metadata());

    let path = folder.file("all.npz");
    all.save_npz(&path).unwrap();
    let back = Arrays::load_npz(&path).unwrap();
    assert!(back.iter().eq(all.iter()), "{back:?}");
    assert!(back.metadata().is_empty());

    for (name, tensor) in all.iter() {
        let path = folder.file("one.npy");
        files::save_npy(&path, tensor).unwrap();
        assert_eq!(files::load_npy(&path).unwrap(), *tensor, "{name}");
        let text = serde_json::to_string(tensor).unwrap();
        let back: Tensor = serde_json::from_str(&text).unwrap();
        assert_eq!(back, *tensor, "{text}");
    }
    // Saving must leave no other files in the folder, and must write the same bytes for the same arrays.
    let mut names = folder.names();
    names.sort();
    assert_eq!(names, ["all.npz", "all.safetensors", "one.npy"]);
    assert_eq!(all.to_safetensors().unwrap(), all.clone().to_safetensors().unwrap());
}

#[test]
fn arrays_begin_at_multiples_of_their_size() {
    let bytes = every_dtype().to_safetensors().unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert_eq!(header % 8, 0);
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..][..header as usize]).unwrap();
    for (name, tensor) in every_dtype().iter() {
        let start = header[name]["data_offsets"][0].as_u64().unwrap() as usize;
        assert_eq!(start % tensor.dtype().bytes(), 0, "{name}");
    }
    assert_eq!(&files::to_npy(&Tensor::from([1.0]))[..8], b"\x93NUMPY\x01\x00");
    assert_eq!(files::to_npy(&Tensor::from([1.0])).len() % 64, 8);
}

#[test]
fn trees_have_their_paths_as_names() {
    let (folder, net) = (Folder::new(), layers(2));
    let run = (net.clone(), Tensor::from(3i64));
    files::save_safetensors(folder.file("run"), &run).unwrap();
    let arrays = Arrays::load_safetensors(folder.file("run")).unwrap();
    let mut paths = tree_paths(&run);
    paths.sort();
    assert!(arrays.names().eq(paths));
    let loaded = files::load_safetensors(folder.file("run"), &run).unwrap();
    assert_eq!(tree_leaves(&loaded), tree_leaves(&run));
    // A template of types, or of references to tensors, must load the same arrays as a template of tensors.
    let types: Vec<Layer<ArrayType>> =
        net.iter().map(|l| Layer { w: l.w.ty().clone(), b: l.b.ty().clone() }).collect();
    let part = arrays.under("0").tree(&types).unwrap();
    assert_eq!(tree_leaves(&part), tree_leaves(&net));
    let borrowed: Vec<Layer<&Tensor>> = net.iter().map(|l| Layer { w: &l.w, b: &l.b }).collect();
    assert_eq!(tree_leaves(&arrays.under("0").tree(&borrowed).unwrap()), tree_leaves(&net));
    assert_eq!(arrays.under("0[1]").names().collect::<Vec<_>>(), ["b", "w"]);
    assert_eq!(arrays.under("0[1].w").tree(&net[1].w).unwrap(), net[1].w);
    assert_eq!(arrays.under("0[").names().len(), 0);
    assert_eq!(arrays.under("").names().len(), 5);
    // A file must also hold a single tensor, which is not in a tree.
    files::save_npz(folder.file("alone"), &net[0].w).unwrap();
    assert_eq!(files::load_npz(folder.file("alone"), &net[0].w).unwrap(), net[0].w);
    assert_eq!(arrays.get("1").unwrap().item::<i64>().unwrap(), 3);
}

#[test]
fn one_error_lists_all_differences() {
    let folder = Folder::new();
    let path = folder.file("net");
    let mut arrays = Arrays::of(&(layers(3),));
    arrays.insert("0[0].w", [1.0, 2.0]);
    arrays.insert("0[0].b", [1.0, 2.0]);
    let arrays = arrays.renamed(|name| Some(name.replace("[1].w", "[1].weight")));
    let arrays = arrays.renamed(|name| Some(name.replace("[1].b", "(1).b")));
    arrays.save_safetensors(&path).unwrap();
    let error = files::load_safetensors(&path, &(layers(2),)).unwrap_err();
    assert_eq!((error.kind(), error.diagnostics().len()), (Kind::File, 1));
    let text = error.to_string();
    for line in [
        "net`: the arrays are not those of the tree: 8 differences",
        "shape       `0[0].w` is f64[2], expected f64[1,2]",
        "dtype       `0[0].b` is f64[2], expected f32[2]",
        // For this missing name, the error must not propose a name with another index.
        "missing     `0[1].w` f64[1,2]\n",
        "missing     `0[1].b` f32[2]; did you mean `0(1).b`?",
        "unexpected  `0(1).b` f32[2]",
        "unexpected  `0[1].weight` f64[1,2]",
        "unexpected  `0[2].w` f64[1,2]",
        "errors.html#file",
        file!(),
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    // The error lists only the first 20 of many differences, with their number.
    let many = Arrays::of(&layers(100));
    let text = many.tree(&layers(0)).unwrap_err().to_string();
    assert!(text.contains("200 differences") && text.contains("and 180 more"), "{text}");
    let text = many.get("[7].v").unwrap_err().to_string();
    assert!(text.contains("`[7].v`") && text.contains("did you mean `[7].b`?"), "{text}");
    let text = Arrays::new().get("w").unwrap_err().to_string();
    assert!(text.contains("there are no arrays"), "{text}");
}

#[test]
fn places_that_cannot_be_written_are_errors_of_the_line() {
    let folder = Folder::new();
    let none = folder.file("missing").join("x.npz");
    for (line, error) in [
        (line!(), files::save_npz(&none, &layers(1)).unwrap_err()),
        (line!(), files::load_npz(&none, &layers(1)).map(|_| ()).unwrap_err()),
        (line!(), files::save_safetensors(&none, &layers(1)).unwrap_err()),
        (line!(), files::save_npy(&folder.0, &Tensor::from(1.0)).unwrap_err()),
        (line!(), files::load_npy(&folder.0).map(|_| ()).unwrap_err()),
        (line!(), files::replace("", b"").unwrap_err()),
        (line!(), files::replace(folder.file(".."), b"").unwrap_err()),
    ] {
        assert_eq!(error.kind(), Kind::File, "{error}");
        assert!(error.to_string().contains(&format!("{}:{line}:", file!())), "{line}: {error}");
    }
    // If the folder of a file to be read does not exist, the error must not propose to create the folder.
    let error = files::load_npz(&none, &layers(1)).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("help: correct the path"), "{error}");
    assert_eq!(folder.names(), [""; 0]);
    let mut reserved = Arrays::new();
    reserved.insert("__metadata__", 1.0);
    assert_eq!(reserved.to_safetensors().unwrap_err().kind(), Kind::File);
    let mut path = Arrays::new();
    path.insert("ü\\..", 1.0);
    assert_eq!(path.to_npz().unwrap_err().kind(), Kind::File);
}

#[test]
fn a_file_is_replaced_and_unfinished_ones_are_removed() {
    let folder = Folder::new();
    let path = folder.file("x");
    let unfinished = [".x.17.part", ".x.y.part", ".xy.17.part", ".x.18446744073709551615.part"];
    for name in unfinished {
        std::fs::write(folder.file(name), b"half").unwrap();
    }
    // A locked file stands for a file that another process is writing, so it must not be removed.
    let locked = std::fs::File::open(folder.file(unfinished[3])).unwrap();
    locked.lock().unwrap();
    files::replace(&path, b"one").unwrap();
    files::replace(&path, b"two").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"two");
    let mut names = folder.names();
    names.sort();
    assert_eq!(names, [".x.18446744073709551615.part", ".x.y.part", ".xy.17.part", "x"]);
}

#[cfg(unix)]
#[test]
fn links_and_permissions_stay() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = Folder::new();
    std::fs::create_dir(folder.file("data")).unwrap();
    symlink("data/x", folder.file("link")).unwrap();
    files::replace(folder.file("link"), b"one").unwrap();
    let private = std::fs::Permissions::from_mode(0o640);
    std::fs::set_permissions(folder.file("data/x"), private).unwrap();
    files::replace(folder.file("link"), b"two").unwrap();
    assert_eq!(std::fs::read(folder.file("data/x")).unwrap(), b"two");
    assert!(folder.file("link").is_symlink());
    let mode = std::fs::metadata(folder.file("data/x")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
}

#[test]
fn files_of_numpy_are_read() {
    let read = |name: &str| files::from_npy(&of_numpy(name)).unwrap();
    let matrix = Tensor::from([[-2.5, -1.5, -0.5], [0.5, 1.5, 2.5]]);
    assert_eq!(read("fortran.npy"), matrix);
    let cube = Tensor::new(&[2, 3, 4], (0..24).collect::<Vec<i32>>()).unwrap();
    assert_eq!(read("big_endian.npy"), cube);
    let half = read("half.npy").to_vec::<f32>().unwrap();
    assert_eq!(half[..5], [0.0, 0.0, 1.0, -2.5, 65504.0]);
    assert!(half[1].is_sign_negative() && half[7].is_nan());
    assert_eq!(half[5..7], [2f32.powi(-24), f32::INFINITY]);
    assert_eq!(read("bytes.npy"), Tensor::from([[-128, 127], [0, -1]]));
    assert_eq!(read("scalar.npy"), Tensor::from(1.5f32));
    assert_eq!(read("empty.npy"), Tensor::zeros(&[0, 3], Dtype::U64).unwrap());
    let error = files::from_npy(&of_numpy("complex.npy")).unwrap_err();
    assert!(error.message.contains("'<c16'"), "{error}");

    let stored = Arrays::from_npz(&of_numpy("stored.npz")).unwrap();
    assert_eq!(*stored.get("w").unwrap(), matrix);
    assert_eq!(*stored.get("n").unwrap(), Tensor::from(7i64));
    assert_eq!(*stored.get("mask").unwrap(), Tensor::from([true, false]));
    let compressed = Arrays::from_npz(&of_numpy("compressed.npz")).unwrap();
    assert_eq!(*compressed.get("zeros").unwrap(), Tensor::zeros(&[10, 10], Dtype::F64).unwrap());
    assert_eq!(*compressed.get("ramp").unwrap(), Tensor::from([0u32, 1, 2, 3, 4]));
}

/// Each float16 must have the value of its definition: the sign, times 2^(exponent - 15), times 1 + fraction / 1024.
#[test]
fn narrow_floats_are_widened_to_their_value() {
    let bits: Vec<u16> = (0..=u16::MAX).collect();
    let bytes: Vec<u8> = bits.iter().flat_map(|b| b.to_le_bytes()).collect();
    let file = |dtype: &str| {
        let header =
            format!(r#"{{"x":{{"dtype":"{dtype}","shape":[65536],"data_offsets":[0,131072]}}}}"#);
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &bytes].concat()
    };
    let wide = |dtype: &str| {
        let arrays = Arrays::from_safetensors(&file(dtype)).unwrap();
        arrays.get("x").unwrap().to_vec::<f32>().unwrap()
    };
    for (b, x) in bits.iter().zip(wide("F16")) {
        let (exponent, fraction) = (i32::from(b >> 10 & 31), f64::from(b & 1023));
        let size = match exponent {
            31 if fraction > 0.0 => f64::NAN,
            31 => f64::INFINITY,
            0 => fraction * 2f64.powi(-24),
            _ => (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15),
        };
        assert_eq!(x.is_nan(), size.is_nan(), "{b:x}");
        assert_eq!(x.is_sign_negative(), *b > 0x7fff, "{b:x}");
        assert!(x.is_nan() || f64::from(x.abs()) == size, "{b:x}: {x}, {size}");
    }
    for (b, x) in bits.iter().zip(wide("BF16")) {
        assert_eq!(x.to_bits(), u32::from(*b) << 16);
    }
    let error = Arrays::from_safetensors(&file("F8_E4M3")).unwrap_err();
    assert_eq!(error.kind, Kind::File);
}
