//! The verifier: the invariants of programs as a function.
//!
//! Every value is defined once, before its uses, and used within its block; dtypes fit; addresses
//! without a guard and without a dynamic part lie within their buffer, by interval arithmetic over
//! the extents of the loops around them; inputs are never written and every output is; workspace
//! offsets are multiples of 64 and within the workspace; a contraction writes no byte that it reads.
//! Code generators rely on all of it. What is not checked is what depends on values: addresses with a
//! guard or a dynamic part. The verifier collects errors instead of stopping at the first.

use super::print::Held;
use super::{
    Address, Arg, BufferId, Contract, Expr, IndexId, Matrix, Place, Program, ScalarId, Stmt, VarId,
};
use cranelift_entity::{EntityRef, SecondaryMap};
use std::collections::HashMap;
use std::fmt;
use tapeloom_ir::{Dtype, Kind, Problem};

/// A broken invariant: which one, where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifyError {
    /// The step; `None` for buffers.
    pub step: Option<usize>,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.step {
            Some(i) => write!(f, "step {i}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// Checks a program; an empty answer means that all invariants hold.
pub fn verify(program: &Program) -> Vec<VerifyError> {
    let mut v = Verifier {
        p: program,
        step: None,
        errors: Vec::new(),
        scalars: SecondaryMap::with_default(State::Undefined),
        vars: SecondaryMap::with_default(State::Undefined),
        indices: SecondaryMap::with_default(None),
        written: SecondaryMap::with_default(false),
    };
    v.run();
    v.errors
}

/// Checks a program; the first errors become one problem.
///
/// # Errors
/// [`Kind::Verify`] when an invariant is broken.
pub fn check(program: &Program) -> Result<(), Problem> {
    let errors = verify(program);
    if errors.is_empty() {
        return Ok(());
    }
    let shown: Vec<String> = errors.iter().take(5).map(ToString::to_string).collect();
    let message = format!(
        "kernel @{} breaks {} invariants: {}",
        program.name,
        errors.len(),
        shown.join("; ")
    );
    Err(Problem::new(Kind::Verify, message, ""))
}

/// Where a scalar or variable is in its life.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Undefined,
    Visible,
    Gone,
}

/// A larger number of an input would take memory, whatever it means.
const MOST_INPUTS: usize = 1 << 24;

struct Verifier<'a> {
    p: &'a Program,
    step: Option<usize>,
    errors: Vec<VerifyError>,
    scalars: SecondaryMap<ScalarId, State>,
    vars: SecondaryMap<VarId, State>,
    /// The extents of the loops around; `Some(None)` once left.
    indices: SecondaryMap<IndexId, Option<Option<usize>>>,
    written: SecondaryMap<BufferId, bool>,
}

impl Verifier<'_> {
    fn error(&mut self, message: String) {
        self.errors.push(VerifyError { step: self.step, message });
    }

    fn run(&mut self) {
        self.buffers();
        self.block(&self.p.body, false);
        self.step = None;
        for (id, b) in &self.p.buffers {
            if matches!(b.place, Place::Output(_)) && b.ty.bytes() > 0 && !self.written[id] {
                self.error(format!("output {id} is never written"));
            }
        }
    }

    fn buffers(&mut self) {
        let mut outputs = Vec::new();
        let mut inputs = HashMap::new();
        let p = self.p;
        for (id, b) in &p.buffers {
            let Some(bytes) = b.ty.checked_bytes() else {
                self.error(format!("{id} of type {} is larger than memory can be", b.ty));
                continue;
            };
            match b.place {
                Place::Input(n) if n >= MOST_INPUTS => {
                    self.error(format!("{id} is input {n}, which is surely not meant"));
                }
                Place::Input(n) => {
                    let first = inputs.entry(n).or_insert(&b.ty);
                    if **first != b.ty {
                        self.error(format!("input {n} is both {first} and {}", b.ty));
                    }
                }
                Place::Output(n) => outputs.push(n),
                Place::Workspace(offset) => {
                    if offset % 64 != 0 {
                        self.error(format!("{id} at workspace offset {offset} is not aligned"));
                    }
                    if offset.checked_add(bytes).is_none_or(|end| end > self.p.workspace) {
                        self.error(format!(
                            "{id} at workspace offset {offset} with {bytes} bytes ends beyond the \
                             workspace of {} bytes",
                            self.p.workspace
                        ));
                    }
                }
            }
        }
        for id in self.p.buffers.keys() {
            for (before, version) in self.p.versions[id].iter().enumerate() {
                if version.continues.is_some_and(|of| of as usize > before) {
                    let held = Held(id, before as u32 + 1);
                    self.error(format!("{held} continues a version that comes after it"));
                }
            }
        }
        outputs.sort_unstable();
        if outputs.iter().enumerate().any(|(i, n)| i != *n) {
            self.error(format!("outputs are not numbered 0, 1, ..: {outputs:?}"));
        }
    }

    /// `dead` is true inside a loop that runs zero times: its addresses are not checked.
    fn block(&mut self, body: &[Stmt], dead: bool) {
        let (mut scalars, mut vars) = (Vec::new(), Vec::new());
        // The steps are the statements of the outermost block.
        let top = self.step.is_none();
        for (i, stmt) in body.iter().enumerate() {
            if top {
                self.step = Some(i);
            }
            match stmt {
                Stmt::Nest { body } => self.block(body, dead),
                Stmt::Contract(c) => self.contract(c),
                Stmt::For { index, extent, body } => {
                    if index.index() >= self.p.indices as usize {
                        self.error(format!("{index} is not below {}", self.p.indices));
                    }
                    if self.indices[*index].replace(Some(*extent)).is_some() {
                        self.error(format!("{index} is used by two loops"));
                    }
                    self.block(body, dead || *extent == 0);
                    self.indices[*index] = Some(None);
                }
                Stmt::Let { value, expr } => {
                    self.let_(*value, expr, dead);
                    scalars.push(*value);
                }
                Stmt::Var { var, init } => {
                    let found = self.arg(*init);
                    self.fits(&format!("the first value of {var}"), self.var_dtype(*var), found);
                    if self.vars[*var] != State::Undefined {
                        self.error(format!("{var} is declared twice"));
                    }
                    self.vars[*var] = State::Visible;
                    vars.push(*var);
                }
                Stmt::Set { var, value } => {
                    let (want, found) = (self.arg(Arg::Var(*var)), self.arg(*value));
                    self.fits(&format!("the value of {var}"), want, found);
                }
                Stmt::Fold { var, code, value } => {
                    let (want, found) = (self.arg(Arg::Var(*var)), self.arg(*value));
                    if let (Some(a), Some(b)) = (want, found)
                        && code.typed(&[a, b]) != Some(a)
                    {
                        self.error(format!("fold of {b} into {var} of {a} by {code}"));
                    }
                }
                Stmt::Store { buffer, version, address, value, guard } => {
                    self.version(*buffer, *version);
                    let found = self.arg(*value);
                    let want = self.access(*buffer, address, *guard, dead);
                    self.fits(&format!("the element stored to {buffer}"), want, found);
                    self.write(*buffer);
                }
            }
        }
        for s in scalars {
            self.scalars[s] = State::Gone;
        }
        for v in vars {
            self.vars[v] = State::Gone;
        }
    }

    fn let_(&mut self, value: ScalarId, expr: &Expr, dead: bool) {
        let found = match expr {
            Expr::Code(code, args) => {
                let dtypes: Vec<_> = args.iter().map(|a| self.arg(*a)).collect();
                match dtypes.iter().copied().collect::<Option<Vec<Dtype>>>() {
                    None => None,
                    Some(dtypes) => {
                        let result = code.typed(&dtypes);
                        if result.is_none() {
                            self.error(format!("{value}: {code} is not defined on {dtypes:?}"));
                        }
                        result
                    }
                }
            }
            Expr::Load { buffer, version, address, guard } => {
                self.version(*buffer, *version);
                self.access(*buffer, address, *guard, dead)
            }
        };
        let want = self.p.scalars.get(value).copied();
        if want.is_none() {
            self.error(format!("{value} has no dtype"));
        }
        self.fits(&value.to_string(), want, found);
        if self.scalars[value] != State::Undefined {
            self.error(format!("{value} is defined twice"));
        }
        self.scalars[value] = State::Visible;
    }

    fn fits(&mut self, what: &str, want: Option<Dtype>, found: Option<Dtype>) {
        if let (Some(want), Some(found)) = (want, found)
            && want != found
        {
            self.error(format!("{what} must be {want}, got {found}"));
        }
    }

    fn var_dtype(&self, var: VarId) -> Option<Dtype> {
        self.p.vars.get(var).copied()
    }

    /// The dtype of an operand that is in scope.
    fn arg(&mut self, arg: Arg) -> Option<Dtype> {
        let (state, dtype) = match arg {
            Arg::Literal(l) => return Some(l.dtype),
            Arg::Scalar(s) => (self.scalars[s], self.p.scalars.get(s).copied()),
            Arg::Var(v) => (self.vars[v], self.var_dtype(v)),
            Arg::Index(i) => match self.indices[i] {
                Some(Some(_)) => (State::Visible, Some(Dtype::I64)),
                Some(None) => (State::Gone, None),
                None => (State::Undefined, None),
            },
        };
        match state {
            State::Visible => {
                if dtype.is_none() {
                    self.error(format!("{arg} has no dtype"));
                }
                return dtype;
            }
            State::Undefined => self.error(format!("{arg} is used before it is defined")),
            State::Gone => self.error(format!("{arg} is used outside its block")),
        }
        None
    }

    /// Checks an access; the buffer's dtype.
    fn access(
        &mut self,
        buffer: BufferId,
        address: &Address,
        guard: Option<Arg>,
        dead: bool,
    ) -> Option<Dtype> {
        if let Some(g) = guard {
            let found = self.arg(g);
            self.fits("a guard", Some(Dtype::Bool), found);
        }
        if let Some(d) = address.dynamic {
            let found = self.arg(d);
            self.fits("an address", Some(Dtype::I64), found);
        }
        let (mut low, mut high) = (i128::from(address.offset), i128::from(address.offset));
        for (index, stride) in &address.terms {
            self.arg(Arg::Index(*index))?;
            let Some(Some(extent)) = self.indices[*index] else { continue };
            spread(&mut low, &mut high, extent, *stride);
        }
        let Some(b) = self.p.buffers.get(buffer) else {
            self.error(format!("{buffer} does not exist"));
            return None;
        };
        if !dead && guard.is_none() && address.dynamic.is_none() {
            self.within(&format!("{buffer}[{address}]"), buffer, low, high);
        }
        Some(b.ty.dtype)
    }

    fn version(&mut self, buffer: BufferId, version: u32) {
        if version as usize > self.p.versions[buffer].len() {
            self.error(format!("{} is not declared", Held(buffer, version)));
        }
    }

    fn within(&mut self, what: &str, buffer: BufferId, low: i128, high: i128) {
        let elements = self.p.buffers[buffer].ty.shape.elements() as i128;
        if low < 0 || high >= elements {
            self.error(format!(
                "{what} reaches elements {low}..={high} of a buffer of {elements} elements"
            ));
        }
    }

    fn write(&mut self, buffer: BufferId) {
        self.written[buffer] = true;
        if self.p.buffers.get(buffer).is_some_and(|b| matches!(b.place, Place::Input(_))) {
            self.error(format!("input {buffer} is written"));
        }
    }

    fn contract(&mut self, c: &Contract) {
        if !c.dtype.is_float() {
            self.error(format!("a contraction of {}", c.dtype));
        }
        let empty = c.m == 0 || c.n == 0 || c.batch.iter().any(|b| b.0 == 0);
        let mut matrix = |what: &str, m: &Matrix, rows, columns, step: fn(&Batch) -> i64| {
            self.version(m.buffer, m.version);
            let Some(b) = self.p.buffers.get(m.buffer) else {
                self.error(format!("{} does not exist", m.buffer));
                return None;
            };
            let dtype = b.ty.dtype;
            self.fits(what, Some(c.dtype), Some(dtype));
            let (mut low, mut high) = (i128::from(m.offset), i128::from(m.offset));
            spread(&mut low, &mut high, rows, m.row);
            spread(&mut low, &mut high, columns, m.column);
            for batch in &c.batch {
                spread(&mut low, &mut high, batch.0, step(batch));
            }
            if empty || rows == 0 || columns == 0 {
                return None;
            }
            self.within(&format!("{what} {m}"), m.buffer, low, high);
            let size = dtype.bytes() as i128;
            let (memory, start) = match b.place {
                Place::Input(n) => (Place::Input(n), 0),
                Place::Output(n) => (Place::Output(n), 0),
                Place::Workspace(offset) => (Place::Workspace(0), offset as i128),
            };
            Some((memory, start + low * size, start + (high + 1) * size))
        };
        let lhs = matrix("lhs", &c.lhs, c.m, c.k, |b| b.1);
        let rhs = matrix("rhs", &c.rhs, c.k, c.n, |b| b.2);
        let out = matrix("out", &c.out, c.m, c.n, |b| b.3);
        self.write(c.out.buffer);
        for (read, from) in [(lhs, &c.lhs), (rhs, &c.rhs)] {
            if let (Some((a, start, end)), Some((b, first, last))) = (read, out)
                && a == b
                && start < last
                && first < end
            {
                let (low, high) = (start.max(first), end.min(last));
                self.error(format!(
                    "the contraction reads {from} while it writes {}: both have bytes {low}..{high} \
                     of {a}",
                    c.out
                ));
            }
        }
    }
}

/// Extent and the steps of lhs, rhs and out.
type Batch = (usize, i64, i64, i64);

/// Widens an interval by an index below `extent` times `stride`. What saturates lies outside every
/// buffer.
fn spread(low: &mut i128, high: &mut i128, extent: usize, stride: i64) {
    let reach = (extent.max(1) as i128 - 1) * i128::from(stride);
    *low = low.saturating_add(reach.min(0));
    *high = high.saturating_add(reach.max(0));
}
