//! Scalar privatization: a variable that each iteration sets before it reads it becomes local to the iteration.
//!
//! A loop's body was a kernel before it was inlined, and its memory became variables outside of the loop. No value
//! passes from iteration to iteration in these variables, but the declarations suggest it:
//!
//! ```text
//! var v0: f64 = 0.0
//! serial i0 in 5 {                          for i0 in 5 {
//!   v0 = 0.0                                  var v0: f64 = 0.0
//!   serial i1 in 1000 {             ->        serial i1 in 1000 {
//!     .. v0 = %1                                .. v0 = %1
//!   }                                         }
//!   %2: f64 = convert{to=f64} v0              %2: f64 = convert{to=f64} v0
//!   store b1[i0], %2                          store b1[i0], %2
//! }                                         }
//! ```
//!
//! The declaration of a variable moves into the innermost block that contains all uses of the variable, if that block
//! sets the variable before it reads it. Loops that were serial only because of such a variable become parallel, and
//! sums in different iterations become independent chains of additions.

use super::pass::{Invariant, Pass, Run};
use crate::loop_ir::{Arg, Kernel, Stmt, VarId, infer_parallelism};
use cranelift_entity::{EntityRef, PrimaryMap, SecondaryMap, entity_impl};
use tapeloom_ir::OrderedMap;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::Exactness;

/// The entry of this pass in the table `super::PASSES`: its name, effect and requirements.
pub(super) const PASS: Pass = Pass {
    name: "privatize_scalars",
    about: "a variable that each iteration sets before reading becomes local to the iteration",
    requires: Invariant::Form,
    ensures: None,
    exactness: Exactness::Exact,
    run: Run::Kernels(|kernel, _| privatize_scalars(kernel)),
};

/// Privatizes the variables of a kernel. Returns whether any variable's declaration moved.
fn privatize_scalars(kernel: &mut Kernel) -> bool {
    let moves = Uses::of(&kernel.body).moves();
    if moves.is_empty() {
        return false;
    }
    apply(&mut kernel.body, &moves, &mut 0);
    infer_parallelism(kernel);
    true
}

/// A block of statements of a kernel, numbered in program order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct BlockId(u32);
entity_impl!(BlockId, "block");

/// A statement, by its block and its position there.
type Position = (BlockId, usize);

#[derive(Clone, Copy)]
struct Block {
    /// The block around this one. The body of the kernel counts as its own parent.
    parent: BlockId,
    depth: usize,
    /// Whether the block is a nest or the body of a counted loop, so that a declaration may move into it.
    is_open: bool,
}

/// A statement that uses a variable.
#[derive(Clone)]
struct Use {
    at: Position,
    /// Whether the statement gives the variable a value that does not depend on its old value.
    sets: bool,
}

/// The uses of all variables of a kernel, in program order.
struct Uses {
    blocks: PrimaryMap<BlockId, Block>,
    declared: SecondaryMap<VarId, Option<Position>>,
    used: SecondaryMap<VarId, Vec<Use>>,
}

/// The change of a statement when the declaration of its variable moves.
#[derive(Clone, Copy)]
enum Move {
    /// The statement is removed: it declares or sets a variable whose declaration moves into a later block.
    Remove,
    /// The statement sets the variable, and now declares it.
    Declare,
}

impl Uses {
    fn of(body: &[Stmt]) -> Uses {
        let (declared, used) = (SecondaryMap::new(), SecondaryMap::new());
        let mut uses = Uses { blocks: PrimaryMap::new(), declared, used };
        uses.block(body, Block { parent: BlockId::new(0), depth: 0, is_open: false });
        uses
    }

    fn block(&mut self, body: &[Stmt], block: Block) {
        let here = self.blocks.push(block);
        for (n, stmt) in body.iter().enumerate() {
            let at = (here, n);
            let mut add = |var: VarId, sets: bool| match self.used[var].last_mut() {
                Some(last) if last.at == at => last.sets &= sets,
                _ => self.used[var].push(Use { at, sets }),
            };
            match stmt {
                Stmt::Var { var, .. } => self.declared[*var] = Some(at),
                _ => {
                    if let Some((var, _)) = stmt.assigned() {
                        add(var, matches!(stmt, Stmt::Set { .. }));
                    }
                }
            }
            stmt.args(&mut |arg| {
                if let Arg::Var(var) = arg {
                    add(var, false);
                }
            });
            let is_open = matches!(stmt, Stmt::Nest { .. } | Stmt::For { .. } | Stmt::While { .. });
            for inside in stmt.blocks() {
                self.block(inside, Block { parent: here, depth: block.depth + 1, is_open });
            }
        }
    }

    /// Returns the innermost block that contains both blocks.
    fn common(&self, mut a: BlockId, mut b: BlockId) -> BlockId {
        while a != b {
            let deeper = if self.blocks[a].depth >= self.blocks[b].depth { &mut a } else { &mut b };
            *deeper = self.blocks[*deeper].parent;
        }
        a
    }

    /// Returns whether a declaration may move from the block `from` into the block `to` inside it: all blocks between
    /// must be nests or bodies of counted loops.
    fn is_open(&self, from: BlockId, to: BlockId) -> bool {
        let mut block = to;
        while self.blocks[block].depth > self.blocks[from].depth {
            if !self.blocks[block].is_open {
                return false;
            }
            block = self.blocks[block].parent;
        }
        from != to && block == from
    }

    /// Returns the statements that change when declarations move inwards.
    fn moves(&self) -> OrderedMap<Position, Move> {
        let mut moves = OrderedMap::default();
        for (var, used) in self.used.iter() {
            let Some(mut declared) = self.declared[var] else { continue };
            // For each use, compute the innermost block that contains this use and all later uses.
            let mut around: Vec<BlockId> = used.iter().map(|u| u.at.0).collect();
            for n in (1..around.len()).rev() {
                around[n - 1] = self.common(around[n - 1], around[n]);
            }
            // After a move, the statement that set the variable declares it, and this declaration may move on to the
            // uses after it.
            for (next, block) in used.iter().zip(around) {
                let first = next.at.0 == block && next.sets || planted(Fault::OwnOfTheIteration);
                if !first || !self.is_open(declared.0, block) {
                    break;
                }
                moves.insert(declared, Move::Remove);
                moves.insert(next.at, Move::Declare);
                declared = next.at;
            }
        }
        moves
    }
}

/// Applies `moves` to the statements of a block and of the blocks inside it. `next` is the number of the block, and
/// becomes the number of the next block in program order.
fn apply(body: &mut Vec<Stmt>, moves: &OrderedMap<Position, Move>, next: &mut usize) {
    let here = BlockId::new(*next);
    *next += 1;
    let mut at = 0;
    body.retain_mut(|stmt| {
        let change = moves.get(&(here, at)).copied();
        at += 1;
        stmt.blocks_mut().into_iter().for_each(|inside| apply(inside, moves, next));
        if let (Some(Move::Declare), Stmt::Set { var, value }) = (change, &*stmt) {
            *stmt = Stmt::Var { var: *var, init: *value };
        }
        !matches!(change, Some(Move::Remove))
    });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::privatize_scalars;
    use crate::loop_ir::{eval, parse, shadow, verify};
    use tapeloom_ir::Tensor;

    fn local(body: &str) -> String {
        let text = format!(
            "program @x {{ buffer b0: f64[4] input 0 buffer b1: f64[4] output 0
               for i9 in 4 {{ store b1[i9], 0.5 }} {body} }}"
        );
        let mut program = parse(&text, &|_| None).unwrap();
        assert_eq!(verify(&program), []);
        let x = [Tensor::from([1.0, 2.0, 4.0, 8.0])];
        let want = eval(&program, &x).unwrap();
        program.kernels_mut().for_each(|kernel| _ = privatize_scalars(kernel));
        assert_eq!(verify(&program), [], "{program}");
        assert_eq!(eval(&program, &x).unwrap(), want, "{program}");
        assert_eq!(shadow(&program, &x).unwrap(), want, "{program}");
        program.to_string()
    }

    #[test]
    fn variables_set_before_use_are_privatized() {
        let text = local(
            "nest { var v0: f64 = 0.0 serial i0 in 4 { v0 = 1.0 serial i1 in 2 {
               %0: f64 = load b0[i0] %1: f64 = mul v0, %0 v0 = %1 }
             %2: f64 = convert{to=f64} v0 store b1[i0], %2 } }",
        );
        assert!(text.contains("for i0 in 4 {\n      var v0: f64 = 1.0"), "{text}");
    }

    #[test]
    fn declarations_move_through_nested_loops() {
        let text = local(
            "nest { var v0: f64 = 0.0 serial i0 in 2 { v0 = 1.0 serial i1 in 2 { v0 = 2.0
               %0: f64 = load b0[i1] %1: f64 = mul v0, %0 v0 = %1 store b1[i0*2 + i1], v0 } } }",
        );
        assert!(text.contains("for i1 in 2 {\n        var v0: f64 = 2.0"), "{text}");
        assert!(!text.contains("= 1.0") && !text.contains("= 0.0"), "{text}");
    }

    /// Regression: the trip count of a loop is read before its body sets the variable.
    #[test]
    fn trip_counts_are_read_before_the_loop() {
        let text = local(
            "nest { var v0: i64 = 2 serial i0 in (v0) { v0 = 1 %0: f64 = convert{to=f64} v0
               %1: i64 = clamp 0, i0, 3 store b1[(%1)], %0 } }",
        );
        assert!(text.contains("var v0: i64 = 2\n    serial i0 in (v0)"), "{text}");
    }

    #[test]
    fn live_variables_are_not_privatized() {
        // The declaration stays if the value of the variable is read in the next iteration, read after the loop, or set
        // only in a branch.
        for body in [
            "nest { var v0: f64 = 2.0 serial i0 in 4 { %0: f64 = convert{to=f64} v0 store b1[i0], %0
               v0 = 1.0 } }",
            "nest { var v0: f64 = 2.0 serial i0 in 4 { v0 = 1.0 %0: f64 = convert{to=f64} v0
               store b1[i0], %0 } %1: f64 = convert{to=f64} v0 store b1[0], %1 }",
            "nest { var v0: f64 = 2.0 serial i0 in 4 { %0: bool = lt i0, 2 if %0 { v0 = 1.0 } else { }
               %1: f64 = convert{to=f64} v0 store b1[i0], %1 } }",
        ] {
            let text = local(body);
            assert!(text.contains("var v0: f64 = 2.0\n    serial i0"), "{text}");
        }
    }
}
