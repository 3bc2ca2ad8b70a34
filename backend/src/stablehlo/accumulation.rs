//! Recognizes an update that adds to a part of an array, and writes it as the sum of the array and a padded array.
//!
//! Such updates occur in the reverse pass of slices that overlap, which adds the cotangent of each slice to a part of
//! the cotangent of the whole array. For an array `x` and an added array `a`:
//!
//! ```text
//! dynamic_update_slice(x, a + x[box], start of the box) = x + pad(a)
//! ```
//!
//! XLA fuses the sum with the equations around it, while an update is a loop of its own. If the part is less than half
//! of the array, the update stays, since the sum reads and writes the whole array.

use super::convolution::Definitions;
use super::types::list;
use super::writer::{Value, Writer};
use tapeloom_ir::prim::{AxisMap, Lowering};
use tapeloom_ir::{ArrayType, Atom, Code, Equation, Literal, Shape};

/// An update that adds to a part of an array.
pub(super) struct Accumulation {
    /// The whole array.
    pub(super) x: Atom,
    /// The array that is added to a part of `x`.
    pub(super) added: Atom,
    /// The start of the part along each axis.
    starts: Vec<usize>,
}

impl Definitions<'_> {
    /// Returns an equation as an accumulation; `None` if it is no update, or does not add to the updated part of the
    /// array.
    pub(super) fn accumulation(&self, e: &Equation) -> Option<Accumulation> {
        let [x, part, starts @ ..] = e.operands.as_slice() else { return None };
        let start = |x: &Atom| match x {
            Atom::Literal(x) => usize::try_from(x.to_f64() as i64).ok(),
            Atom::Value(_) => None,
        };
        let starts: Vec<usize> = starts.iter().map(start).collect::<Option<_>>()?;
        let (whole, extents) = (self.shape(*x)?, self.shape(*part)?);
        let mut ends = starts.iter().zip(extents.iter()).map(|(start, n)| start + n);
        if !whole.iter().all(|n| ends.next().is_some_and(|end| end <= *n))
            || 2 * extents.elements() < whole.elements()
        {
            return None;
        }
        let (sum, lowering) = self.definition(*part)?;
        let [a, b] = *sum.operands.as_slice() else { return None };
        let added = match lowering {
            Lowering::Elementwise(Code::Add) if self.is_part(b, *x, &starts, &extents) => a,
            Lowering::Elementwise(Code::Add) if self.is_part(a, *x, &starts, &extents) => b,
            _ => return None,
        };
        added.value().map(|_| Accumulation { x: *x, added, starts })
    }

    /// Returns whether `y` is the part of `x` that starts at `starts` and has these extents.
    fn is_part(&self, y: Atom, x: Atom, starts: &[usize], extents: &Shape) -> bool {
        let Some((piece, array, _)) = self.view(y) else { return false };
        let along = |(k, map): (usize, &AxisMap)| {
            let own = match map.terms.as_slice() {
                [] => extents[k] == 1,
                [(axis, 1)] => *axis == k,
                _ => false,
            };
            own && map.divisor == 1 && usize::try_from(map.offset) == Ok(starts[k])
        };
        array == x && piece.axes.len() == starts.len() && piece.axes.iter().enumerate().all(along)
    }
}

impl Accumulation {
    /// Appends operations that add `added`, padded to the shape of `x`, to `x`. Returns the sum.
    pub(super) fn emit(&self, w: &mut Writer, x: &Value, added: &Value) -> Value {
        // Pad floats with -0: `x + -0` is x for every x, while `-0 + 0` would be 0.
        let zero = if x.ty.dtype.is_float() { -0.0 } else { 0.0 };
        let fill = w.constant(Literal::of(x.ty.dtype, zero), &Shape::scalar());
        let extents = x.ty.shape.iter().zip(added.ty.shape.iter());
        let high = extents.zip(&self.starts).map(|((n, own), start)| n - own - start);
        let none = self.starts.iter().map(|_| 0);
        let (low, high, between) = (list(&self.starts), list(high), list(none));
        let rest = format!(", low = {low}, high = {high}, interior = {between}");
        let ty = ArrayType::new(x.ty.dtype, x.ty.shape.clone());
        let padded = w.op("stablehlo.pad", &[added, &fill], &rest, ty);
        w.same("stablehlo.add", &[x, &padded])
    }
}
