//! The chapters of the book, so that their Rust blocks are doctests of this crate.
//!
//! Each chapter is one module. A test in `tests/tests/programs/book.rs` compares this list with the chapters. The
//! blocks of "Differentiation from scratch" build on each other, so `build.rs` joins them into one program.

/// Declares one module per chapter.
macro_rules! chapters {
    ($($name:ident = $file:literal;)*) => {$(
        #[doc = include_str!($file)]
        pub mod $name {}
    )*};
}

chapters! {
    adding_a_primitive = "../../book/src/adding-a-primitive.md";
    arrays = "../../book/src/arrays.md";
    backend = "../../book/src/backend.md";
    coming_from_jax = "../../book/src/coming-from-jax.md";
    control_flow = "../../book/src/control-flow.md";
    conventions = "../../book/src/conventions.md";
    convolutions = "../../book/src/convolutions.md";
    differential_equations = "../../book/src/differential-equations.md";
    errors = "../../book/src/errors.md";
    fast_programs = "../../book/src/fast-programs.md";
    implicit = "../../book/src/implicit.md";
    linear_algebra = "../../book/src/linear-algebra.md";
    fourier_and_complex = "../../book/src/fourier-and-complex.md";
    introduction = "../../book/src/introduction.md";
    many_devices = "../../book/src/many-devices.md";
    memory = "../../book/src/memory.md";
    networks = "../../book/src/networks.md";
    passes = "../../book/src/passes.md";
    quick_start = "../../book/src/quick-start.md";
    randomness = "../../book/src/randomness.md";
    recipes = "../../book/src/recipes.md";
    shipping = "../../book/src/shipping.md";
    seeing_inside = "../../book/src/seeing-inside.md";
    special_functions = "../../book/src/special-functions.md";
    springs = "../../book/src/springs.md";
    state = "../../book/src/state.md";
    tapeflow = "../../book/src/tapeflow.md";
    tapes = "../../book/src/tapes.md";
    tour = "../../book/src/tour.md";
}

/// The README; its example is a doctest.
#[doc = include_str!("../../README.md")]
pub mod readme {}
