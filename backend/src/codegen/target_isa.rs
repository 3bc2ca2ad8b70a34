//! Cranelift's code generators: one for a target triple and the instructions that the code may use.

use cranelift_codegen::isa::{self, LookupError, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use std::fmt;
use tapeloom_ir::{Isa, Kind, Problem};
use target_lexicon::{Architecture, BinaryFormat, Triple};

/// Returns Cranelift's code generator for a triple, which must be that of this machine.
pub(crate) fn isa(triple: &Triple) -> Result<OwnedTargetIsa, Problem> {
    let (host, help) = (Triple::host(), "use `Target::Interpreter`, which runs everywhere");
    isa::lookup(triple.clone()).map_err(|e| {
        let why = match e {
            LookupError::Unsupported => "Cranelift does not know the machine",
            LookupError::SupportDisabled => "Cranelift is built without code for the machine",
        };
        Problem::new(Kind::Target, format!("there is no machine code for {triple}: {why}"), help)
    })?;
    if *triple != host {
        let message = format!("machine code for {triple} does not run on this machine, {host}");
        return Err(Problem::new(Kind::Target, message, help));
    }
    let failed = |e: &dyn fmt::Display| {
        Problem::new(Kind::Target, format!("cannot make machine code for {triple}: {e}"), help)
    };
    let mut builder =
        match Isa::in_use().map_err(|e| Problem::new(Kind::Target, e.message, e.help))? {
            Isa::Baseline => isa::lookup(triple.clone()).map_err(|e| failed(&e))?,
            Isa::Avx2 | Isa::Avx512 => cranelift_native::builder().map_err(|e| failed(&e))?,
        };
    if Isa::here() == Isa::Avx2 {
        for name in AVX512_FLAGS {
            builder.set(name, "false").map_err(|e| failed(&e))?;
        }
    }
    builder.finish(flags().map_err(|e| failed(&e))?).map_err(|e| failed(&e))
}

/// The names of Cranelift's settings for the AVX-512 features that it uses.
const AVX512_FLAGS: [&str; 5] =
    ["has_avx512f", "has_avx512dq", "has_avx512vl", "has_avx512vbmi", "has_avx512bitalg"];

/// Returns Cranelift's code generator for position-independent code of an object, with the instructions of `set`.
pub(crate) fn of_object(triple: &Triple, set: Isa) -> Result<OwnedTargetIsa, Problem> {
    let help = "objects are made for `x86_64` and `aarch64` with the format ELF, such as \
                `x86_64-unknown-linux-gnu`; `avx2` and `avx512` are instructions of x86-64";
    let refused = |why: &dyn fmt::Display| {
        Problem::new(Kind::Target, format!("there is no object for {triple}: {why}"), help)
    };
    if triple.binary_format != BinaryFormat::Elf {
        return Err(refused(&"its files are not of the format ELF"));
    }
    let names: &[&[&str]] = match (triple.architecture, set) {
        (Architecture::X86_64 | Architecture::Aarch64(_), Isa::Baseline) => &[],
        (Architecture::X86_64, Isa::Avx2) => &[AVX2_FLAGS],
        (Architecture::X86_64, Isa::Avx512) => &[AVX2_FLAGS, OBJECT_AVX512_FLAGS],
        (Architecture::Aarch64(_), set) => return Err(refused(&format!("it has no {set}"))),
        _ => return Err(refused(&"the machine is not supported")),
    };
    let mut builder = isa::lookup(triple.clone()).map_err(|e| match e {
        LookupError::Unsupported => refused(&"the machine is not supported"),
        LookupError::SupportDisabled => {
            let message = format!(
                "this build makes no objects for {triple}, only for this machine's architecture"
            );
            Problem::new(Kind::Target, message, "build with the feature `cross`")
        }
    })?;
    for name in names.iter().copied().flatten() {
        builder.enable(name).map_err(|e| refused(&e))?;
    }
    let mut flags = settings::builder();
    common(&mut flags).and_then(|()| flags.set("is_pic", "true")).map_err(|e| refused(&e))?;
    builder.finish(settings::Flags::new(flags)).map_err(|e| refused(&e))
}

/// The names of Cranelift's settings for the instructions of [`Isa::Avx2`].
const AVX2_FLAGS: &[&str] = &[
    "has_sse3",
    "has_ssse3",
    "has_sse41",
    "has_sse42",
    "has_popcnt",
    "has_avx",
    "has_avx2",
    "has_fma",
];

/// The names of Cranelift's settings for the further instructions of [`Isa::Avx512`].
const OBJECT_AVX512_FLAGS: &[&str] = &["has_avx512f", "has_avx512dq", "has_avx512vl"];

/// Returns Cranelift's code generator for only the instructions that all machines of a triple support.
#[cfg(test)]
pub(crate) fn baseline(triple: &Triple) -> Option<OwnedTargetIsa> {
    isa::lookup(triple.clone()).ok()?.finish(flags().ok()?).ok()
}

fn flags() -> settings::SetResult<settings::Flags> {
    let mut flags = settings::builder();
    common(&mut flags)?;
    flags.set("is_pic", "false")?;
    Ok(settings::Flags::new(flags))
}

/// Sets the flags that code in memory and objects have in common.
fn common(flags: &mut settings::Builder) -> settings::SetResult<()> {
    let set = [
        ("opt_level", "speed"),
        ("use_colocated_libcalls", "false"),
        ("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" }),
    ];
    for (name, value) in set {
        flags.set(name, value)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[track_caller]
    fn refused(triple: &str) -> String {
        let problem = isa(&triple.parse().unwrap()).err().unwrap();
        assert_eq!(problem.kind, Kind::Target);
        problem.message
    }

    #[test]
    fn machines_without_code_are_errors_that_name_them() {
        assert_eq!(
            refused("wasm32-unknown-unknown"),
            "there is no machine code for wasm32-unknown-unknown: Cranelift does not know the machine"
        );
        assert!(refused("powerpc64-unknown-linux-gnu").contains("powerpc64-unknown-linux-gnu"));
        assert!(isa(&Triple::host()).is_ok());
    }

    #[test]
    fn code_for_another_system_is_not_run_here() {
        let host = Triple::host();
        let elsewhere = match host.operating_system {
            target_lexicon::OperatingSystem::Linux => "unknown-freebsd",
            _ => "unknown-linux-gnu",
        };
        let message = refused(&format!("{}-{elsewhere}", host.architecture));
        assert!(message.ends_with(&format!("does not run on this machine, {host}")), "{message}");
    }
}
