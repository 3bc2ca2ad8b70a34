//! A reproduction of the study of streamed tapes, *TapeFlow: Streaming Gradient Tapes in Automatic
//! Differentiation* (M. Hakimi and A. Shriraman, CGO 2024): its claims measured on the simulated accelerator.
//!
//! | file | |
//! |---|---|
//! | `study` | the kernels as the study ran them |
//! | `raw` | the tables that its authors published with it |
//! | `runs` | simulations, each run once |
//! | `claims` | each claim with its measurement and criterion, one per row |
//! | `acceptance` | comparison with the authors' tables, figure by figure |
//! | `figures` | the study's figures, plotted from our measurements |
//!
//! ```
//! use tapeloom_tests::tapeflow::{CLAIMS, Runs, raw};
//! assert_eq!(CLAIMS.len(), 22);
//! assert_eq!(raw("mttkrp", 32 << 10).unwrap().lines, [24_649, 1_728]);
//! // The one claim that compares constants needs no run.
//! let outcome = (CLAIMS[13].measure)(&mut Runs::new(|_| ()))?;
//! assert!(outcome.reproduced);
//! # Ok::<(), tapeloom_tests::Failure>(())
//! ```

mod acceptance;
mod claims;
mod figures;
mod raw;
mod runs;
mod study;

pub use acceptance::{ArrayPlacement, Row, Smallest, acceptance, smallest};
pub use claims::{CLAIMS, Claim, Outcome, Record};
pub use figures::{FIGURES, Figure};
pub use raw::{RAW, Raw, raw};
pub use runs::{Run, Runs, TapePolicy};
pub use study::{STUDIES, Study};
