//! What a function unit does, and how long it takes.
//!
//! A machine does not care what is computed, only what it costs; so the operations of a program are
//! sorted into a few opcodes. Two columns of latencies go with them: *defaults*, which are those of
//! gem5-SALAM as the paper's authors used it, where calls of the mathematical library are opaque and
//! take a tick; and *realistic*, an assumption of ours, in which they take what hardware takes.
//!
//! Units are pipelined for some opcodes, so that one starts each tick, and busy to the end for others
//! (an assumption: division, roots and calls are as a rule not pipelined).

use std::fmt;
use std::ops::{Index, IndexMut};

macro_rules! opcodes {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $defaults:literal, $realistic:literal, $pipelined:literal;)*) => {
        /// What one operation costs a function unit.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Opcode {
            $($(#[$doc])* $variant,)*
        }

        impl Opcode {
            /// Every opcode.
            pub const ALL: &'static [Opcode] = &[$(Opcode::$variant,)*];

            /// The name in the text of a machine.
            pub fn name(self) -> &'static str {
                match self { $(Opcode::$variant => $name,)* }
            }

            /// Whether a unit takes another operation in the next tick; otherwise it is busy to the end.
            pub fn pipelined(self) -> bool {
                match self { $(Opcode::$variant => $pipelined,)* }
            }
        }

        impl Latencies {
            /// Those of gem5-SALAM.
            pub const DEFAULTS: Latencies = Latencies([$($defaults,)*]);
            /// Those of hardware, as we assume them.
            pub const REALISTIC: Latencies = Latencies([$($realistic,)*]);
        }

        /// Ticks from the issue of an operation to its value, by opcode.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub struct Latencies([u64; [$($defaults,)*].len()]);
    };
}

opcodes! {
    /// Addresses, integer comparisons, extensions and what else is wires: takes no unit where it takes
    /// no tick.
    Free = "free", 0, 0, true;
    /// Integer arithmetic and logic.
    Integer = "integer", 1, 1, true;
    /// Comparison of floats.
    Compare = "compare", 1, 1, true;
    /// One of two values.
    Select = "select", 1, 1, true;
    /// Conversion between types.
    Convert = "convert", 1, 1, true;
    /// Sum or difference of floats.
    Add = "add", 5, 5, true;
    /// Product of floats.
    Mul = "mul", 4, 4, true;
    /// Quotient of floats.
    Div = "div", 16, 16, false;
    /// Remainder of floats.
    Rem = "rem", 16, 16, false;
    /// Square root.
    Sqrt = "sqrt", 1, 16, false;
    /// Exponential.
    Exp = "exp", 1, 20, false;
    /// Logarithm.
    Log = "log", 1, 20, false;
    /// Sine and cosine.
    Sin = "sin", 1, 20, false;
    /// Hyperbolic tangent.
    Tanh = "tanh", 1, 30, false;
    /// Any other function of the mathematical library.
    Call = "call", 1, 30, false;
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Index<Opcode> for Latencies {
    type Output = u64;

    fn index(&self, opcode: Opcode) -> &u64 {
        &self.0[opcode as usize]
    }
}

impl IndexMut<Opcode> for Latencies {
    fn index_mut(&mut self, opcode: Opcode) -> &mut u64 {
        &mut self.0[opcode as usize]
    }
}
