//! Printed Rust source in programs of their own: rustc compiles it, and its results are compared.

use crate::objects::Scratch;
use crate::{Agreement, Failure};
use std::fmt::Write as _;
use std::process::Command;
use tapeloom_ir::{ArrayType, Tensor};

/// A printed function with arguments and expected results.
pub struct SourceCase {
    /// The name of the function, which differs from those of the program's other functions.
    pub name: String,
    /// The Rust source of the function.
    pub text: String,
    /// The arguments of the call.
    pub args: Vec<Tensor>,
    /// The expected results of the call.
    pub want: Vec<Tensor>,
    /// The largest allowed difference of the results.
    pub agreement: Agreement,
    /// Whether the compiler may warn of unused parts of the program. Among random programs, it warns of few.
    pub may_have_unused: bool,
}

const MAIN: &str = r#"
trait Element: Copy + std::fmt::Debug {
    const POISON: Self;
    fn read(input: &mut &[u8]) -> Self;
    fn write(self, out: &mut Vec<u8>);
}

macro_rules! elements {
    ($($t:ident, $poison:expr;)*) => {$(
        impl Element for $t {
            const POISON: $t = $poison;
            fn read(input: &mut &[u8]) -> $t {
                let (bytes, rest) = input.split_first_chunk().unwrap();
                *input = rest;
                $t::from_le_bytes(*bytes)
            }
            fn write(self, out: &mut Vec<u8>) {
                out.extend(self.to_le_bytes());
            }
        }
    )*};
}

elements! {
    f32, f32::NAN;
    f64, f64::NAN;
    i32, 0x5a5a_5a5a;
    i64, 0x5a5a_5a5a_5a5a;
    u32, 0x5a5a_5a5a;
    u64, 0x5a5a_5a5a_5a5a;
}

impl Element for bool {
    const POISON: bool = true;
    fn read(input: &mut &[u8]) -> bool {
        let (byte, rest) = input.split_first().unwrap();
        *input = rest;
        *byte != 0
    }
    fn write(self, out: &mut Vec<u8>) {
        out.push(self.into());
    }
}

fn argument<T: Element, const N: usize>(input: &mut &[u8]) -> Box<[T; N]> {
    (0..N).map(|_| T::read(input)).collect::<Vec<T>>().try_into().unwrap()
}

fn poison<T: Element, const N: usize>() -> Box<[T; N]> {
    vec![T::POISON; N].try_into().unwrap()
}

fn result<T: Element, const N: usize>(y: &[T; N], out: &mut Vec<u8>) {
    y.iter().for_each(|x| x.write(out));
}

fn main() {
    let data = std::fs::read("arguments").unwrap();
    let (mut input, mut out) = (&data[..], Vec::new());
    calls(&mut input, &mut out);
    std::fs::write("results", out).unwrap();
}
"#;

/// Compiles a program that calls all functions, runs it, and compares the results. Each function is called twice, the
/// second time with results that already hold values.
///
/// # Errors
/// The messages of the compiler, warnings included; the failure of the program; the first result that differs.
pub fn check(cases: &[SourceCase]) -> Result<(), Failure> {
    let folder = Scratch::new()?;
    let path = |name: &str| folder.path().join(name);
    let mut main = String::from("#![deny(warnings)]\n");
    let mut calls = String::from("\nfn calls(input: &mut &[u8], out: &mut Vec<u8>) {\n");
    let mut data = Vec::new();
    for case in cases {
        std::fs::write(path(&format!("{}.rs", case.name)), &case.text)?;
        let allowed = if case.may_have_unused { "#[allow(unused)]\n" } else { "" };
        let _ = writeln!(main, "{allowed}mod {};", case.name);
        calls += &call_of(case);
        case.args.iter().for_each(|x| data.extend(x.bytes()));
    }
    std::fs::write(path("arguments"), data)?;
    std::fs::write(path("main.rs"), format!("{main}{MAIN}{calls}}}\n"))?;
    let rustc = std::env::var_os("RUSTC").unwrap_or("rustc".into());
    let compiled = Command::new(rustc)
        .args(["--edition=2024", "-O", "main.rs"])
        .current_dir(folder.path())
        .output()?;
    if !compiled.status.success() || !compiled.stderr.is_empty() {
        return Err(String::from_utf8_lossy(&compiled.stderr).into());
    }
    let ran = Command::new(path("main")).current_dir(folder.path()).output()?;
    if !ran.status.success() {
        return Err(format!("{}: {}", ran.status, String::from_utf8_lossy(&ran.stderr)).into());
    }
    let results = std::fs::read(path("results"))?;
    let (mut rest, mut wrong) = (results.as_slice(), String::new());
    for case in cases {
        for (i, want) in case.want.iter().enumerate() {
            let (bytes, after) =
                rest.split_at_checked(want.bytes().len()).ok_or("too few results")?;
            let got = Tensor::from_bytes(want.ty(), bytes)?;
            if let Err(problem) = case.agreement.check(&got, want) {
                let _ = writeln!(wrong, "{}, result {i}: {problem}", case.name);
            }
            rest = after;
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.into()) }
}

fn call_of(case: &SourceCase) -> String {
    let name = &case.name;
    let of = |ty: &ArrayType| format!("<{}, {}>", ty.dtype, ty.shape.elements());
    let is_one = |x: &Tensor| x.elements() == 1;
    let mut text = String::from("    {\n");
    let mut names = Vec::new();
    for (i, x) in case.args.iter().enumerate() {
        let _ = writeln!(text, "        let a{i} = argument::{}(input);", of(x.ty()));
        names.push(if is_one(x) { format!("a{i}[0]") } else { format!("&a{i}") });
    }
    for (i, y) in case.want.iter().enumerate() {
        names.push(if is_one(y) { format!("&mut r{i}[0]") } else { format!("&mut r{i}") });
    }
    for twice in [false, true] {
        for (i, y) in case.want.iter().enumerate() {
            let _ = writeln!(text, "        let mut r{i} = poison::{}();", of(y.ty()));
        }
        let _ = writeln!(text, "        {name}::{name}({});", names.join(", "));
        if twice {
            for i in 0..case.want.len() {
                let _ = writeln!(text, "        result(&r{i}, out);");
            }
        }
    }
    text + "    }\n"
}
