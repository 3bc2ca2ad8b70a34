//! Catalogue entries: the data of the book's generated page of primitives.

/// One entry of the generated page of primitives: a primitive, or a row of the scalar table.
#[derive(Clone, Debug)]
pub struct Doc {
    /// The family of the entry: the table of the page in which the entry stands.
    pub family: Family,
    /// The name in the text format, with attributes: `reduce_sum{axes}`.
    pub name: String,
    /// The computed function, as mathematics.
    pub math: String,
    /// The types of operands and result.
    pub types: String,
    /// The derivative, as mathematics, or the reason why there is none.
    pub derivative: String,
    /// Conventions at ties, domain edges, NaN and out-of-range indices; may be empty.
    pub edges: String,
}

/// A family of related primitives: one table of the page.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Family {
    /// Sums, products, extremes, rounding, choice, conversion.
    Arithmetic,
    /// Exponentials, logarithms, roots, powers.
    Exponential,
    /// Circular and hyperbolic functions and their inverses.
    Trigonometric,
    /// Error, gamma and logistic functions.
    Special,
    /// Comparisons, truth values, bits.
    Logic,
    /// Primitives that move, repeat or omit elements.
    Movement,
    /// Reads and writes at computed indices.
    Indexing,
    /// Primitives that combine many elements: sums, extrema, contractions.
    Reduction,
    /// Matrix factorizations and linear systems, by library routines.
    Linear,
    /// Discrete Fourier transforms, by library routines.
    Fourier,
    /// Partial folds and recurrences along an axis.
    Cumulative,
    /// Calls of functions, and the rules for their derivatives.
    Calls,
    /// Branches and loops.
    Control,
    /// Rust functions called by programs.
    Outside,
    /// Identities that carry information for transforms or passes.
    Marks,
}

impl Family {
    /// All families, in the order of their tables on the page.
    pub const ALL: &[Family] = &[
        Family::Arithmetic,
        Family::Exponential,
        Family::Trigonometric,
        Family::Special,
        Family::Logic,
        Family::Movement,
        Family::Indexing,
        Family::Reduction,
        Family::Linear,
        Family::Fourier,
        Family::Cumulative,
        Family::Calls,
        Family::Control,
        Family::Outside,
        Family::Marks,
    ];

    /// Returns the heading of the family's table.
    pub fn title(self) -> &'static str {
        match self {
            Family::Arithmetic => "Arithmetic and choice",
            Family::Exponential => "Exponentials, logarithms, powers",
            Family::Trigonometric => "Circular and hyperbolic functions",
            Family::Special => "Special functions",
            Family::Logic => "Comparison, logic, bits",
            Family::Movement => "Movement",
            Family::Indexing => "Computed indices",
            Family::Reduction => "Reductions and contractions",
            Family::Linear => "Linear algebra",
            Family::Fourier => "Fourier transforms",
            Family::Cumulative => "Along an axis",
            Family::Calls => "Calls",
            Family::Control => "Branches and loops",
            Family::Outside => "Host calls",
            Family::Marks => "Marks",
        }
    }

    /// Returns a description of the family in a sentence or two.
    pub fn about(self) -> &'static str {
        match self {
            Family::Arithmetic
            | Family::Exponential
            | Family::Trigonometric
            | Family::Special
            | Family::Logic => {
                "Applied element by element; operands have equal shapes, or are literals."
            }
            Family::Movement => {
                "Linear in the arrays moved, so a derivative moves tangents the same way, and \
                 reverse mode moves cotangents back."
            }
            Family::Indexing => {
                "Linear in the arrays read and written, whatever the indices are; indices are \
                 integers and have no tangents."
            }
            Family::Reduction => "Axes are named by the attributes and disappear from the shape.",
            Family::Linear => {
                "Matrices are the last two axes, and all axes before them are a batch; a library \
                 computes the results, which are nan for members that fail."
            }
            Family::Fourier => {
                "The last axis is transformed. A complex array has its real and imaginary parts on \
                 the axis before the last; a library computes the results."
            }
            Family::Cumulative => {
                "One axis is named by the attributes, and stays; with `reverse`, they run from its \
                 last element."
            }
            Family::Calls => {
                "They run other functions of the module; a derivative runs the derived function."
            }
            Family::Control => {
                "Values that are known only when the program runs decide which functions they run, \
                 and how often; a derivative runs the derived functions in the same way."
            }
            Family::Outside => {
                "They call Rust functions, of which only the types are known; the text of a \
                 program shows their names."
            }
            Family::Marks => {
                "They return their operand unchanged, and carry information for transforms or passes."
            }
        }
    }
}
