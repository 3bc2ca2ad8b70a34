//! Instruction sets: the widest vectors that code of this process uses.
//!
//! Every choice of instructions asks [`Isa::here`]: generated code, the versions of library functions and those of
//! contractions. Bits do not depend on the answer, so a narrower set is for measurements and for tests.
//!
//! `TAPELOOM_ISA=baseline|avx2|avx512` in the environment, read once, asks for a narrower set than the machine has.
//!
//! ```
//! use tapeloom_math::isa::Isa;
//! assert!(Isa::Baseline <= Isa::here());
//! assert_eq!(Isa::Avx512.to_string(), "avx512");
//! ```

use std::fmt;
use std::sync::OnceLock;

/// The variable of the environment that asks for a set.
const ASKED: &str = "TAPELOOM_ISA";

/// `TAPELOOM_ISA` asks for what there is not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WrongIsa {
    /// What is wrong.
    pub message: String,
    /// What can be asked for.
    pub help: String,
}

/// An instruction set, narrower ones before wider ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Isa {
    /// What every machine of that kind has: on x86-64 vectors of 128 bits, without fused multiply-add.
    Baseline,
    /// AVX2 and FMA: vectors of 256 bits.
    Avx2,
    /// AVX-512 F, DQ, BW and VL: vectors of 512 bits, and masks.
    Avx512,
}

impl Isa {
    /// All sets, narrower ones first.
    pub const ALL: [Isa; 3] = [Isa::Baseline, Isa::Avx2, Isa::Avx512];

    /// What is used: the widest set that the machine has, or the one that `TAPELOOM_ISA` asks for.
    ///
    /// Where that asks for what there is not, it is the widest one; [`Isa::asked`] says what is wrong.
    pub fn here() -> Isa {
        static HERE: OnceLock<Isa> = OnceLock::new();
        // Scalar functions ask at every call.
        *HERE.get_or_init(|| Isa::asked().unwrap_or_else(|_| Isa::of_machine()))
    }

    /// What is used, with the environment taken at its word.
    ///
    /// # Errors
    /// Where `TAPELOOM_ISA` is not the name of a set, or of one that the machine lacks.
    pub fn asked() -> Result<Isa, WrongIsa> {
        static ANSWER: OnceLock<Result<Isa, WrongIsa>> = OnceLock::new();
        ANSWER.get_or_init(|| chosen(std::env::var(ASKED).ok().as_deref())).clone()
    }

    /// The widest set that the machine has.
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

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Isa::Baseline => "baseline",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
        }
    }

    /// Bytes of a vector.
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

/// The set of that name, or the widest one.
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
