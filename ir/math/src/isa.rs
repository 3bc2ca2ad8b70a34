//! Instruction sets: the vector instructions that this process uses.
//!
//! Every choice of instructions (in generated code, library functions and contractions) calls [`Isa::here`]. Results
//! have the same bits for every set, so a lower set serves measurements and tests only.
//!
//! The environment variable `TAPELOOM_ISA=baseline|avx2|avx512`, read once, selects a lower set than the
//! machine has.
//!
//! ```
//! use tapeloom_math::isa::Isa;
//! assert!(Isa::Baseline <= Isa::here());
//! assert_eq!(Isa::Avx512.to_string(), "avx512");
//! ```

use std::fmt;
use std::sync::OnceLock;

/// The environment variable that selects an instruction set.
const ASKED: &str = "TAPELOOM_ISA";

/// The error for a `TAPELOOM_ISA` that names no instruction set, or one that the machine lacks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WrongIsa {
    /// The reason for the error.
    pub message: String,
    /// The values of the variable that are allowed on this machine.
    pub help: String,
}

/// A set of vector instructions. Sets with longer vectors compare as greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Isa {
    /// The instructions that every machine of the architecture has: on x86-64, 128-bit vectors without fused
    /// multiply-add.
    Baseline,
    /// AVX2 and FMA: 256-bit vectors.
    Avx2,
    /// AVX-512 F, DQ, BW and VL: 512-bit vectors and masks.
    Avx512,
}

impl Isa {
    /// All instruction sets, in increasing order.
    pub const ALL: [Isa; 3] = [Isa::Baseline, Isa::Avx2, Isa::Avx512];

    /// Returns the instruction set in use: the one that `TAPELOOM_ISA` selects, otherwise the highest set of the
    /// machine.
    ///
    /// If `TAPELOOM_ISA` is invalid, the result is the highest set of the machine, and [`Isa::in_use`] returns the
    /// error.
    pub fn here() -> Isa {
        static HERE: OnceLock<Isa> = OnceLock::new();
        // The result is cached, since scalar functions call this at every evaluation.
        *HERE.get_or_init(|| Isa::in_use().unwrap_or_else(|_| Isa::of_machine()))
    }

    /// Returns the instruction set in use, or the error if `TAPELOOM_ISA` is invalid.
    ///
    /// # Errors
    /// If `TAPELOOM_ISA` is not the name of a set, or names a set that the machine lacks.
    pub fn in_use() -> Result<Isa, WrongIsa> {
        static ANSWER: OnceLock<Result<Isa, WrongIsa>> = OnceLock::new();
        ANSWER.get_or_init(|| chosen(std::env::var(ASKED).ok().as_deref())).clone()
    }

    /// Returns the highest instruction set that the machine has.
    pub fn of_machine() -> Isa {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            let avx2 = has!("avx2") && has!("fma");
            let avx512 =
                has!("avx512f") && has!("avx512dq") && has!("avx512bw") && has!("avx512vl");
            if avx2 && avx512 {
                return Isa::Avx512;
            }
            if avx2 {
                return Isa::Avx2;
            }
        }
        Isa::Baseline
    }

    /// Returns the name of the instruction set, as in `TAPELOOM_ISA`.
    pub const fn name(self) -> &'static str {
        match self {
            Isa::Baseline => "baseline",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
        }
    }

    /// Returns the size of a vector register in bytes.
    pub const fn vector_bytes(self) -> usize {
        match self {
            Isa::Baseline => 16,
            Isa::Avx2 => 32,
            Isa::Avx512 => 64,
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns the instruction set called `name`, or the error; without a name, the highest set of the machine.
#[doc(hidden)]
pub fn chosen(name: Option<&str>) -> Result<Isa, WrongIsa> {
    let widest = Isa::of_machine();
    let Some(name) = name else { return Ok(widest) };
    let refused = |message| {
        let names = Isa::ALL.iter().filter(|isa| **isa <= widest).map(|isa| isa.name());
        let names = names.collect::<Vec<_>>().join("`, `");
        Err(WrongIsa { message, help: format!("this machine has `{names}`") })
    };
    match Isa::ALL.into_iter().find(|isa| isa.name() == name) {
        None => refused(format!("{ASKED}={name} is no instruction set")),
        Some(isa) if isa > widest => refused(format!("this machine lacks {ASKED}={name}")),
        Some(isa) => Ok(isa),
    }
}
