//! Scalar replacement with rotating registers (Callahan, Carr and Kennedy, 1990): if neighbouring iterations update the
//! same array element, they pass its value on in variables.
//!
//! The reverse pass of a stencil adds to an element and to its neighbours. So, for a stencil of three elements, three
//! iterations load and store each element, and each of them waits for the store of the previous one:
//!
//! ```text
//! serial i0 in 8 {                              nest {
//!   %0: f64 = load b0[i0]                         %4: f64 = load b1[0]
//!   %1: f64 = load b1[i0]                         var v0: f64 = %4
//!   %2: f64 = add %1, %0                          serial i0 in 8 {
//!   store b1[i0], %2                 ->             %5: f64 = load b1[i0 + 1]
//!   %3: f64 = load b1[i0 + 1]                       var v1: f64 = %5
//!   %4: f64 = add %3, 1.0                           %0: f64 = load b0[i0]
//!   store b1[i0 + 1], %4                            %1: f64 = convert{to=f64} v0
//! }                                                 ..
//!                                                   store b1[i0], v0
//!                                                   v0 = v1
//!                                                 }
//!                                                 store b1[8], v0
//!                                               }
//! ```
//!
//! Each iteration loads the element that it touches first and stores the element that it touches last. The pass
//! applies if all accesses of a loop to a buffer load and then store adjacent elements, which advance by one per
//! iteration.

use super::pass::{Invariant, Pass, Run};
use super::promote_memory::{loaded, put_back, read};
use crate::loop_ir::analysis::dependence::disjoint;
use crate::loop_ir::shape::Loop;
use crate::loop_ir::{
    Access, Address, Arg, Assign, BufferId, BufferVersion, IndexId, Kernel, Stmt, VarId, visit,
};
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::Exactness;
use tapeloom_ir::{Dtype, OrderedMap, OrderedSet};

/// The entry of this pass in the table `super::PASSES`: its name, effect and requirements.
pub(super) const PASS: Pass = Pass {
    name: "rotate_registers",
    about: "elements to which neighbouring iterations add are passed on in variables",
    requires: Invariant::Form,
    ensures: None,
    exactness: Exactness::Exact,
    run: Run::Kernels(|kernel, context| rotate_registers(kernel, context.machine.rotated_elements)),
};

/// Replaces elements by rotating variables in the loops of a kernel. Returns whether any loop changed.
fn rotate_registers(kernel: &mut Kernel, widest: usize) -> bool {
    kernel.rewrite(|kernel, body| block(kernel, widest, body))
}

fn block(kernel: &mut Kernel, widest: usize, body: &mut [Stmt]) -> bool {
    let mut changed = false;
    for stmt in body {
        stmt.blocks_mut().into_iter().for_each(|inside| changed |= block(kernel, widest, inside));
        if let Some(rolling) = Rolling::of(kernel, widest, stmt) {
            *stmt = rolling.rolled(kernel, stmt);
            changed = true;
        }
    }
    changed
}

/// A window of adjacent elements that a loop accesses. The window moves by one element in each iteration.
struct Rolling {
    index: IndexId,
    iterations: usize,
    held: BufferVersion,
    /// The address of the element of the window (the elements that one iteration accesses) that no later iteration
    /// accesses.
    first: Address,
    /// The distance in elements between neighbours in the window (the elements that one iteration accesses). The window
    /// moves by this distance in each iteration.
    stride: i64,
    /// The number of elements in the window (the elements that one iteration accesses) minus one.
    more: usize,
}

impl Rolling {
    fn of(kernel: &Kernel, widest: usize, stmt: &Stmt) -> Option<Rolling> {
        let Loop { index, extent: iterations, carries, body, .. } = stmt.counted()?;
        let folds = |s: &Stmt| matches!(s.assigned(), Some((_, Assign::Fold(_))));
        let plain = |s: &Stmt| s.shape().is_scalar() && !folds(s);
        if !carries.is_empty() || !body.iter().all(plain) {
            return None;
        }
        let mut stored: OrderedSet<BufferId> = OrderedSet::default();
        visit(body, &mut |s| s.accesses(&mut |a| stored.extend(a.write.then_some(a.held.buffer))));
        let rolling =
            |b| Rolling::in_buffer(kernel, index, iterations, body, b).filter(|r| r.more <= widest);
        stored.iter().copied().find_map(rolling)
    }

    fn in_buffer(
        kernel: &Kernel,
        index: IndexId,
        iterations: usize,
        body: &[Stmt],
        buffer: BufferId,
    ) -> Option<Rolling> {
        let mut all: Vec<Access<'_>> = Vec::new();
        body.iter().for_each(|s| s.accesses(&mut |a| all.push(a)));
        all.retain(|a| !disjoint(kernel, a.held.buffer, buffer));
        let one = all.first()?;
        let (stride, held) = (one.address.stride(index), one.held);
        let same = |a: &Access<'_>| {
            let place = (a.held, &a.address.terms) == (held, &one.address.terms);
            place && a.guard.is_none() && a.address.dynamic.is_none()
        };
        if stride == 0 || held.buffer != buffer || !all.iter().all(same) {
            return None;
        }
        let lowest = all.iter().min_by_key(|a| a.address.offset * stride.signum())?;
        // For each element of the window, keyed by its distance from the first one in iterations: whether it
        // is loaded before it is stored, and whether it is stored.
        let mut found: OrderedMap<i64, (bool, bool)> = OrderedMap::default();
        for a in &all {
            let away = a.address.offset - lowest.address.offset;
            if away % stride != 0 {
                return None;
            }
            let (_, stored) = found.entry(away / stride).or_insert((!a.write, false));
            *stored |= a.write;
        }
        let more = found.len() - 1;
        let side_by_side = found.keys().all(|k| (0..=more as i64).contains(k));
        let updated = found.values().all(|(loaded, stored)| *loaded && *stored);
        (side_by_side && updated && more > 0 && iterations > more).then(|| Rolling {
            index,
            iterations,
            held,
            first: lowest.address.clone(),
            stride,
            more,
        })
    }

    /// Returns the address of element `k` of the window (the elements that one iteration accesses), as an expression in
    /// the loop's index.
    fn at(&self, k: usize) -> Address {
        Address { offset: self.first.offset + self.stride * k as i64, ..self.first.clone() }
    }

    /// Returns the address of element `k` of the window (the elements that one iteration accesses) in a given
    /// iteration, for use outside of the loop.
    fn outside(&self, iteration: usize, k: usize) -> Address {
        let mut address = self.at(iteration + k);
        address.terms.retain(|(i, _)| *i != self.index);
        address
    }

    /// Returns the position in the window of the element at an address, which is also the number of the element's
    /// variable.
    fn place(&self, held: BufferVersion, address: &Address) -> Option<usize> {
        let away = address.offset - self.first.offset;
        (held == self.held).then(|| usize::try_from(away / self.stride).ok())?
    }

    fn rolled(&self, kernel: &mut Kernel, stmt: &Stmt) -> Stmt {
        let dtype = kernel.buffers[self.held.buffer].ty.dtype;
        let vars: Vec<VarId> = (0..=self.more).map(|_| kernel.vars.push(dtype)).collect();
        let mut out = Vec::new();
        for (k, var) in vars[..self.more].iter().enumerate() {
            out.extend(loaded(kernel, self.held, self.outside(0, k), *var));
        }
        let newest = loaded(kernel, self.held, self.at(self.more), vars[self.more]);
        let mut iteration = Vec::from(newest);
        iteration.extend(
            stmt.blocks().into_iter().flatten().map(|s| self.in_variables(s, &vars, dtype)),
        );
        iteration.push(put_back(self.held, self.at(0), vars[0]));
        iteration.extend(vars.windows(2).map(|w| Stmt::Set { var: w[0], value: Arg::Var(w[1]) }));
        let mut turning = stmt.clone();
        turning.blocks_mut().into_iter().for_each(|body| *body = std::mem::take(&mut iteration));
        out.push(turning);
        for (k, var) in vars[..self.more].iter().enumerate() {
            if !planted(Fault::RollingLast) {
                out.push(put_back(self.held, self.outside(self.iterations, k), *var));
            }
        }
        Stmt::Nest { body: out, origins: stmt.own_origins() }
    }

    /// Returns a statement in which loads and stores of elements that one iteration accesses are replaced by reads and
    /// writes of the variables `vars`.
    fn in_variables(&self, stmt: &Stmt, vars: &[VarId], dtype: Dtype) -> Stmt {
        let shape = stmt.shape();
        let var = shape.element.as_ref().and_then(|e| Some(vars[self.place(e.held, e.address)?]));
        match (var, shape.defines, shape.operands) {
            (Some(var), Some(value), _) => read(value, dtype, var),
            (Some(var), None, [value]) => Stmt::Set { var, value: *value },
            (Some(_) | None, ..) => stmt.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::rotate_registers;
    use crate::loop_ir::{eval, infer_parallelism, parse, shadow, verify};
    use tapeloom_ir::Tensor;

    /// Runs the pass, checks that results stay equal, and expects these numbers of loads and stores in the loop over
    /// `i0`.
    #[track_caller]
    fn check(body: &str, expected: [usize; 2]) {
        let text = format!(
            "program @x {{ buffer b0: f64[12] input 0 buffer b1: f64[12] output 0
               for i9 in 12 {{ store b1[i9], 0.5 }} {body} }}"
        );
        let mut program = parse(&text, &|_| None).unwrap();
        infer_parallelism(&mut program.entry);
        assert_eq!(verify(&program), [], "{program}");
        let x = [Tensor::from([1.0, 2.0, 4.0, 8.0, 0.1, 0.2, 0.3, 7.0, 1e20, -1.0, 3.0, 0.7])];
        let want = shadow(&program, &x).unwrap();
        program.kernels_mut().for_each(|kernel| _ = rotate_registers(kernel, 4));
        assert_eq!(verify(&program), [], "{program}");
        assert_eq!(eval(&program, &x).unwrap(), want, "{program}");
        assert_eq!(shadow(&program, &x).unwrap(), want, "{program}");
        let text = program.to_string();
        let (_, inside) = text.split_once("i0 in").unwrap();
        let inside: Vec<&str> = inside.lines().take_while(|line| line.trim() != "}").collect();
        let count = |word: &str| inside.iter().filter(|line| line.contains(word)).count();
        assert_eq!(["= load", "store"].map(count), expected, "{text}");
    }

    /// Returns code that adds `b0[i0]` to the element of `b1` at address `at`. Its values are numbered from `k` times
    /// 10.
    fn add(k: usize, at: &str) -> String {
        format!(
            "%{k}0: f64 = load b0[i0] %{k}1: f64 = load b1[{at}] %{k}2: f64 = add %{k}1, %{k}0
               store b1[{at}], %{k}2"
        )
    }

    fn adding(iterations: usize, places: &[&str]) -> String {
        let all: Vec<String> = places.iter().enumerate().map(|(k, at)| add(k + 1, at)).collect();
        format!("serial i0 in {iterations} {{ {} }}", all.join(" "))
    }

    #[test]
    fn neighbours_go_from_iteration_to_iteration() {
        check(&adding(10, &["i0", "i0 + 1", "i0 + 2"]), [4, 1]);
        check(&adding(10, &["i0 + 1", "i0", "i0 + 2"]), [4, 1]);
        check(&adding(10, &["i0*-1 + 10", "i0*-1 + 11", "i0*-1 + 9"]), [4, 1]);
        check(&adding(5, &["i0*2", "i0*2 + 2"]), [3, 1]);
        check(&adding(3, &["i0", "i0 + 1", "i0", "i0 + 1"]), [5, 1]);
        // The window is inside another loop, whose iterations access different parts of the array.
        let inner = adding(4, &["i1*6 + i0", "i1*6 + i0 + 1"]);
        check(&format!("serial i1 in 2 {{ {inner} }}"), [3, 1]);
    }

    #[test]
    fn others_stay_in_memory() {
        // Elements stay in memory if they are not adjacent, if they do not advance by one, or if there are
        // fewer iterations than elements.
        check(&adding(9, &["i0", "i0 + 2"]), [4, 2]);
        check(&adding(4, &["i0*2", "i0*2 + 1"]), [4, 2]);
        check(&adding(2, &["i0", "i0 + 1", "i0 + 2"]), [6, 3]);
        // All elements stay in memory if the address of one does not advance, or if one is only stored.
        check(&adding(10, &["i0", "i0 + 1", "11"]), [6, 3]);
        check(
            "serial i0 in 9 { %0: f64 = load b1[i0] %1: f64 = add %0, 1.0 store b1[i0 + 1], %1 }",
            [1, 1],
        );
    }
}
