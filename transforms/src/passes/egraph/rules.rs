//! Compiled rewrite rows: matching and building, shared by the peephole pass and the e-graph.
//!
//! The peephole pass and the e-graph both work on *terms*. A term has a type, may be a literal, and has definitions by
//! a primitive applied to terms. In a function a value has one definition; in an e-graph a class has many. [`Terms`] is
//! the interface to terms, and this file is written against it once, so that the two passes agree about the meaning of
//! a row.
//!
//! A pattern matches top down: `(add (neg ?x) 0)` at an `add` looks for a definition of one operand by `neg`,
//! in either order since `add` commutes, and binds `?x`. Rows are indexed by the primitive at the root, so a
//! walk over a program costs a constant per equation.

use smallvec::{SmallVec, smallvec};
use std::sync::OnceLock;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::{
    Attributes, Definition, Effects, Equality, Exactness, Operand, Rewrite, Sign, Site,
    SiteOperand, Term, When,
};
use tapeloom_ir::{Dtype, Literal, Module, Op, OrderedMap, Tensor, Type};

/// A set of terms that rules can match and build: the values of a function, or the classes of an e-graph.
pub(crate) trait Terms {
    /// The id of a term.
    type Id: Copy + Eq;

    /// Returns the type of the term; `None` for a bundle (a primitive with several outputs).
    fn ty(&self, id: Self::Id) -> Option<Type>;

    /// Returns the number that the term is, if the term is a literal.
    fn literal(&self, id: Self::Id) -> Option<Literal>;

    /// Returns the possible signs of the term's elements.
    fn sign(&self, id: Self::Id) -> Sign;

    /// Calls `visit` with each definition of the term by a primitive with one output, until `visit` returns true.
    fn definitions(&self, id: Self::Id, visit: &mut dyn FnMut(&Op, &[Self::Id]) -> bool);

    /// Returns the term of the literal `x`.
    fn constant(&mut self, x: Literal) -> Self::Id;

    /// Returns the term of a primitive applied to operands; `None` if their types do not fit the primitive.
    fn apply(&mut self, op: Op, operands: &[Self::Id]) -> Option<Self::Id>;
}

/// The term at which rules are matched: a primitive, its operands, and the type of its output.
#[derive(Clone, Copy)]
pub(crate) struct Root<'a, I> {
    pub(crate) op: &'a Op,
    pub(crate) operands: &'a [I],
    pub(crate) ty: &'a Type,
}

/// A match of a rule at a root term, with the values from which the right-hand side is built.
#[derive(Clone, Debug)]
pub(crate) struct Found<I> {
    /// The index of the rule in `Rules::all`.
    pub(crate) rule: usize,
    what: Matched<I>,
    /// The terms that the left-hand side matched between its root and its variables. Such a term stays in the program
    /// if other terms read it.
    pub(crate) inner: SmallVec<[I; 2]>,
}

#[derive(Clone, Debug)]
enum Matched<I> {
    /// For a pattern: the term bound to each variable, by the variable's number.
    Bindings(SmallVec<[I; 4]>),
    /// For a rule that yields a chain of unary primitives: the innermost term, and the primitives that are applied to
    /// it, in this order.
    Chain(I, Vec<Op>),
    /// For a site rule (a rewrite of an equation that may look at the equations of its operands): the term to build,
    /// over the root's operands (second field) and the operands of their definitions (third).
    Site(Term, SmallVec<[I; 2]>, Vec<SmallVec<[I; 2]>>),
}

impl<I> Found<I> {
    /// Returns the number of primitives that the right-hand side applies.
    pub(crate) fn size(&self, rules: &Rules) -> usize {
        match (&self.what, &rules.all[self.rule].form) {
            (Matched::Bindings(_), Form::Pattern { rhs, .. }) => rhs.size(),
            (Matched::Bindings(_), _) => 0,
            (Matched::Chain(_, ops), _) => ops.len(),
            (Matched::Site(term, ..), _) => term_size(term),
        }
    }
}

fn term_size(term: &Term) -> usize {
    match term {
        Term::Operand(_) | Term::Inner(..) | Term::Literal(_) => 0,
        Term::Apply(_, xs) => 1 + xs.iter().map(term_size).sum::<usize>(),
    }
}

/// A compiled row of a primitive's rewrite rules (`Op::rewrites`).
pub(crate) struct Rule {
    pub(crate) row: Rewrite,
    /// Whether the right-hand side has at most as many primitives as the left. Shrinking rules are applied to every
    /// match until none is left; other rules (factoring, expanding) only within bounds.
    pub(crate) shrinks: bool,
    form: Form,
}

/// The equality of a rewrite row, compiled for matching.
enum Form {
    Pattern { lhs: Pattern, rhs: Pattern, variables: usize },
    Compose(fn(&Op, &Op, &Type) -> Option<Vec<Op>>),
    Identity(fn(&Op, &Type) -> bool),
    Site { outer: fn(&Op) -> bool, inner: fn(&Op) -> bool, equal: fn(&Site<'_>) -> Option<Term> },
}

/// A pattern of a rule: a term with variables.
enum Pattern {
    /// A variable, by number, with the sign that the matched term must be known to have.
    Variable(usize, Sign),
    Number(f64),
    Apply(Op, Vec<Pattern>),
}

impl Pattern {
    fn size(&self) -> usize {
        match self {
            Pattern::Variable(..) | Pattern::Number(_) => 0,
            Pattern::Apply(_, xs) => 1 + xs.iter().map(Pattern::size).sum::<usize>(),
        }
    }
}

/// The rewrite rows of all primitives, compiled, with an index by the primitive at the root.
pub(crate) struct Rules {
    pub(crate) all: Vec<Rule>,
    by_root: OrderedMap<&'static str, Vec<usize>>,
    /// The indices of rules without a pattern: functions, which check the root's primitive themselves.
    general: Vec<usize>,
}

impl Rules {
    /// Returns the rules of all primitives; they are compiled at the first call.
    pub(crate) fn get() -> &'static Rules {
        static RULES: OnceLock<Rules> = OnceLock::new();
        RULES.get_or_init(|| Rules::compile(Op::rewrites()))
    }

    /// Compiles the rewrite rows of primitives into rules. Leaves out rows that are [`unusable`]; a test reports these.
    fn compile(rows: Vec<Rewrite>) -> Rules {
        let mut rules =
            Rules { all: Vec::new(), by_root: OrderedMap::default(), general: Vec::new() };
        for row in rows {
            let Some(form) = compile(&row) else { continue };
            let index = rules.all.len();
            match &form {
                Form::Pattern { lhs: Pattern::Apply(op, _), .. } => {
                    rules.by_root.entry(op.name()).or_default().push(index);
                }
                _ => rules.general.push(index),
            }
            let shrinks = match &form {
                Form::Pattern { lhs, rhs, .. } => rhs.size() <= lhs.size(),
                Form::Compose(_) | Form::Identity(_) | Form::Site { .. } => true,
            };
            rules.all.push(Rule { row, shrinks, form });
        }
        rules
    }

    /// Calls `visit` with every match at `root` of a rule that `which` accepts, until `visit` returns true; then
    /// returns true.
    pub(crate) fn search<T: Terms>(
        &self,
        terms: &T,
        root: Root<'_, T::Id>,
        which: impl Fn(&Rule) -> bool,
        visit: &mut dyn FnMut(Found<T::Id>) -> bool,
    ) -> bool {
        let indexed = self.by_root.get(root.op.name()).map_or(&[][..], Vec::as_slice);
        indexed.iter().chain(&self.general).any(|index| {
            let rule = &self.all[*index];
            which(rule) && rule.search(terms, root, *index, visit)
        })
    }

    /// Builds the right-hand side of a match at a root of type `ty`; returns `None` if the types of operands do not
    /// fit.
    pub(crate) fn build<T: Terms>(
        &self,
        terms: &mut T,
        found: &Found<T::Id>,
        ty: &Type,
    ) -> Option<T::Id> {
        let id = match (&found.what, &self.all[found.rule].form) {
            (Matched::Bindings(bindings), Form::Pattern { rhs, .. }) => {
                build_pattern(terms, rhs, bindings, ty.as_array()?.dtype)?
            }
            (Matched::Bindings(_), _) => return None,
            (Matched::Chain(x, ops), _) => {
                ops.iter().try_fold(*x, |x, op| terms.apply(op.clone(), &[x]))?
            }
            (Matched::Site(term, operands, inner), _) => build_term(terms, term, operands, inner)?,
        };
        let built = terms.ty(id)?;
        if built == *ty {
            return Some(id);
        }
        // If the right-hand side is a literal and the root an array, build the array filled with the literal.
        let (Type::Array(is), Type::Array(want)) = (&built, ty) else { return None };
        if terms.literal(id).is_none() || is.dtype != want.dtype {
            return None;
        }
        let filled = terms.apply(Op::fill(&want.shape), &[id])?;
        (terms.ty(filled)? == *ty).then_some(filled)
    }
}

impl Rule {
    fn search<T: Terms>(
        &self,
        terms: &T,
        root: Root<'_, T::Id>,
        index: usize,
        visit: &mut dyn FnMut(Found<T::Id>) -> bool,
    ) -> bool {
        if !holds(self.row.when, root.ty) {
            return false;
        }
        match &self.form {
            Form::Pattern { lhs, variables, .. } => {
                let Pattern::Apply(op, children) = lhs else { return false };
                if op != root.op || children.len() != root.operands.len() {
                    return false;
                }
                let mut m = Matcher {
                    terms,
                    todo: Vec::new(),
                    bindings: smallvec![None; *variables],
                    inner: SmallVec::new(),
                    done: &mut |bindings, inner| {
                        let what = Matched::Bindings(SmallVec::from_slice(bindings));
                        visit(Found { rule: index, what, inner: SmallVec::from_slice(inner) })
                    },
                };
                m.arrangements(op, children, root.operands)
            }
            Form::Identity(is) => {
                let [x] = root.operands else { return false };
                let Some(ty) = terms.ty(*x) else { return false };
                let what = Matched::Chain(*x, Vec::new());
                is(root.op, &ty) && visit(Found { rule: index, what, inner: SmallVec::new() })
            }
            Form::Compose(equal) => {
                let [x] = root.operands else { return false };
                let mut stop = false;
                terms.definitions(*x, &mut |inner, operands| {
                    let [y] = operands else { return false };
                    let Some(ty) = terms.ty(*y) else { return false };
                    if let Some(ops) = equal(root.op, inner, &ty) {
                        let what = Matched::Chain(*y, ops);
                        stop = visit(Found { rule: index, what, inner: smallvec![*x] });
                    }
                    stop
                });
                stop
            }
            Form::Site { outer, inner, equal } => {
                if !outer(root.op) {
                    return false;
                }
                self.sites(terms, root, index, *inner, *equal, visit)
            }
        }
    }

    /// Calls `visit` with every match of a site rule (a rewrite of an equation that may look at the equations of its
    /// operands). In an e-graph an operand may be computed by several equal equations, so the rule is tried with each
    /// of these equations and with none. All combinations over the operands are tried, up to `MOST`.
    fn sites<T: Terms>(
        &self,
        terms: &T,
        root: Root<'_, T::Id>,
        index: usize,
        inner: fn(&Op) -> bool,
        equal: fn(&Site<'_>) -> Option<Term>,
        visit: &mut dyn FnMut(Found<T::Id>) -> bool,
    ) -> bool {
        /// The largest number of combinations of the operands' defining equations that are tried for one root equation.
        /// In an e-graph, many equal equations may define an operand.
        const MOST: usize = 64;
        type Choice<I> = Option<(Op, SmallVec<[I; 2]>)>;
        let mut choices: Vec<Vec<Choice<T::Id>>> = Vec::new();
        for x in root.operands {
            let mut list: Vec<Choice<T::Id>> = vec![None];
            terms.definitions(*x, &mut |op, operands| {
                if inner(op) {
                    list.push(Some((op.clone(), SmallVec::from_slice(operands))));
                }
                false
            });
            choices.push(list);
        }
        let total: usize = choices.iter().map(Vec::len).product();
        for n in (0..total).rev().take(MOST) {
            let mut rest = n;
            let mut operands = Vec::new();
            let mut picked: Vec<&Choice<T::Id>> = Vec::new();
            for (x, list) in root.operands.iter().zip(&choices) {
                let choice = &list[rest % list.len()];
                rest /= list.len();
                picked.push(choice);
                let Some(ty) = terms.ty(*x) else { return false };
                let definition = match choice {
                    None => None,
                    Some((op, ys)) => {
                        let types = ys.iter().map(|y| Some((terms.ty(*y)?, terms.literal(*y))));
                        let Some(types) = types.collect::<Option<Vec<_>>>() else { return false };
                        let repeated = ys.iter().map(|y| is_repeated(terms, *y)).collect();
                        Some(Definition { op, operands: types, repeated })
                    }
                };
                let (literal, sign) = (terms.literal(*x), terms.sign(*x));
                operands.push(SiteOperand { ty, literal, sign, definition });
            }
            let same = root.operands.windows(2).all(|w| w[0] == w[1]);
            let site = Site { op: root.op, ty: root.ty, operands: &operands, same };
            let Some(term) = equal(&site) else { continue };
            let inner = root.operands.iter().zip(&picked).filter(|(_, c)| c.is_some());
            let inner = inner.map(|(x, _)| *x).collect();
            let of =
                |c: &&Choice<T::Id>| c.as_ref().map_or_else(SmallVec::new, |(_, ys)| ys.clone());
            let what = Matched::Site(
                term,
                SmallVec::from_slice(root.operands),
                picked.iter().map(of).collect(),
            );
            if visit(Found { rule: index, what, inner }) {
                return true;
            }
        }
        false
    }
}

/// Returns whether a definition of the term is a broadcast.
fn is_repeated<T: Terms>(terms: &T, id: T::Id) -> bool {
    let mut found = false;
    terms.definitions(id, &mut |op, _| {
        found = op.repeats();
        found
    });
    found
}

fn holds(when: When, ty: &Type) -> bool {
    let dtype = ty.as_array().map(|a| a.dtype);
    match when {
        When::Always => true,
        When::Float => dtype.is_some_and(Dtype::is_float),
        When::Integer => dtype.is_some_and(Dtype::is_integer),
        When::Bool => dtype == Some(Dtype::Bool),
    }
}

/// A backtracking matcher: the pairs of pattern and term that are still to be matched, and the bindings so far.
struct Matcher<'a, 'p, T: Terms> {
    terms: &'a T,
    todo: Vec<(&'p Pattern, T::Id)>,
    bindings: SmallVec<[Option<T::Id>; 4]>,
    inner: SmallVec<[T::Id; 2]>,
    done: &'a mut OnMatch<'a, T::Id>,
}

/// A callback for a complete match. Arguments: the terms bound to variables, and the terms matched between root and
/// variables. Returns whether to stop the search.
type OnMatch<'a, I> = dyn FnMut(&[I], &[I]) -> bool + 'a;

impl<'p, T: Terms> Matcher<'_, 'p, T> {
    /// Matches the patterns `children` against `operands`, in both orders if the primitive commutes. Returns true
    /// if `done` stopped the search.
    fn arrangements(&mut self, op: &Op, children: &'p [Pattern], operands: &[T::Id]) -> bool {
        let depth = self.todo.len();
        self.todo.extend(children.iter().zip(operands.iter().copied()));
        if self.next() {
            return true;
        }
        self.todo.truncate(depth);
        if let ([p, q], [x, y], true) = (children, operands, op.commutes())
            && x != y
        {
            self.todo.extend([(p, *y), (q, *x)]);
            if self.next() {
                return true;
            }
            self.todo.truncate(depth);
        }
        false
    }

    /// Matches the remaining pairs in `todo`, and calls `done` at each complete match. Returns true if `done`
    /// stopped the search; else restores `todo`.
    fn next(&mut self) -> bool {
        let Some((pattern, id)) = self.todo.pop() else {
            let bound: SmallVec<[T::Id; 4]> = self.bindings.iter().copied().flatten().collect();
            return bound.len() == self.bindings.len() && (self.done)(&bound, &self.inner);
        };
        let stop = match pattern {
            Pattern::Variable(_, sign) if self.terms.sign(id) < *sign => false,
            Pattern::Variable(v, _) => match self.bindings[*v] {
                Some(bound) => bound == id && self.next(),
                None => {
                    self.bindings[*v] = Some(id);
                    let stop = self.next();
                    self.bindings[*v] = None;
                    stop
                }
            },
            Pattern::Number(x) => {
                let is = |l: Literal| Literal::of(l.dtype, *x) == l;
                self.terms.literal(id).is_some_and(is) && self.next()
            }
            Pattern::Apply(op, children) => {
                self.inner.push(id);
                let terms = self.terms;
                let mut stop = false;
                terms.definitions(id, &mut |by, operands| {
                    stop = by == op
                        && operands.len() == children.len()
                        && self.arrangements(op, children, operands);
                    stop
                });
                self.inner.pop();
                stop
            }
        };
        self.todo.push((pattern, id));
        stop
    }
}

/// Builds the term of a pattern whose variables are bound. A literal of the pattern gets the dtype `wanted` of the
/// whole term if that type-checks, else the dtype of the last operand of the same primitive that is no literal.
fn build_pattern<T: Terms>(
    terms: &mut T,
    pattern: &Pattern,
    bindings: &[T::Id],
    wanted: Dtype,
) -> Option<T::Id> {
    match pattern {
        Pattern::Variable(v, _) => Some(bindings[*v]),
        Pattern::Number(x) => Some(terms.constant(Literal::of(wanted, *x))),
        Pattern::Apply(op, children) => {
            let mut built: SmallVec<[Option<T::Id>; 3]> = SmallVec::new();
            let mut sibling = None;
            for child in children {
                built.push(match child {
                    Pattern::Number(_) => None,
                    Pattern::Variable(..) | Pattern::Apply(..) => {
                        let id = build_pattern(terms, child, bindings, wanted)?;
                        sibling = terms.ty(id).and_then(|t| t.as_array().map(|a| a.dtype));
                        Some(id)
                    }
                });
            }
            [Some(wanted), sibling].into_iter().flatten().find_map(|dtype| {
                let operands: Option<SmallVec<[T::Id; 3]>> = children
                    .iter()
                    .zip(&built)
                    .map(|(child, id)| match child {
                        Pattern::Number(x) => Some(terms.constant(Literal::of(dtype, *x))),
                        Pattern::Variable(..) | Pattern::Apply(..) => *id,
                    })
                    .collect();
                terms.apply(op.clone(), &operands?)
            })
        }
    }
}

fn build_term<T: Terms>(
    terms: &mut T,
    term: &Term,
    operands: &[T::Id],
    inner: &[SmallVec<[T::Id; 2]>],
) -> Option<T::Id> {
    match term {
        Term::Operand(i) => operands.get(*i).copied(),
        Term::Inner(i, j) => inner.get(*i)?.get(*j).copied(),
        Term::Literal(x) => Some(terms.constant(*x)),
        Term::Apply(op, xs) => {
            let built: Option<Vec<T::Id>> =
                xs.iter().map(|x| build_term(terms, x, operands, inner)).collect();
            terms.apply(op.clone(), &built?)
        }
    }
}

/// Compiles the equality of a rewrite row for matching; `None` if the row is unusable (see [`unusable`]).
fn compile(row: &Rewrite) -> Option<Form> {
    match row.rule {
        Equality::Pattern { lhs, rhs } => {
            let mut names = Vec::new();
            let lhs = parse(lhs, &mut names)?;
            let variables = names.len();
            let rhs = parse(rhs, &mut names)?;
            let rooted = matches!(lhs, Pattern::Apply(..));
            (rooted && names.len() == variables).then_some(Form::Pattern { lhs, rhs, variables })
        }
        Equality::Compose(f) => Some(Form::Compose(f)),
        Equality::Identity(f) => Some(Form::Identity(f)),
        Equality::Site { outer, inner, equal } => Some(Form::Site { outer, inner, equal }),
    }
}

/// Returns the names of the rewrite rows that do not compile. A row does not compile if a pattern does not parse, or if
/// the right-hand side has a variable that the left-hand side does not have.
pub fn unusable(rows: &[Rewrite]) -> Vec<&'static str> {
    rows.iter().filter(|row| compile(row).is_none()).map(|row| row.name).collect()
}

/// Parses a pattern. `names` collects the variables in the order of first appearance, which is their number.
fn parse(text: &str, names: &mut Vec<String>) -> Option<Pattern> {
    let spaced = text.replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let (pattern, rest) = parse_words(&words, names)?;
    rest.is_empty().then_some(pattern)
}

/// Parses one pattern and returns the words after it.
fn parse_words<'w, 't>(
    words: &'w [&'t str],
    names: &mut Vec<String>,
) -> Option<(Pattern, &'w [&'t str])> {
    let (word, mut rest) = words.split_first()?;
    let pattern = match *word {
        "(" => {
            let (name, after) = rest.split_first()?;
            let op = Op::parse(name, &mut Attributes::default())?.ok()?;
            rest = after;
            let mut children = Vec::new();
            while *rest.first()? != ")" {
                let (child, after) = parse_words(rest, names)?;
                children.push(child);
                rest = after;
            }
            rest = &rest[1..];
            Pattern::Apply(op, children)
        }
        "true" => Pattern::Number(1.0),
        "false" => Pattern::Number(0.0),
        variable if variable.starts_with('?') => {
            let (name, sign) = Sign::of_variable(variable);
            let known = names.iter().position(|n| n == name);
            let number = known.unwrap_or_else(|| {
                names.push(name.to_owned());
                names.len() - 1
            });
            Pattern::Variable(number, sign)
        }
        number => Pattern::Number(number.parse().ok()?),
    };
    Some((pattern, rest))
}

/// Returns whether a rewrite rule may be used: an exact rule always, a rule that reassociates only if `relaxed`.
pub(crate) fn allowed(row: &Rewrite, relaxed: bool) -> bool {
    match row.exactness {
        Exactness::Exact => true,
        Exactness::Reassociates => relaxed,
        Exactness::Flushes => false,
    }
}

/// The largest number of elements of each array in an equation that constant folding evaluates.
const FOLDED: usize = 1024;

/// Returns the number that all elements of an equation's output equal; `None` if there is no such number. `values[i]`
/// is the number that all elements of operand `i` equal.
pub(crate) fn fold(
    module: &Module,
    op: &Op,
    types: &[Type],
    values: &[Literal],
    output: &Type,
) -> Option<Literal> {
    if values.is_empty() || op.effects(module) != Effects::Pure {
        return None;
    }
    let operands: SmallVec<[Operand<'_>; 3]> = types
        .iter()
        .zip(values)
        .map(|(ty, x)| {
            let scalar = ty.as_array().is_some_and(|a| a.shape.is_empty());
            Operand { ty, literal: scalar.then_some(*x) }
        })
        .collect();
    if let Some(x) = op.uniform(module, &operands, values) {
        let wrong = planted(Fault::FoldI32)
            && x.dtype == Dtype::I32
            && values.len() == 2
            && (x.bits as i32) < 0;
        return Some(if wrong { Literal { bits: x.bits ^ 1, ..x } } else { x });
    }
    // Evaluate other equations whose arrays have at most `FOLDED` elements. Equations that run functions are not
    // evaluated: their loops may not end.
    let small = |ty: &Type| ty.as_array().is_some_and(|a| a.shape.elements() <= FOLDED);
    if !op.regions().is_empty() || !small(output) || !types.iter().all(small) {
        return None;
    }
    let full = |(ty, x): (&Type, &Literal)| Tensor::full(&ty.as_array()?.shape, *x).ok();
    let tensors: Vec<Tensor> = types.iter().zip(values).map(full).collect::<Option<_>>()?;
    let [y] = op.eval(module, &tensors).ok()?.try_into().ok()?;
    let first = y.literals().next()?;
    y.literals().all(|element| element == first).then_some(first)
}
