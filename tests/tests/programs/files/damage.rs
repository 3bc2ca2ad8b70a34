//! Damaged files: each is an error or arrays no larger than the file, and never a panic.

use super::{every_dtype, layers, of_numpy};
use tapeloom::files::{self, Arrays};
use tapeloom::prelude::*;
use tapeloom::{Kind, Problem};
use tapeloom_tests::{Rng, Sweep};

/// A function that reads the bytes of a file in one format.
type Reader = fn(&[u8]) -> Result<Arrays, Problem>;

fn one(bytes: &[u8]) -> Result<Arrays, Problem> {
    files::from_npy(bytes).map(|tensor| Arrays::of(&tensor))
}

/// Valid files, each with its reader.
fn valid() -> Vec<(Reader, Vec<u8>)> {
    let mut files: Vec<(Reader, Vec<u8>)> = Vec::new();
    for arrays in [every_dtype(), Arrays::of(&layers(2)).with_metadata("a", "b"), Arrays::new()] {
        files.push((Arrays::from_safetensors, arrays.to_safetensors().unwrap()));
        files.push((Arrays::from_npz, arrays.to_npz().unwrap()));
    }
    for name in ["fortran", "big_endian", "half", "bytes", "scalar", "empty"] {
        files.push((one, of_numpy(&format!("{name}.npy"))));
    }
    files.push((one, files::to_npy(&Tensor::from([[true, false]]))));
    files.push((Arrays::from_npz, of_numpy("stored.npz")));
    files.push((Arrays::from_npz, of_numpy("compressed.npz")));
    files
}

/// Numbers at which sizes overflow.
const NUMBERS: [u64; 12] =
    [0, 1, 2, 8, 0xff, 0xffff, 1 << 31, u32::MAX as u64, 1 << 60, 1 << 61, u64::MAX - 7, u64::MAX];

/// Damages a file: overwrites, cuts, copies or inserts bytes and numbers, binary and decimal.
fn damage(rng: &mut Rng, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return bytes.push(rng.bits() as u8);
    }
    let n = bytes.len();
    // Half of the changes are near the beginning or the end, where headers and directories are.
    let at = match rng.index(4) {
        0 => rng.index(n.min(200)),
        1 => n - 1 - rng.index(n.min(200)),
        _ => rng.index(n),
    };
    let number = NUMBERS[rng.index(NUMBERS.len())];
    match rng.index(9) {
        0 => bytes[at] ^= 1 << rng.index(8),
        1 => bytes[at] = rng.bits() as u8,
        2 => bytes.truncate(at),
        3 => bytes.extend((0..rng.index(20)).map(|_| 0)),
        4 => {
            let width = [1, 2, 4, 8][rng.index(4)].min(n - at);
            bytes[at..at + width].copy_from_slice(&number.to_le_bytes()[..width]);
        }
        5 => {
            // This fault replaces a digit in the header of the file by a number.
            let digits: Vec<usize> = (0..n).filter(|i| bytes[*i].is_ascii_digit()).collect();
            if let Some(at) = digits.get(rng.index(digits.len().max(1))) {
                bytes.splice(at..&(at + 1), number.to_string().into_bytes());
            }
        }
        6 => {
            let to = (at + 1 + rng.index(20)).min(n);
            bytes.drain(at..to);
        }
        7 => {
            let to = (at + 1 + rng.index(100)).min(n);
            let part = bytes[at..to].to_vec();
            let place = rng.index(n);
            bytes.splice(place..place, part);
        }
        _ => {
            let sign = b"{}[]()',:\"-.e\\\n\0"[rng.index(16)];
            let many = if rng.index(10) == 0 { 5000 } else { 1 };
            bytes.splice(at..at, vec![sign; many]);
        }
    }
}

#[test]
fn damaged_files_are_errors_or_arrays() {
    let valid = valid();
    let (mut read, mut refused) = (0, 0);
    for seed in Sweep::DamagedFiles.seeds() {
        let mut rng = Rng::new(seed);
        let (reader, bytes) = &valid[rng.index(valid.len())];
        let mut bytes = bytes.clone();
        for _ in 0..1 + rng.index(4) {
            damage(&mut rng, &mut bytes);
        }
        match reader(&bytes) {
            Err(problem) => {
                refused += 1;
                assert_eq!(problem.kind, Kind::File, "SWEEP_SEED={seed}: {problem}");
                assert!(problem.message.len() < 2000 + bytes.len(), "SWEEP_SEED={seed}");
            }
            Ok(arrays) => {
                read += 1;
                let held: usize = arrays.iter().map(|(_, t)| t.bytes().len()).sum();
                // A byte of the file may become four bytes of memory (widened dtypes), and compressed zeros a thousand
                // times as many.
                assert!(held <= 4 * bytes.len() + 1100 * 400, "SWEEP_SEED={seed}: {held}");
                let again = Arrays::from_safetensors(&arrays.to_safetensors().unwrap()).unwrap();
                assert!(again.iter().eq(arrays.iter()), "SWEEP_SEED={seed}");
            }
        }
    }
    // Both outcomes must occur: a sweep in which all files are refused, or all are read, tests nothing.
    assert!(read > 20 && refused > 100, "{read} read, {refused} refused");
}

/// Every proper prefix of a valid file must be refused, and so must a file with more bytes after its end (allowed for a
/// zip archive).
#[test]
fn every_cut_is_an_error() {
    for (i, (reader, bytes)) in valid().into_iter().enumerate() {
        reader(&bytes).unwrap();
        for end in 0..bytes.len() {
            assert!(reader(&bytes[..end]).is_err(), "file {i}, {end} of {} bytes", bytes.len());
        }
        if i > 5 || i % 2 == 0 {
            let longer = [&bytes[..], &[0; 8]].concat();
            assert!(reader(&longer).is_err() || i >= 13, "file {i} with more bytes");
        }
    }
}

fn safetensors(header: &str, data: usize) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![0; data]].concat()
}

fn npy(header: &str, data: usize) -> Vec<u8> {
    let size = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &size[..], header.as_bytes(), &vec![0; data]].concat()
}

#[test]
fn sizes_that_lie_are_errors() {
    let tensor = |dtype: &str, shape: &str, offsets: &str| {
        format!(
            r#""{dtype}{offsets}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}"#
        )
    };
    let (zero, most) = ("[0,8]", "[0,18446744073709551615]");
    let headers = [
        tensor("F64", "[1152921504606846976]", zero),
        tensor("F64", "[1152921504606846976]", "[0,9223372036854775808]"),
        tensor("U8", "[18446744073709551615]", most),
        tensor("F64", "[4294967296,4294967296,4294967296]", zero),
        tensor("F64", "[18446744073709551616]", zero),
        tensor("F64", "[-1]", zero),
        tensor("F64", "[1.0]", zero),
        tensor("F64", "[1]", "[8,0]"),
        tensor("F64", "[1]", "[8,16]"),
        tensor("F64", "[2]", zero),
        tensor("F32", "[1]", zero),
        format!("{},{}", tensor("F64", "[1]", zero), tensor("I64", "[1]", zero)),
        format!("{},{}", tensor("F64", "[1]", zero), tensor("F64", "[1]", "[4,12]")),
        format!("{},{}", tensor("F64", "[1]", zero), tensor("F64", "[1]", "[16,24]")),
        r#""x":{"dtype":"F64"}"#.to_owned(),
        r#""x":"#.to_owned() + &"[".repeat(100_000),
    ];
    for header in headers {
        for data in [0, 7, 8, 12, 16, 24] {
            let file = safetensors(&format!("{{{header}}}"), data);
            let read = Arrays::from_safetensors(&file);
            assert!(read.is_err_and(|p| p.kind == Kind::File), "{header:.100} {data}");
        }
    }
    for first in NUMBERS {
        let file = [&first.to_le_bytes()[..], b"{}      "].concat();
        assert_eq!(Arrays::from_safetensors(&file).is_ok(), first == 8, "{first}");
    }
    assert!(
        Arrays::from_safetensors(&safetensors(&format!("{{{}}}", tensor("F64", "[1]", zero)), 8))
            .is_ok()
    );

    let entry =
        |shape: &str| format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}\n");
    let headers = [
        entry("(1152921504606846976,)"),
        entry("(4294967296, 4294967296, 4294967296)"),
        entry("(18446744073709551615, 3)"),
        entry("(18446744073709551616,)"),
        entry("(-1,)"),
        entry("(1.0,)"),
        entry("[1]"),
        entry("1"),
        entry("(2,)"),
        entry("()").replace("<f8", "<c16"),
        entry("()").replace("<f8", "|O"),
        entry("()").replace("'<f8'", "[('a', '<f8')]"),
        entry("()").replace("False", "0"),
        entry("()").replace("'descr'", "'desc'"),
        entry(&("(".repeat(3000) + &")".repeat(3000))),
        "[".repeat(9000),
        "-".repeat(9000),
        "'\\".repeat(4000),
        "{".to_owned() + &"1:".repeat(4000),
        String::new(),
    ];
    for header in headers {
        for data in [0, 7, 9, 24] {
            let read = files::from_npy(&npy(&header, data));
            assert!(read.is_err_and(|p| p.kind == Kind::File), "{header:.100} {data}");
        }
    }
    assert!(files::from_npy(&npy(&entry("()"), 8)).is_ok());
    assert!(files::from_npy(&npy(&(entry("()") + &" ".repeat(10_000)), 8)).is_err());
}
