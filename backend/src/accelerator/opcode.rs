//! Opcodes: classes of operations with equal cost on a function unit.
//!
//! The machine models only the cost of an operation, so the operations of a program are classified into a few
//! opcodes. There are two tables of latencies. The *defaults* are those of gem5-SALAM as the TapeFlow paper's authors
//! used it: calls of the mathematical library are opaque and take one tick. The *realistic* latencies are our
//! assumption of hardware.
//!
//! For some opcodes, function units are pipelined, so that a unit starts one operation in each tick. For others, a
//! unit is busy until the operation ends (an assumption: division, roots and calls are usually not pipelined).

use smallvec::{SmallVec, smallvec};
use std::fmt;
use std::ops::{Index, IndexMut};
use tapeloom_ir::{Code, Dtype};

macro_rules! opcodes {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $defaults:literal, $realistic:literal, $pipelined:literal;)*) => {
        /// The class of an operation, which determines its latency and whether function units are pipelined.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Opcode {
            $($(#[$doc])* $variant,)*
        }

        impl Opcode {
            /// All opcodes, in the order of their declaration.
            pub const ALL: &'static [Opcode] = &[$(Opcode::$variant,)*];

            /// Returns the opcode's name in the text form of a machine.
            pub fn name(self) -> &'static str {
                match self { $(Opcode::$variant => $name,)* }
            }

            /// Returns whether a function unit accepts another operation in the next tick. Otherwise the unit is busy
            /// until the operation ends.
            pub fn pipelined(self) -> bool {
                match self { $(Opcode::$variant => $pipelined,)* }
            }
        }

        impl Latencies {
            /// The default latencies in ticks: the latencies of gem5-SALAM, the simulator of the TapeFlow paper's
            /// authors.
            pub const DEFAULTS: Latencies = Latencies([$($defaults,)*]);
            /// Our assumption of realistic hardware latencies, in ticks.
            pub const REALISTIC: Latencies = Latencies([$($realistic,)*]);
        }

        /// The latency of each opcode in ticks, from the issue of an operation to its result.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub struct Latencies([u64; [$($defaults,)*].len()]);
    };
}

opcodes! {
    /// Addresses, integer comparisons, extensions, and other wires (values used only in addresses and branches).
    /// Takes no function unit if its latency is zero.
    Free = "free", 0, 0, true;
    /// Addition, multiplication, division and logical operations on integers.
    Integer = "integer", 1, 1, true;
    /// Comparison of floats. (Comparisons of integers are `Free`.)
    Compare = "compare", 1, 1, true;
    /// Selection of one of two values by a condition.
    Select = "select", 1, 1, true;
    /// Conversion between dtypes, and rounding of floats to whole numbers.
    Convert = "convert", 1, 1, true;
    /// Sum, difference or negation of floats.
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

impl Opcode {
    /// Returns the opcodes that compute a scalar code on elements of a dtype. Each opcode uses the result of the
    /// previous one.
    ///
    /// ```
    /// use tapeloom_backend::accelerator::Opcode;
    /// use tapeloom_ir::{Code, Dtype};
    /// assert_eq!(Opcode::of(Code::Max, Dtype::F64)[..], [Opcode::Compare, Opcode::Select]);
    /// assert_eq!(Opcode::of(Code::IntegerPow(4), Dtype::F64)[..], [Opcode::Mul, Opcode::Mul]);
    /// assert_eq!(Opcode::of(Code::Lt, Dtype::I64)[..], [Opcode::Free]);
    /// ```
    pub fn of(code: Code, dtype: Dtype) -> SmallVec<[Opcode; 2]> {
        let float = matches!(dtype, Dtype::F32 | Dtype::F64);
        let either = |a, b| smallvec![if float { a } else { b }];
        match code {
            Code::Add | Code::Sub | Code::Neg => either(Opcode::Add, Opcode::Integer),
            Code::Mul => either(Opcode::Mul, Opcode::Integer),
            Code::Div => either(Opcode::Div, Opcode::Integer),
            Code::Rem => either(Opcode::Rem, Opcode::Integer),
            Code::Sqrt => smallvec![Opcode::Sqrt],
            // `abs` and `is_finite` are integer operations on the bits of the float.
            Code::Abs | Code::IsFinite => smallvec![Opcode::Integer],
            // A conversion of a dtype to itself does not change the value and costs nothing.
            Code::Convert(to) if to == dtype => smallvec![Opcode::Free],
            Code::Bitcast(_) => smallvec![Opcode::Free],
            Code::Floor | Code::Ceil | Code::Convert(_) => smallvec![Opcode::Convert],
            Code::Eq | Code::Ne | Code::Lt | Code::Le | Code::Gt | Code::Ge => {
                either(Opcode::Compare, Opcode::Free)
            }
            Code::Sign | Code::Max | Code::Min => smallvec![Opcode::Compare, Opcode::Select],
            Code::Clamp => {
                smallvec![Opcode::Compare, Opcode::Select, Opcode::Compare, Opcode::Select]
            }
            Code::Select => smallvec![Opcode::Select],
            Code::And
            | Code::Or
            | Code::Xor
            | Code::Not
            | Code::ShiftLeft
            | Code::ShiftRightArithmetic
            | Code::ShiftRightLogical => smallvec![Opcode::Integer],
            Code::RandomBits => smallvec![Opcode::Integer; code.row().flops as usize],
            // An integer power takes the products of repeated squaring, and for negative powers a final division.
            // `flops` counts the division as four.
            Code::IntegerPow(n) => {
                let inverse = if n < 0 { 4 } else { 0 };
                let products = code.row().flops.saturating_sub(inverse) as usize;
                let mut all = smallvec![either(Opcode::Mul, Opcode::Integer)[0]; products];
                all.extend((n < 0).then_some(Opcode::Div));
                all
            }
            Code::Library(function) => smallvec![match function.name {
                "exp" => Opcode::Exp,
                "log" => Opcode::Log,
                "sin" | "cos" => Opcode::Sin,
                "tanh" => Opcode::Tanh,
                _ => Opcode::Call,
            }],
        }
    }
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
