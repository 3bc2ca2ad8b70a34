//! Random programs from shapes outwards: attributes and literals are drawn to fit the operands.
//!
//! Where [`crate::Vocabulary`] takes primitives as their samples have them, and so meets every
//! primitive, this takes what values there are and draws slices, paddings, axes, indices, literals
//! and callees for them, and so meets shapes, attributes and bodies that nobody thought of.
//!
//! A program is a list of [`Gene`]s; each appends a few equations and always fits, so a failing list
//! is made smaller by leaving genes out or making their numbers smaller. Values are kept within
//! bounds (by `tanh` where they could leave them) and away from poles. They may be at ties: the laws
//! for which these programs are made hold there too.

use crate::{Case, Rng};
use tapeloom_ir::prim::{
    ArgReduce, Bounds, Broadcast, Call, Combine, Concatenate, Convert, CustomCall, Dot,
    DynamicSlice, DynamicUpdateSlice, Gather, IntegerPow, Iota, Pad, Permute, Reduce, Reducer,
    Reshape, Rev, Scatter, Slice, StopGradient,
};
use tapeloom_ir::{
    ArrayType, Atom, Builder, Draft, Dtype, FuncId, Literal, Module, Op, Problem, Scalar, Shape,
};

/// One step of a program: what to do, on which values, and with which attributes.
#[derive(Clone, Copy, Debug)]
pub struct Gene {
    /// What to do; 0 is nothing.
    pub kind: u8,
    /// Which values: 0 is the latest of its dtype, 1 the one before, and so on.
    pub operands: [u8; 2],
    /// A seed of attributes and literals.
    pub seed: u16,
}

/// How many kinds of genes there are.
pub const KINDS: u8 = 40;
/// Arrays have no more elements than this.
const MOST: usize = 24;
/// Floats are no larger than this.
const BOUND: f64 = 16.0;

/// A program of those genes, with arguments. Half of its genes may be bodies of functions that the
/// others call.
///
/// # Errors
/// None, if the generator keeps its promise that everything fits.
pub fn program(module: &mut Module, callee: &[Gene], genes: &[Gene]) -> Result<Case, Problem> {
    let vector = ArrayType::new(Dtype::F64, [3]);
    let scalar = ArrayType::new(Dtype::F64, Shape::scalar());
    let integer = ArrayType::new(Dtype::I64, Shape::scalar());
    let f = function(module, "callee", &[vector, scalar.clone(), integer.clone()], callee, None)?;
    let types = [
        scalar,
        ArrayType::new(Dtype::F64, [2, 3]),
        ArrayType::new(Dtype::F64, [3]),
        ArrayType::new(Dtype::F64, [2, 1, 2]),
        integer,
        ArrayType::new(Dtype::I64, [3]),
        ArrayType::new(Dtype::Bool, [2, 3]),
        ArrayType::new(Dtype::F32, [3]),
    ];
    let main = function(module, "random", &types, genes, Some(f))?;
    let mut rng = Rng::new(11);
    let args = types.iter().map(|ty| rng.tensor(ty)).collect();
    Ok(Case { name: "random".into(), f: main, args, smooth: false })
}

fn function(
    module: &mut Module,
    name: &str,
    params: &[ArrayType],
    genes: &[Gene],
    callee: Option<FuncId>,
) -> Result<FuncId, Problem> {
    let mut draft = Draft::new(name);
    let mut values = Vec::new();
    for ty in params {
        let atom = draft.param(ty.clone().into());
        // Arguments are drawn from this range.
        values.push(Value { atom, ty: ty.clone(), bound: 8.0, read: false });
    }
    let own = values.len();
    let b = Builder::new(module, &mut draft);
    let mut g = Generator { b: &b, values, callee, rng: Rng::new(0) };
    for gene in genes {
        g.rng = Rng::new(gene.seed.into());
        g.step(*gene);
    }
    // Results: what nothing reads, the latest first; floats, then others.
    let mut unread: Vec<&Value> = g.values[own..].iter().filter(|v| !v.read).rev().collect();
    unread.sort_by_key(|v| !v.ty.dtype.is_float());
    let mut results: Vec<Atom> = unread.iter().take(4).map(|v| v.atom).collect();
    if results.is_empty() {
        results = g.values.iter().take(1).map(|v| v.atom).collect();
    }
    draft.finish(module, results)
}

#[derive(Clone)]
struct Value {
    atom: Atom,
    ty: ArrayType,
    /// No element is larger; of use for floats only.
    bound: f64,
    read: bool,
}

struct Generator<'g, 'm> {
    b: &'g Builder<'m>,
    values: Vec<Value>,
    callee: Option<FuncId>,
    rng: Rng,
}

/// Functions of one float that are smooth everywhere and stay small.
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
/// Functions of one float that grow quickly.
const LARGE: [Scalar; 4] = [Scalar::Exp, Scalar::Expm1, Scalar::Sinh, Scalar::Cosh];

impl Generator<'_, '_> {
    fn step(&mut self, gene: Gene) {
        let [i, j] = gene.operands;
        let x = self.pick(Dtype::F64, i);
        match gene.kind % KINDS {
            0 => {}
            1 => self.float(Scalar::Neg, &[x.atom], &x.ty.shape, x.bound),
            2..=4 => {
                let op = [Scalar::Add, Scalar::Sub, Scalar::Mul, Scalar::Max, Scalar::Min];
                let op = op[self.rng.index(op.len())];
                let y = self.second(&x, j);
                let bound = if op == Scalar::Mul { x.bound * y.bound } else { x.bound + y.bound };
                let swapped = self.rng.index(2) == 0 && y.atom.value().is_some();
                let pair = if swapped { [y.atom, x.atom] } else { [x.atom, y.atom] };
                self.float(op, &pair, &x.ty.shape, bound);
            }
            5 | 6 => {
                let op = SMALL[self.rng.index(SMALL.len())];
                self.float(op, &[x.atom], &x.ty.shape, x.bound.max(1.0));
            }
            7 => {
                let x = self.within(&x, 2.0);
                let op = LARGE[self.rng.index(LARGE.len())];
                self.float(op, &[x.atom], &x.ty.shape, x.bound.exp());
            }
            8 => {
                // 2 + cos y is between 1 and 3.
                let y = self.pick(Dtype::F64, j);
                let y = self.matching(&y, &x.ty.shape);
                let cos = self.b.emit1(Scalar::Cos, &[y.atom]);
                let safe = self.b.emit1(Scalar::Add, &[cos, Literal::f64(2.0).into()]);
                let one = [Scalar::Log, Scalar::Sqrt, Scalar::Rsqrt, Scalar::Cbrt, Scalar::Log1p];
                match self.rng.index(8) {
                    k if k < one.len() => self.float(one[k], &[safe], &x.ty.shape, 2.0),
                    5 => self.float(Scalar::Atan2, &[x.atom, safe], &x.ty.shape, 4.0),
                    6 => self.float(Scalar::Pow, &[safe, y.atom], &x.ty.shape, 3.0f64.powf(8.0)),
                    _ => self.float(Scalar::Div, &[x.atom, safe], &x.ty.shape, x.bound),
                }
            }
            9 => {
                let n = self.rng.index(4) as i32;
                self.float(IntegerPow { n }, &[x.atom], &x.ty.shape, x.bound.max(1.0).powi(n));
            }
            10 | 11 => {
                let op = [Scalar::Lt, Scalar::Le, Scalar::Gt, Scalar::Ge, Scalar::Eq, Scalar::Ne];
                let op = op[self.rng.index(op.len())];
                let y = self.second(&x, j);
                self.other(op, &[x.atom, y.atom], Dtype::Bool, &x.ty.shape);
            }
            12 | 13 => {
                let p = self.pick(Dtype::Bool, j);
                let p = self.matching(&p, &x.ty.shape);
                let y = self.second(&x, j);
                self.float(
                    Scalar::Select,
                    &[p.atom, x.atom, y.atom],
                    &x.ty.shape,
                    x.bound.max(y.bound),
                );
            }
            14 => {
                let p = self.pick(Dtype::Bool, i);
                let q = self.pick(Dtype::Bool, j);
                let q = self.matching(&q, &p.ty.shape);
                let op = [Scalar::And, Scalar::Or, Scalar::Xor][self.rng.index(3)];
                let atom = self.b.emit1(op, &[p.atom, q.atom]);
                self.other(Scalar::Not, &[atom], Dtype::Bool, &p.ty.shape);
            }
            15 | 16 => {
                let m = self.pick(Dtype::I64, i);
                let n = self.pick(Dtype::I64, j);
                let n = match self.rng.index(3) {
                    0 => Literal::i64(self.rng.index(5) as i64 - 2).into(),
                    _ => self.matching(&n, &m.ty.shape).atom,
                };
                let op = [Scalar::Add, Scalar::Sub, Scalar::Mul, Scalar::Max, Scalar::Xor];
                let op = op[self.rng.index(op.len())];
                self.other(op, &[m.atom, n], Dtype::I64, &m.ty.shape);
            }
            17 => {
                // Small again, so that converting is exact and products stay bounded.
                let m = self.pick(Dtype::I64, i);
                let small = self.b.emit1(Scalar::Rem, &[m.atom, Literal::i64(5).into()]);
                self.float(Convert { to: Dtype::F64 }, &[small], &m.ty.shape, 4.0);
            }
            18 => {
                let p = self.pick(Dtype::Bool, i);
                let to = [Dtype::F64, Dtype::I64][self.rng.index(2)];
                self.values_like(Convert { to }, &[p.atom], to, &p.ty.shape, 1.0);
            }
            19 => {
                // Through single precision and back.
                let s = self.pick(Dtype::F32, i);
                let sin = self.b.emit1(Scalar::Sin, &[s.atom]);
                self.float(Convert { to: Dtype::F64 }, &[sin], &s.ty.shape, 1.0);
            }
            20 | 21 => self.view(gene),
            22 => self.padded(&x),
            23 => {
                let v = self.any(i);
                let mut shape = v.ty.shape.clone();
                let axis = self.rng.index(shape.len() + 1);
                let mut dims: Vec<usize> = (0..shape.len() + 1).collect();
                dims.remove(axis);
                let mut extents = shape.to_vec();
                extents.insert(axis, 1 + self.rng.index(3));
                shape = extents.into();
                if shape.elements() <= MOST {
                    self.moved(Broadcast { shape: shape.clone(), dims }, &v, &[v.atom], &shape);
                }
            }
            24 => {
                let axes = self.axes(&x);
                let n: usize = axes.iter().map(|a| x.ty.shape[*a]).product();
                let shape = x.ty.shape.without(&axes);
                let (reducer, bound) = match self.rng.index(4) {
                    0 => (Reducer::Sum, n as f64 * x.bound),
                    1 => (Reducer::Prod, x.bound.max(1.0).powi(n as i32)),
                    2 => (Reducer::Max, x.bound),
                    _ => (Reducer::Min, x.bound),
                };
                let filled = axes.iter().all(|a| x.ty.shape[*a] > 0);
                if filled || matches!(reducer, Reducer::Sum | Reducer::Prod) {
                    self.float(Reduce { reducer, axes }, &[x.atom], &shape, bound.max(1.0));
                }
            }
            25 => {
                let p = self.pick(Dtype::Bool, i);
                let axes = self.axes(&p);
                let shape = p.ty.shape.without(&axes);
                let reducer = [Reducer::And, Reducer::Or][self.rng.index(2)];
                self.other(Reduce { reducer, axes }, &[p.atom], Dtype::Bool, &shape);
            }
            26 => {
                if let Some(axis) = self.filled_axis(&x) {
                    let shape = x.ty.shape.without(&[axis]);
                    let op = ArgReduce { axis, largest: self.rng.index(2) == 0 };
                    self.other(op, &[x.atom], Dtype::I64, &shape);
                }
            }
            27 | 28 => self.dot(&x, j),
            29 | 30 => self.gather(i, j),
            31 | 32 => self.scatter(&x, i, j),
            33 => self.dynamic(i, j),
            34 | 35 => self.call(i, j),
            36 => {
                let shape: Shape = (0..self.rng.index(3)).map(|_| 1 + self.rng.index(3)).collect();
                match self.rng.index(3) {
                    0 if !shape.is_empty() => {
                        let axis = self.rng.index(shape.len());
                        let dtype = [Dtype::F64, Dtype::I64][self.rng.index(2)];
                        let iota = Iota { shape: shape.clone(), axis, dtype };
                        self.values_like(iota, &[], dtype, &shape, 3.0);
                    }
                    _ => {
                        let l = self.literal();
                        let op = Broadcast { shape: shape.clone(), dims: Vec::new() };
                        self.float(op, &[l.into()], &shape, l.to_f64().abs());
                    }
                }
            }
            37 => self.float(StopGradient, &[x.atom], &x.ty.shape, x.bound),
            38 => {
                let y = self.second(&x, j);
                let op = [Scalar::Clamp, Scalar::Hypot][self.rng.index(2)];
                match op {
                    Scalar::Clamp => {
                        let low = Literal::f64(-0.5).into();
                        self.float(op, &[low, x.atom, y.atom], &x.ty.shape, x.bound + y.bound);
                    }
                    // Its derivative at the origin is nan.
                    _ => {
                        let one = Literal::f64(1.0).into();
                        self.float(op, &[x.atom, one], &x.ty.shape, x.bound + 1.0);
                    }
                }
            }
            _ => {
                let op = [Scalar::Floor, Scalar::Sign, Scalar::Round][self.rng.index(3)];
                self.float(op, &[x.atom], &x.ty.shape, x.bound + 1.0);
            }
        }
    }

    // -- Picking ------------------------------------------------------------------------------------

    fn pick(&mut self, dtype: Dtype, back: u8) -> Value {
        let of: Vec<usize> =
            (0..self.values.len()).filter(|k| self.values[*k].ty.dtype == dtype).collect();
        match of.len() {
            0 => {
                let atom = Literal::one(dtype).into();
                let op = Broadcast { shape: Shape::scalar(), dims: Vec::new() };
                let atom = self.b.emit1(op, &[atom]);
                Value { atom, ty: ArrayType::new(dtype, Shape::scalar()), bound: 1.0, read: true }
            }
            n => {
                let k = of[n - 1 - usize::from(back) % n];
                self.values[k].read = true;
                self.values[k].clone()
            }
        }
    }

    /// A float, an integer or a bool.
    fn any(&mut self, back: u8) -> Value {
        let dtype = [Dtype::F64, Dtype::F64, Dtype::I64, Dtype::Bool, Dtype::F32];
        let dtype = dtype[self.rng.index(dtype.len())];
        self.pick(dtype, back)
    }

    fn literal(&mut self) -> Literal {
        let all = [0.0, 1.0, -1.0, 0.5, 2.0, -0.25, -0.0];
        Literal::f64(all[self.rng.index(all.len())])
    }

    /// A second operand for an elementwise function: a value brought to the shape, or a literal.
    fn second(&mut self, x: &Value, back: u8) -> Value {
        if self.rng.index(4) == 0 {
            let l = self.literal();
            let bound = l.to_f64().abs();
            return Value { atom: l.into(), ty: x.ty.clone(), bound, read: true };
        }
        let y = self.pick(Dtype::F64, back);
        self.matching(&y, &x.ty.shape)
    }

    /// The value in that shape: as it is, in other order, stretched, or reduced and stretched.
    fn matching(&mut self, x: &Value, shape: &Shape) -> Value {
        if x.ty.shape == *shape {
            return x.clone();
        }
        let ty = ArrayType::new(x.ty.dtype, shape.clone());
        if x.ty.shape.elements() == shape.elements() {
            let atom = self.b.emit1(Reshape { shape: shape.clone() }, &[x.atom]);
            return Value { atom, ty, ..x.clone() };
        }
        let suffix = shape.len().saturating_sub(x.ty.shape.len());
        if shape[suffix..] == x.ty.shape[..] {
            let op = Broadcast { shape: shape.clone(), dims: (suffix..shape.len()).collect() };
            return Value { atom: self.b.emit1(op, &[x.atom]), ty, ..x.clone() };
        }
        let total = self.scalar(x);
        let op = Broadcast { shape: shape.clone(), dims: Vec::new() };
        Value { atom: self.b.emit1(op, &[total.atom]), ty, ..total }
    }

    /// All elements in one.
    fn scalar(&mut self, x: &Value) -> Value {
        if x.ty.shape.is_empty() {
            return x.clone();
        }
        let (reducer, n) = match x.ty.dtype {
            Dtype::Bool => (Reducer::Or, 1),
            _ => (Reducer::Sum, x.ty.shape.elements()),
        };
        let op = Reduce { reducer, axes: (0..x.ty.shape.len()).collect() };
        let atom = self.b.emit1(op, &[x.atom]);
        let ty = ArrayType::new(x.ty.dtype, Shape::scalar());
        let total = Value { atom, ty, bound: x.bound * n as f64, read: true };
        if x.ty.dtype.is_float() { self.within(&total, BOUND) } else { total }
    }

    /// The value if it is bounded so, else its tanh.
    fn within(&mut self, x: &Value, bound: f64) -> Value {
        if x.bound <= bound {
            return x.clone();
        }
        Value { atom: self.b.emit1(Scalar::Tanh, &[x.atom]), bound: 1.0, ..x.clone() }
    }

    fn axes(&mut self, x: &Value) -> Vec<usize> {
        (0..x.ty.shape.len()).filter(|_| self.rng.index(2) == 0).collect()
    }

    /// An axis that is not empty.
    fn filled_axis(&mut self, x: &Value) -> Option<usize> {
        let filled: Vec<usize> = (0..x.ty.shape.len()).filter(|a| x.ty.shape[*a] > 0).collect();
        (!filled.is_empty()).then(|| filled[self.rng.index(filled.len())])
    }

    // -- Emitting -----------------------------------------------------------------------------------

    fn float(&mut self, op: impl Into<Op>, operands: &[Atom], shape: &Shape, bound: f64) {
        self.values_like(op, operands, Dtype::F64, shape, bound);
    }

    fn other(&mut self, op: impl Into<Op>, operands: &[Atom], dtype: Dtype, shape: &Shape) {
        self.values_like(op, operands, dtype, shape, 0.0);
    }

    /// The same elements or some of them.
    fn moved(&mut self, op: impl Into<Op>, x: &Value, operands: &[Atom], shape: &Shape) {
        self.values_like(op, operands, x.ty.dtype, shape, x.bound);
    }

    fn values_like(
        &mut self,
        op: impl Into<Op>,
        operands: &[Atom],
        dtype: Dtype,
        shape: &Shape,
        bound: f64,
    ) {
        let atom = self.b.emit1(op, operands);
        let ty = ArrayType::new(dtype, shape.clone());
        let value = Value { atom, ty, bound, read: false };
        let value = if dtype == Dtype::F64 { self.within(&value, BOUND) } else { value };
        self.values.push(value);
    }

    // -- Movement -----------------------------------------------------------------------------------

    fn view(&mut self, gene: Gene) {
        let x = self.any(gene.operands[0]);
        let rank = x.ty.shape.len();
        match self.rng.index(5) {
            0 => {
                let mut permutation: Vec<usize> = (0..rank).collect();
                permutation.rotate_left(self.rng.index(rank));
                if self.rng.index(2) == 0 {
                    permutation.reverse();
                }
                let shape = permutation.iter().map(|a| x.ty.shape[*a]).collect();
                self.moved(Permute { permutation }, &x, &[x.atom], &shape);
            }
            1 => {
                let axes = self.axes(&x);
                self.moved(Rev { axes }, &x, &[x.atom], &x.ty.shape);
            }
            2 => {
                let n = x.ty.shape.elements();
                let shapes: [Shape; 3] = [[n].into(), [n, 1].into(), [1, n].into()];
                let shape = shapes[self.rng.index(3)].clone();
                self.moved(Reshape { shape: shape.clone() }, &x, &[x.atom], &shape);
            }
            3 => {
                let mut op = Slice { start: Vec::new(), limit: Vec::new(), strides: Vec::new() };
                let mut shape = Vec::new();
                for &extent in x.ty.shape.iter() {
                    let start = self.rng.index(extent);
                    let limit = start + self.rng.index(extent - start + 1);
                    let limit = if self.rng.index(8) == 0 { limit } else { limit.max(start + 1) };
                    let limit = limit.min(extent);
                    let stride = 1 + self.rng.index(2);
                    shape.push((limit - start).div_ceil(stride));
                    op.start.push(start);
                    op.limit.push(limit);
                    op.strides.push(stride);
                }
                self.moved(op, &x, &[x.atom], &shape.into());
            }
            _ => {
                if rank > 0 && 2 * x.ty.shape.elements() <= MOST {
                    let axis = self.rng.index(rank);
                    let y = self.pick(x.ty.dtype, gene.operands[1]);
                    let y = self.matching(&y, &x.ty.shape);
                    let mut shape = x.ty.shape.clone();
                    shape[axis] *= 2;
                    let bound = Value { bound: x.bound.max(y.bound), ..x.clone() };
                    self.moved(Concatenate { axis }, &bound, &[x.atom, y.atom], &shape);
                }
            }
        }
    }

    fn padded(&mut self, x: &Value) {
        let mut op = Pad { low: Vec::new(), high: Vec::new(), interior: Vec::new() };
        let mut shape = Vec::new();
        for &extent in x.ty.shape.iter() {
            let interior = self.rng.index(2);
            let (low, high) = (self.rng.index(4) as i64 - 1, self.rng.index(3) as i64 - 1);
            let inner = extent as i64 + (extent.saturating_sub(1) * interior) as i64;
            let (low, high) = if inner + low + high < 0 { (0, 0) } else { (low, high) };
            shape.push((inner + low + high) as usize);
            op.low.push(low);
            op.high.push(high);
            op.interior.push(interior);
        }
        let shape: Shape = shape.into();
        if shape.elements() > MOST {
            return;
        }
        let (fill, bound) = match self.rng.index(2) {
            0 => {
                let l = self.literal();
                (l.into(), l.to_f64().abs())
            }
            _ => {
                let y = self.pick(Dtype::F64, 3);
                let y = self.scalar(&y);
                (y.atom, y.bound)
            }
        };
        self.float(op, &[x.atom, fill], &shape, x.bound.max(bound));
    }

    // -- Contractions, indices, calls ---------------------------------------------------------------

    fn dot(&mut self, x: &Value, back: u8) {
        let mut y = self.pick(Dtype::F64, back);
        let pairs = |y: &Value| {
            let (m, n) = (x.ty.shape.len(), y.ty.shape.len());
            let all = (0..m).flat_map(|i| (0..n).map(move |j| (i, j)));
            all.filter(|(i, j)| x.ty.shape[*i] == y.ty.shape[*j]).collect::<Vec<_>>()
        };
        if pairs(&y).is_empty() {
            y = x.clone();
        }
        let mut free = pairs(&y);
        let (mut batch, mut contract) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            if free.is_empty() {
                break;
            }
            let (i, j) = free.swap_remove(self.rng.index(free.len()));
            free.retain(|(a, b)| *a != i && *b != j);
            if self.rng.index(3) == 0 { batch.push((i, j)) } else { contract.push((i, j)) }
        }
        let rest = |v: &Value, used: Vec<usize>| v.ty.shape.without(&used);
        let left = rest(x, batch.iter().chain(&contract).map(|p| p.0).collect());
        let right = rest(&y, batch.iter().chain(&contract).map(|p| p.1).collect());
        let shared = batch.iter().map(|p| x.ty.shape[p.0]);
        let shape: Shape =
            shared.chain(left.iter().copied()).chain(right.iter().copied()).collect();
        let n: usize = contract.iter().map(|p| x.ty.shape[p.0]).product();
        if shape.elements() <= MOST {
            let bound = (n as f64 * x.bound * y.bound).max(1.0);
            self.float(Dot { batch, contract }, &[x.atom, y.atom], &shape, bound);
        }
    }

    /// Indices `[n, 1]` that are mostly in range.
    fn indices(&mut self, back: u8) -> (Atom, usize) {
        let m = self.pick(Dtype::I64, back);
        let n = m.ty.shape.elements();
        (self.b.emit1(Reshape { shape: [n, 1].into() }, &[m.atom]), n)
    }

    fn bounds(&mut self) -> Bounds {
        [Bounds::Clip, Bounds::Drop][self.rng.index(2)]
    }

    fn gather(&mut self, i: u8, j: u8) {
        let x = self.any(i);
        let Some(axis) = self.filled_axis(&x) else { return };
        let (indices, n) = self.indices(j);
        let rest = x.ty.shape.without(&[axis]);
        let shape = rest.with_leading(n);
        if shape.elements() <= MOST {
            let op = Gather { batch: 0, axes: vec![axis], bounds: self.bounds() };
            self.moved(op, &x, &[x.atom, indices], &shape);
        }
    }

    fn scatter(&mut self, x: &Value, i: u8, j: u8) {
        let Some(axis) = self.filled_axis(x) else { return };
        let (indices, n) = self.indices(j);
        let updates = x.ty.shape.without(&[axis]).with_leading(n);
        if updates.elements() > MOST {
            return;
        }
        let u = self.pick(Dtype::F64, i.wrapping_add(j));
        let u = self.matching(&u, &updates);
        let (combine, bound) = match self.rng.index(5) {
            0 => (Combine::Set, x.bound.max(u.bound)),
            1 => (Combine::Mul, x.bound * u.bound.max(1.0).powi(n as i32)),
            2 => (Combine::Max, x.bound.max(u.bound)),
            3 => (Combine::Min, x.bound.max(u.bound)),
            _ => (Combine::Add, x.bound + n as f64 * u.bound),
        };
        let op = Scatter { combine, batch: 0, axes: vec![axis], bounds: self.bounds() };
        self.float(op, &[x.atom, indices, u.atom], &x.ty.shape, bound);
    }

    fn dynamic(&mut self, i: u8, j: u8) {
        let x = self.any(i);
        let mut starts = Vec::new();
        for k in 0..x.ty.shape.len() {
            let at = self.pick(Dtype::I64, j.wrapping_add(k as u8));
            starts.push(self.scalar(&at).atom);
        }
        let sizes: Vec<usize> = x.ty.shape.iter().map(|n| n.min(&1) + self.rng.index(*n)).collect();
        let shape: Shape = sizes.clone().into();
        let mut operands = vec![x.atom];
        if self.rng.index(2) == 0 {
            operands.extend(starts);
            self.moved(DynamicSlice { sizes }, &x, &operands, &shape);
        } else {
            let u = self.pick(x.ty.dtype, j);
            let u = self.matching(&u, &shape);
            operands.push(u.atom);
            operands.extend(starts);
            let both = Value { bound: x.bound.max(u.bound), ..x.clone() };
            self.moved(DynamicUpdateSlice, &both, &operands, &x.ty.shape);
        }
    }

    fn call(&mut self, i: u8, j: u8) {
        let Some(function) = self.callee else { return };
        let x = self.pick(Dtype::F64, i);
        let x = self.matching(&x, &[3].into());
        let x = self.within(&x, 8.0);
        let y = self.pick(Dtype::F64, j);
        let y = self.scalar(&y);
        let y = self.within(&y, 8.0);
        let n = self.pick(Dtype::I64, j);
        let n = self.scalar(&n);
        let op: Op = match self.rng.index(4) {
            0 => CustomCall { function, jvp: None, fwd: None, bwd: None }.into(),
            1 => Call { function, outline: false }.into(),
            _ => Call { function, outline: true }.into(),
        };
        for atom in self.b.emit(op, &[x.atom, y.atom, n.atom]) {
            let Some(ty) = self.b.type_of(atom).as_array().cloned() else { continue };
            self.values.push(Value { atom, ty, bound: BOUND, read: false });
        }
    }
}
