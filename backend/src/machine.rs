//! The machine model: what the compiler takes for fast, as numbers.
//!
//! Every choice is right on every machine; these numbers say which is fast. A [`MachineModel`] is an argument of a
//! compile ([`Options::machine`](crate::Options)) and is never read off the computer, so a program has the same bits
//! wherever it runs. [`MachineModel::MEASURED`] is what stands there unless somebody says otherwise.
//!
//! ```
//! use tapeloom_backend::MachineModel;
//! let small = MachineModel { cached_elements: 1 << 12, ..MachineModel::MEASURED };
//! assert_eq!(small.to_string(), "cached_elements 4096");
//! assert_eq!(MachineModel::MEASURED.to_string(), "as measured");
//! assert!(!small.has_bits_of(&MachineModel::MEASURED));
//! let wrong = MachineModel { page_bytes: 0, ..small };
//! assert!(wrong.check().unwrap_err().message.contains("page_bytes 0 is not in 64..=1073741824"));
//! # Ok::<(), tapeloom_ir::Problem>(())
//! ```
//!
//! **Bits.** How many partial sums a reduction has is chosen for a loop as it stands, with all that is fused into it. So
//! numbers that shape loops may change the order of a sum of floats ([`Effect::Loops`]), as another policy may; those
//! of [`Effect::Code`] never do. [`MachineModel::has_bits_of`] answers for two models.
//!
//! **What is not here.** Three kinds of thresholds stand beside their passes: those that bound what a pass costs to run
//! or what Cranelift does; those of the cost model of rewrites and of checkpointing, since which form a program takes and
//! how many bytes its tape has must not depend on where it is compiled; and those of lanes
//! (`passes/vectorize.rs`, `passes/recognize_contractions.rs`), which are what a kernel computes and not how fast. The
//! tiles of `runtime/small_gemm` are extents of arrays in Rust and change no bit.
//!
//! **Measured** on one machine, x86-64 with vectors of 128 bits as Cranelift has them and 16 registers of each kind,
//! with the programs of `bench` and the suite, each number by itself.

use std::fmt;
use tapeloom_ir::{Kind, Problem};

/// What a number of a [`MachineModel`] changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// The loops that a program becomes, and with them perhaps the order of sums of floats.
    Loops,
    /// Instructions and places in memory: no bit of a result.
    Code,
}

/// A row of [`MachineModel`].
pub struct Number {
    /// The name of the field, with its unit.
    pub name: &'static str,
    /// What it changes.
    pub effect: Effect,
    /// The least that it may be,
    pub least: usize,
    /// and the most, beyond which code or compile time explodes.
    pub most: usize,
    /// What it is in a model.
    pub get: fn(&MachineModel) -> usize,
    /// Changes it.
    pub set: fn(&mut MachineModel, usize),
}

macro_rules! model {
    ($($(#[$doc:meta])* $effect:ident $field:ident = $measured:literal in $least:literal..=$most:expr;)*) => {
        /// What is fast on a machine.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub struct MachineModel {
            $($(#[$doc])* pub $field: usize,)*
        }

        impl MachineModel {
            /// The machine that everything was measured on.
            pub const MEASURED: MachineModel = MachineModel { $($field: $measured,)* };

            /// Its numbers, as rows.
            pub const NUMBERS: &[Number] = &[$(Number {
                name: stringify!($field),
                effect: Effect::$effect,
                least: $least,
                most: $most,
                get: |model| model.$field,
                set: |model, number| model.$field = number,
            },)*];
        }
    };
}

model! {
    // Lowering: which axes are loops, and what is fused.

    /// Arrays of at most so many elements (in each item of a batch) are held in registers: they are unrolled, updated and
    /// concatenated there.
    Loops register_elements = 64 in 0..=1024;
    /// The inner axes of an array are unrolled where together they have at most so many elements.
    Loops unrolled_elements = 9 in 1..=256;
    /// Axes of at most this extent go inside of longer ones.
    Loops inner_extent = 4 in 0..=1024;
    /// So many elements stay in the cache until whoever comes next reads them.
    Loops cached_elements = 65_536 in 0..=1 << 40;
    /// A value is computed again where that takes at most so many loads instead of the one,
    Loops recomputed_loads = 2 in 0..=16;
    /// so many operations,
    Loops recomputed_operations = 3 in 0..=16;
    /// or so many where the array does not stay in the cache (arrays smaller by this factor are then loaded at no cost),
    Loops recomputed_operations_uncached = 16 in 0..=256;
    /// and none that costs more than this, in additions.
    Loops recomputed_flops = 2 in 0..=1000;
    /// A view of what an update writes over is copied first if it has at least so many times fewer elements than that.
    Loops copied_view_ratio = 4 in 1..=1 << 20;

    // The matrix library.

    /// Matrices with a smaller extent are not worth a call of the library,
    Loops library_extent = 4 in 0..=1 << 20;
    /// nor are those with fewer multiplications.
    Loops library_products = 4096 in 0..=1 << 40;
    /// An operand that the library cannot read is copied where each element is read at least so often.
    Loops library_copy_reads = 16 in 0..=1 << 20;

    // Passes on loops.

    /// A loop in a loop that decides alone which elements of a small array it works in is written out, if it has at most
    /// so many iterations,
    Loops written_out_iterations = 4 in 0..=16;
    /// so many statements in all of them,
    Loops written_out_statements = 64 in 0..=4096;
    /// and the array at most so many elements.
    Loops written_out_elements = 16 in 0..=1024;
    /// A loop in order has at most so many elements of memory in variables,
    Loops promoted_elements = 64 in 0..=1024;
    /// so many of one array.
    Loops promoted_elements_of_one = 16 in 0..=1024;
    /// So many elements go from one iteration to the next in variables at most.
    Loops rotated_elements = 4 in 0..=64;
    /// What costs more than [`recomputed_flops`](Self::recomputed_flops), and is the same in so many iterations of a loop,
    /// is computed ahead of it.
    Loops hoisted_iterations = 4 in 1..=1 << 20;
    /// So many chains of additions hide one another's latency, so as many iterations of an outer loop go through an inner
    /// one together; one more, or fewer, where that divides their number. More gain nothing, since each chain reads rows
    /// of its own, which may lie in the same places of a cache.
    Loops jammed_iterations = 4 in 1..=16;
    /// An inner loop of fewer iterations is not worth that.
    Loops jammed_inner_iterations = 4 in 0..=1 << 20;
    /// Statements of an inner iteration at most, over all chains: values beyond that are not in registers.
    Loops jammed_statements = 48 in 0..=512;

    // Instructions, and places in memory.

    /// A loop of at most so many iterations is instructions without a branch,
    Code unrolled_iterations = 4 in 0..=16;
    /// if there are at most so many statements in all of them.
    Code unrolled_statements = 16 in 0..=1024;
    /// So many values that a loop does not change stay in registers,
    Code held_values = 8 in 0..=64;
    /// so many addresses,
    Code held_addresses = 4 in 0..=64;
    /// and so many pointers to buffers.
    Code held_pointers = 12 in 0..=64;
    /// A loop among hundreds of values keeps so many variables in registers.
    Code held_variables = 16 in 0..=1024;
    /// What a processor compares first of two addresses: arrays of at least so many bytes begin at different places of
    /// their pages.
    Code page_bytes = 4096 in 64..=1 << 30;
}

impl MachineModel {
    /// Whether every number is one that it may be.
    ///
    /// # Errors
    /// [`Kind::Target`] with all that are not.
    pub fn check(&self) -> Result<(), Problem> {
        let outside = |n: &&Number| !(n.least..=n.most).contains(&(n.get)(self));
        let wrong: Vec<String> = MachineModel::NUMBERS
            .iter()
            .filter(outside)
            .map(|n| format!("{} {} is not in {}..={}", n.name, (n.get)(self), n.least, n.most))
            .collect();
        if wrong.is_empty() {
            return Ok(());
        }
        let help = "begin with `MachineModel::MEASURED`; its numbers are described field by field";
        Err(Problem::new(Kind::Target, format!("no such machine: {}", wrong.join("; ")), help))
    }

    /// Whether every program has the same bits under both models: all numbers agree that shape loops.
    pub fn has_bits_of(&self, other: &MachineModel) -> bool {
        let shapes = |n: &&Number| n.effect == Effect::Loops;
        MachineModel::NUMBERS.iter().filter(shapes).all(|n| (n.get)(self) == (n.get)(other))
    }
}

impl Default for MachineModel {
    fn default() -> MachineModel {
        MachineModel::MEASURED
    }
}

/// What differs from the measured one: `cached_elements 4096, page_bytes 64`.
impl fmt::Display for MachineModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let differs = |n: &&Number| (n.get)(self) != (n.get)(&MachineModel::MEASURED);
        let all: Vec<String> = MachineModel::NUMBERS
            .iter()
            .filter(differs)
            .map(|n| format!("{} {}", n.name, (n.get)(self)))
            .collect();
        f.write_str(if all.is_empty() { "as measured" } else { "" })?;
        f.write_str(&all.join(", "))
    }
}
