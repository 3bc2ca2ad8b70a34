//! Finds random keys that are used twice.
//!
//! `random_bits` maps a key and a counter to bits, and equal pairs to equal bits: two samples from one key are
//! the same sample. [`check_keys`] follows a program and finds pairs that two draws share:
//!
//! ```
//! use tapeloom_ir::{Kind, check_keys, parse_module};
//! // Draws in a loop, with a key that no iteration changes.
//! let module = parse_module("func @iteration(%0: u64[], %1: u64[]) -> (u64[]) {
//!   %2: u64[] = barrier{draw=[0], id=0} %0
//!   %3: u64[1] = iota{shape=[1], axis=0, dtype=u64}
//!   %4: u64[] = reshape{shape=[]} %3
//!   %5: u64[] = random_bits %2, %4
//!   %6: u64[] = add %1, %5
//!   return %6
//! }
//! func @f(%0: u64[]) -> (u64[]) {
//!   %1: u64[] = loop{body=@iteration, trip=3, direction=up, takes=[const,carry0]} %0, 0u64
//!   return %1
//! }").map_err(|e| e[0].clone())?;
//! let f = module.iter().last().map(|(id, _)| id).ok_or("no function")?;
//! assert_eq!(check_keys(&module, f).unwrap_err().kind, Kind::KeyReuse);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Keys are numbered as in value numbering, so the same element read twice is one key. The body of a call is followed
//! with the call's keys. Two iterations of a loop are followed, the second one with the carries of the first. Only one
//! branch of a `cond` runs, so draws in different branches do not conflict.
//!
//! Derivatives and recomputation repeat draws, as they should. So a draw by the user marks its key with a
//! unique number, which every copy of the draw shares: the same draw counts twice only in two iterations of one
//! loop. Keys without such a mark are ignored. Deriving a key twice in the same way (by a split, or with a
//! number) yields the same key, so reuse of the derived key is found.
//!
//! ```text
//! draw=[7]          the draw 7
//! split=[8]         the derivation 8
//! draw=[9,4,0]      the draw 9, in branch 0 of the `cond` 4: no conflict with draws in other branches of it
//! ```

use crate::lang::function::{Atom, Equation, FuncId, Function, ValueId};
use crate::lang::literal::Literal;
use crate::lang::module::Module;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::source_loc::Loc;
use crate::lang::stack::deeper;
use crate::lang::types::{ArrayType, Type};
use crate::map::OrderedMap;
use crate::prim::{
    AxisMap, Binding, Code, Direction, LoopSpec, Lowering, Mark, Op, Operand, Piece, TripCount,
};
use cranelift_entity::SecondaryMap;
use std::rc::Rc;

/// Checks whether a program uses a random key twice for the same bits.
///
/// # Errors
/// [`Kind::KeyReuse`] with the source lines of both uses.
pub fn check_keys(module: &Module, function: FuncId) -> Result<()> {
    let mut keys = Keys { module, known: OrderedMap::default(), defs: Vec::new(), loops: 0 };
    let params = module.function(function).all_params().count();
    let args: Vec<Number> = (0..params).map(|i| keys.number(Def::Given(i))).collect();
    let mut uses = Uses::default();
    let path: Path = Rc::new([]);
    keys.run(function, &args, &path, &mut uses)?;
    Ok(())
}

/// A value number (in the sense of value numbering): values known to be equal have the same number.
type Number = usize;

/// The definition by which values are numbered: values with equal definitions are equal.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Def {
    /// An argument of the program, by its index.
    Given(usize),
    Literal(Literal),
    /// A result of an equation: the primitive, the numbers of its operands, and the index of the result.
    Result(Op, Vec<Number>, usize),
    /// Random bits drawn from a key with a counter, in an array of this type.
    Bits(Number, Counter, ArrayType),
    /// The iteration number in iteration 0 or 1 of a loop. Loops of the same direction have equal iteration numbers.
    Index(Direction, u8),
    /// The row of an array that iteration 0 or 1 of a loop takes as its element: the value number of the array, and
    /// the iteration.
    Element(Number, u8),
    /// A value of unknown definition, which equals no other value; the index is unique.
    Unknown(usize),
}

/// A numbered value: its definition, and the values that it copies or from which it takes elements.
struct NumberedValue {
    def: Def,
    /// The value that this value copies. A copy contains every element of the copied value, at least once.
    same: Option<Number>,
    /// The value from which this value takes only some of the elements.
    part: Option<Number>,
    /// The mark (a unique number) of a draw or a split on this value, if any.
    mark: Option<Mark>,
    /// The number of elements, if the value is an array that counts up from 0.
    counts: Option<usize>,
}

struct Keys<'m> {
    module: &'m Module,
    known: OrderedMap<Def, Number>,
    defs: Vec<NumberedValue>,
    /// The number of loops visited so far; it identifies the next loop.
    loops: usize,
}

/// The path to an equation: the enclosing loops, outermost first, each with the index of the iteration followed.
type Path = Rc<[(usize, u8)]>;

/// A use of a random key: a draw of bits, or the derivation of new keys.
#[derive(Clone)]
struct Use {
    mark: Mark,
    counter: Counter,
    path: Path,
    line: Loc,
    /// Whether the key is an array of keys whose rows a loop uses one after the other.
    each: bool,
}

impl Use {
    /// Returns whether the use derives new keys (a split) and draws no numbers.
    fn derives(&self) -> bool {
        matches!(self.mark, Mark::Split(_))
    }

    /// Returns whether this use of a key and the use `other` of the same key draw the same numbers where they
    /// should not.
    fn collides(&self, other: &Use) -> bool {
        let iterations = in_two_iterations(&self.path, &other.path);
        let excludes = || Some(self.mark.key_use()?.excludes(other.mark.key_use()?));
        let repeats = self.mark == other.mark || excludes() == Some(true);
        let same_key = self.derives() && other.derives() && self.counter == other.counter;
        self.counter.collides(other.counter) && !same_key && (iterations || !repeats)
    }
}

/// The set of counters with which a use draws bits from a key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Counter {
    /// The draw uses the counters from 0 on that are below this number.
    First(usize),
    /// The draw uses one counter, which is known at compile time.
    Literal(u64),
    /// The draw uses one counter, the value with this value number.
    Value(Number),
    /// One counter that is the iteration number of a loop; in one iteration it is 0.
    Iteration(Number),
}

impl Counter {
    /// Returns whether the two sets are known to have a counter in common.
    fn collides(self, other: Counter) -> bool {
        match (self, other) {
            (Counter::First(n), Counter::First(m)) => n > 0 && m > 0,
            (Counter::First(n), Counter::Literal(k)) | (Counter::Literal(k), Counter::First(n)) => {
                k < n as u64
            }
            (Counter::First(n), Counter::Iteration(_))
            | (Counter::Iteration(_), Counter::First(n)) => n > 0,
            // Whether the sets have a counter in common is unknown; assume that they have none, so that the lint
            // gives no false alarm.
            (Counter::First(_), Counter::Value(_)) | (Counter::Value(_), Counter::First(_)) => {
                false
            }
            (Counter::Literal(_) | Counter::Value(_) | Counter::Iteration(_), _) => self == other,
        }
    }
}

/// All uses of keys so far, by key, and by whether the use is of all keys of an array or of some.
type Uses = OrderedMap<(Number, Extent), Vec<Use>>;

/// The keys of an array that a use draws from: all of them, or only some.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Extent {
    All,
    Some,
}

impl Keys<'_> {
    fn number(&mut self, def: Def) -> Number {
        let next = self.defs.len();
        let number = *self.known.entry(def.clone()).or_insert(next);
        if number == next {
            let part = if let Def::Element(n, _) = def { Some(n) } else { None };
            self.defs.push(NumberedValue { def, same: None, part, mark: None, counts: None });
        }
        number
    }

    fn unknown(&mut self) -> Number {
        self.number(Def::Unknown(self.defs.len()))
    }

    fn run(
        &mut self,
        function: FuncId,
        args: &[Number],
        path: &Path,
        uses: &mut Uses,
    ) -> Result<Vec<Number>> {
        let f = self.module.function(function);
        let mut values: SecondaryMap<ValueId, Number> = SecondaryMap::new();
        for (p, n) in f.all_params().zip(args) {
            values[p] = *n;
        }
        for (i, e) in f.equations.iter().enumerate() {
            let operands: Vec<Number> = e.operands.iter().map(|a| self.read(&values, *a)).collect();
            let types: Vec<Type> = e.operands.iter().map(|a| f.type_of(*a)).collect();
            let given = |(a, ty): (&Atom, _)| Operand { ty, literal: a.literal() };
            let given: Vec<Operand<'_>> = e.operands.iter().zip(&types).map(given).collect();
            let results = match e.op.lower(self.module, &given) {
                Lowering::Call(callee) => deeper(|| self.run(callee, &operands, path, uses))?,
                Lowering::Branch { branches } => {
                    self.branches(&branches, &operands[1..], path, uses)?;
                    e.outputs.iter().map(|_| self.unknown()).collect()
                }
                Lowering::Loop { body, spec } => {
                    let mut results = self.iterations(body, &spec, &operands, path, uses)?;
                    results.resize_with(e.outputs.len(), || self.unknown());
                    results
                }
                lowering => {
                    if let (Lowering::Elementwise(Code::RandomBits), [y], [key, counter]) =
                        (&lowering, &e.outputs[..], &operands[..])
                    {
                        let ty = f.types[*y].as_array().cloned();
                        vec![self.bits(*key, *counter, ty, (path, f.location(i)), uses)?]
                    } else {
                        let results = 0..e.outputs.len();
                        results.map(|k| self.made(e, k, &lowering, &operands, f)).collect()
                    }
                }
            };
            for (v, n) in e.outputs.iter().zip(results) {
                values[*v] = n;
            }
        }
        Ok(f.results.iter().map(|a| self.read(&values, *a)).collect())
    }

    fn read(&mut self, values: &SecondaryMap<ValueId, Number>, a: Atom) -> Number {
        match a {
            Atom::Value(v) => values[v],
            Atom::Literal(l) => self.number(Def::Literal(l)),
        }
    }

    /// Returns the value number of result `k` of an equation that runs no function.
    fn made(
        &mut self,
        e: &Equation,
        k: usize,
        lowering: &Lowering,
        operands: &[Number],
        f: &Function,
    ) -> Number {
        let n = self.number(Def::Result(e.op.clone(), operands.to_vec(), k));
        let array = |a: Atom| f.type_of(a).as_array().cloned();
        let (made, ty) = (&mut self.defs[n], f.types[e.outputs[k]].as_array());
        match lowering {
            Lowering::Alias { mark, .. } => {
                made.same = operands.first().copied();
                made.mark = mark.clone().filter(|mark| mark.key_use().is_some());
            }
            Lowering::Reshape | Lowering::Elementwise(Code::Convert(_)) => {
                made.same = operands.first().copied();
            }
            Lowering::View { pieces, fill: None } => {
                // Returns whether the view contains all elements of its operand, each equally often.
                let whole = |p: &Piece| {
                    let (Some(from), Some(to)) = (array(e.operands[p.operand]), ty) else {
                        return false;
                    };
                    let axis = |(map, n): (&AxisMap, &usize)| match map.terms[..] {
                        [] => *n == 1,
                        [(axis, _), ..] => *map == AxisMap::same(axis) && to.shape[axis] == *n,
                    };
                    p.axes.iter().zip(from.shape.iter()).all(axis)
                };
                if let [piece] = &pieces[..] {
                    let from = Some(operands[piece.operand]);
                    if whole(piece) { made.same = from } else { made.part = from }
                }
            }
            Lowering::Iota { .. } => {
                made.counts = ty.map(|ty| ty.shape.elements());
            }
            Lowering::DynamicSlice | Lowering::Gather { .. } => {
                made.part = operands.first().copied();
            }
            Lowering::View { fill: Some(_), .. }
            | Lowering::Elementwise(_)
            | Lowering::Reduce { .. }
            | Lowering::ArgReduce { .. }
            | Lowering::Cumulate { .. }
            | Lowering::ArgSort { .. }
            | Lowering::Contract { .. }
            | Lowering::DynamicUpdateSlice
            | Lowering::Scatter { .. }
            | Lowering::Host(_)
            | Lowering::Routine(_)
            | Lowering::Call(_)
            | Lowering::Branch { .. }
            | Lowering::Loop { .. }
            | Lowering::Missing(_) => {}
        }
        n
    }

    /// Checks each branch of a `cond` separately. Draws in a branch may conflict with earlier draws, but not with draws
    /// in other branches.
    fn branches(
        &mut self,
        branches: &[FuncId],
        args: &[Number],
        path: &Path,
        uses: &mut Uses,
    ) -> Result<()> {
        let before = uses.clone();
        for branch in branches {
            let mut own = before.clone();
            deeper(|| self.run(*branch, args, path, &mut own))?;
            for (key, all) in own {
                let known = before.get(&key).map_or(0, Vec::len);
                uses.entry(key).or_default().extend_from_slice(&all[known..]);
            }
        }
        Ok(())
    }

    /// Analyses the first two iterations of a loop, or fewer if the loop has fewer. Returns the value numbers of its
    /// results.
    fn iterations(
        &mut self,
        body: FuncId,
        spec: &LoopSpec,
        operands: &[Number],
        path: &Path,
        uses: &mut Uses,
    ) -> Result<Vec<Number>> {
        let id = self.loops;
        self.loops += 1;
        let mut slots: Vec<Number> = vec![0; spec.takes.len()];
        for (p, n) in spec.params().zip(&operands[spec.lead()..]) {
            slots[p] = *n;
        }
        let start = slots.clone();
        let times = match spec.trip {
            // If `DEEP` or more loops enclose this one, follow one iteration only, since the work doubles with
            // each level.
            _ if path.len() >= DEEP => 1,
            TripCount::Static(n) => n.min(2) as u8,
            TripCount::Runtime | TripCount::While { .. } => 2,
        };
        let mut results = Vec::new();
        for iteration in 0..times {
            let inside: Path = path.iter().copied().chain([(id, iteration)]).collect();
            if let TripCount::While { condition, reads } = &spec.trip {
                let args: Vec<Number> = reads.iter().map(|p| slots[*p]).collect();
                deeper(|| self.run(*condition, &args, &inside, uses))?;
            }
            let mut args = Vec::with_capacity(slots.len());
            for (slot, n) in spec.takes.iter().zip(&slots) {
                args.push(match slot {
                    Binding::Index => self.number(Def::Index(spec.direction, iteration)),
                    Binding::Const | Binding::Carry(_) => *n,
                    Binding::Xs => self.number(Def::Element(*n, iteration)),
                });
            }
            results = deeper(|| self.run(body, &args, &inside, uses))?;
            for (p, slot) in spec.takes.iter().enumerate() {
                if let Binding::Carry(r) = slot {
                    slots[p] = results[*r];
                }
            }
        }
        // A carry that no iteration changes has its initial value after the loop, whatever the trip count.
        let after = (0..results.len()).map(|r| match spec.carrier(r) {
            Some(p) if slots[p] == start[p] => slots[p],
            Some(_) | None => self.unknown(),
        });
        Ok(after.collect())
    }

    /// Follows copies from the value `n` to the value that is no copy. Returns that value, and the first mark (of a draw or
    /// a split) on the way, beginning at `n`.
    fn origin(&self, n: Number) -> (Number, Option<Mark>) {
        let (mut n, mut mark) = (n, None);
        while let Some(from) = self.defs[n].same {
            mark = mark.or_else(|| self.defs[n].mark.clone());
            n = from;
        }
        (n, mark)
    }

    /// Records the use of a key that draws bits, and returns the value number of the bits.
    fn bits(
        &mut self,
        key: Number,
        counter: Number,
        ty: Option<ArrayType>,
        (path, line): (&Path, Loc),
        uses: &mut Uses,
    ) -> Result<Number> {
        let ((key, mark), (counter, _)) = (self.origin(key), self.origin(counter));
        let made = &self.defs[counter];
        let counter = match (made.counts, &made.def) {
            (Some(n), _) => Counter::First(n),
            (None, Def::Literal(x)) => Counter::Literal(x.bits),
            (None, Def::Index(..)) => Counter::Iteration(counter),
            (None, _) => Counter::Value(counter),
        };
        if let Some(mark) = mark {
            self.draw(key, Use { mark, counter, path: path.clone(), line, each: false }, uses)?;
        }
        Ok(match ty {
            Some(ty) => self.number(Def::Bits(key, counter, ty)),
            None => self.unknown(),
        })
    }

    /// Records a use of a key; returns an error if it conflicts with an earlier use.
    fn draw(&self, key: Number, of: Use, uses: &mut Uses) -> Result<()> {
        let find = |place, also: &dyn Fn(&Use) -> bool| {
            let all = uses.get(&place).into_iter().flatten();
            all.clone()
                .find(|other| of.collides(other) && also(other))
                .map(|other| reused(other, &of))
        };
        let mut known = find((key, Extent::All), &|_| true);
        known = known.or_else(|| find((key, Extent::Some), &|_| true));
        let mut around = Vec::new();
        let mut at = key;
        while let Some(whole) = self.defs[at].part {
            let each = matches!(self.defs[at].def, Def::Element(..));
            at = self.origin(whole).0;
            around.push((at, each));
            known = known.or_else(|| find((at, Extent::All), &|_| true));
            // Two selections from an array of keys count as different keys if both are read as rows of a loop, or both
            // by a slice or gather.
            known = known.or_else(|| find((at, Extent::Some), &|other| other.each != each));
        }
        if let Some(problem) = known {
            return Err(problem);
        }
        for (whole, each) in around {
            let part = Use { each, ..of.clone() };
            uses.entry((whole, Extent::Some)).or_default().push(part);
        }
        uses.entry((key, Extent::All)).or_default().push(of);
        Ok(())
    }
}

/// The number of enclosing loops from which on only one iteration of a loop is followed, instead of two.
const DEEP: usize = 6;

/// Returns whether the two paths lead through different iterations of the same loop.
fn in_two_iterations(one: &Path, other: &Path) -> bool {
    one.iter().any(|(id, iteration)| other.iter().any(|(of, at)| id == of && iteration != at))
}

fn reused(first: &Use, second: &Use) -> Problem {
    let place = |line: Loc| line.map_or("it".to_owned(), |l| format!("{}:{}", l.file(), l.line()));
    let (message, help) = if first.mark == second.mark {
        (
            "every iteration of a loop uses the same key and draws the same numbers".to_owned(),
            "fold the index of the iteration into the key, or split the key and carry one half, or \
             loop over an array of keys",
        )
    } else {
        let first = place(first.line);
        (
            format!("a key is used a second time: the same numbers were drawn before, at {first}"),
            "split the key, and use each part once",
        )
    };
    Problem::new(Kind::KeyReuse, message, help).at(second.line)
}
