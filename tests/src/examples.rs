//! Small functions in text form, with arguments, for tests that apply several transforms.
//!
//! Together they cover the cases in which transforms tend to fail: values that are read twice or never, results that
//! are parameters or constants, integers beside floats, zeros in products, array elements that are both read and
//! written, outlined calls, and custom rules.

use crate::{Case, Failure, read_tensors};
use tapeloom_ir::{Module, parse_module};

/// An example: a module in text form, with a description and arguments. The last function of the text is the example.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    /// The name of the function.
    pub name: &'static str,
    /// The feature that the example covers and others do not.
    pub about: &'static str,
    /// The text of the module.
    pub text: &'static str,
    /// The arguments as text, separated by `;`.
    pub args: &'static str,
}

impl Example {
    /// Parses the text into a new module, and returns the module, and the example with its arguments.
    ///
    /// # Errors
    /// If the text does not parse.
    pub fn read(&self) -> Result<(Module, Case), Failure> {
        let module = parse_module(self.text).map_err(|e| format!("@{}: {}", self.name, e[0]))?;
        let f = module.iter().find(|(_, f)| *f.name == *self.name);
        let (f, _) = f.ok_or(format!("no function @{}", self.name))?;
        let args = read_tensors(self.args)?;
        Ok((module, Case { name: self.name.to_owned(), f, args, smooth: true }))
    }
}

/// All examples. Each function is smooth near its arguments, so that finite differences apply.
pub const EXAMPLES: &[Example] = &[
    Example {
        name: "chain",
        about: "scalars, one after the other",
        text: "
func @chain(%0: f64[]) -> (f64[]) {
  %1: f64[] = sin %0
  %2: f64[] = exp %1
  return %2
}",
        args: "0.7",
    },
    Example {
        name: "polynomial",
        about: "a value that is read often; integer powers; literals",
        text: "
func @polynomial(%0: f64[3], %1: f64[]) -> (f64[3]) {
  %2: f64[3] = integer_pow{n=3} %0
  %3: f64[3] = broadcast{shape=[3], dims=[]} %1
  %4: f64[3] = mul %3, %2
  %5: f64[3] = mul %0, %0
  %6: f64[3] = mul 3.0, %5
  %7: f64[3] = sub %4, %6
  %8: f64[3] = mul %0, 0.5
  %9: f64[3] = add %7, %8
  %10: f64[3] = sub 1.0, %9
  return %10
}",
        args: "f64[3] {0.5, -1.5, 2.0}; 2.0",
    },
    Example {
        name: "logistic_loss",
        about: "a fit: dot, logistic, logarithms, mean",
        text: "
func @logistic_loss(%0: f64[3], %1: f64[2,3], %2: f64[2]) -> (f64[]) {
  %3: f64[2] = dot{lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} %1, %0
  %4: f64[2] = logistic %3
  %5: f64[2] = log %4
  %6: f64[2] = mul %2, %5
  %7: f64[2] = sub 1.0, %4
  %8: f64[2] = log %7
  %9: f64[2] = sub 1.0, %2
  %10: f64[2] = mul %9, %8
  %11: f64[2] = add %6, %10
  %12: f64[] = reduce_sum{axes=[0]} %11
  %13: f64[] = mul %12, -0.5
  return %13
}",
        args: "f64[3] {0.5, -0.25, 1.0}; f64[2,3] {1.0, 2.0, -0.5, 0.25, -1.0, 0.75}; f64[2] {0.75, 0.125}",
    },
    Example {
        name: "softmax",
        about: "a shift that is stopped, so that the derivative is the simple one; two results",
        text: "
func @softmax(%0: f64[4]) -> (f64[], f64[4]) {
  %1: f64[] = reduce_max{axes=[0]} %0
  %2: f64[] = stop_gradient %1
  %3: f64[4] = broadcast{shape=[4], dims=[]} %2
  %4: f64[4] = sub %0, %3
  %5: f64[4] = exp %4
  %6: f64[] = reduce_sum{axes=[0]} %5
  %7: f64[] = log %6
  %8: f64[] = add %7, %2
  %9: f64[4] = broadcast{shape=[4], dims=[]} %6
  %10: f64[4] = div %5, %9
  return %8, %10
}",
        args: "f64[4] {0.5, -1.0, 2.0, 1.0}",
    },
    Example {
        name: "zeros",
        about: "products with one zero, with two, with none",
        text: "
func @zeros(%0: f64[3,3]) -> (f64[3]) {
  %1: f64[3] = reduce_prod{axes=[1]} %0
  %2: f64[3] = sin %1
  return %2
}",
        args: "f64[3,3] {0.0, 1.5, -2.0, 0.0, 0.5, 0.0, 1.5, -0.5, 0.75}",
    },
    Example {
        name: "lookup",
        about: "one element read twice; indices beyond the end",
        text: "
func @lookup(%0: f64[4], %1: i64[5,1]) -> (f64[5]) {
  %2: f64[5] = gather{batch=0, axes=[0], bounds=clip} %0, %1
  %3: f64[5] = gather{batch=0, axes=[0], bounds=drop} %0, %1
  %4: f64[5] = mul %2, %2
  %5: f64[5] = cos %3
  %6: f64[5] = mul %4, %5
  return %6
}",
        args: "f64[4] {0.5, -1.25, 2.0, 0.75}; i64[5,1] {2, 0, 2, 9, 1}",
    },
    Example {
        name: "histogram",
        about: "one place written several times",
        text: "
func @histogram(%0: f64[3], %1: i64[4,1], %2: f64[4]) -> (f64[3]) {
  %3: f64[3] = sin %0
  %4: f64[4] = mul %2, %2
  %5: f64[3] = scatter_add{batch=0, axes=[0], bounds=drop} %3, %1, %4
  %6: f64[3] = scatter_mul{batch=0, axes=[0], bounds=drop} %5, %1, %2
  return %6
}",
        args: "f64[3] {0.5, -1.25, 2.0}; i64[4,1] {2, 0, 2, 7}; f64[4] {1.5, -0.5, 0.75, 1.0}",
    },
    Example {
        name: "extremes",
        about: "selections by value, far from ties",
        text: "
func @extremes(%0: f64[3,2], %1: f64[2]) -> (f64[2], f64[3,2]) {
  %2: f64[2] = reduce_max{axes=[0]} %0
  %3: f64[2] = mul %2, %1
  %4: f64[2] = reduce_min{axes=[0]} %0
  %5: f64[2] = max %3, %4
  %6: f64[3,2] = clamp -1.0, %0, 1.0
  %7: bool[3,2] = gt %0, 0.0
  %8: f64[3,2] = exp %6
  %9: f64[3,2] = select %7, %8, %0
  return %5, %9
}",
        args: "f64[3,2] {0.5, -1.5, 3.0, 0.25, -2.0, 2.0}; f64[2] {0.5, -0.25}",
    },
    Example {
        name: "splice",
        about: "windows read and written at a dynamic position",
        text: "
func @splice(%0: f64[5], %1: f64[2], %2: i64[]) -> (f64[5], f64[3]) {
  %3: i64[] = add %2, 1
  %4: f64[2] = sin %1
  %5: f64[5] = dynamic_update_slice %0, %4, %2
  %6: f64[3] = dynamic_slice{sizes=[3]} %5, %3
  %7: f64[3] = mul %6, %6
  %8: f64[5] = mul %5, %0
  return %8, %7
}",
        args: "f64[5] {0.5, -1.25, 2.0, 1.5, -0.75}; f64[2] {0.25, -0.5}; 1",
    },
    Example {
        name: "calls",
        about: "one function called outlined and inlined; a result that is not read",
        text: "
func @inner(%0: f64[2], %1: f64[]) -> (f64[2], f64[]) {
  %2: f64[2] = broadcast{shape=[2], dims=[]} %1
  %3: f64[2] = sin %0
  %4: f64[2] = mul %3, %2
  %5: f64[] = reduce_sum{axes=[0]} %4
  return %4, %5
}
func @calls(%0: f64[2], %1: f64[]) -> (f64[2]) {
  %2: f64[2], %3: f64[] = call{function=@inner, outline=true} %0, %1
  %4: f64[2], %5: f64[] = call{function=@inner, outline=false} %2, %3
  %6: f64[2], %7: f64[] = call{function=@inner, outline=true} %4, %1
  return %6
}",
        args: "f64[2] {0.5, -1.25}; 0.75",
    },
    Example {
        name: "nested",
        about: "an outlined call in an outlined call, of which one argument is never differentiated",
        text: "
func @leaf(%0: f64[], %1: i64[]) -> (f64[], i64[]) {
  %2: f64[] = convert{to=f64} %1
  %3: f64[] = mul %0, %2
  %4: f64[] = tanh %3
  %5: i64[] = add %1, 1
  return %4, %5
}
func @middle(%0: f64[], %1: i64[]) -> (f64[], i64[]) {
  %2: f64[], %3: i64[] = call{function=@leaf, outline=true} %0, %1
  %4: f64[], %5: i64[] = call{function=@leaf, outline=true} %2, %3
  return %4, %5
}
func @nested(%0: f64[], %1: i64[]) -> (f64[], i64[]) {
  %2: f64[], %3: i64[] = call{function=@middle, outline=true} %0, %1
  %4: f64[] = mul %2, %0
  return %4, %3
}",
        args: "0.5; 2",
    },
    Example {
        name: "forward_rule",
        about: "a function with a custom jvp",
        text: "
func @softplus(%0: f64[3]) -> (f64[3]) {
  %1: f64[3] = exp %0
  %2: f64[3] = log1p %1
  return %2
}
func @softplus.rule(%0: f64[3], %1: f64[3]) -> (f64[3], f64[3]) {
  %2: f64[3] = exp %0
  %3: f64[3] = log1p %2
  %4: f64[3] = logistic %0
  %5: f64[3] = mul %4, %1
  return %3, %5
}
func @forward_rule(%0: f64[3], %1: f64[3]) -> (f64[3]) {
  %2: f64[3] = mul %0, %1
  %3: f64[3] = custom_call{function=@softplus, jvp=@softplus.rule} %2
  %4: f64[3] = mul %3, %0
  return %4
}",
        args: "f64[3] {0.5, -1.25, 2.0}; f64[3] {1.5, 0.75, -0.5}",
    },
    Example {
        name: "reverse_rule",
        about: "a function with a custom vjp",
        text: "
func @wave(%0: f64[2], %1: f64[2]) -> (f64[2]) {
  %2: f64[2] = sin %1
  %3: f64[2] = mul %0, %2
  return %3
}
func @wave.fwd(%0: f64[2], %1: f64[2]) -> (f64[2], f64[2], f64[2]) {
  %2: f64[2] = sin %1
  %3: f64[2] = mul %0, %2
  %4: f64[2] = cos %1
  %5: f64[2] = mul %0, %4
  return %3, %2, %5
}
func @wave.bwd(%0: f64[2], %1: f64[2], %2: f64[2]) -> (f64[2], f64[2]) {
  %3: f64[2] = mul %0, %2
  %4: f64[2] = mul %1, %2
  return %3, %4
}
func @reverse_rule(%0: f64[2], %1: f64[2]) -> (f64[]) {
  %2: f64[2] = custom_call{function=@wave, fwd=@wave.fwd, bwd=@wave.bwd} %0, %1
  %3: f64[2] = mul %2, %1
  %4: f64[] = reduce_sum{axes=[0]} %3
  return %4
}",
        args: "f64[2] {0.5, -1.25}; f64[2] {1.5, 0.75}",
    },
    Example {
        name: "shapes",
        about: "all primitives that move elements",
        text: "
func @shapes(%0: f64[2,3], %1: f64[2,1], %2: f64[]) -> (f64[3,5]) {
  %3: f64[2,4] = concatenate{axis=1} %0, %1
  %4: f64[4,2] = permute{permutation=[1,0]} %3
  %5: f64[4,2] = rev{axes=[0]} %4
  %6: f64[3,2] = slice{start=[0,0], limit=[3,2], strides=[1,1]} %5
  %7: f64[3,5] = pad{low=[0,1], high=[0,1], interior=[0,1]} %6, %2
  %8: f64[3,2] = reshape{shape=[3,2]} %0
  %9: f64[3,5] = pad{low=[0,2], high=[0,1], interior=[0,0]} %8, 0.0
  %10: f64[3,5] = mul %7, %7
  %11: f64[3,5] = add %10, %9
  return %11
}",
        args: "f64[2,3] {0.5, -1.25, 2.0, 1.5, -0.75, 0.25}; f64[2,1] {1.25, -0.5}; 0.75",
    },
    Example {
        name: "integers",
        about: "integers computed from floats, read by floats and returned",
        text: "
func @integers(%0: f64[3], %1: i64[3], %2: bool[]) -> (i64[3], f64[3], i64[], f64[]) {
  %3: i64[3] = mul %1, %1
  %4: f64[3] = convert{to=f64} %3
  %5: f64[3] = mul %0, %4
  %6: i64[] = argmax{axis=0} %5
  %7: i64[1] = reshape{shape=[1]} %6
  %8: f64[] = gather{batch=0, axes=[0], bounds=clip} %0, %7
  %9: i64[3] = iota{shape=[3], axis=0, dtype=i64}
  %10: i64[3] = add %3, %9
  %11: f64[] = neg %8
  %12: f64[] = select %2, %8, %11
  %13: f64[] = mul %12, %8
  return %10, %5, %6, %13
}",
        args: "f64[3] {0.5, -1.25, 2.0}; i64[3] {1, -2, 3}; bool[] {true}",
    },
    Example {
        name: "outputs",
        about: "results that are parameters, constants, equal, or without a derivative",
        text: "
func @outputs(%0: f64[2], %1: f64[], %2: f64[2]) -> (f64[2], f64[], f64[], f64[2], f64[2], f64[2]) {
  %3: f64[2] = broadcast{shape=[2], dims=[]} %1
  %4: f64[2] = mul %0, %3
  %5: f64[2] = floor %4
  %6: f64[2] = iota{shape=[2], axis=0, dtype=f64}
  return %4, %1, 2.5, %4, %5, %6
}",
        args: "f64[2] {0.5, -1.25}; 0.75; f64[2] {1.0, 2.0}",
    },
    Example {
        name: "layers",
        about: "matrix products, with a batch and without",
        text: "
func @layers(%0: f64[2,3], %1: f64[3,2], %2: f64[2,2,2]) -> (f64[2,2]) {
  %3: f64[2,2] = dot{lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} %0, %1
  %4: f64[2,2] = tanh %3
  %5: f64[2,2] = dot{lhs_batch=[0], rhs_batch=[0], lhs_contract=[1], rhs_contract=[2]} %4, %2
  return %5
}",
        args: "f64[2,3] {0.5, -1.25, 2.0, 1.5, -0.75, 0.25}; f64[3,2] {0.5, 0.25, -0.5, 1.0, 0.125, -0.75}; f64[2,2,2] {1.0, -0.5, 0.75, 0.25, 2.0, 1.5, -1.0, 0.5}",
    },
    Example {
        name: "recurrent",
        about: "a loop over elements, with a carry, a constant and stacked results",
        text: "
func @step(%0: f64[2,2], %1: f64[2], %2: f64[2]) -> (f64[2], f64[2]) {
  %3: f64[2] = dot{lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} %0, %1
  %4: f64[2] = add %3, %2
  %5: f64[2] = tanh %4
  %6: f64[2] = mul %5, %2
  return %5, %6
}
func @recurrent(%0: f64[2,2], %1: f64[2], %2: f64[3,2]) -> (f64[2], f64[3,2]) {
  %3: f64[2], %4: f64[3,2] = loop{body=@step, trip=3, direction=down, takes=[const,carry0,xs]} %0, %1, %2
  return %3, %4
}",
        args: "f64[2,2] {0.5, -1.25, 0.75, 1.5}; f64[2] {0.5, -0.25}; f64[3,2] {0.5, 0.25, -0.5, 1.0, 0.125, -0.75}",
    },
    Example {
        name: "places",
        about: "a loop that updates places of an array by places of another, and counts",
        text: "
func @place(%0: i64[], %1: f64[3], %2: f64[4], %3: i64[]) -> (f64[3], i64[]) {
  %4: f64[1] = dynamic_slice{sizes=[1]} %2, %3
  %5: f64[1] = dynamic_slice{sizes=[1]} %1, %0
  %6: f64[1] = sin %5
  %7: f64[1] = mul %6, %4
  %8: f64[3] = dynamic_update_slice %1, %7, %0
  %9: i64[] = add %3, 2
  return %8, %9
}
func @places(%0: f64[3], %1: f64[4], %2: i64[]) -> (f64[3], i64[]) {
  %3: f64[3], %4: i64[] = loop{body=@place, trip=4, direction=up, takes=[index,carry0,const,carry1]} %0, %1, %2
  return %3, %4
}",
        args: "f64[3] {0.5, -1.25, 2.0}; f64[4] {1.5, 0.25, -0.75, 2.0}; -1",
    },
    Example {
        name: "branching",
        about: "a branch on a value, with a pole in the side that is not taken; a branch in a loop",
        text: "
func @log(%0: f64[], %1: f64[2]) -> (f64[2], f64[]) {
  %2: f64[] = log %0
  %3: f64[2] = broadcast{shape=[2], dims=[]} %2
  %4: f64[2] = mul %3, %1
  return %4, %2
}
func @exp(%0: f64[], %1: f64[2]) -> (f64[2], f64[]) {
  %2: f64[2] = exp %1
  return %2, %0
}
func @choose(%0: i64[], %1: f64[], %2: f64[2]) -> (f64[], f64[2]) {
  %3: f64[2], %4: f64[] = cond{branches=[@exp,@log,@exp]} %0, %1, %2
  %5: f64[] = mul %4, 0.5
  return %5, %3
}
func @branching(%0: f64[], %1: f64[2]) -> (f64[2], f64[], f64[], f64[3,2]) {
  %2: bool[] = gt %0, 0.0
  %3: f64[2], %4: f64[] = cond{branches=[@exp,@log]} %2, %0, %1
  %5: f64[], %6: f64[3,2] = loop{body=@choose, trip=3, direction=up, takes=[index,carry0,const]} %0, %1
  return %3, %4, %5, %6
}",
        args: "0.75; f64[2] {0.5, -0.25}",
    },
];
