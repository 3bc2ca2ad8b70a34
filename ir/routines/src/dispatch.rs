//! From a described routine to the function that executes it: the size of its scratch, the tables
//! of a transform, and the call.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytemuck::Pod;

use crate::plan::Unavailable;
use crate::real::{Failed, Real};
use crate::routine::{Float, Routine};
use crate::scratch::{Need, Scratch};
use crate::triangular::Triangle;
use crate::{cholesky, triangular};

/// What a plan holds beside the description.
pub(crate) struct Kernel {
    scratch_bytes: usize,
    tables: Tables,
}

enum Tables {
    F32,
    F64,
}

impl Kernel {
    pub(crate) fn new(routine: &Routine, float: Float) -> Result<Self, Unavailable> {
        let need = match float {
            Float::F32 => need::<f32>(routine),
            Float::F64 => need::<f64>(routine),
        };
        let scratch_bytes =
            need.bytes().ok_or_else(|| Unavailable::TooLarge { routine: routine.clone() })?;
        let tables = match float {
            Float::F32 => Tables::F32,
            Float::F64 => Tables::F64,
        };
        Ok(Kernel { scratch_bytes, tables })
    }

    pub(crate) fn scratch_bytes(&self) -> usize {
        self.scratch_bytes
    }

    /// Executes the routine on buffers that fit it. False where the results hold no answer.
    pub(crate) fn run(
        &self,
        routine: &Routine,
        operands: &[&[u8]],
        results: &mut [&mut [u8]],
        scratch: &mut [u8],
    ) -> bool {
        // Sizes and values that faer does not handle are kept from it. Should one of its assertions
        // fail all the same, this is one more failure of the member, not of the program. The
        // buffers hold plain numbers, so no state is left half made.
        let call = AssertUnwindSafe(|| match &self.tables {
            Tables::F32 => call::<f32>(routine, operands, results, scratch),
            Tables::F64 => call::<f64>(routine, operands, results, scratch),
        });
        matches!(catch_unwind(call), Ok(Ok(())))
    }
}

fn need<T: Real>(routine: &Routine) -> Need {
    match *routine {
        Routine::Cholesky { n } => cholesky::need::<T>(n),
        Routine::TriangularSolve { n, columns, lower: _, transposed: _, unit_diagonal: _ } => {
            triangular::need::<T>(n, columns)
        }
        _ => Need::new(),
    }
}

fn call<T: Real>(
    routine: &Routine,
    operands: &[&[u8]],
    results: &mut [&mut [u8]],
    scratch: &mut [u8],
) -> Result<(), Failed> {
    let scratch = Scratch::new(scratch);
    match (routine, operands, results) {
        (&Routine::Cholesky { n }, [a], [l]) => {
            cholesky::run::<T>(n, read(a)?, write(l)?, scratch);
            Ok(())
        }
        (
            &Routine::TriangularSolve { n, columns, lower, transposed, unit_diagonal },
            [t, b],
            [x],
        ) => {
            let triangle = Triangle { lower, transposed, unit_diagonal };
            let operands: [&[T]; 2] = [read(t)?, read(b)?];
            triangular::run(n, columns, triangle, operands, write(x)?, scratch)
        }
        _ => Err(Failed),
    }
}

/// A buffer as numbers; an empty one may lie anywhere.
fn read<T: Pod>(bytes: &[u8]) -> Result<&[T], Failed> {
    if bytes.is_empty() {
        return Ok(&[]);
    }
    bytemuck::try_cast_slice(bytes).map_err(|_| Failed)
}

fn write<T: Pod>(bytes: &mut [u8]) -> Result<&mut [T], Failed> {
    if bytes.is_empty() {
        return Ok(&mut []);
    }
    bytemuck::try_cast_slice_mut(bytes).map_err(|_| Failed)
}
