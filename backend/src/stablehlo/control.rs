//! Writes branches and loops.
//!
//! A branch becomes a `case`, whose regions read the values around them. A loop becomes a `while`. All that a loop
//! reads is part of its state, in this order:
//!
//! ```text
//! iteration, trip count (if it is known only at run time), the body's parameters without the iteration number,
//! stacked results, the token (if the loop calls Rust functions)
//! ```
//!
//! A tape becomes one array for each array in its records (a record has the residuals of one iteration). These arrays
//! have room for as many records as the options allow. A loop that needs more iterations ends early, and its float
//! results are nan. If the client provides functions and the program is for one device, such a loop instead calls a
//! function of the client, which ends the program with an error; then the limit holds for all loops whose trip count is
//! known only at run time.

use super::functions::{Arrays, Program};
use super::types::{ClientFunction, arrays};
use super::writer::{Value, Writer};
use tapeloom_ir::prim::{Binding, Direction, LoopSpec, TripCount};
use tapeloom_ir::{ArrayType, Dtype, FuncId, Kind, Literal, Problem, Shape, Type};

/// Appends a branch, in which the scalar `which` selects the function that runs. Returns its results.
pub(super) fn branch(
    p: &mut Program<'_>,
    w: &mut Writer,
    branches: &[FuncId],
    which: &Value,
    args: &[Arrays],
) -> Result<Vec<Arrays>, Problem> {
    let which = match which.ty.dtype {
        Dtype::Bool => w.convert(which, Dtype::I32),
        _ => {
            let bound = |i: usize| Literal { dtype: which.ty.dtype, bits: i as u64 };
            let [least, most] =
                [0, branches.len() - 1].map(|i| w.constant(bound(i), &which.ty.shape));
            let raised = w.same("stablehlo.maximum", &[which, &least]);
            let inside = w.same("stablehlo.minimum", &[&raised, &most]);
            w.convert(&inside, Dtype::I32)
        }
    };
    let results = p.module.function(branches[0]).result_types();
    let types = p.arrays(&results)?;
    let token = w.token.clone().filter(|_| branches.iter().any(|branch| p.takes_token(*branch)));
    let returned = types.iter().flatten().chain(token.as_ref().map(|t| &t.ty)).cloned();
    let open = w.open("stablehlo.case", &[which], returned.collect());
    for (i, branch) in branches.iter().enumerate() {
        match i {
            0 => w.block(&[]),
            _ => w.next_block(&[]),
        };
        if token.is_some() {
            w.token.clone_from(&token);
        }
        let y = p.run(w, *branch, args)?.concat();
        let mut y = padded(w, y, &types.concat())?;
        if token.is_some() {
            y.extend(w.token.clone());
        }
        w.returns(&y);
    }
    let mut y = w.close(open, "");
    if token.is_some() {
        w.token = y.pop();
    }
    Ok(grouped(y, &types))
}

/// Groups values into lists of the same lengths as the lists of types.
pub(super) fn grouped(values: Vec<Value>, types: &[Vec<ArrayType>]) -> Vec<Arrays> {
    let mut values = values.into_iter();
    types.iter().map(|types| values.by_ref().take(types.len()).collect()).collect()
}

/// Pads arrays at the ends of their axes to `types`, the types of a tape's arrays. Returns the padded arrays.
///
/// A tape from a loop of n iterations has n records, but its type has room for the number of records that the options
/// allow. Branches and functions must return arrays of the type.
pub(super) fn padded(
    w: &mut Writer,
    values: Vec<Value>,
    types: &[ArrayType],
) -> Result<Vec<Value>, Problem> {
    let pad = |(x, ty): (Value, &ArrayType)| {
        if x.ty == *ty {
            return Ok(x);
        }
        if x.ty.shape.len() != ty.shape.len() {
            return Err(Problem::internal(format!("an array {} of a tape {ty}", x.ty)));
        }
        let too_many = x.ty.shape.iter().zip(ty.shape.iter()).find(|(n, room)| n > room);
        if let Some((n, room)) = too_many {
            return Err(Problem::new(
                Kind::Target,
                format!("a loop saves residuals of {n} iterations, and `max_steps` allows {room}"),
                format!("allow them by `max_steps({n})`"),
            ));
        }
        let room = w.constant(Literal::zero(ty.dtype), &ty.shape);
        let zero = w.index(0);
        Ok(w.dynamic_update(&room, &x, &vec![&zero; ty.shape.len()]))
    };
    values.into_iter().zip(types).map(pad).collect()
}

/// For each value of a loop, its index in the state of the `while`.
struct State<'a> {
    spec: &'a LoopSpec,
    /// The index of the trip count, if it is an operand of the loop.
    count: Option<usize>,
    /// For each parameter of the body: the range of its arrays in the state. Empty for the iteration number.
    params: Vec<std::ops::Range<usize>>,
    /// For each result of the body: the range of its stacked arrays in the state; `None` if the result is not stacked.
    stacks: Vec<Option<std::ops::Range<usize>>>,
    /// The largest number of iterations, if the loop has a limit.
    most: Option<usize>,
    /// The index of the token (which orders calls of Rust functions), if the loop carries one.
    token: Option<usize>,
}

/// Appends a loop. Returns its results.
pub(super) fn run_loop(
    p: &mut Program<'_>,
    w: &mut Writer,
    body: FuncId,
    spec: &LoopSpec,
    operands: &[Arrays],
) -> Result<Vec<Arrays>, Problem> {
    let results = p.module.function(body).result_types();
    let mut state = vec![w.index(0)];
    let count = (spec.lead() == 1).then(|| {
        state.extend(operands[0].iter().cloned());
        1
    });
    let mut operands = operands[spec.lead()..].iter();
    let mut params = Vec::new();
    for slot in &spec.takes {
        let start = state.len();
        match slot {
            Binding::Index => {}
            Binding::Const | Binding::Carry(_) | Binding::Xs => {
                state.extend(operands.next().into_iter().flatten().cloned());
            }
        }
        params.push(start..state.len());
    }
    let (mut stacks, mut tapes) = (Vec::new(), false);
    for (r, ty) in results.iter().enumerate() {
        if spec.carrier(r).is_some() {
            stacks.push(None);
            continue;
        }
        let stacked = match spec.trip {
            TripCount::Static(n) => {
                let lead = |ty: ArrayType| ArrayType::new(ty.dtype, ty.shape.with_leading(n));
                arrays(ty, p.most_records())?.into_iter().map(lead).collect()
            }
            TripCount::Runtime | TripCount::While { .. } => {
                tapes = true;
                arrays(&Type::Tape(vec![ty.clone()]), p.most_records())?
            }
        };
        let start = state.len();
        let zeros = stacked.iter().map(|ty| w.constant(Literal::zero(ty.dtype), &ty.shape));
        state.extend(zeros.collect::<Vec<_>>());
        stacks.push(Some(start..state.len()));
    }
    let most = match spec.trip {
        TripCount::Static(_) => None,
        TripCount::Runtime | TripCount::While { .. } => {
            p.most_records().filter(|_| tapes || p.can_end())
        }
    };
    let condition = match spec.trip {
        TripCount::While { condition, .. } => {
            p.check_condition(condition)?;
            Some(condition)
        }
        TripCount::Static(_) | TripCount::Runtime => None,
    };
    let carries_token =
        p.takes_token(body) || condition.is_some_and(|condition| p.takes_token(condition));
    let token = w.token.clone().filter(|_| carries_token).map(|token| {
        state.push(token);
        state.len() - 1
    });
    let of = State { spec, count, params, stacks, most, token };
    let end = match spec.trip {
        TripCount::Static(0) => state,
        TripCount::Static(1) => of.iteration(p, w, body, &state)?,
        TripCount::Static(_) | TripCount::Runtime | TripCount::While { .. } => {
            let types: Vec<ArrayType> = state.iter().map(|x| x.ty.clone()).collect();
            let open = w.open("stablehlo.while", &state, types.clone());
            let block = w.block(&types);
            let goes_on = of.goes_on(p, w, &block, true)?;
            w.returns(&[goes_on]);
            let block = w.next_block(&types);
            let next = of.iteration(p, w, body, &block)?;
            w.returns(&next);
            let mut end = w.close(open, "");
            of.take_token(w, &end);
            match of.most {
                Some(most) if p.can_end() => of.end_unfinished(p, w, &end, most)?,
                Some(_) => of.spoil_unfinished(p, w, &mut end)?,
                None => {}
            }
            end
        }
    };
    of.take_token(w, &end);
    let place = |r: usize| match spec.carrier(r) {
        Some(param) => end[of.params[param].clone()].to_vec(),
        None => of.stacks[r].clone().map(|places| end[places].to_vec()).unwrap_or_default(),
    };
    let mut outputs: Vec<Arrays> = (0..results.len()).map(place).collect();
    if let TripCount::While { .. } = spec.trip {
        outputs.push(vec![end[0].clone()]);
    }
    Ok(outputs)
}

impl State<'_> {
    /// Makes the token in `state` (which orders calls of Rust functions) the token that following calls take.
    fn take_token(&self, w: &mut Writer, state: &[Value]) {
        if let Some(place) = self.token {
            w.token = Some(state[place].clone());
        }
    }

    /// Appends the condition under which the loop runs another iteration: the loop's own condition and, if `bounded`,
    /// that the limit is not reached.
    fn goes_on(
        &self,
        p: &mut Program<'_>,
        w: &mut Writer,
        state: &[Value],
        bounded: bool,
    ) -> Result<Value, Problem> {
        let goes_on = match &self.spec.trip {
            TripCount::Static(n) => {
                let n = w.index(*n);
                w.compare("LT", &state[0], &n)
            }
            TripCount::Runtime => w.compare("LT", &state[0], &state[self.count.unwrap_or(0)]),
            TripCount::While { condition, reads } => {
                let read = |param: &usize| state[self.params[*param].clone()].to_vec();
                let args: Vec<Arrays> = reads.iter().map(read).collect();
                // A condition returns no token, so take the token from the state again. The calls in the body wait for
                // the condition anyway.
                self.take_token(w, state);
                let goes_on = p.run(w, *condition, &args)?.concat().remove(0);
                self.take_token(w, state);
                goes_on
            }
        };
        let goes_on = match (self.token, &self.spec.trip) {
            (Some(place), TripCount::Runtime | TripCount::While { .. }) => {
                p.unless_failed(w, &state[place], goes_on)
            }
            (None, _) | (Some(_), TripCount::Static(_)) => goes_on,
        };
        match self.most.filter(|_| bounded) {
            None => Ok(goes_on),
            Some(most) => {
                let most = w.index(most);
                let has_room = w.compare("LT", &state[0], &most);
                Ok(w.same("stablehlo.and", &[&goes_on, &has_room]))
            }
        }
    }

    /// Appends an iteration. Returns the state after it.
    fn iteration(
        &self,
        p: &mut Program<'_>,
        w: &mut Writer,
        body: FuncId,
        state: &[Value],
    ) -> Result<Vec<Value>, Problem> {
        let one = w.index(1);
        let next = w.same("stablehlo.add", &[&state[0], &one]);
        // In a loop of n iterations that runs downwards, iteration k has the number n - 1 - k.
        let i = match self.spec.direction {
            Direction::Up => state[0].clone(),
            Direction::Down => {
                let n = match (&self.spec.trip, self.count) {
                    (TripCount::Static(n), _) => w.index(*n),
                    (_, Some(count)) => state[count].clone(),
                    (_, None) => {
                        return Err(Problem::internal("a downward loop without a trip count"));
                    }
                };
                w.same("stablehlo.subtract", &[&n, &next])
            }
        };
        let mut args = Vec::new();
        for (slot, places) in self.spec.takes.iter().zip(&self.params) {
            let given = &state[places.clone()];
            args.push(match slot {
                Binding::Index => vec![i.clone()],
                Binding::Const | Binding::Carry(_) => given.to_vec(),
                Binding::Xs => given.iter().map(|x| row(w, x, &i)).collect(),
            });
        }
        self.take_token(w, state);
        let results = p.run(w, body, &args)?;
        let mut after = state.to_vec();
        after[0] = next;
        if let Some((place, token)) = self.token.zip(w.token.clone()) {
            after[place] = token;
        }
        for (r, y) in results.iter().enumerate() {
            match (self.spec.carrier(r), &self.stacks[r]) {
                (Some(param), _) => after[self.params[param].clone()].clone_from_slice(y),
                (None, Some(places)) => {
                    for (place, y) in places.clone().zip(y) {
                        after[place] = with_row(w, &state[place], y, &i);
                    }
                }
                (None, None) => {}
            }
        }
        Ok(after)
    }

    /// Appends a call of the client that ends the program with an error, if the loop ended at its limit of `most`
    /// iterations.
    fn end_unfinished(
        &self,
        p: &mut Program<'_>,
        w: &mut Writer,
        end: &[Value],
        most: usize,
    ) -> Result<(), Problem> {
        let unfinished = self.goes_on(p, w, end, false)?;
        let line = w.loc.map(|at| format!("{}:{}:{}", at.file(), at.line(), at.column()));
        let attributes = format!(
            "has_side_effect = true, backend_config = {{line = {:?}, steps = {most} : i64}}, ",
            line.unwrap_or_default()
        );
        w.custom_call(ClientFunction::Limit, &[unfinished], &attributes, Vec::new());
        Ok(())
    }

    /// If the loop ended at its limit, replaces its float results by nan.
    fn spoil_unfinished(
        &self,
        p: &mut Program<'_>,
        w: &mut Writer,
        end: &mut [Value],
    ) -> Result<(), Problem> {
        let unfinished = self.goes_on(p, w, end, false)?;
        let carries = self.spec.takes.iter().zip(&self.params);
        let carries = carries.filter(|(slot, _)| matches!(slot, Binding::Carry(_)));
        let stacks = self.stacks.iter().flatten();
        for place in
            carries.flat_map(|(_, places)| places.clone()).chain(stacks.flat_map(Clone::clone))
        {
            if end[place].ty.dtype.is_float() {
                let nan = w.number(f64::NAN, &end[place]);
                end[place] = w.select(&unfinished, &nan, &end[place]);
            }
        }
        Ok(())
    }
}

/// Appends operations that select the element `i` of `x` along axis 0. Returns the element.
fn row(w: &mut Writer, x: &Value, i: &Value) -> Value {
    let own: Shape = x.ty.shape[1..].iter().copied().collect();
    if x.ty.shape.elements() == 0 {
        return w.constant(Literal::zero(x.ty.dtype), &own);
    }
    let zero = w.index(0);
    let starts: Vec<&Value> =
        (0..x.ty.shape.len()).map(|axis| if axis == 0 { i } else { &zero }).collect();
    let part = w.dynamic_slice(x, &starts, &own.with_leading(1));
    w.reshape(&part, own)
}

/// Appends operations that copy `x` with `y` as the element `i` along axis 0. Returns the copy.
fn with_row(w: &mut Writer, x: &Value, y: &Value, i: &Value) -> Value {
    if x.ty.shape.elements() == 0 {
        return x.clone();
    }
    let zero = w.index(0);
    let starts: Vec<&Value> =
        (0..x.ty.shape.len()).map(|axis| if axis == 0 { i } else { &zero }).collect();
    let part = w.reshape(y, y.ty.shape.with_leading(1));
    w.dynamic_update(x, &part, &starts)
}
