//! The machine model: performance parameters of the target machine.
//!
//! The compiler's choices are correct on every machine. These parameters determine which choices are fast. A
//! [`MachineModel`] is an argument of a compilation ([`Options::machine`](crate::Options)) and is never read from the
//! computer, so a program has the same bits on every computer. [`MachineModel::MEASURED`] is the default.
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
//! **Bits.** A reduction is split into partial sums, and their number depends on all the code that is fused into the
//! same loop. So parameters that shape loops may change the order of a sum of floats ([`Effect::Loops`]), as another
//! checkpointing policy may. Parameters of [`Effect::Code`] never do. [`MachineModel::has_bits_of`] compares two
//! models.
//!
//! **Not in the model** are three kinds of thresholds, which are constants in the files of their passes. The first kind
//! bounds the cost of a pass or of Cranelift. The second kind belongs to the cost models of rewrites and of
//! checkpointing, because the form of a program and the bytes of its tape must not depend on the machine. The third
//! kind chooses vector lanes (`passes/vectorize.rs`, `passes/recognize_contractions.rs`), which determine the result of
//! a program and not only its speed. The tile sizes of `runtime/small_gemm` are extents of Rust arrays, so they are no
//! parameters either; they change no bit.
//!
//! **Measured**: the default values were measured, each parameter separately, by the programs of `bench` and the suite.
//! The machine was an x86-64 with 16 registers of each kind and the 128-bit vectors that Cranelift supports.

use std::fmt;
use tapeloom_ir::{Code, Dtype, Kind, Problem, address_space};

/// The effect of a parameter of a [`MachineModel`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Changes the loops of a program, and possibly the order of sums of floats.
    Loops,
    /// Changes instructions and memory addresses, but no bit of a result.
    Code,
}

/// A parameter of a [`MachineModel`]: its name, effect, range and access functions.
pub struct Number {
    /// The name of the parameter's field in the model, which contains its unit.
    pub name: &'static str,
    /// The effect of the parameter.
    pub effect: Effect,
    /// The least valid value of the parameter.
    pub least: usize,
    /// The greatest valid value of the parameter. With greater values, code size or compile time would grow too much.
    pub most: usize,
    /// Returns the parameter's value in a given model.
    pub get: fn(&MachineModel) -> usize,
    /// Sets the parameter's value in a given model.
    pub set: fn(&mut MachineModel, usize),
}

macro_rules! model {
    ($($(#[$doc:meta])* $effect:ident $field:ident = $measured:literal in $least:literal..=$most:expr;)*) => {
        /// The performance parameters of a machine.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub struct MachineModel {
            $($(#[$doc])* pub $field: usize,)*
        }

        impl MachineModel {
            /// The default model: the values measured on one x86-64 machine.
            pub const MEASURED: MachineModel = MachineModel { $($field: $measured,)* };

            /// All parameters of the model.
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
    // Parameters of lowering: the choice of axes that become loops, and fusion.

    /// The largest number of elements of an array (per batch member) that is held in registers: updates and
    /// concatenations of such arrays are unrolled into code on registers.
    Loops register_elements = 64 in 0..=1024;
    /// The largest product of the extents of an array's inner axes for which these axes are unrolled instead of being
    /// loops.
    Loops unrolled_elements = 9 in 1..=256;
    /// If an array has at most this number of elements, a library function is applied to one element at a time in
    /// unrolled code, even if the function has vector code.
    Loops unrolled_calls = 3 in 1..=256;
    /// Lowering moves the loop over an axis inside the loops over longer axes only if the axis has at most this extent.
    Loops inner_extent = 4 in 0..=1024;
    /// The number of array elements that are assumed to remain in the cache until their next use.
    Loops cached_elements = 65_536 in 0..=address_space::limit(40);
    /// A value is recomputed at each use, instead of stored and loaded, if recomputation takes at most this number of
    /// loads.
    Loops recomputed_loads = 2 in 0..=16;
    /// A value is recomputed at each use, instead of stored and loaded, if recomputation takes at most this number of
    /// operations.
    Loops recomputed_operations = 3 in 0..=16;
    /// The largest number of operations for which a value is recomputed if its array does not remain in the cache.
    /// Loads of arrays that are smaller by this factor count as free.
    Loops recomputed_operations_uncached = 16 in 0..=256;
    /// The largest cost, in flops, of an operation that is recomputed at each use. A loop-invariant operation of at
    /// most this cost is left in its loop.
    Loops recomputed_flops = 2 in 0..=1000;
    /// A view of an array is copied before an in-place update of the array, if the array has at least this number of
    /// times the elements of the view.
    Loops copied_view_ratio = 4 in 1..=1 << 20;

    // Parameters of contractions: by the matrix library, or as loops.

    /// The smallest extent (rows, columns or terms) for which a contraction calls the matrix library instead of
    /// becoming loops.
    Loops library_extent = 4 in 0..=1 << 20;
    /// The smallest number of multiplications for which a contraction calls the matrix library.
    Loops library_products = 4096 in 0..=address_space::limit(40);
    /// The smallest number of reads per element for which an operand that the library cannot read in place is
    /// copied.
    Loops library_copy_reads = 16 in 0..=1 << 20;

    // Parameters of passes on the loop IR.

    /// The largest trip count of an inner loop that is unrolled fully because its index alone addresses the
    /// elements of a small array.
    Loops written_out_iterations = 4 in 0..=16;
    /// The largest number of statements, in all iterations, of a loop that is unrolled fully because of a small
    /// array.
    Loops written_out_statements = 64 in 0..=4096;
    /// The largest number of elements of an array that counts as small for full unrolling.
    Loops written_out_elements = 16 in 0..=1024;
    /// The largest number of array elements, over all arrays, that a serial loop promotes to variables.
    Loops promoted_elements = 64 in 0..=1024;
    /// The largest number of elements of one array that a serial loop promotes to variables.
    Loops promoted_elements_of_one = 16 in 0..=1024;
    /// The largest number of array elements that a loop holds in variables from one iteration to the next, instead of
    /// reloading them.
    Loops rotated_elements = 4 in 0..=64;
    /// The smallest number of iterations with an equal value for which the value is hoisted, if it costs more than
    /// [`recomputed_flops`](Self::recomputed_flops).
    Loops hoisted_iterations = 4 in 1..=1 << 20;
    /// The number of outer iterations that unroll-and-jam joins: the number of chains of additions that hide one
    /// another's latency. One more, or fewer, are joined if that divides the trip count. More chains gain nothing,
    /// since each reads its own rows, which may conflict in the cache.
    Loops jammed_iterations = 4 in 1..=16;
    /// The smallest trip count of an inner loop whose outer iterations are joined by unroll-and-jam.
    Loops jammed_inner_iterations = 4 in 0..=1 << 20;
    /// The largest number of statements of an inner iteration over all chains of unroll-and-jam; the values of more
    /// statements would not fit in registers.
    Loops jammed_statements = 48 in 0..=512;

    /// The smallest number of operations of a piece of a concurrent loop. The run time of a piece should be several
    /// times the time in which another thread can start it: a piece of this size takes 30 to 60 us in 256-bit vectors.
    Loops piece_operations = 1_048_576 in 1..=address_space::limit(40);
    /// The largest number of pieces of a concurrent loop.
    Loops pieces = 64 in 1..=4096;

    // Parameters of batches.

    /// The number of operations of one iteration of a chunk of a batch, if members run loops of different lengths: the
    /// chunk has the members that make up these operations, and ends when its own slowest member ends. 0 leaves a batch
    /// undivided.
    Loops chunk_operations = 2048 in 0..=address_space::limit(40);

    // Parameters of machine code: instructions and memory addresses.

    /// The largest trip count of a loop that is unrolled into code without a branch.
    Code unrolled_iterations = 4 in 0..=16;
    /// The largest number of statements, in all iterations, of a loop that is unrolled into code without a branch.
    Code unrolled_statements = 16 in 0..=1024;
    /// The largest number of loop-invariant values that stay in registers.
    Code held_values = 8 in 0..=64;
    /// The largest number of loop-invariant addresses that stay in registers.
    Code held_addresses = 4 in 0..=64;
    /// The largest number of pointers to buffers that a loop keeps in registers; a loop with more pointers keeps none
    /// in registers.
    Code held_pointers = 12 in 0..=64;
    /// The most variables that a loop keeps in registers, in a function with hundreds of values.
    Code held_variables = 16 in 0..=1024;
    /// The bytes of a page: processors first compare addresses within a page to detect conflicts (4K aliasing). Arrays
    /// of at least this size begin at different offsets within their pages.
    Code page_bytes = 4096 in 64..=1 << 30;
}

impl MachineModel {
    /// Checks that every parameter is in its valid range.
    ///
    /// # Errors
    /// [`Kind::Target`], with all invalid parameters.
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

    /// Returns whether every program computes the same bits under both models: all parameters that shape loops are
    /// equal.
    pub fn has_bits_of(&self, other: &MachineModel) -> bool {
        let shapes = |n: &&Number| n.effect == Effect::Loops;
        MachineModel::NUMBERS.iter().filter(shapes).all(|n| (n.get)(self) == (n.get)(other))
    }

    /// Returns whether a loop that applies a scalar code to this number of elements must not be unrolled: the code is a
    /// library function that runs faster in vectors than one element at a time.
    pub(crate) fn calls_in_vectors(&self, code: &Code, dtype: Dtype, elements: usize) -> bool {
        let Code::Library(library) = code else { return false };
        elements > self.unrolled_calls && library.recording(dtype).is_some()
    }
}

impl Default for MachineModel {
    fn default() -> MachineModel {
        MachineModel::MEASURED
    }
}

/// Prints the parameters that differ from the measured model: `cached_elements 4096, page_bytes 64`.
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
