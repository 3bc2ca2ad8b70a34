//! Dead-code elimination on loop trees: stores of nodes without memory, and unused scalars.

use super::affine::{Affine, Term};
use super::loop_tree::{At, Def, Tree};
use crate::loop_ir::{Arg, ScalarId};
use crate::lower::graph::NodeId;
use cranelift_entity::SecondaryMap;

/// Removes stores of nodes that need no memory, and scalars without readers, going from the last statement to the
/// first. `live` marks the scalars that later statements read.
pub(crate) fn sweep(
    code: &mut Vec<Tree>,
    needs: &SecondaryMap<NodeId, bool>,
    live: &mut SecondaryMap<ScalarId, bool>,
) {
    let mut keep = Vec::with_capacity(code.len());
    for mut tree in std::mem::take(code).into_iter().rev() {
        match &mut tree {
            Tree::For { body, .. } | Tree::Nest(body) => {
                sweep(body, needs, live);
                if body.is_empty() {
                    continue;
                }
            }
            Tree::Let { value, expr } => {
                if !live[*value] {
                    continue;
                }
                match expr {
                    Def::Code(_, args) => args.iter().for_each(|a| mark(*a, live)),
                    Def::Load { at, guard, .. } => {
                        mark_at(at, live);
                        guard.iter().for_each(|g| mark(*g, live));
                    }
                }
            }
            Tree::Contract(_) | Tree::Region(_) => {}
            Tree::Var { init, .. } => mark(*init, live),
            Tree::Set { value, .. } | Tree::Fold { value, .. } => mark(*value, live),
            Tree::Store { node, at, value, guard } => {
                if !needs[*node] {
                    continue;
                }
                mark(*value, live);
                mark_at(at, live);
                guard.iter().for_each(|g| mark(*g, live));
            }
        }
        keep.push(tree);
    }
    keep.reverse();
    *code = keep;
}

fn mark(arg: Arg, live: &mut SecondaryMap<ScalarId, bool>) {
    if let Arg::Scalar(s) = arg {
        live[s] = true;
    }
}

fn mark_at(at: &At, live: &mut SecondaryMap<ScalarId, bool>) {
    let mut affine = |a: &Affine| {
        for (t, _) in a.terms() {
            if let Term::Scalar(s) = t {
                live[*s] = true;
            }
        }
    };
    match at {
        At::Axes(index) => index.iter().for_each(affine),
        At::Flat(a) => affine(a),
    }
}
