//! A report of the vector width of each loop with lanes.

use std::fmt;
use std::sync::OnceLock;
use tapeloom_ir::Isa;

/// The vector widths of a program's loops with lanes, as `explain` prints them.
///
/// ```
/// use tapeloom_backend::Vectors;
/// use tapeloom_ir::Isa;
/// let none = Vectors { isa: Isa::Baseline, loops: Vec::new(), simd_bytes: 0 };
/// assert_eq!(none.to_string(), "baseline: no loop is in lanes\n");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Vectors {
    /// The instruction set that the code is compiled for.
    pub isa: Isa,
    /// The loops with lanes, in the order of their code.
    pub loops: Vec<LaneLoop>,
    /// The bytes of code in vectors of 256 or 512 bits.
    pub simd_bytes: usize,
}

/// A loop with lanes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LaneLoop {
    /// The name of the kernel that contains the loop.
    pub kernel: String,
    /// The first line of the loop's text: `fold i0 in 100 lanes 16`.
    pub header: String,
    /// The vector width of the loop, and the generator of its code.
    pub code: LaneCode,
}

/// The vectors of a loop with lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LaneCode {
    /// 256-bit or 512-bit vectors of the instruction set, with this number of elements.
    Simd(usize),
    /// 128-bit vectors by Cranelift, with the reason why the loop has no larger ones.
    Cranelift(&'static str),
}

impl Default for Vectors {
    fn default() -> Vectors {
        Vectors { isa: Isa::Baseline, loops: Vec::new(), simd_bytes: 0 }
    }
}

impl Vectors {
    /// Returns the number of loops with 256-bit or 512-bit vectors.
    pub fn simd_loops(&self) -> usize {
        self.loops.iter().filter(|l| matches!(l.code, LaneCode::Simd(_))).count()
    }

    /// Prints the report to standard error if `TAPELOOM_LOG` is `vectors`.
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
            return writeln!(f, "{isa}: no loop is in lanes");
        }
        let (simd, all) = (self.simd_loops(), self.loops.len());
        writeln!(f, "{isa}: {simd} of {all} loops in lanes, {} bytes", self.simd_bytes)?;
        for LaneLoop { kernel, header, code } in &self.loops {
            write!(f, "@{kernel} {header}: ")?;
            match code {
                LaneCode::Simd(elements) => writeln!(f, "{isa} x {elements}")?,
                LaneCode::Cranelift(why) => writeln!(f, "128 bits, since {why}")?,
            }
        }
        Ok(())
    }
}
