//! Catalogue entries: what the generated page of primitives in the book says.

/// One entry of the catalogue.
#[derive(Clone, Debug)]
pub struct Doc {
    /// Name in the text format, with attributes: `reduce_sum{axes}`.
    pub name: String,
    /// What it computes, as mathematics.
    pub math: String,
    /// Types of operands and result.
    pub types: String,
    /// The derivative, as mathematics, or why there is none.
    pub derivative: String,
    /// Conventions at ties, domain edges, nan and out-of-range indices; may be empty.
    pub edges: String,
}
