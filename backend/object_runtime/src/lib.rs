//! The library that objects of tapeloom link.
//!
//! An object (`jit(f).object(args, name)`) contains all that its program needs, with two exceptions: library routines
//! (factorizations, Fourier transforms) and functions whose source branches (`lgamma`, incomplete gamma functions, ..). These
//! are functions of this library, with the calling convention of C. Their symbols contain the version, so that objects of two
//! versions can be parts of one program.
//!
//! Build it once, as a static or as a shared library, and link it behind the objects:
//!
//! ```text
//! cargo rustc --release -p tapeloom-runtime --crate-type staticlib
//! cc main.c f.o target/release/libtapeloom_runtime.a -lm -o main
//! ```
//!
//! A crate in Rust that links objects depends on this crate instead, and names it once: `use tapeloom_runtime as _;`.
//!
//! | file | holds |
//! |---|---|
//! | [`functions`] | special functions of single numbers |
//! | [`routines`] | factorizations and Fourier transforms |

pub mod functions;
pub mod routines;

/// Returns the symbol of a function of this library: `tapeloom_0_1_0_lgamma_f64`.
macro_rules! symbol {
    ($($name:expr),+) => {
        concat!(
            "tapeloom_",
            env!("CARGO_PKG_VERSION_MAJOR"),
            "_",
            env!("CARGO_PKG_VERSION_MINOR"),
            "_",
            env!("CARGO_PKG_VERSION_PATCH"),
            "_",
            $($name),+
        )
    };
}
use symbol;
