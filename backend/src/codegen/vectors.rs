//! Which vectors the loops in lanes of a program have.

use std::fmt;
use std::sync::OnceLock;
use tapeloom_ir::Isa;

/// The vectors of a program's loops in lanes, as `explain` shows them.
///
/// ```
/// use tapeloom_backend::Vectors;
/// use tapeloom_ir::Isa;
/// let none = Vectors { isa: Isa::Baseline, loops: Vec::new(), wide_bytes: 0 };
/// assert_eq!(none.to_string(), "baseline: no loop is in lanes\n");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Vectors {
    /// The instruction set that the code is for.
    pub isa: Isa,
    /// The loops in lanes, in the order of their code.
    pub loops: Vec<LaneLoop>,
    /// Bytes of the code that has vectors of the instruction set.
    pub wide_bytes: usize,
}

/// A loop in lanes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LaneLoop {
    /// The kernel that it is in.
    pub kernel: String,
    /// How it begins: `fold i0 in 100 lanes 16`.
    pub header: String,
    /// Its vectors.
    pub code: LaneCode,
}

/// The vectors of a loop in lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LaneCode {
    /// Those of the instruction set, of so many elements.
    Wide(usize),
    /// Those of 128 bits, with the reason.
    Narrow(&'static str),
}

impl Default for Vectors {
    fn default() -> Vectors {
        Vectors { isa: Isa::Baseline, loops: Vec::new(), wide_bytes: 0 }
    }
}

impl Vectors {
    /// How many loops have vectors of the instruction set.
    pub fn wide(&self) -> usize {
        self.loops.iter().filter(|l| matches!(l.code, LaneCode::Wide(_))).count()
    }

    /// Writes them to the standard error where `TAPELOOM_LOG` is `vectors`.
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
        let (wide, all) = (self.wide(), self.loops.len());
        writeln!(f, "{isa}: {wide} of {all} loops in lanes, {} bytes", self.wide_bytes)?;
        for LaneLoop { kernel, header, code } in &self.loops {
            write!(f, "@{kernel} {header}: ")?;
            match code {
                LaneCode::Wide(elements) => writeln!(f, "{isa} x {elements}")?,
                LaneCode::Narrow(why) => writeln!(f, "128 bits, since {why}")?,
            }
        }
        Ok(())
    }
}
