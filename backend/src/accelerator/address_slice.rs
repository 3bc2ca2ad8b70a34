//! Finds *wires*: values that are used only in addresses, guards and branches, and so cost nothing on the machine.
//!
//! An accelerator spends no function units on index arithmetic, because it has the strides of its loops as constants,
//! and the authors of the TapeFlow paper charge nothing for addresses. So integers and truth values take no unit and
//! no time if they end in addresses, guards, extents and branches, and are neither stored nor used in other
//! computations. (Their users still wait for the operands: an index that is loaded is waited for.) A selection
//! between a value that was loaded under a guard and zero is also a wire, because the selection implements the guard.
//!
//! ```text
//! %0: i64 = mul %i, 12           a wire
//! %1: i64 = add %0, 4            a wire
//! %2: f64 = load b0[(%1)]
//! %3: i64 = add %i, 1            none: it is stored
//! store b1[0], %3
//! ```

use crate::loop_ir::{Arg, Assign, Expr, Kernel, ScalarId, Stmt, VarId, visit};
use cranelift_entity::SecondaryMap;
use tapeloom_ir::{Code, Dtype};

/// Returns, for each scalar of a kernel, whether it is a wire: used only in addresses, guards and branches.
pub(super) fn address_only_scalars(k: &Kernel) -> SecondaryMap<ScalarId, bool> {
    let mut data = Data::default();
    loop {
        let before = data.found;
        visit(&k.body, &mut |stmt| data.stmt(k, stmt));
        if data.found == before {
            break;
        }
    }
    let index = |dtype: Dtype| match dtype {
        Dtype::Bool | Dtype::I32 | Dtype::I64 | Dtype::U32 | Dtype::U64 => true,
        Dtype::F32 | Dtype::F64 => false,
    };
    let mut wires = SecondaryMap::with_capacity(k.scalars.len());
    for (s, dtype) in &k.scalars {
        wires[s] = index(*dtype) && !data.scalars[s];
    }
    // A comparison of floats is never a wire (free of cost): it takes a function unit even if only a branch uses the
    // result.
    visit(&k.body, &mut |stmt| {
        if let Stmt::Let { value, expr: Expr::Code(_, args) } = stmt {
            wires[*value] &= args.iter().all(|a| index(k.dtype(*a)));
        }
    });
    // A selection between a loaded value and zero is a wire (free of cost) if its condition is a wire: such a selection
    // implements a guarded load.
    visit(&k.body, &mut |stmt| {
        if let Stmt::Let { value, expr: Expr::Code(Code::Select, args) } = stmt
            && let [Arg::Scalar(on), _, Arg::Literal(zero)] = args[..]
        {
            wires[*value] |= wires[on] && zero.is_zero();
        }
    });
    wires
}

/// The scalars and variables that are not wires (values used only in addresses, guards and branches), because they are
/// stored or used in computations.
#[derive(Default)]
struct Data {
    scalars: SecondaryMap<ScalarId, bool>,
    vars: SecondaryMap<VarId, bool>,
    found: usize,
}

impl Data {
    fn add(&mut self, arg: Arg) {
        let seen = match arg {
            Arg::Scalar(s) => &mut self.scalars[s],
            Arg::Var(v) => &mut self.vars[v],
            Arg::Index(_) | Arg::Literal(_) => return,
        };
        self.found += usize::from(!*seen);
        *seen = true;
    }

    fn stmt(&mut self, k: &Kernel, stmt: &Stmt) {
        let shape = stmt.shape();
        if let (Some(value), Some(code)) = (shape.defines, shape.code) {
            let float = matches!(k.scalars[value], Dtype::F32 | Dtype::F64);
            // The condition of a selection may be a wire (used only in addresses and branches); the values that it
            // selects from are data.
            let from = usize::from(matches!(code, Code::Select)).min(shape.operands.len());
            if float || self.scalars[value] {
                shape.operands[from..].iter().for_each(|a| self.add(*a));
            }
        }
        let needed = match shape.assigns {
            Some((var, Assign::Fold(_))) => {
                self.add(Arg::Var(var));
                true
            }
            Some((var, Assign::Declare | Assign::Set)) => self.vars[var],
            None => shape.element.is_some_and(|e| e.write),
        };
        if needed {
            shape.operands.iter().for_each(|a| self.add(*a));
        }
    }
}
