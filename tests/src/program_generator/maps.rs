//! Methods of `Generator` that emit elementwise equations.

use super::{Gene, Generator, HUGE};
use tapeloom_ir::prim::{Broadcast, Convert, Dropped, IntegerPow, Iota, Mark, StopGradient};
use tapeloom_ir::{ArrayType, Dtype, Literal, Op, Scalar, Shape};

/// Functions of one float that are smooth everywhere and have results of small magnitude.
const SMALL: [Scalar; 8] = [
    Scalar::Sin,
    Scalar::Cos,
    Scalar::Tanh,
    Scalar::Logistic,
    Scalar::Atan,
    Scalar::Asinh,
    Scalar::Erf,
    Scalar::Abs,
];
/// Functions of one float whose results grow quickly.
const LARGE: [Scalar; 4] = [Scalar::Exp, Scalar::Expm1, Scalar::Sinh, Scalar::Cosh];
/// Functions of one float that need a positive operand.
const POSITIVE: [Scalar; 5] =
    [Scalar::Log, Scalar::Sqrt, Scalar::Rsqrt, Scalar::Cbrt, Scalar::Log1p];
const COMPARISONS: [Scalar; 6] =
    [Scalar::Lt, Scalar::Le, Scalar::Gt, Scalar::Ge, Scalar::Eq, Scalar::Ne];
const BITS: [Scalar; 3] = [Scalar::And, Scalar::Or, Scalar::Xor];
const SHIFTS: [Scalar; 3] =
    [Scalar::ShiftLeft, Scalar::ShiftRightArithmetic, Scalar::ShiftRightLogical];

impl Generator<'_, '_> {
    /// Emits a negation, an absolute value, a sign, a small power, or a similar unary equation.
    pub(super) fn unary(&mut self, gene: Gene) {
        let x = self.number(gene.operands[0]);
        match self.rng.index(6) {
            0 | 1 if x.ty.dtype.is_signed() || x.ty.dtype.is_float() => {
                let op = [Scalar::Neg, Scalar::Abs][self.rng.index(2)];
                self.push(op, &[x.atom], x.bound);
            }
            0..=2 => {
                let n = self.rng.index(4) as i32;
                self.push(IntegerPow { n }, &[x.atom], x.bound.max(1.0).powi(n));
            }
            3 if x.ty.dtype.is_integer() => {
                self.push(Scalar::Not, &[x.atom], x.bound);
            }
            4 => {
                // The choice uses a bit of the step's description instead of a random draw, so that all later draws of
                // a seed give the same numbers as without this choice.
                match gene.operands[1] % 2 {
                    0 => self.push(StopGradient, &[x.atom], x.bound),
                    _ => self.push(Dropped, &[x.atom], x.bound),
                };
            }
            _ if x.ty.dtype.is_float() => {
                let op = [Scalar::Floor, Scalar::Sign, Scalar::Round, Scalar::Ceil];
                let op = op[self.rng.index(op.len())];
                self.push(op, &[x.atom], x.bound + 1.0);
            }
            _ => {
                self.push(Scalar::Sign, &[x.atom], x.bound);
            }
        }
    }

    /// Emits a `barrier` on a value of any dtype.
    pub(super) fn marked(&mut self, gene: Gene) {
        let x = self.any(gene.operands[0]);
        self.push(Op::barrier(Mark::Named("mark".into())), &[x.atom], x.bound);
    }

    /// Emits a sum, difference, product, maximum or minimum of numbers, or a quotient or shift of integers.
    pub(super) fn binary(&mut self, gene: Gene) {
        let [i, j] = gene.operands;
        let x = self.number(i);
        let y = self.second(&x, j);
        let mut ops = vec![Scalar::Add, Scalar::Sub, Scalar::Mul, Scalar::Max, Scalar::Min];
        if x.ty.dtype.is_integer() {
            ops.extend([Scalar::Div, Scalar::Rem]);
            ops.extend(BITS);
            ops.extend(SHIFTS);
        } else if self.wild {
            ops.extend([Scalar::Div, Scalar::Rem, Scalar::Pow, Scalar::Atan2, Scalar::Hypot]);
        }
        let op = ops[self.rng.index(ops.len())];
        let bound = if op == Scalar::Mul { x.bound * y.bound } else { x.bound + y.bound };
        let swapped = self.rng.index(2) == 0 && y.atom.value().is_some();
        let pair = if swapped { [y.atom, x.atom] } else { [x.atom, y.atom] };
        self.push(op, &pair, bound);
    }

    /// Emits a function of floats: in wild programs (their floats may be infinities, nan and numbers near poles) any
    /// function, in other programs one that is smooth at its operands.
    pub(super) fn function(&mut self, gene: Gene) {
        let [i, j] = gene.operands;
        let x = self.float(i);
        if self.wild && self.rng.index(2) == 0 {
            let all = Scalar::ALL;
            let op = all[self.rng.index(all.len())];
            let mut operands = vec![x.atom];
            for k in 1..op.row().arity() {
                operands.push(self.second(&x, j.wrapping_add(k as u8)).atom);
            }
            // An operation that does not take floats fails to type-check, so `push` emits nothing.
            self.push(op, &operands, HUGE);
            return;
        }
        match self.rng.index(4) {
            0 | 1 => {
                let op = SMALL[self.rng.index(SMALL.len())];
                self.push(op, &[x.atom], x.bound.max(1.0));
            }
            2 => {
                let x = self.within(&x, 2.0);
                let op = LARGE[self.rng.index(LARGE.len())];
                self.push(op, &[x.atom], x.bound.exp());
            }
            _ => {
                // 2 + cos y is between 1 and 3, so it is safe as a divisor.
                let y = self.pick(x.ty.dtype, j);
                let y = self.matching(&y, &x.ty.shape);
                let cos = self.b.emit1(Scalar::Cos, &[y.atom]);
                let two = Literal::of(x.ty.dtype, 2.0).into();
                let safe = self.b.emit1(Scalar::Add, &[cos, two]);
                match self.rng.index(8) {
                    k if k < POSITIVE.len() => self.push(POSITIVE[k], &[safe], 2.0),
                    5 => self.push(Scalar::Atan2, &[x.atom, safe], 4.0),
                    6 => self.push(Scalar::Pow, &[safe, y.atom], 3.0f64.powf(8.0)),
                    _ => self.push(Scalar::Div, &[x.atom, safe], x.bound),
                };
            }
        }
    }

    pub(super) fn compare(&mut self, gene: Gene) {
        let x = self.any(gene.operands[0]);
        let y = self.second(&x, gene.operands[1]);
        let op = COMPARISONS[self.rng.index(COMPARISONS.len())];
        self.push(op, &[x.atom, y.atom], 1.0);
    }

    pub(super) fn choose(&mut self, gene: Gene) {
        let [i, j] = gene.operands;
        let x = self.any(i);
        let p = self.condition(j, &x.ty.shape);
        let y = self.second(&x, j);
        let pair = if self.rng.index(2) == 0 { [x.atom, y.atom] } else { [y.atom, x.atom] };
        // Make at least one side a value, because two literals would leave the shape of the result unknown.
        self.push(Scalar::Select, &[p, pair[0], pair[1]], x.bound.max(y.bound));
    }

    /// Emits a selection by the position along an axis, as in a triangular matrix or a mask: the compiler may split a
    /// loop at the position where the selection changes.
    pub(super) fn masked(&mut self, gene: Gene) {
        let x = self.any(gene.operands[0]);
        let Some(axis) = self.filled_axis(&x) else { return };
        let y = self.second(&x, gene.operands[1]);
        let shape = x.ty.shape.clone();
        let dtype = [Dtype::I64, Dtype::I64, Dtype::I32][self.rng.index(3)];
        let extent = shape[axis];
        let place = self.b.emit1(Iota { shape, axis, dtype }, &[]);
        let at = Literal::of(dtype, self.rng.index(extent + 1) as f64).into();
        let op = COMPARISONS[self.rng.index(COMPARISONS.len())];
        let pair = if self.rng.index(4) == 0 { [at, place] } else { [place, at] };
        let p = self.b.emit1(op, &pair);
        self.push(Scalar::Select, &[p, x.atom, y.atom], x.bound.max(y.bound));
    }

    /// Emits an operation on two constants, which passes can fold, and an equation that reads the result.
    pub(super) fn folded(&mut self, gene: Gene) {
        let x = self.number(gene.operands[0]);
        let dtype = x.ty.dtype;
        let mut number = || Literal::of(dtype, self.rng.index(9) as f64 - 4.0);
        let (l, m) = (number(), number());
        let fill = Broadcast { shape: x.ty.shape.clone(), dims: Vec::new() };
        let l = self.b.emit1(fill, &[l.into()]);
        let op = [Scalar::Add, Scalar::Sub, Scalar::Mul, Scalar::Min][self.rng.index(4)];
        let folded = self.b.emit1(op, &[l, m.into()]);
        self.push(Scalar::Add, &[x.atom, folded], x.bound + 16.0);
    }

    /// Returns a bool value of this shape. Half of the time, the value is a comparison with zero, so that its elements
    /// differ.
    fn condition(&mut self, back: u8, shape: &Shape) -> tapeloom_ir::Atom {
        if self.rng.index(2) == 0 {
            let y = self.float(back);
            let y = self.matching(&y, shape);
            let zero = Literal::zero(y.ty.dtype).into();
            let op = COMPARISONS[self.rng.index(COMPARISONS.len())];
            return self.b.emit1(op, &[y.atom, zero]);
        }
        let p = self.pick(Dtype::Bool, back);
        self.matching(&p, shape).atom
    }

    pub(super) fn logic(&mut self, gene: Gene) {
        let [i, j] = gene.operands;
        let x = self.pick(Dtype::Bool, i);
        let y = self.pick(Dtype::Bool, j);
        let y = self.matching(&y, &x.ty.shape);
        let op = BITS[self.rng.index(BITS.len())];
        let z = self.b.emit1(op, &[x.atom, y.atom]);
        self.push(Scalar::Not, &[z], 1.0);
    }

    pub(super) fn converted(&mut self, gene: Gene) {
        let x = self.any(gene.operands[0]);
        let to = Dtype::ALL[self.rng.index(Dtype::ALL.len())];
        let y = self.convert(&x, to);
        if y.ty != x.ty {
            self.values.push(y);
        }
    }

    /// Emits a clamp between two bounds, or the distance `hypot(x, 1)`.
    pub(super) fn clamped(&mut self, gene: Gene) {
        let [i, j] = gene.operands;
        let x = self.number(i);
        if x.ty.dtype.is_float() && self.rng.index(4) == 0 {
            // The second operand is 1, because the derivative of `hypot` at the origin is nan.
            let one = Literal::of(x.ty.dtype, 1.0).into();
            self.push(Scalar::Hypot, &[x.atom, one], x.bound + 1.0);
            return;
        }
        let low = self.literal(x.ty.dtype);
        let y = self.second(&x, j);
        let bound = x.bound + y.bound + low.to_f64().abs();
        let low = if self.rng.index(2) == 0 { self.second(&x, i).atom } else { low.into() };
        self.push(Scalar::Clamp, &[low, x.atom, y.atom], bound);
    }

    /// Returns integers of this shape to be used as indices along an axis of this extent: some in range, some not.
    pub(super) fn places(&mut self, back: u8, shape: &Shape, extent: usize) -> tapeloom_ir::Atom {
        let dtypes = [Dtype::I64, Dtype::I64, Dtype::I32, Dtype::U32, Dtype::U64];
        let dtype = dtypes[self.rng.index(dtypes.len())];
        let x = self.pick(dtype, back);
        let x = self.matching(&x, shape);
        let about = Literal::of(x.ty.dtype, extent as f64 + 1.0).into();
        let x = match self.rng.index(3) {
            0 => x.atom,
            _ => self.b.emit1(Scalar::Rem, &[x.atom, about]),
        };
        self.b.emit1(Convert { to: Dtype::I64 }, &[x])
    }

    /// Returns a value of this type, computed from a value of the program.
    pub(super) fn of_type(&mut self, back: u8, ty: &ArrayType) -> super::Value {
        let x = self.pick(ty.dtype, back);
        self.matching(&x, &ty.shape)
    }
}
