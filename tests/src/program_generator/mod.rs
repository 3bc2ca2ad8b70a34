//! Random programs from a seed, whose attributes and literals are drawn to fit the operands.
//!
//! [`crate::Vocabulary`] takes primitives with the attributes of their samples, and so covers every primitive. This
//! generator starts from the values of the program and draws slices, paddings, axes, indices, literals and callees
//! for them, and so covers unusual shapes, attributes and bodies.
//!
//! A [`Recipe`] is the program of a seed as data: extents, parameters, callees, results, and a list of [`Gene`]s that
//! append a few equations each. Operands are converted to fit each gene, so every recipe is a valid program, and a
//! failing one is shrunk by leaving out parts ([`Recipe::smaller`]).
//!
//! There are two kinds of programs. *Tame* programs bound floats (by `tanh` where necessary) and avoid poles, so that
//! derivatives can be compared; values may be at ties, since the laws hold there too. *Wild* programs combine any
//! values, infinities, nan and both zeros included, and are compared bit for bit.

mod control;
mod folds;
mod indexing;
mod maps;
mod matrices;
mod movement;
mod recipe;

pub use recipe::{Gene, Recipe};

use crate::{Case, Elements, Rng};
use tapeloom_ir::prim::{Broadcast, Call, Convert, CustomCall, Iota, Reduce, Reducer, Reshape};
use tapeloom_ir::{
    ArrayType, Atom, Builder, Draft, Dtype, FuncId, Literal, Module, Op, Policy, Problem, Scalar,
    Shape, Tensor, Type,
};

/// The largest magnitude of floats in tame programs, which have no infinities, nan or poles.
const BOUND: f64 = 16.0;
/// The bound on magnitudes of integers that are converted to floats; it is above 2⁶⁴, so every integer is within it.
const HUGE: f64 = 2e19;

impl Recipe {
    /// Builds the program in `module` and returns it with arguments.
    ///
    /// # Errors
    /// None: every description describes a valid program.
    pub fn program(&self, module: &mut Module) -> Result<Case, Problem> {
        let mut callees = Vec::new();
        for (i, genes) in self.callees.iter().enumerate() {
            // The parameters of a callee are values that every caller has: a vector, two floats, an index.
            let vector = ArrayType::new(Dtype::F64, [self.extents[0]]);
            let number = |dtype| ArrayType::new(dtype, Shape::scalar());
            let params = [vector, number(Dtype::F64), number(Dtype::I64), number(Dtype::F64)];
            let f = self.function(module, &format!("callee{i}"), &params, genes, &callees)?;
            callees.push(f);
        }
        let types: Vec<ArrayType> = self.params.iter().map(|p| self.parameter(*p)).collect();
        let f = self.function(module, "random", &types, &self.genes, &callees)?;
        let mut rng = Rng::new(11);
        let args = types.iter().map(|ty| self.argument(&mut rng, ty)).collect();
        Ok(Case { name: "random".into(), f, args, smooth: false })
    }

    fn function(
        &self,
        module: &mut Module,
        name: &str,
        params: &[ArrayType],
        genes: &[Gene],
        callees: &[FuncId],
    ) -> Result<FuncId, Problem> {
        let mut draft = Draft::new(name);
        let mut values = Vec::new();
        for ty in params {
            let atom = draft.param(ty.clone().into());
            // The arguments of a random program have magnitudes of at most 8.
            values.push(Value { atom, ty: ty.clone(), bound: 8.0, read: false });
        }
        let own = values.len();
        let b = Builder::new(module, &mut draft);
        let rng = Rng::new(0);
        let mut g =
            Generator { b: &b, values, callees, rng, wild: self.wild, most: self.most_elements() };
        for gene in genes {
            g.rng = Rng::new(gene.seed.into());
            g.step(*gene);
        }
        // The results are up to two values that nothing reads, the latest first, and then any values, parameters and
        // duplicates included.
        let unread = g.values[own..].iter().rev().filter(|v| !v.read).take(2).map(|v| v.atom);
        let mut results: Vec<Atom> = unread.collect();
        let n = g.values.len();
        results.extend(self.results.iter().map(|r| g.values[n - 1 - usize::from(*r) % n].atom));
        if results.is_empty() {
            results.push(g.values[n - 1].atom);
        }
        draft.finish(module, results)
    }

    /// Returns the argument for a parameter of this type: any number, infinity or nan in wild programs, small numbers
    /// with duplicates in others.
    fn argument(&self, rng: &mut Rng, ty: &ArrayType) -> Tensor {
        let mut t = rng.tensor(ty);
        // Draw whether the tensor's elements stay as they are, become equal to many others, or get one sign. Elements
        // of one sign show folds that wrongly start at zero.
        let sort = rng.index(6);
        for i in 0..t.elements() {
            let x = match sort {
                0 => Literal::of(ty.dtype, rng.index(3) as f64 - 1.0),
                1 => Literal::of(ty.dtype, t.at(i).to_f64().abs() + 1.0),
                2 => Literal::of(ty.dtype, -1.0 - t.at(i).to_f64().abs()),
                3..5 if self.wild => wild_number(rng, ty.dtype),
                _ if self.wild && rng.index(4) == 0 => wild_number(rng, ty.dtype),
                _ => continue,
            };
            t.put(i, x);
        }
        t
    }
}

/// Returns a number for an argument of a wild program: a number at which operations tend to fail, such as zero, nan or
/// a bound of the dtype, or random bits.
fn wild_number(rng: &mut Rng, dtype: Dtype) -> Literal {
    let float = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -2.0,
        3.0,
        1e-320,
        1e300,
        -1e300,
        2147483648.0,
        -9.3e18,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        f64::MIN_POSITIVE,
    ];
    let bits = match dtype {
        Dtype::F32 | Dtype::F64 if rng.index(8) > 0 => {
            return Literal::of(dtype, float[rng.index(float.len())]);
        }
        Dtype::Bool => return Literal::bool(rng.index(2) == 0),
        Dtype::I32 | Dtype::U32 | Dtype::F32 => {
            let all = [0, 1, u32::MAX, 1 << 31, i32::MAX as u32, 31, 32, rng.bits() as u32];
            u64::from(all[rng.index(all.len())])
        }
        Dtype::I64 | Dtype::U64 | Dtype::F64 => {
            let all = [0, 1, u64::MAX, 1 << 63, i64::MAX as u64, 63, 64, rng.bits()];
            all[rng.index(all.len())]
        }
    };
    Literal { dtype, bits }
}

#[derive(Clone)]
struct Value {
    atom: Atom,
    ty: ArrayType,
    /// A bound on the magnitude of the elements. It holds only for floats of tame programs, which have no infinities,
    /// nan or poles.
    bound: f64,
    read: bool,
}

struct Generator<'g, 'm> {
    b: &'g Builder<'m>,
    values: Vec<Value>,
    callees: &'g [FuncId],
    rng: Rng,
    wild: bool,
    /// The largest number of elements that an array of the program may have.
    most: usize,
}

/// A function that emits the equations of one step of a random program. Each kind of step has one such function; the
/// function of the first kind emits nothing.
type Step = fn(&mut Generator<'_, '_>, Gene);

/// The kinds of steps of random programs. A kind that is listed twice is drawn twice as often.
const KINDS: &[Step] = &[
    |_, _| {},
    |g, e| g.unary(e),
    |g, e| g.marked(e),
    |g, e| g.binary(e),
    |g, e| g.binary(e),
    |g, e| g.binary(e),
    |g, e| g.function(e),
    |g, e| g.function(e),
    |g, e| g.compare(e),
    |g, e| g.choose(e),
    |g, e| g.choose(e),
    |g, e| g.masked(e),
    |g, e| g.masked(e),
    |g, e| g.logic(e),
    |g, e| g.converted(e),
    |g, e| g.converted(e),
    |g, e| g.clamped(e),
    |g, e| g.constant(e),
    |g, e| g.folded(e),
    |g, e| g.view(e),
    |g, e| g.view(e),
    |g, e| g.sliced(e),
    |g, e| g.padded(e),
    |g, e| g.repeated(e),
    |g, e| g.joined(e),
    |g, e| g.reduced(e),
    |g, e| g.reduced(e),
    |g, e| g.searched(e),
    |g, e| g.cumulated(e),
    |g, e| g.sorted(e),
    |g, e| g.recurrence(e),
    |g, e| g.decomposed(e),
    |g, e| g.solved(e),
    |g, e| g.transformed(e),
    |g, e| g.dot(e),
    |g, e| g.dot(e),
    |g, e| g.gather(e),
    |g, e| g.gather(e),
    |g, e| g.scatter(e),
    |g, e| g.scatter(e),
    |g, e| g.dynamic_slice(e),
    |g, e| g.dynamic_update(e),
    |g, e| g.updates(e),
    |g, e| g.updates(e),
    |g, e| g.call(e),
    |g, e| g.call(e),
    |g, e| g.iterations(e),
    |g, e| g.branch(e),
];

impl Generator<'_, '_> {
    fn step(&mut self, gene: Gene) {
        KINDS[usize::from(gene.kind) % KINDS.len()](self, gene);
    }

    // -- Picking ------------------------------------------------------------------------------------

    /// Returns the value of this dtype that is `back` positions before the latest one; if there is none, a value
    /// converted to this dtype.
    fn pick(&mut self, dtype: Dtype, back: u8) -> Value {
        let of: Vec<usize> =
            (0..self.values.len()).filter(|k| self.values[*k].ty.dtype == dtype).collect();
        let all = of.len();
        if all > 0 {
            let k = of[all - 1 - usize::from(back) % all];
            self.values[k].read = true;
            return self.values[k].clone();
        }
        let n = self.values.len();
        let x = self.values[n - 1 - usize::from(back) % n].clone();
        self.convert(&x, dtype)
    }

    /// Returns the value that is `back` positions before the latest value of any dtype.
    fn any(&mut self, back: u8) -> Value {
        let n = self.values.len();
        let k = n - 1 - usize::from(back) % n;
        self.values[k].read = true;
        self.values[k].clone()
    }

    /// Returns the value that is `back` positions before the latest value of any dtype, with bools converted to i32.
    fn number(&mut self, back: u8) -> Value {
        let x = self.any(back);
        if x.ty.dtype == Dtype::Bool { self.convert(&x, Dtype::I32) } else { x }
    }

    /// Returns the value that is `back` positions before the latest value of any dtype, converted to f64 unless it is a
    /// float.
    fn float(&mut self, back: u8) -> Value {
        let x = self.any(back);
        if x.ty.dtype.is_float() { x } else { self.pick(Dtype::F64, back) }
    }

    fn convert(&mut self, x: &Value, to: Dtype) -> Value {
        if x.ty.dtype == to {
            return x.clone();
        }
        let mut x = x.clone();
        let narrowed = !self.wild && x.ty.dtype.is_integer() && to.is_float();
        if narrowed && self.rng.index(2) == 0 {
            // Half of the integers are taken modulo 5: they convert exactly, and results do not all reach the bound.
            let five = Literal::of(x.ty.dtype, 5.0).into();
            x.atom = self.b.emit1(Scalar::Rem, &[x.atom, five]);
            x.bound = 4.0;
        } else if x.ty.dtype.is_integer() {
            x.bound = HUGE;
        } else if x.ty.dtype == Dtype::Bool {
            x.bound = 1.0;
        }
        let atom = self.b.emit1(Convert { to }, &[x.atom]);
        let ty = ArrayType::new(to, x.ty.shape.clone());
        let y = Value { atom, ty, ..x };
        if to.is_float() { self.within(&y, BOUND) } else { y }
    }

    fn literal(&mut self, dtype: Dtype) -> Literal {
        if self.wild && self.rng.index(3) == 0 {
            return wild_number(&mut self.rng, dtype);
        }
        let all = [0.0, 1.0, -1.0, 0.5, 2.0, -0.25, -0.0, 3.0];
        Literal::of(dtype, all[self.rng.index(all.len())])
    }

    /// Returns a second operand for an elementwise operation on `x`: a value converted to the shape of `x`, or a
    /// literal.
    fn second(&mut self, x: &Value, back: u8) -> Value {
        if self.rng.index(4) == 0 {
            let l = self.literal(x.ty.dtype);
            let bound = l.to_f64().abs();
            return Value { atom: l.into(), ty: x.ty.clone(), bound, read: true };
        }
        let y = self.pick(x.ty.dtype, back);
        self.matching(&y, &x.ty.shape)
    }

    /// Returns `x` in this shape: unchanged, reshaped, broadcast, or reduced to a scalar and broadcast.
    fn matching(&mut self, x: &Value, shape: &Shape) -> Value {
        if x.ty.shape == *shape {
            return x.clone();
        }
        let ty = ArrayType::new(x.ty.dtype, shape.clone());
        if x.ty.shape.elements() == shape.elements() {
            let atom = self.b.emit1(Reshape { shape: shape.clone() }, &[x.atom]);
            return Value { atom, ty, ..x.clone() };
        }
        let rank = x.ty.shape.len();
        let fits = |dims: &[usize]| {
            dims.iter().zip(x.ty.shape.iter()).all(|(d, n)| shape[*d] == *n || *n == 1)
        };
        if rank <= shape.len() {
            let last: Vec<usize> = (shape.len() - rank..shape.len()).collect();
            let first: Vec<usize> = (0..rank).collect();
            let choices = [last, first];
            let of = |dims: &Vec<usize>| fits(dims);
            if let Some(dims) = choices.iter().find(|d| of(d)).cloned() {
                let op = Broadcast { shape: shape.clone(), dims };
                return Value { atom: self.b.emit1(op, &[x.atom]), ty, ..x.clone() };
            }
        }
        let total = self.scalar(x);
        let op = Broadcast { shape: shape.clone(), dims: Vec::new() };
        Value { atom: self.b.emit1(op, &[total.atom]), ty, ..total }
    }

    /// Returns a scalar computed from all elements of `x`: their sum, minimum, or disjunction.
    fn scalar(&mut self, x: &Value) -> Value {
        if x.ty.shape.is_empty() {
            return x.clone();
        }
        let n = x.ty.shape.elements();
        let (reducer, n) = match x.ty.dtype {
            Dtype::Bool => (Reducer::Or, 1),
            // In wild programs, which have infinities and nan, floats are reduced by the minimum, because the minimum
            // is exact: sums could be compared up to rounding only.
            Dtype::F32 | Dtype::F64 if self.wild && n > 0 => (Reducer::Min, 1),
            _ => (Reducer::Sum, n),
        };
        let op = Reduce { reducer, axes: (0..x.ty.shape.len()).collect() };
        let atom = self.b.emit1(op, &[x.atom]);
        let ty = ArrayType::new(x.ty.dtype, Shape::scalar());
        let total = Value { atom, ty, bound: x.bound * n as f64, read: true };
        if x.ty.dtype.is_float() { self.within(&total, BOUND) } else { total }
    }

    /// Returns `x` if its elements have magnitudes of at most `bound`, or if the program is wild (with infinities and
    /// nan), otherwise tanh x.
    fn within(&mut self, x: &Value, bound: f64) -> Value {
        if self.wild || !x.ty.dtype.is_float() || x.bound <= bound {
            return x.clone();
        }
        Value { atom: self.b.emit1(Scalar::Tanh, &[x.atom]), bound: 1.0, ..x.clone() }
    }

    fn axes(&mut self, x: &Value) -> Vec<usize> {
        (0..x.ty.shape.len()).filter(|_| self.rng.index(2) == 0).collect()
    }

    /// Draws an axis whose extent is not 0.
    fn filled_axis(&mut self, x: &Value) -> Option<usize> {
        let filled: Vec<usize> = (0..x.ty.shape.len()).filter(|a| x.ty.shape[*a] > 0).collect();
        (!filled.is_empty()).then(|| filled[self.rng.index(filled.len())])
    }

    // -- Emitting -----------------------------------------------------------------------------------

    /// Emits an equation and makes its outputs values of the program. In tame programs (without infinities, nan and
    /// poles), floats are bounded by tanh. Returns the last output, or `None` if the equation does not type-check.
    fn push(&mut self, op: impl Into<Op>, operands: &[Atom], bound: f64) -> Option<Value> {
        let outputs = self.b.try_emit(op.into(), operands).ok()?;
        let mut last = None;
        for atom in outputs {
            let Type::Array(ty) = self.b.type_of(atom) else { continue };
            let value = Value { atom, ty, bound, read: false };
            let value = if value.ty.dtype.is_float() { self.within(&value, BOUND) } else { value };
            self.values.push(value.clone());
            last = Some(value);
        }
        last
    }

    /// Returns whether an array of this shape has at most `most` elements.
    fn small(&self, shape: &[usize]) -> bool {
        shape.iter().product::<usize>() <= self.most
    }

    // -- Constants and calls ------------------------------------------------------------------------

    fn constant(&mut self, gene: Gene) {
        let like = self.any(gene.operands[0]);
        let dtype = self.any(gene.operands[1]).ty.dtype;
        let shape = like.ty.shape;
        if self.rng.index(3) == 0 && !shape.is_empty() && dtype != Dtype::Bool {
            let axis = self.rng.index(shape.len());
            let last = shape[axis] as f64;
            self.push(Iota { shape, axis, dtype }, &[], last);
            return;
        }
        let l = self.literal(dtype);
        self.push(Broadcast { shape, dims: Vec::new() }, &[l.into()], l.to_f64().abs());
    }

    /// Emits a call of one of the callees, with values converted to the types of its parameters.
    fn call(&mut self, gene: Gene) {
        if self.callees.is_empty() {
            return;
        }
        let function = self.callees[self.rng.index(self.callees.len())];
        let params = self.b.with_module(|m| m.get(function).param_types());
        let mut operands = Vec::new();
        for (i, ty) in params.iter().enumerate() {
            let Type::Array(ty) = ty else { return };
            operands.push(self.argument(ty, gene, i));
        }
        let op: Op = match self.rng.index(6) {
            5 => {
                let policies = Policy::samples();
                let policy = policies[self.rng.index(policies.len())].clone();
                Call::checkpoint(function, policy).into()
            }
            0 => CustomCall { function, jvp: None, fwd: None, bwd: None }.into(),
            1 | 2 => Call::inline(function).into(),
            _ => Call::outline(function).into(),
        };
        self.push(op, &operands, BOUND);
    }
}
