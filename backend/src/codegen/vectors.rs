//! A report of the vector width of each loop with lanes.

use std::fmt;
use std::sync::OnceLock;
use tapeloom_ir::Isa;

/// The vector widths of a program's vectorized loops (*loops with lanes*), as `explain` prints them.
///
/// ```
/// use tapeloom_backend::Vectors;
/// use tapeloom_ir::Isa;
/// let none = Vectors { isa: Isa::Baseline, loops: Vec::new(), simd_bytes: 0 };
/// assert_eq!(none.to_string(), "baseline: no loop runs in lanes\n");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Vectors {
    /// The instruction set for which the code is compiled.
    pub isa: Isa,
    /// The vectorized loops, in the order of their code.
    pub loops: Vec<LaneLoop>,
    /// The bytes of code in vectors of 256 or 512 bits.
    pub simd_bytes: usize,
}

/// The report of one vectorized loop (*loop with lanes*).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LaneLoop {
    /// The name of the kernel that contains the loop.
    pub kernel: String,
    /// The first line of the loop's text, such as `fold i0 in 100 lanes 16`.
    pub header: String,
    /// The vector width of the loop, and the code generator (SIMD or Cranelift).
    pub code: LaneCode,
    /// The library functions in the loop that are called for one element at a time.
    pub one_by_one: Vec<&'static str>,
}

/// The code generator and the vector width of a vectorized loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LaneCode {
    /// Vectors of 256 or 512 bits by the SIMD code generator, with this number of elements.
    Simd(usize),
    /// Vectors of 128 bits by Cranelift, with the reason why the loop has no larger vectors.
    Cranelift(&'static str),
}

impl Default for Vectors {
    fn default() -> Vectors {
        Vectors { isa: Isa::Baseline, loops: Vec::new(), simd_bytes: 0 }
    }
}

impl Vectors {
    /// Returns the number of loops in vectors of 256 or 512 bits.
    pub fn simd_loops(&self) -> usize {
        self.loops.iter().filter(|l| matches!(l.code, LaneCode::Simd(_))).count()
    }

    /// Prints the report to standard error if the environment variable `TAPELOOM_LOG` is `vectors`.
    pub(crate) fn log(&self) {
        static WANTED: OnceLock<bool> = OnceLock::new();
        if *WANTED.get_or_init(|| std::env::var("TAPELOOM_LOG").is_ok_and(|log| log == "vectors")) {
            eprint!("{self}");
        }
    }
}

impl fmt::Display for Vectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let isa = self.isa;
        if self.loops.is_empty() {
            return writeln!(f, "{isa}: no loop runs in lanes");
        }
        let (simd, all) = (self.simd_loops(), self.loops.len());
        writeln!(f, "{isa}: {simd} of {all} loops in lanes, {} bytes", self.simd_bytes)?;
        for LaneLoop { kernel, header, code, one_by_one } in &self.loops {
            write!(f, "@{kernel} {header}: ")?;
            match code {
                LaneCode::Simd(elements) => write!(f, "{isa} x {elements}")?,
                LaneCode::Cranelift(why) => write!(f, "128 bits, since {why}")?,
            }
            if !one_by_one.is_empty() {
                write!(f, ", but `{}` one element at a time", one_by_one.join("`, `"))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
