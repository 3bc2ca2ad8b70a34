//! Plans: routines prepared for one element type, and their execution.

use std::fmt;
use std::sync::Arc;

use crate::routine::{Array, Element, Float, Routine};

/// The reason why a routine has no plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// The crate was built without the feature that brings the implementation (`linalg`).
    Missing {
        /// The name of the routine that is not available.
        routine: &'static str,
        /// The name of the feature that the build lacks.
        feature: &'static str,
    },
    /// An array or the scratch buffer exceeds the range of memory or of an `i32` index, or a Fourier transform
    /// has more than 2^28 points.
    TooLarge {
        /// The routine that has no plan.
        routine: Routine,
    },
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unavailable::Missing { routine, feature } => write!(
                f,
                "{routine} has no implementation in this build: the feature `{feature}` is off"
            ),
            Unavailable::TooLarge { routine } => {
                write!(f, "the arrays of `{routine}` are too large to address")
            }
        }
    }
}

impl std::error::Error for Unavailable {}

/// The error of a call whose buffers do not fit the routine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WrongBuffers {
    /// The number of operand or result buffers is wrong.
    Count {
        /// The kind of buffer that was counted: `operand` or `result`.
        what: &'static str,
        /// The number of buffers that the routine has.
        expected: usize,
        /// The number of buffers that the call passed.
        found: usize,
    },
    /// The length of one buffer in bytes is wrong. A scratch buffer that is longer than needed is not an error.
    Length {
        /// The kind of buffer: `operand`, `result` or `scratch`.
        what: &'static str,
        /// The index of the buffer among the buffers of its kind.
        place: usize,
        /// The length that the routine needs, in bytes.
        expected: usize,
        /// The length of the given buffer, in bytes.
        found: usize,
    },
    /// A buffer starts at an address that is not a multiple of the size of its elements.
    Alignment {
        /// The kind of buffer: `operand` or `result`.
        what: &'static str,
        /// The index of the buffer among the buffers of its kind.
        place: usize,
    },
}

impl fmt::Display for WrongBuffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WrongBuffers::Count { what, expected, found } => {
                write!(f, "{found} {what} buffers where the routine has {expected}")
            }
            WrongBuffers::Length { what, place, expected, found } => write!(
                f,
                "{what} buffer {place} has {found} bytes where the routine needs {expected}"
            ),
            WrongBuffers::Alignment { what, place } => {
                write!(f, "{what} buffer {place} is not aligned to its elements")
            }
        }
    }
}

impl std::error::Error for WrongBuffers {}

/// A routine prepared for one element type: the size of its scratch memory, and the tables of a Fourier
/// transform. Clones share their tables, and threads may share a plan.
#[derive(Clone)]
pub struct Plan {
    prepared: Arc<Prepared>,
}

/// One operand or result that a call must pass: its element type, and its size in bytes for one batch member.
struct Buffer {
    bytes: usize,
    element: Element,
}

struct Prepared {
    routine: Routine,
    float: Float,
    operands: Vec<Buffer>,
    results: Vec<Buffer>,
    kernel: Kernel,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("routine", self.routine())
            .field("float", &self.float())
            .field("scratch_bytes", &self.scratch_bytes())
            .finish_non_exhaustive()
    }
}

impl Routine {
    /// Prepares the routine for arrays of one float type.
    ///
    /// # Errors
    /// [`Unavailable::Missing`] in a build without the feature `linalg`, and [`Unavailable::TooLarge`] if an
    /// array is too large for memory.
    pub fn plan(&self, float: Float) -> Result<Plan, Unavailable> {
        let too_large = || Unavailable::TooLarge { routine: self.clone() };
        let buffers = |arrays: Vec<Array>| -> Option<Vec<Buffer>> {
            let buffer = |array: Array| {
                let indexed = array.shape.iter().all(|&length| i32::try_from(length).is_ok());
                let bytes = array.bytes(float).filter(|_| indexed)?;
                Some(Buffer { bytes, element: array.element })
            };
            arrays.into_iter().map(buffer).collect()
        };
        let operands = buffers(self.operands()).ok_or_else(too_large)?;
        let results = buffers(self.results()).ok_or_else(too_large)?;
        let kernel = Kernel::new(self, float)?;
        Ok(Plan {
            prepared: Arc::new(Prepared {
                routine: self.clone(),
                float,
                operands,
                results,
                kernel,
            }),
        })
    }
}

impl Plan {
    /// Returns the routine that this plan runs.
    #[must_use]
    pub fn routine(&self) -> &Routine {
        &self.prepared.routine
    }

    /// Returns the float type for which the routine is planned.
    #[must_use]
    pub fn float(&self) -> Float {
        self.prepared.float
    }

    /// Returns the size in bytes of each operand, for one batch member.
    pub fn operand_bytes(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.prepared.operands.iter().map(|buffer| buffer.bytes)
    }

    /// Returns the size in bytes of each result, for one batch member.
    pub fn result_bytes(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.prepared.results.iter().map(|buffer| buffer.bytes)
    }

    /// Returns the number of bytes of scratch memory that [`Plan::run`] needs, sufficient for any alignment of
    /// the buffer. The content of the buffer is neither an input nor a result.
    #[must_use]
    pub fn scratch_bytes(&self) -> usize {
        self.prepared.kernel.scratch_bytes()
    }

    /// Runs the routine on `members` batch members, without allocation. In each buffer the members are contiguous.
    /// Every byte of the results is written. If a member fails, its floating-point results are NaN and its indices 0,
    /// 1, 2 and so on. The bits of a member depend neither on its position nor on the other members.
    ///
    /// # Errors
    /// [`WrongBuffers`] if the number of buffers, a length or an alignment is wrong; then nothing is written.
    pub fn run(
        &self,
        members: usize,
        operands: &[&[u8]],
        results: &mut [&mut [u8]],
        scratch: &mut [u8],
    ) -> Result<(), WrongBuffers> {
        let Prepared {
            routine,
            float,
            operands: expected_operands,
            results: expected_results,
            kernel,
        } = &*self.prepared;
        check("operand", expected_operands, operands.iter().copied(), *float, members)?;
        check("result", expected_results, results.iter().map(|result| &**result), *float, members)?;
        let expected = kernel.scratch_bytes();
        if scratch.len() < expected {
            return Err(WrongBuffers::Length {
                what: "scratch",
                place: 0,
                expected,
                found: scratch.len(),
            });
        }
        let fail_all = |results: &mut [&mut [u8]]| {
            for (result, buffer) in results.iter_mut().zip(expected_results) {
                fail(result, buffer.element, *float);
            }
        };
        match kernel.run_in_lockstep(routine, members, operands, results, scratch) {
            Some(true) => {}
            Some(false) => {
                for_each_member(members, operands, results, |_, results| fail_all(results))
            }
            None => for_each_member(members, operands, results, |operands, results| {
                if !kernel.run(routine, operands, results, scratch) {
                    fail_all(results);
                }
            }),
        }
        Ok(())
    }
}

/// Calls a function with the operand and result buffers of one batch member after the other.
fn for_each_member(
    members: usize,
    operands: &[&[u8]],
    results: &mut [&mut [u8]],
    mut run: impl FnMut(&[&[u8]], &mut [&mut [u8]]),
) {
    let count = results.len();
    for member in 0..members {
        let of = |length: usize| {
            let size = length / members;
            member * size..(member + 1) * size
        };
        // No routine has more than four operands or five results, so arrays of these lengths suffice.
        let (mut x, mut y): ([&[u8]; 4], [&mut [u8]; 5]) = Default::default();
        for (x, all) in x.iter_mut().zip(operands) {
            *x = &all[of(all.len())];
        }
        for (y, all) in y.iter_mut().zip(&mut *results) {
            let range = of(all.len());
            *y = &mut all[range];
        }
        run(&x[..operands.len()], &mut y[..count]);
    }
}

fn check<'a>(
    what: &'static str,
    expected: &[Buffer],
    found: impl ExactSizeIterator<Item = &'a [u8]>,
    float: Float,
    members: usize,
) -> Result<(), WrongBuffers> {
    if found.len() != expected.len() {
        return Err(WrongBuffers::Count { what, expected: expected.len(), found: found.len() });
    }
    for (place, (expected, found)) in expected.iter().zip(found).enumerate() {
        let bytes = expected.bytes.saturating_mul(members);
        if found.len() != bytes {
            return Err(WrongBuffers::Length { what, place, expected: bytes, found: found.len() });
        }
        let size = expected.element.bytes(float);
        if !found.is_empty() && found.as_ptr().align_offset(size) != 0 {
            return Err(WrongBuffers::Alignment { what, place });
        }
    }
    Ok(())
}

/// Fills a result of a failed member: floating-point results with NaN, index results with 0, 1, 2 and so on.
fn fail(result: &mut [u8], element: Element, float: Float) {
    match (element, float) {
        (Element::Float, Float::F32) => {
            let (numbers, _) = result.as_chunks_mut::<4>();
            numbers.fill(f32::NAN.to_ne_bytes());
        }
        (Element::Float, Float::F64) => {
            let (numbers, _) = result.as_chunks_mut::<8>();
            numbers.fill(f64::NAN.to_ne_bytes());
        }
        (Element::Index, _) => {
            let (numbers, _) = result.as_chunks_mut::<4>();
            for (place, number) in (0_i32..).zip(numbers) {
                *number = place.to_ne_bytes();
            }
        }
    }
}

#[cfg(feature = "linalg")]
use crate::dispatch::Kernel;

/// The prepared part of a plan in a build without the feature `linalg`: the type has no values, so there are no
/// plans.
#[cfg(not(feature = "linalg"))]
enum Kernel {}

#[cfg(not(feature = "linalg"))]
impl Kernel {
    fn new(routine: &Routine, _: Float) -> Result<Self, Unavailable> {
        Err(Unavailable::Missing { routine: routine.name(), feature: "linalg" })
    }

    fn scratch_bytes(&self) -> usize {
        match *self {}
    }

    fn run(&self, _: &Routine, _: &[&[u8]], _: &mut [&mut [u8]], _: &mut [u8]) -> bool {
        match *self {}
    }

    fn run_in_lockstep(
        &self,
        _: &Routine,
        _: usize,
        _: &[&[u8]],
        _: &mut [&mut [u8]],
        _: &mut [u8],
    ) -> Option<bool> {
        match *self {}
    }
}
