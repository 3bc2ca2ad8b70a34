//! says: Var` does not specify which results are stacked and which are summed over the rows
//! says: return `Stacked(x)`, `Summed(x)`, or tuples, arrays, `Vec`s and structs of these
//! errors: 1

use tapeloom::prelude::*;

fn main() {
    let f = jit(|(x, w): (Var, Var)| x * w);
    let object = f.object_rows((1.0, 2.0), "f");
}
