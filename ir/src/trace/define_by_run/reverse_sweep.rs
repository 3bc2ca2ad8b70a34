//! The reverse pass of a recording: its steps in reverse order, each by the rule of its equation.
//!
//! The reverse pass depends on which values have a cotangent, and not on numbers. So it is *planned* once, when
//! a recording ends ([`Level::plan`]): which steps are reached, and which transpose each step uses. The plan
//! also says which values must be saved. It can be *run* any number of times ([`pull_back`], step by step): over
//! numbers, or over values that are being recorded, which yields derivatives of derivatives.
//!
//! ```text
//! y = sin x       3. ct of x = ct of y · cos x
//! z = y · x       2. ct of y = ct of z · x,  ct of x += ct of z · y       (running totals are added to)
//! return z        1. ct of z is given
//! ```

use super::rules::{Back, Given, Mask, Rules};
use crate::fault::{Fault, planted};
use crate::lang::builder::Draft;
use crate::lang::function::{Atom, Equation, Operands, ValueId};
use crate::lang::module::Module;
use crate::lang::problem::Problem;
use crate::lang::query::Residual;
use crate::lang::source_loc::Loc;
use crate::lang::types::Type;
use crate::map::OrderedMap;
use smallvec::SmallVec;

/// A closure whose operations are saved for a reverse pass: the closure of the recording (a trace that is evaluated
/// while it grows) itself, or one that runs inside it.
#[derive(Clone, Debug)]
pub(super) struct Level {
    /// The number of the first value of the level (the closure). All later values of the level have larger numbers.
    pub(super) first: u32,
    /// Per value recorded in the closure: whether it depends on the closure's arguments and has a tangent.
    active: Vec<bool>,
    pub(super) steps: Vec<Step>,
}

/// A recorded operation that the reverse pass of a closure differentiates, because some operand depends on the
/// closure's arguments.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) rule: u32,
    pub(super) place: Place,
}

/// The list in which a step of the reverse pass finds the operands and outputs of its operation.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// The operands and outputs are those of the recording's equation with this index.
    Equation(u32),
    /// The step lists its operands and outputs itself, because the recording has other equations in place of the
    /// operation.
    Own(Box<Own>),
}

/// The operands and outputs of an operation that the recording has replaced by other equations.
#[derive(Clone, Debug)]
pub(super) struct Own {
    pub(super) operands: Operands,
    /// The outputs of the operation, followed by the residuals of its forward function.
    pub(super) outputs: Vec<Atom>,
    pub(super) loc: Loc,
}

impl Step {
    /// Returns the bytes in memory of this step of the reverse pass and of the lists that the step owns.
    pub(super) fn bytes(&self) -> usize {
        let own = match &self.place {
            Place::Equation(_) => 0,
            Place::Own(own) => {
                let operands = if own.operands.spilled() { own.operands.capacity() } else { 0 };
                size_of::<Own>() + (operands + own.outputs.capacity()) * size_of::<Atom>()
            }
        };
        size_of::<Step>() + own
    }

    /// Returns the operands and outputs of the step's operation, from the recording's equation or from the step's own
    /// list.
    pub(super) fn own(&self, program: Program<'_>) -> Own {
        Own {
            operands: program.operands(self).into(),
            outputs: (0..).map_while(|k| program.output(self, k)).collect(),
            loc: program.location(self),
        }
    }
}

/// The recorded equations and their source lines. Each step of the reverse pass finds its operands and outputs here.
#[derive(Clone, Copy)]
pub(super) struct Program<'a> {
    pub(super) equations: &'a [Equation],
    pub(super) locations: &'a [Loc],
}

impl<'a> Program<'a> {
    /// Returns the equations and source lines of a draft.
    pub(super) fn of(draft: &'a Draft) -> Program<'a> {
        Program { equations: draft.equations(), locations: draft.locations() }
    }

    fn operands(self, step: &'a Step) -> &'a [Atom] {
        match &step.place {
            Place::Equation(i) => &self.equations[*i as usize].operands,
            Place::Own(own) => &own.operands,
        }
    }

    fn output(self, step: &Step, i: usize) -> Option<Atom> {
        match &step.place {
            Place::Equation(e) => {
                self.equations[*e as usize].outputs.get(i).copied().map(Atom::Value)
            }
            Place::Own(own) => own.outputs.get(i).copied(),
        }
    }

    fn residual(self, step: &'a Step, residual: Residual) -> Option<Atom> {
        match residual {
            Residual::Parameter(i) => self.operands(step).get(i).copied(),
            Residual::Result(i) | Residual::Kept(i) => self.output(step, i),
        }
    }

    /// Returns the user's source line of the operation that a step of the reverse pass differentiates.
    fn location(self, step: &Step) -> Loc {
        match &step.place {
            Place::Equation(i) => self.locations.get(*i as usize).copied().flatten(),
            Place::Own(own) => own.loc,
        }
    }
}

/// One step of a planned reverse pass: the index of the recorded step, and that of its transpose in the plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planned {
    pub(super) step: u32,
    back: u32,
}

/// The plan of a reverse pass: its steps, the last recorded operation first, and the transposes that they use.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    pub(super) steps: Vec<Planned>,
    backs: Vec<Back>,
}

impl Plan {
    /// Returns the bytes in memory of the list of the reverse pass's steps.
    pub(super) fn bytes(&self) -> usize {
        self.steps.capacity() * size_of::<Planned>()
    }
}

impl Level {
    /// Begins a level: a closure whose operations are saved for a reverse pass. The next recorded value will have the
    /// number `first`.
    pub(super) fn new(first: u32) -> Level {
        Level { first, active: Vec::new(), steps: Vec::new() }
    }

    fn place(&self, v: ValueId) -> Option<usize> {
        v.as_u32().checked_sub(self.first).map(|i| i as usize)
    }

    /// Returns whether an atom is a value that depends on the closure's arguments and has a tangent.
    pub(super) fn is_active(&self, a: Atom) -> bool {
        let place = a.value().and_then(|v| self.place(v));
        place.is_some_and(|i| self.active.get(i) == Some(&true))
    }

    /// Notes that value `v` depends on the closure's arguments and has a tangent.
    pub(super) fn activate(&mut self, v: ValueId) {
        let Some(i) = self.place(v) else { return };
        if i >= self.active.len() {
            self.active.resize(i + 1, false);
        }
        self.active[i] = true;
    }

    /// Plans the reverse pass: finds the steps that the active results depend on, and the transpose for each.
    ///
    /// # Errors
    /// Returns an error if a derivative does not exist, with the source line of the operation.
    pub(super) fn plan(
        &self,
        results: &[Atom],
        rules: &mut Rules,
        module: &mut Module,
        program: Program<'_>,
    ) -> Result<Plan, Problem> {
        let mut has = vec![false; self.active.len()];
        for r in results.iter().filter(|r| self.is_active(**r)) {
            if let Some(i) = r.value().and_then(|v| self.place(v)) {
                has[i] = true;
            }
        }
        let mut plan = Plan::default();
        let mut numbers: OrderedMap<usize, u32> = OrderedMap::default();
        let at = |a: Option<Atom>| a.and_then(Atom::value).and_then(|v| self.place(v));
        for (s, step) in self.steps.iter().enumerate().rev() {
            let rule = match rules.rule(step.rule as usize) {
                Ok(rule) => rule,
                Err(problem) => {
                    let mut outputs = (0..).map_while(|k| program.output(step, k));
                    if outputs.any(|y| at(Some(y)).is_some_and(|i| has.get(i) == Some(&true))) {
                        return Err(problem.clone().at(program.location(step)));
                    }
                    continue;
                }
            };
            let mut take =
                |a: Option<Atom>| at(a).and_then(|i| has.get_mut(i)).is_some_and(std::mem::take);
            let slots = (0..rule.active_out.len()).filter(|k| rule.active_out[*k]);
            let nonzero: Mask = slots.map(|k| take(program.output(step, k))).collect();
            if !nonzero.contains(&true) {
                continue;
            }
            let operands = program.operands(step).iter().zip(&rule.active);
            let operands: SmallVec<[Atom; 2]> =
                operands.filter(|(_, on)| **on).map(|(a, _)| *a).collect();
            // If two operands are the same value, only the first one takes the running total of the value's cotangent.
            let running: Mask = operands.iter().map(|a| take(Some(*a))).collect();
            let back = rules
                .back(module, step.rule as usize, Given { nonzero, running })
                .map_err(|p| p.at(program.location(step)))?;
            for (a, gives) in operands.iter().zip(&rules.transposes()[back].gives) {
                if let Some(has) = at(Some(*a)).and_then(|i| has.get_mut(i)) {
                    *has |= gives;
                }
            }
            let next = plan.backs.len() as u32;
            let number = *numbers.entry(back).or_insert(next);
            if number == next {
                plan.backs.push(rules.transposes()[back].clone());
            }
            plan.steps.push(Planned { step: s as u32, back: number });
        }
        Ok(plan)
    }

    /// Returns the smallest value number among the step's differentiated outputs. Earlier steps read only values with
    /// smaller numbers.
    pub(super) fn made(&self, program: Program<'_>, plan: &Plan, planned: Planned) -> Option<u32> {
        let step = &self.steps[planned.step as usize];
        let active = plan.backs[planned.back as usize].active_out.iter().enumerate();
        let outputs = active.filter(|(_, on)| **on).filter_map(|(k, _)| program.output(step, k));
        outputs.filter_map(Atom::value).map(|v| v.as_u32()).min()
    }

    /// Frees the unused capacity of the list of steps of the reverse pass, and of the table of values that depend on
    /// the closure's arguments.
    pub(super) fn shrink(&mut self) {
        self.steps.shrink_to_fit();
        self.active.shrink_to_fit();
    }

    /// Returns the bytes in memory of the list of steps of the reverse pass, and of the table of values that depend on
    /// the closure's arguments.
    pub(super) fn bytes(&self) -> usize {
        let free = self.steps.capacity() - self.steps.len();
        let steps: usize = self.steps.iter().map(Step::bytes).sum();
        steps + free * size_of::<Step>() + self.active.capacity()
    }

    /// Iterates over the values of the recording that the planned reverse pass reads; a value that is read twice
    /// appears twice.
    pub(super) fn reads<'a>(
        &'a self,
        plan: &'a Plan,
        program: Program<'a>,
    ) -> impl Iterator<Item = ValueId> + 'a {
        plan.steps.iter().flat_map(move |planned| {
            let step = &self.steps[planned.step as usize];
            let reads = &plan.backs[planned.back as usize].reads;
            reads.iter().filter_map(move |(r, _)| program.residual(step, *r)?.value())
        })
    }
}

/// The operations that a reverse pass needs on cotangents, implemented for numbers and for values of a trace.
pub(super) trait Arithmetic {
    /// A cotangent, or a value that was computed before the reverse pass.
    type Value;

    /// Returns the recorded value of atom `a`, of type `ty`; a literal is broadcast to the shape of `ty`.
    fn read(&mut self, a: Atom, ty: &Type) -> Result<Self::Value, Problem>;

    /// Runs the transpose `back` on its arguments. Returns one cotangent for each operand for which the transpose
    /// computes one.
    fn run(
        &mut self,
        back: &Back,
        args: SmallVec<[Self::Value; 6]>,
        loc: Loc,
    ) -> Result<SmallVec<[Self::Value; 2]>, Problem>;

    /// Returns the sum `x + y` of two cotangents.
    fn add(&mut self, x: Self::Value, y: Self::Value) -> Result<Self::Value, Problem>;
}

/// The cotangents of a closure's values during its reverse pass, by value number. At first only the closure's results
/// have a cotangent.
pub(super) struct Cotangents<V> {
    first: u32,
    of: Vec<Option<V>>,
}

impl<V> Cotangents<V> {
    /// Makes a table for the cotangents of the closure's values. No value has a cotangent yet.
    pub(super) fn new(level: &Level) -> Cotangents<V> {
        let mut of = Vec::new();
        of.resize_with(level.active.len(), || None);
        Cotangents { first: level.first, of }
    }

    fn slot(&mut self, a: Atom) -> Option<&mut Option<V>> {
        let i = a.value()?.as_u32().checked_sub(self.first)?;
        self.of.get_mut(i as usize)
    }

    /// Removes the accumulated cotangent of a value and returns it, if the value has one.
    pub(super) fn take(&mut self, a: Atom) -> Option<V> {
        self.slot(a)?.take()
    }

    /// Adds `ct` to the cotangent of the value `a`.
    ///
    /// # Errors
    /// Fails only through a fault of tapeloom.
    pub(super) fn add(
        &mut self,
        arithmetic: &mut impl Arithmetic<Value = V>,
        a: Atom,
        ct: V,
    ) -> Result<(), Problem> {
        let Some(slot) = self.slot(a) else { return Ok(()) };
        *slot = Some(match slot.take() {
            None => ct,
            Some(_) if planted(Fault::RecordedTotal) => ct,
            Some(before) => arithmetic.add(before, ct)?,
        });
        Ok(())
    }
}

/// Runs one step of the reverse pass: removes the cotangents of the step's outputs from `cts`, and adds to the
/// cotangents of its operands.
pub(super) fn pull_back<X: Arithmetic>(
    x: &mut X,
    level: &Level,
    program: Program<'_>,
    plan: &Plan,
    planned: Planned,
    cts: &mut Cotangents<X::Value>,
) -> Result<(), Problem> {
    let step = &level.steps[planned.step as usize];
    let back = &plan.backs[planned.back as usize];
    let lost = || Problem::internal("a step of the reverse pass lacks a residual");
    let mut args = SmallVec::new();
    for (residual, ty) in &back.reads {
        args.push(x.read(program.residual(step, *residual).ok_or_else(lost)?, ty)?);
    }
    let slots = (0..back.active_out.len()).filter(|k| back.active_out[*k]);
    for (k, _) in slots.zip(&back.given.nonzero).filter(|(_, on)| **on) {
        let y = program.output(step, k).ok_or_else(lost)?;
        args.push(cts.take(y).ok_or_else(lost)?);
    }
    let operands = program.operands(step).iter().zip(&back.active);
    let operands: SmallVec<[Atom; 4]> = operands.filter(|(_, on)| **on).map(|(a, _)| *a).collect();
    for (a, _) in operands.iter().zip(&back.given.running).filter(|(_, on)| **on) {
        args.push(cts.take(*a).ok_or_else(lost)?);
    }
    let mut found = x.run(back, args, program.location(step))?.into_iter();
    for (a, _) in operands.iter().zip(&back.gives).filter(|(_, on)| **on) {
        cts.add(x, *a, found.next().ok_or_else(lost)?)?;
    }
    Ok(())
}
