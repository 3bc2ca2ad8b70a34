//! Random programs that write to arrays (`Ref`s), as a whole and through views, in loops and branches.
//!
//! A program is a list of statements on a few arrays. A program is evaluated in three ways, whose results must agree:
//! [`mutated`] traces it with `Ref`s; [`pure`] traces it on immutable arrays alone, with loops unrolled and each access
//! as indices into the flattened array; and [`model`] runs it on vectors of numbers without tracing. Tests check that
//! the three results agree.

use crate::Rng;
use tapeloom::ops::Index;
use tapeloom::prelude::*;

/// A statement of a random program.
#[derive(Clone, Debug)]
pub enum Statement {
    /// Combines a part of an array with a value, and writes the result to that part.
    Write(Combine, Place, Value),
    /// A loop of this kind, trip count and body. Positions in the body may depend on the iteration number.
    Iterations(Kind, usize, Vec<Statement>),
    /// Runs the first or the second list of statements, by the sign of one element of an array.
    Branch(Place, Vec<Statement>, Vec<Statement>),
    /// Adds a local array of four elements with this initial value, which only statements of this list see.
    Local(Value, Vec<Statement>),
}

/// The operation by which a write combines the old elements with the value.
#[derive(Clone, Copy, Debug)]
pub enum Combine {
    /// `Ref::set`: the value replaces the old elements.
    Set,
    /// `Ref::swap`: as `set`; the old elements that it returns are added to the first element of the first array.
    Swap,
    /// `Ref::add`: the sum of old elements and value.
    Add,
    /// `Ref::mul`: the product of old elements and value.
    Mul,
    /// `Ref::max`: the larger of old element and value.
    Max,
    /// `Ref::min`: the smaller of old element and value.
    Min,
    /// `Ref::update`: the sine of the sum of old elements and value.
    Update,
}

/// The form of a loop in a random program: the function of tapeloom that traces the loop.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `fori_loop` with a static trip count.
    Known,
    /// `fori_loop` with a trip count that is known only at run time.
    Runtime,
    /// `scan` over the iteration numbers.
    Scan,
    /// `scan_reverse` over the iteration numbers.
    Reverse,
    /// `map` over the iteration numbers.
    Map,
    /// `while_loop` with a counter in a `Ref`.
    While,
}

/// A part of an array: a view of an array, or a view of a view.
#[derive(Clone, Debug)]
pub struct Place {
    /// The index of the array in the program.
    pub array: usize,
    /// The views, each applied to the result of the one before.
    pub steps: Vec<Step>,
}

/// A view of an array or of another view, by a method of `Ref`.
#[derive(Clone, Debug)]
pub enum Step {
    /// `at_axis`: the axis and the index.
    At(usize, Position),
    /// `slice_axis`: the axis, the start and the end.
    Slice(usize, usize, usize),
    /// `dynamic_slice`: for each axis the start and the extent.
    Window(Vec<(Position, usize)>),
}

/// An index into an axis.
#[derive(Clone, Copy, Debug)]
pub enum Position {
    /// An index known while tracing.
    Static(i64),
    /// `a + b i`, where i is the iteration number of an enclosing loop: 0 for the innermost loop, 1 for the next, and
    /// so on.
    Iteration(i64, i64, usize),
}

/// The value of a write, `scale` and `shift` in `sin(scale x) + shift`. The number or array x is read from `from`: a
/// single element, or a view of the shape that is written.
#[derive(Clone, Debug)]
pub struct Value {
    from: Place,
    scale: f64,
    shift: f64,
}

/// The shapes of the arrays that every program has.
const SHAPES: [&[usize]; 3] = [&[4], &[3, 4], &[]];
/// The shape of a local array.
const LOCAL: &[usize] = &[4];

// -- Programs ---------------------------------------------------------------------------------------

struct Draw {
    rng: Rng,
    shapes: Vec<Vec<usize>>,
    loops: usize,
}

/// Returns the random program of a seed.
pub fn draw(seed: u64) -> Vec<Statement> {
    let shapes = SHAPES.iter().map(|s| s.to_vec()).collect();
    let mut draw = Draw { rng: Rng::new(seed), shapes, loops: 0 };
    draw.list(3, 5)
}

impl Draw {
    fn list(&mut self, depth: usize, most: usize) -> Vec<Statement> {
        (0..=self.rng.index(most)).map(|_| self.statement(depth)).collect()
    }

    fn statement(&mut self, depth: usize) -> Statement {
        const WRITES: [Combine; 7] = [
            Combine::Set,
            Combine::Swap,
            Combine::Add,
            Combine::Mul,
            Combine::Max,
            Combine::Min,
            Combine::Update,
        ];
        const KINDS: [Kind; 6] =
            [Kind::Known, Kind::Scan, Kind::Reverse, Kind::Map, Kind::Runtime, Kind::While];
        match self.rng.index(if depth == 0 { 4 } else { 8 }) {
            4 | 5 => {
                let kind = KINDS[self.rng.index(KINDS.len())];
                let n = self.rng.index(4);
                self.loops += 1;
                let body = self.list(depth - 1, 3);
                self.loops -= 1;
                Statement::Iterations(kind, n, body)
            }
            6 => {
                let which = self.element();
                let [yes, no] = [(); 2].map(|()| self.list(depth - 1, 2));
                Statement::Branch(which, yes, no)
            }
            7 => {
                let value = self.value();
                self.shapes.push(LOCAL.to_vec());
                let body = self.list(depth - 1, 3);
                self.shapes.pop();
                Statement::Local(value, body)
            }
            _ => {
                let to = self.place();
                let value = match self.rng.index(2) {
                    0 => self.value(),
                    _ => self.alike(&to),
                };
                Statement::Write(WRITES[self.rng.index(WRITES.len())], to, value)
            }
        }
    }

    fn position(&mut self, extent: usize) -> Position {
        let n = extent as i64;
        match self.rng.index(if self.loops > 0 { 4 } else { 1 }) {
            0 => Position::Static(self.rng.index(2 * extent) as i64 - n),
            _ => {
                let [a, b] = [-n - 1, -1].map(|low| low + self.rng.index(2 * extent + 2) as i64);
                Position::Iteration(a, b.min(2), self.rng.index(self.loops))
            }
        }
    }

    /// Draws a view of an array of this shape; returns the view and the view's shape.
    fn step(&mut self, shape: &[usize]) -> (Step, Vec<usize>) {
        let axis = self.rng.index(shape.len());
        let mut left = shape.to_vec();
        match self.rng.index(4) {
            0 => {
                let start = self.rng.index(shape[axis]);
                let limit = start + 1 + self.rng.index(shape[axis] - start);
                left[axis] = limit - start;
                (Step::Slice(axis, start, limit), left)
            }
            1 => {
                let window = shape.iter().zip(&mut left).map(|(n, left)| {
                    *left = 1 + self.rng.index(*n);
                    (self.position(*n), *left)
                });
                (Step::Window(window.collect()), left)
            }
            _ => {
                left.remove(axis);
                (Step::At(axis, self.position(shape[axis])), left)
            }
        }
    }

    fn place(&mut self) -> Place {
        let array = self.rng.index(self.shapes.len());
        let mut shape = self.shapes[array].clone();
        let mut steps = Vec::new();
        for _ in 0..self.rng.index(4) {
            if !shape.is_empty() {
                let (step, left) = self.step(&shape);
                steps.push(step);
                shape = left;
            }
        }
        Place { array, steps }
    }

    /// Draws a place (a view of an array) that is a single element.
    fn element(&mut self) -> Place {
        let mut place = self.place();
        let mut shape = self.shapes[place.array].clone();
        for step in &place.steps {
            shape = seen(step, &shape);
        }
        while !shape.is_empty() {
            let position = self.position(shape[0]);
            place.steps.push(Step::At(0, position));
            shape.remove(0);
        }
        place
    }

    fn value(&mut self) -> Value {
        let from = self.element();
        self.scaled(from)
    }

    /// Draws a value of the shape of the place `to`, read from the array of `to` at other positions.
    fn alike(&mut self, to: &Place) -> Value {
        let mut shape = self.shapes[to.array].clone();
        let mut steps = Vec::new();
        for step in &to.steps {
            steps.push(match step {
                Step::At(axis, _) => Step::At(*axis, self.position(shape[*axis])),
                Step::Slice(axis, start, limit) => {
                    let start = self.rng.index(shape[*axis] - (limit - start) + 1);
                    let extent = seen(step, &shape)[*axis];
                    Step::Slice(*axis, start, start + extent)
                }
                Step::Window(window) => {
                    let each = window.iter().zip(&shape);
                    Step::Window(each.map(|((_, size), n)| (self.position(*n), *size)).collect())
                }
            });
            shape = seen(step, &shape);
        }
        self.scaled(Place { array: to.array, steps })
    }

    fn scaled(&mut self, from: Place) -> Value {
        Value { from, scale: self.rng.range(-1.5, 1.5), shift: self.rng.range(-0.5, 0.5) }
    }
}

/// Returns the shape of a view of an array of this shape.
fn seen(step: &Step, shape: &[usize]) -> Vec<usize> {
    let mut left = shape.to_vec();
    match step {
        Step::At(axis, _) => drop(left.remove(*axis)),
        Step::Slice(axis, start, limit) => left[*axis] = limit - start,
        Step::Window(window) => left = window.iter().map(|(_, size)| *size).collect(),
    }
    left
}

// -- Views of arrays as lists of element positions -----------------------------------------------------

/// Returns the positions in the flattened array of a place's elements, the shape of the place, and whether a write to
/// the place is dropped, which happens if an index is out of bounds. `iterations` holds the current iteration numbers,
/// outermost loop first.
fn elements(place: &Place, shape: &[usize], iterations: &[i64]) -> (Vec<usize>, Vec<usize>, bool) {
    let mut shape = shape.to_vec();
    let mut all: Vec<usize> = (0..shape.iter().product()).collect();
    let mut dropped = false;
    for step in &place.steps {
        let mut ranges: Vec<(usize, usize)> = shape.iter().map(|n| (0, *n)).collect();
        match step {
            Step::At(axis, position) => {
                let n = shape[*axis] as i64;
                let i = number(*position, iterations);
                let i = if i < 0 { i + n } else { i };
                dropped |= !(0..n).contains(&i);
                ranges[*axis] = (i.clamp(0, n - 1) as usize, 1);
            }
            Step::Slice(axis, start, limit) => ranges[*axis] = (*start, limit - start),
            Step::Window(window) => {
                for ((range, (position, size)), n) in ranges.iter_mut().zip(window).zip(&shape) {
                    let i = number(*position, iterations);
                    let i = if i < 0 { i + *n as i64 } else { i };
                    *range = (i.clamp(0, (n - size) as i64) as usize, *size);
                }
            }
        }
        let kept = all.iter().enumerate().filter(|(flat, _)| {
            let mut flat = *flat;
            let mut inside = shape.iter().zip(&ranges).rev().map(|(n, (start, size))| {
                let i = flat % n;
                flat /= n;
                (*start..start + size).contains(&i)
            });
            inside.all(|one| one)
        });
        all = kept.map(|(_, element)| *element).collect();
        shape = seen(step, &shape);
    }
    (all, shape, dropped)
}

fn number(position: Position, iterations: &[i64]) -> i64 {
    match position {
        Position::Static(i) => i,
        Position::Iteration(a, b, out) => a + b * iterations[iterations.len() - 1 - out],
    }
}

/// Returns the iteration numbers of a loop with `n` iterations, in the order of execution.
fn order(kind: Kind, n: usize) -> Vec<i64> {
    let up = 0..n as i64;
    match kind {
        Kind::Reverse => up.rev().collect(),
        Kind::Known | Kind::Runtime | Kind::Scan | Kind::Map | Kind::While => up.collect(),
    }
}

// -- First evaluation of a program: traced with `Ref`s -------------------------------------------------

struct Traced {
    refs: Vec<Ref>,
    iterations: Vec<Var>,
    /// The number 1 as a run-time value, for trip counts and indices that no pass can fold.
    one: Var,
}

/// Traces the program with `Ref`s, on arrays whose initial values are functions of `x: f64[4]`. Returns a weighted sum
/// over the arrays' final elements.
pub fn mutated(program: &[Statement], x: Var) -> Var {
    // The number 1, computed from x so that no pass can fold it to a constant.
    let one = (x.sum() * 0.0).convert(Dtype::I64) + 1;
    let refs = begin(x).into_iter().map(Ref::new).collect();
    let traced = Traced { refs, iterations: Vec::new(), one };
    traced.list(program);
    end(traced.refs.iter().map(|r| r.get()))
}

fn begin(x: Var) -> Vec<Var> {
    vec![x, stack(&[x.sin(), x * 0.5, x.cos()], 0), x.sum() * 0.25]
}

fn end(arrays: impl Iterator<Item = Var>) -> Var {
    let weighted = |(i, x): (usize, Var)| {
        let n = x.size();
        let weights = (arange(n, Dtype::F64) * 0.7 + (i as f64)).cos();
        (x.reshape([n]) * weights).sum()
    };
    arrays.enumerate().map(weighted).reduce(|x, y| x + y).unwrap_or_else(|| zeros([], Dtype::F64))
}

/// An index that is known while tracing, or a run-time value.
#[derive(Clone, Copy)]
enum Either {
    Static(i64),
    Dynamic(Var),
}

impl Traced {
    fn list(&self, list: &[Statement]) {
        list.iter().for_each(|s| self.statement(s));
    }

    fn within(&self, refs: Vec<Ref>, iterations: Vec<Var>) -> Traced {
        Traced { refs, iterations, one: self.one }
    }

    fn statement(&self, statement: &Statement) {
        match statement {
            Statement::Write(combine, to, value) => {
                let (to, value) = (self.place(to), self.value(value));
                match combine {
                    Combine::Set => to.set(value),
                    Combine::Swap => {
                        let before = to.swap(value);
                        self.refs[0].at(0).add(before.sum() * 0.1);
                    }
                    Combine::Add => to.add(value),
                    Combine::Mul => to.mul(value),
                    Combine::Max => to.max(value),
                    Combine::Min => to.min(value),
                    Combine::Update => to.update(|x| (x + value).sin()),
                }
            }
            Statement::Iterations(kind, n, body) => self.iterations(*kind, *n, body),
            Statement::Branch(which, yes, no) => {
                let which = self.place(which).get().gt(0.0);
                cond(which, |()| self.list(yes), |()| self.list(no), ());
            }
            Statement::Local(value, body) => {
                let local = Ref::new(self.value(value).broadcast_to(LOCAL));
                let refs = self.refs.iter().copied().chain([local]).collect();
                self.within(refs, self.iterations.clone()).list(body);
                self.refs[0].at(1).add(local.get().sum() * 0.1);
            }
        }
    }

    fn iterations(&self, kind: Kind, n: usize, body: &[Statement]) {
        let iteration = |i: Var| {
            let iterations = self.iterations.iter().copied().chain([i]).collect();
            self.within(self.refs.clone(), iterations).list(body);
        };
        let counted = |(i, ()): (Var, ())| iteration(i);
        let over = |((), i): ((), Var)| {
            iteration(i);
            ((), i)
        };
        let numbers = || arange(n, Dtype::I64);
        match kind {
            Kind::Known => fori_loop(n, counted, ()),
            Kind::Runtime => fori_loop(self.one * n as i64, counted, ()),
            Kind::Scan => drop(scan(over, (), numbers())),
            Kind::Reverse => drop(scan_reverse(over, (), numbers())),
            Kind::Map => map(iteration, numbers()),
            Kind::While => {
                let i = Ref::new(0);
                let turn = |()| {
                    iteration(i.get());
                    i.add(1);
                };
                while_loop(|()| i.get().lt(n as i64), turn, ());
            }
        }
    }

    fn position(&self, position: Position) -> Either {
        match position {
            Position::Static(i) => Either::Static(i),
            Position::Iteration(a, b, out) => {
                Either::Dynamic(self.iterations[self.iterations.len() - 1 - out] * b + a)
            }
        }
    }

    fn place(&self, place: &Place) -> Ref {
        place.steps.iter().fold(self.refs[place.array], |r, step| match step {
            Step::At(axis, position) => match (self.position(*position), axis) {
                (Either::Static(i), 0) => r.at(i),
                (Either::Dynamic(i), 0) => r.at(i),
                (Either::Static(i), _) => r.at_axis(*axis, i),
                (Either::Dynamic(i), _) => r.at_axis(*axis, i),
            },
            Step::Slice(axis, start, limit) => r.slice_axis(*axis, *start..*limit),
            Step::Window(window) => {
                let starts = window.iter().map(|(position, _)| match self.position(*position) {
                    Either::Static(i) => constant(i),
                    Either::Dynamic(i) => i,
                });
                let sizes: Vec<usize> = window.iter().map(|(_, size)| *size).collect();
                windowed(r, &starts.collect::<Vec<Var>>(), sizes)
            }
        })
    }

    fn value(&self, value: &Value) -> Var {
        (self.place(&value.from).get() * value.scale).sin() + value.shift
    }
}

fn windowed<I: Index>(r: Ref, starts: &[I], sizes: Vec<usize>) -> Ref {
    r.dynamic_slice(starts, sizes)
}

// -- Second evaluation of a program: traced with immutable arrays ---------------------------------------

/// Traces the same function as [`mutated`] on immutable arrays, with loops unrolled.
pub fn pure(program: &[Statement], x: Var) -> Var {
    let shapes = SHAPES.iter().map(|s| s.to_vec()).collect();
    end(Pure { shapes, iterations: Vec::new() }.list(program, begin(x)).into_iter())
}

struct Pure {
    shapes: Vec<Vec<usize>>,
    iterations: Vec<i64>,
}

impl Pure {
    fn list(&self, list: &[Statement], arrays: Vec<Var>) -> Vec<Var> {
        list.iter().fold(arrays, |arrays, s| self.statement(s, arrays))
    }

    fn statement(&self, statement: &Statement, mut arrays: Vec<Var>) -> Vec<Var> {
        match statement {
            Statement::Write(combine, to, value) => {
                let value = self.value(value, &arrays);
                let before = self.read(to, &arrays);
                let new = match combine {
                    Combine::Set | Combine::Swap => value + before * 0.0,
                    Combine::Add => before + value,
                    Combine::Mul => before * value,
                    Combine::Max => before.maximum(value),
                    Combine::Min => before.minimum(value),
                    Combine::Update => (before + value).sin(),
                };
                let (at, _, dropped) = elements(to, &self.shapes[to.array], &self.iterations);
                if !dropped {
                    arrays[to.array] = put(arrays[to.array], &at, new);
                }
                if let Combine::Swap = combine {
                    arrays[0] = put(arrays[0], &[0], arrays[0].index(0) + before.sum() * 0.1);
                }
                arrays
            }
            Statement::Iterations(kind, n, body) => {
                order(*kind, *n).into_iter().fold(arrays, |arrays, i| {
                    let iterations = self.iterations.iter().copied().chain([i]).collect();
                    Pure { shapes: self.shapes.clone(), iterations }.list(body, arrays)
                })
            }
            Statement::Branch(which, yes, no) => {
                let which = self.read(which, &arrays).gt(0.0);
                cond(which, |a: Vec<Var>| self.list(yes, a), |a: Vec<Var>| self.list(no, a), arrays)
            }
            Statement::Local(value, body) => {
                arrays.push(self.value(value, &arrays).broadcast_to(LOCAL));
                let shapes = self.shapes.iter().cloned().chain([LOCAL.to_vec()]).collect();
                arrays = Pure { shapes, iterations: self.iterations.clone() }.list(body, arrays);
                let local = arrays.pop().unwrap_or_else(|| zeros([], Dtype::F64));
                arrays[0] = put(arrays[0], &[1], arrays[0].index(1) + local.sum() * 0.1);
                arrays
            }
        }
    }

    fn read(&self, place: &Place, arrays: &[Var]) -> Var {
        let (at, shape, _) = elements(place, &self.shapes[place.array], &self.iterations);
        let x = arrays[place.array];
        x.reshape([x.size()]).index(indices(&at)).reshape(shape)
    }

    fn value(&self, value: &Value, arrays: &[Var]) -> Var {
        (self.read(&value.from, arrays) * value.scale).sin() + value.shift
    }
}

fn indices(at: &[usize]) -> Var {
    constant(at.iter().map(|i| *i as i64).collect::<Tensor>())
}

fn put(x: Var, at: &[usize], value: Var) -> Var {
    let value = value.reshape([value.size()]).broadcast_to([at.len()]);
    x.reshape([x.size()]).at(indices(at)).set(value).reshape(x.shape())
}

// -- Third evaluation of a program: computed on numbers in Rust -----------------------------------------

/// Runs the program on vectors of numbers in Rust, and returns the arrays' final elements.
pub fn model(program: &[Statement], arrays: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let shapes = SHAPES.iter().map(|s| s.to_vec()).collect();
    let mut model = Model { shapes, arrays, iterations: Vec::new() };
    model.list(program);
    model.arrays
}

struct Model {
    shapes: Vec<Vec<usize>>,
    arrays: Vec<Vec<f64>>,
    iterations: Vec<i64>,
}

impl Model {
    fn list(&mut self, list: &[Statement]) {
        list.iter().for_each(|s| self.statement(s));
    }

    fn statement(&mut self, statement: &Statement) {
        match statement {
            Statement::Write(combine, to, value) => {
                let value = self.value(value);
                let (at, _, dropped) = elements(to, &self.shapes[to.array], &self.iterations);
                let before = self.read(to);
                for (k, i) in at.into_iter().enumerate().filter(|_| !dropped) {
                    let (old, v) = (before[k], value[k % value.len()]);
                    self.arrays[to.array][i] = match combine {
                        Combine::Set | Combine::Swap => v,
                        Combine::Add => old + v,
                        Combine::Mul => old * v,
                        Combine::Max => old.max(v),
                        Combine::Min => old.min(v),
                        Combine::Update => (old + v).sin(),
                    };
                }
                if let Combine::Swap = combine {
                    self.arrays[0][0] += before.iter().sum::<f64>() * 0.1;
                }
            }
            Statement::Iterations(kind, n, body) => {
                for i in order(*kind, *n) {
                    self.iterations.push(i);
                    self.list(body);
                    self.iterations.pop();
                }
            }
            Statement::Branch(which, yes, no) => {
                self.list(if self.read(which)[0] > 0.0 { yes } else { no });
            }
            Statement::Local(value, body) => {
                let value = self.value(value);
                self.arrays.push((0..4).map(|k| value[k % value.len()]).collect());
                self.shapes.push(LOCAL.to_vec());
                self.list(body);
                self.shapes.pop();
                let local = self.arrays.pop().unwrap_or_default();
                self.arrays[0][1] += local.iter().sum::<f64>() * 0.1;
            }
        }
    }

    fn read(&self, place: &Place) -> Vec<f64> {
        let (at, ..) = elements(place, &self.shapes[place.array], &self.iterations);
        at.iter().map(|i| self.arrays[place.array][*i]).collect()
    }

    fn value(&self, value: &Value) -> Vec<f64> {
        let from = self.read(&value.from);
        from.iter().map(|x| (x * value.scale).sin() + value.shift).collect()
    }
}
