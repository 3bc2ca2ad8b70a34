//! The results of functions of one row: stacked or summed over rows.

use crate::Var;
use crate::tree::{Leaf, Tree};

/// Results of a function of one row that [`Jit::object_rows`](crate::Jit::object_rows) stacks along a new leading axis, as [`vmap`](crate::vmap) does.
///
/// ```
/// use tapeloom::prelude::*;
/// let residual = jit(|((x, y), w): ((Var, Var), Var)| Stacked(x.dot(w) - y));
/// let Stacked(r) = residual.call((([1.0, 2.0], 3.0), [1.0, 1.0]))?;
/// assert_eq!(r.item::<f64>()?, 0.0);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Stacked<A>(pub A);

/// Results of a function of one row that [`Jit::object_rows`](crate::Jit::object_rows) sums over the rows. A sum has the shape of one row's result.
///
/// ```
/// use tapeloom::prelude::*;
/// let loss = |x: Var, w: Var| (x.dot(w) - 1.0).square();
/// let f = jit(move |(x, w): (Var, Var)| Summed(value_and_grad(|w| loss(x, w))(w)));
/// let Summed((value, gradient)) = f.call(([1.0, 2.0], [1.0, 1.0]))?;
/// assert_eq!((value.item::<f64>()?, gradient.to_vec::<f64>()?), (4.0, vec![4.0, 8.0]));
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Summed<A>(pub A);

/// The results of a function of one row: [`Stacked`] and [`Summed`] trees, or tuples, arrays, `Vec`s and derived structs of
/// them. `L` is the type of leaves, [`Var`].
///
/// ```
/// use tapeloom::prelude::*;
/// #[derive(Tree)]
/// struct Fit<T> { residual: Stacked<T>, loss: Summed<T> }
/// let fit = jit(|((x, y), w): ((Var, Var), Var)| {
///     let residual = x.dot(w) - y;
///     Fit { residual: Stacked(residual), loss: Summed(residual.square()) }
/// });
/// assert_eq!(fit.call((([1.0, 2.0], 1.0), [1.0, 1.0]))?.loss.0.item::<f64>()?, 4.0);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not specify which results are stacked and which are summed over the \
               rows",
    note = "return `Stacked(x)`, `Summed(x)`, or tuples, arrays, `Vec`s and structs of these; `x` is any tree"
)]
pub trait RowResults<L = Var>: Tree<L> {
    /// Appends, for each leaf, whether it is stacked (otherwise summed).
    #[doc(hidden)]
    fn stacked(structure: &<Self as Tree<L>>::Structure, out: &mut Vec<bool>);
}

macro_rules! results {
    ($($Results:ident stacked $stacked:literal;)*) => {$(
        impl<L, A: Tree<L>> Tree<L> for $Results<A> {
            type With<M: Leaf> = $Results<A::With<M>>;
            type Structure = A::Structure;
            fn structure(&self) -> A::Structure {
                self.0.structure()
            }
            fn has_structure(&self, structure: &A::Structure) -> bool {
                self.0.has_structure(structure)
            }
            fn leaves<'a>(&'a self, visit: &mut dyn FnMut(&'a L)) {
                self.0.leaves(visit);
            }
            fn leaves_mut<'a>(&'a mut self, visit: &mut dyn FnMut(&'a mut L)) {
                self.0.leaves_mut(visit);
            }
            fn from_leaves(structure: &A::Structure, next: &mut dyn FnMut() -> L) -> Self {
                $Results(A::from_leaves(structure, next))
            }
            fn with_leaves<M: Leaf>(
                structure: &A::Structure,
                next: &mut dyn FnMut() -> M,
            ) -> Self::With<M> {
                $Results(A::with_leaves(structure, next))
            }
            fn paths(structure: &A::Structure, path: &mut String, visit: &mut dyn FnMut(&str)) {
                A::paths(structure, path, visit);
            }
            fn differences(
                one: &A::Structure,
                other: &A::Structure,
                path: &mut String,
                visit: &mut dyn FnMut(&str, String, String),
            ) {
                A::differences(one, other, path, visit);
            }
        }

        impl<L, A: Tree<L>> RowResults<L> for $Results<A> {
            fn stacked(structure: &A::Structure, out: &mut Vec<bool>) {
                A::paths(structure, &mut String::new(), &mut |_| out.push($stacked));
            }
        }
    )*};
}
results! {
    Stacked stacked true;
    Summed stacked false;
}

impl<L> RowResults<L> for () {
    fn stacked((): &(), _: &mut Vec<bool>) {}
}

impl<L, A: RowResults<L>> RowResults<L> for Vec<A> {
    fn stacked(structure: &Vec<A::Structure>, out: &mut Vec<bool>) {
        structure.iter().for_each(|s| A::stacked(s, out));
    }
}

impl<L, A: RowResults<L>, const N: usize> RowResults<L> for [A; N] {
    fn stacked(structure: &[A::Structure; N], out: &mut Vec<bool>) {
        structure.iter().for_each(|s| A::stacked(s, out));
    }
}

macro_rules! tuple {
    ($($A:ident $i:tt),+) => {
        impl<L, $($A: RowResults<L>),+> RowResults<L> for ($($A,)+) {
            fn stacked(structure: &($($A::Structure,)+), out: &mut Vec<bool>) {
                $($A::stacked(&structure.$i, out);)+
            }
        }
    };
}
tuple!(A 0);
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);
tuple!(A 0, B 1, C 2, D 3, E 4);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, N 11);
