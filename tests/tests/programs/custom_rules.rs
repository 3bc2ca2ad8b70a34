//! Functions with custom derivative rules, under every transform.
//!
//! The rules disagree with the function on purpose (they give ten or a hundred times its derivative), so that a test
//! can see which rule was used.

use tapeloom_ir::{FuncId, Kind, Module, Problem, Tensor, parse_module};
use tapeloom_tests::run;
use tapeloom_transforms::{batch, by_name, jvp, linearize, vjp};

/// The function sin x, with a jvp rule that returns 10 cos x dx and a reverse rule that returns 100 cos x ct: the
/// factor shows which rule was used.
const SINE: &str = "
func @sine(%x: f64[]) -> (f64[]) {
  %y: f64[] = sin %x
  return %y
}
func @times_ten(%x: f64[]) -> (f64[]) {
  %y: f64[] = mul %x, 10.0
  return %y
}
func @sine.jvp(%x: f64[], %dx: f64[]) -> (f64[], f64[]) {
  %y: f64[] = sin %x
  %c: f64[] = cos %x
  %t: f64[] = call{function=@times_ten, outline=true} %dx
  %dy: f64[] = mul %c, %t
  return %y, %dy
}
func @sine.fwd(%x: f64[]) -> (f64[], f64[]) {
  %y: f64[] = sin %x
  %c: f64[] = cos %x
  return %y, %c
}
func @sine.bwd(%c: f64[], %ct: f64[]) -> (f64[]) {
  %t: f64[] = mul %ct, 100.0
  %r: f64[] = mul %t, %c
  return %r
}
func @sine.clip(%c: f64[], %ct: f64[]) -> (f64[]) {
  %t: f64[] = mul %ct, %c
  %r: f64[] = min %t, 0.5
  return %r
}
";

/// Returns a module with `@sine`, and a function of one scalar that applies `@sine` with the given rules.
fn with_rules(rules: &str) -> (Module, FuncId) {
    let text = format!(
        "{SINE}
func @f(%x: f64[]) -> (f64[]) {{
  %y: f64[] = custom_call{{function=@sine{rules}}} %x
  return %y
}}"
    );
    program(&text)
}

/// Parses a module and returns its last function.
fn program(text: &str) -> (Module, FuncId) {
    let module = parse_module(text).unwrap_or_else(|e| panic!("{e:?}"));
    let f = module.iter().last().unwrap_or_else(|| panic!("no function")).0;
    (module, f)
}

fn value(module: &Module, f: FuncId, args: &[f64]) -> Vec<f64> {
    let args: Vec<Tensor> = args.iter().map(|x| Tensor::from(*x)).collect();
    let y = run(module, f, &args).unwrap_or_else(|e| panic!("{e}"));
    y.iter().map(|y| y.item().unwrap_or(f64::NAN)).collect()
}

#[track_caller]
fn close(got: f64, want: f64) {
    assert!((got - want).abs() <= 1e-12 * (1.0 + want.abs()), "{got} is not {want}");
}

const X: f64 = 0.75;

fn forward(rules: &str) -> Result<f64, Problem> {
    let (mut m, f) = with_rules(rules);
    let of = jvp(&mut m, f, &[true])?;
    let y = value(&m, of.function, &[X, 1.0]);
    close(y[0], X.sin());
    Ok(y[1])
}

fn reverse(rules: &str) -> Result<f64, Problem> {
    let (mut m, f) = with_rules(rules);
    let of = vjp(&mut m, f, &[true])?;
    let y = value(&m, of.function, &[X, 1.0]);
    close(y[0], X.sin());
    // Code generation inlines functions with rules; the result must not change.
    let opened = by_name("expand")?.apply(&mut m, of.function)?;
    close(value(&m, opened, &[X, 1.0])[1], y[1]);
    Ok(y[1])
}

#[test]
fn each_mode_uses_its_rule() -> Result<(), Problem> {
    let (jvp, vjp) = (", jvp=@sine.jvp", ", fwd=@sine.fwd, bwd=@sine.bwd");
    let both = format!("{jvp}{vjp}");
    close(forward("")?, X.cos());
    close(reverse("")?, X.cos());
    close(forward(jvp)?, 10.0 * X.cos());
    close(reverse(jvp)?, 10.0 * X.cos());
    close(forward(vjp)?, 100.0 * X.cos());
    close(reverse(vjp)?, 100.0 * X.cos());
    close(forward(&both)?, 10.0 * X.cos());
    close(reverse(&both)?, 100.0 * X.cos());
    Ok(())
}

#[test]
fn derivatives_of_derivatives_differentiate_the_rules() -> Result<(), Problem> {
    for (rules, factor) in [(", jvp=@sine.jvp", 10.0), (", fwd=@sine.fwd, bwd=@sine.bwd", 100.0)] {
        let second = -factor * X.sin();
        // Compute the first derivative in forward or reverse mode, and from each its derivative with respect to x, in
        // forward and in reverse mode.
        for reverse_first in [false, true] {
            let (mut m, f) = with_rules(rules);
            let first = match reverse_first {
                true => vjp(&mut m, f, &[true])?.function,
                false => jvp(&mut m, f, &[true])?.function,
            };
            let of = jvp(&mut m, first, &[true, false])?;
            close(value(&m, of.function, &[X, 1.0, 1.0])[3], second);
            let of = vjp(&mut m, first, &[true, false])?;
            close(value(&m, of.function, &[X, 1.0, 0.0, 1.0])[2], second);
        }
    }
    Ok(())
}

#[test]
fn a_reverse_rule_that_clips_has_no_forward_mode() -> Result<(), Problem> {
    let rules = ", fwd=@sine.fwd, bwd=@sine.clip";
    close(reverse(rules)?, 0.5);

    let problem = forward(rules).map(|_| ()).expect_err("clipping is not linear");
    assert_eq!(problem.kind, Kind::NotDifferentiable);
    assert!(problem.message.contains("@sine has a reverse rule only"), "{problem}");
    assert!(problem.message.contains("`min` is not linear"), "{problem}");
    assert!(problem.help.contains("jvp rule"), "{problem}");

    // Tracing must succeed, because the rule gives the transpose of the linear function. Running the linear function
    // itself must give an error.
    let (mut m, f) = with_rules(rules);
    let of = linearize(&mut m, f, &[true])?;
    let args = [Tensor::from(X.cos()), Tensor::from(1.0)];
    let problem = run(&m, of.lin, &args).map(|_| ()).expect_err("there is nothing to run");
    assert!(problem.to_string().contains("cannot be run forward"), "{problem}");

    // Forward over reverse mode differentiates the clipping `min(cos x · ct, 0.5)`: slope 0 where it clips, cos x
    // below.
    let back = vjp(&mut m, f, &[true])?.function;
    let of = jvp(&mut m, back, &[false, true])?;
    close(value(&m, of.function, &[X, 1.0, 1.0])[2], 0.0);
    close(value(&m, of.function, &[X, 0.25, 1.0])[2], X.cos());
    Ok(())
}

#[test]
fn a_jvp_rule_beside_one_that_clips_is_the_forward_mode() -> Result<(), Problem> {
    let rules = ", jvp=@sine.jvp, fwd=@sine.fwd, bwd=@sine.clip";
    close(forward(rules)?, 10.0 * X.cos());
    close(reverse(rules)?, 0.5);

    // The linear function must run the jvp rule. Its operands are dx, the residual x of the jvp rule, and cos x, which
    // `fwd` saves.
    let (mut m, f) = with_rules(rules);
    let of = linearize(&mut m, f, &[true])?;
    let args = [X.cos(), X, 1.0];
    close(
        value(&m, of.lin, &args[3 - m.function(of.lin).param_types().len()..])[0],
        10.0 * X.cos(),
    );
    Ok(())
}

#[test]
fn a_jvp_rule_must_be_linear_in_the_tangents() {
    let (mut m, f) = program(
        "
func @id(%x: f64[]) -> (f64[]) {
  return %x
}
func @id.jvp(%x: f64[], %dx: f64[]) -> (f64[], f64[]) {
  %dy: f64[] = mul %dx, %dx
  return %x, %dy
}
func @f(%x: f64[]) -> (f64[]) {
  %y: f64[] = custom_call{function=@id, jvp=@id.jvp} %x
  return %y
}",
    );
    let problem = vjp(&mut m, f, &[true]).map(|_| ()).expect_err("dx² is not linear");
    assert_eq!(problem.kind, Kind::NotLinear);
    assert!(problem.message.contains("the jvp rule @id.jvp is not linear"), "{problem}");
}

/// Rules with loops and branches that carry values and tangents. If a rule is linear in the tangents, it must be
/// accepted for reverse mode; otherwise it must be refused.
#[test]
fn loops_and_branches_of_rules_are_linear_or_refused() {
    let rule = |functions: &str, dy: &str| {
        program(&format!(
            "{functions}
func @id(%x: f64[]) -> (f64[]) {{
  return %x
}}
func @id.jvp(%x: f64[], %dx: f64[]) -> (f64[], f64[]) {{
  {dy}
  return %x, %dy
}}
func @f(%x: f64[]) -> (f64[]) {{
  %y: f64[] = custom_call{{function=@id, jvp=@id.jvp}} %x
  return %y
}}"
        ))
    };
    let iteration = |made: &str| {
        format!(
            "func @iteration(%c: f64[], %d: f64[]) -> (f64[], f64[]) {{
  %a: f64[] = sin %c
  {made}
  return %a, %b
}}"
        )
    };
    let looped = |start: &str| {
        let takes = "direction=up, takes=[carry0,carry1]";
        format!("%c: f64[], %dy: f64[] = loop{{body=@iteration, trip=3, {takes}}} %x, {start}")
    };
    let (mut m, f) = rule(&iteration("%b: f64[] = mul %d, %c"), &looped("%dx"));
    let of = vjp(&mut m, f, &[true]).unwrap_or_else(|e| panic!("{e}"));
    close(value(&m, of.function, &[X, 1.0])[1], X * X.sin() * X.sin().sin());

    let rounded = iteration("%b: f64[] = floor %d");
    let added = "func @iteration(%c: f64[], %d: f64[], %dx: f64[]) -> (f64[], f64[]) {
  %b: f64[] = add %d, %dx
  return %c, %b
}";
    let onto_one = "%c: f64[], %dy: f64[] = loop{body=@iteration, trip=3, direction=up, \
                    takes=[carry0,carry1,const]} %x, 1.0, %dx";
    let sides = "func @no(%x: f64[], %d: f64[]) -> (f64[]) {
  return %d
}
func @yes(%x: f64[], %d: f64[]) -> (f64[]) {
  return %x
}";
    let chosen = |by: &str| {
        format!("%p: bool[] = gt {by}, 0.0\n  %dy: f64[] = cond{{branches=[@no,@yes]}} %p, %x, %dx")
    };
    for (functions, dy) in [
        (iteration("%b: f64[] = mul %d, %d"), looped("%dx")),
        (rounded, looped("%dx")),
        (iteration("%b: f64[] = stop_gradient %d"), looped("%dx")),
        (added.to_owned(), onto_one.to_owned()),
        (sides.to_owned(), chosen("%x")),
        (sides.replace("return %x", "return %d"), chosen("%dx")),
    ] {
        let (mut m, f) = rule(&functions, &dy);
        let problem = vjp(&mut m, f, &[true]).map(|_| ()).expect_err(&functions);
        assert_eq!(problem.kind, Kind::NotLinear, "{problem}\n{functions}");
    }
}

/// The function w x for a w that batch members share, with rules; the reverse rule returns ten times the cotangent of
/// w.
const SCALE: &str = "
func @scale(%w: f64[], %x: f64[]) -> (f64[], i64[]) {
  %y: f64[] = mul %w, %x
  return %y, 7
}
func @scale.fwd(%w: f64[], %x: f64[]) -> (f64[], i64[], f64[], f64[]) {
  %y: f64[] = mul %w, %x
  return %y, 7, %w, %x
}
func @scale.bwd(%w: f64[], %x: f64[], %ct: f64[]) -> (f64[], f64[]) {
  %a: f64[] = mul %x, 10.0
  %b: f64[] = mul %a, %ct
  %c: f64[] = mul %w, %ct
  return %b, %c
}
func @f(%w: f64[], %x: f64[]) -> (f64[]) {
  %y: f64[], %n: i64[] = custom_call{function=@scale, fwd=@scale.fwd, bwd=@scale.bwd} %w, %x
  return %y
}";

#[test]
fn a_shared_operand_gets_the_sum_of_the_batch() -> Result<(), Problem> {
    let (mut m, f) = program(SCALE);
    let (w, x) = (Tensor::from(2.0), Tensor::from([1.0, 3.0, 5.0]));
    let ct = Tensor::from([1.0, 10.0, 100.0]);

    // In reverse mode of a batch, the cotangent of the shared w must be the sum over members.
    let lifted = batch(&mut m, f, 3, &[false, true])?;
    assert_eq!(lifted.batched_out, [true]);
    let of = vjp(&mut m, lifted.function, &[true, true])?;
    let args = [w.clone(), x.clone(), ct.clone()];
    let out = run(&m, of.function, &args).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(out[0], Tensor::from([2.0, 6.0, 10.0]));
    assert_eq!(out[1], Tensor::from(5310.0));
    assert_eq!(out[2], Tensor::from([2.0, 20.0, 200.0]));

    // Forward mode of a batch must be right, where it is derived as the transpose of the reverse rule.
    let of = jvp(&mut m, lifted.function, &[true, true])?;
    let args = [w.clone(), x.clone(), Tensor::from(1.0), Tensor::from([1.0, 0.0, 0.0])];
    let out = run(&m, of.function, &args).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(out[1], Tensor::from([12.0, 30.0, 50.0]));

    // In a batch of reverse derivatives, each member must have its own cotangent of the shared w.
    let of = vjp(&mut m, f, &[true, true])?;
    let lifted = batch(&mut m, of.function, 3, &[false, true, true])?;
    let out = run(&m, lifted.function, &[w, x, ct]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(out[1], Tensor::from([10.0, 300.0, 5000.0]));

    // The linear function must also work in a batch in which only tangents are batched.
    let of = linearize(&mut m, f, &[true, true])?;
    let lifted = batch(&mut m, of.lin, 2, &[false, false, true, false])?;
    let args = [Tensor::from(2.0), Tensor::from(3.0), Tensor::from([1.0, 0.0]), Tensor::from(1.0)];
    let out = run(&m, lifted.function, &args).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(out[0], Tensor::from([32.0, 2.0]));
    Ok(())
}

#[test]
fn a_rule_of_the_wrong_type_is_explained() {
    let wrong = |rules: &str| {
        let text = format!(
            "{SINE}
func @pair(%x: f64[], %y: f64[]) -> (f64[], f64[]) {{
  return %x, %y
}}
func @f(%x: f64[]) -> (f64[]) {{
  %y: f64[] = custom_call{{function=@sine, {rules}}} %x
  return %y
}}"
        );
        let errors = parse_module(&text).map(|_| ()).expect_err("the rule does not fit");
        errors.iter().map(|e| e.to_string()).collect::<String>()
    };
    let cases = [
        (
            "jvp=@sine",
            "the jvp rule @sine of @sine must have the type (f64[], f64[]) -> (f64[], f64[]), found \
             (f64[]) -> (f64[])",
        ),
        ("fwd=@sine.fwd", "@sine has a fwd rule without a bwd rule"),
        (
            "fwd=@pair, bwd=@sine.bwd",
            "the fwd rule @pair of @sine must have the type (f64[]) -> (f64[], f64[]), found",
        ),
        (
            "fwd=@sine.fwd, bwd=@pair",
            "the bwd rule @pair of @sine must have the type (f64[], f64[]) -> (f64[]), found",
        ),
    ];
    for (rules, want) in cases {
        let message = wrong(rules);
        assert!(message.contains(want), "{message}");
    }
}

/// A jvp rule may be the derivative of a checkpointed function, which is recomputed: derivatives must agree with those
/// of the plain function, also for loops and branches.
#[test]
fn a_rule_may_be_the_derivative_of_a_checkpoint() {
    use tapeloom::prelude::*;
    type Of = fn(Var) -> Var;
    let functions: [(&str, Of); 6] = [
        ("a loop", |x| fori_loop(3, |(_, x): (Var, Var)| x.sin() * 1.5, x)),
        ("a loop of some iterations", |x| while_loop(|x: Var| x.lt(9.0), |x: Var| x * x + 0.5, x)),
        ("a branch", |x| {
            let iteration = |(_, x): (Var, Var)| x.cos() * x;
            cond(x.gt(0.1), |x: Var| fori_loop(2, iteration, x), |x: Var| x.exp(), x)
        }),
        ("a checkpoint in a loop", |x| {
            let cell = |x: Var| fori_loop(2, |(_, x): (Var, Var)| x.sin() * 1.5, x);
            fori_loop(3, |(_, x): (Var, Var)| checkpoint(cell, Policy::Nothing)(x) + 0.1, x)
        }),
        ("a checkpoint in a branch", |x| {
            let cell = |x: Var| fori_loop(2, |(_, x): (Var, Var)| x.sin() * 1.5, x);
            cond(x.gt(0.1), checkpoint(cell, Policy::Dots), |x: Var| x.exp(), x)
        }),
        ("a checkpoint in a checkpoint", |x| {
            let cell = |x: Var| fori_loop(2, |(_, x): (Var, Var)| x.sin() * 1.5, x);
            checkpoint(cell, Policy::Nothing)(x).sin()
        }),
    ];
    for (name, f) in functions {
        for policy in [Policy::Nothing, Policy::Dots, Policy::Planned, Policy::Bytes(1000)] {
            // Skip this case: the residuals of a loop of unknown trip count have no bound that a budget could check.
            if name == "a loop of some iterations" && policy.bytes().is_some() {
                continue;
            }
            let under = checkpoint(f, policy.clone());
            let ruled = move |x: Var| {
                let rule = |x, dx| jvp(&under)((x, dx));
                custom_jvp(f, rule)(x)
            };
            let near = |got: Tensor, want: Tensor| {
                let [got, want] = [got, want].map(|x| x.item::<f64>().unwrap());
                assert!((got - want).abs() <= 1e-9 * want.abs(), "{name}, {policy}: {got}, {want}");
            };
            near(tapeloom::run(grad(&ruled), 0.7).unwrap(), tapeloom::run(grad(f), 0.7).unwrap());
            near(tapeloom::run(jacfwd(&ruled), 0.7).unwrap(), tapeloom::run(grad(f), 0.7).unwrap());
            near(tapeloom::run(jacrev(&ruled), 0.7).unwrap(), tapeloom::run(grad(f), 0.7).unwrap());
            let second = |f: &dyn Fn(Var) -> Var| tapeloom::run(grad(grad(f)), 0.7).unwrap();
            near(second(&ruled), second(&f));
        }
    }
}

/// Rules of the function `x √t`. Its derivative with respect to t is infinite at t = 0, so an argument that is not
/// differentiated must have no tangent: a zero tangent would give nan.
mod absent {
    use tapeloom::prelude::*;

    type Two = (Var, Var);

    fn value((x, t): Two) -> Var {
        x * t.sqrt()
    }

    fn forward(x: Two, dx: Two) -> (Var, Var) {
        jvp(value)((x, dx))
    }

    fn halves((x, t): Two) -> (Var, Two) {
        (value((x, t)), (x, t))
    }

    fn backward((x, t): Two, ct: Var) -> Two {
        (ct * t.sqrt(), ct * x * 0.5 / t.sqrt())
    }

    /// A reverse rule like `backward` with clipped results, which is not linear in the cotangent.
    fn clipped(k: Two, ct: Var) -> Two {
        let (x, t) = backward(k, ct);
        (x.clamp(-9.0, 9.0), t.clamp(-9.0, 9.0))
    }

    /// A jvp rule with a loop of unknown trip count that updates values and tangents in each iteration.
    fn looped(x: Two, dx: Two) -> (Var, Var) {
        let once = |(n, y, dy): (Var, Var, Var)| {
            let (y, dy) = forward((y, x.1), (dy, dx.1));
            (n + 1.0, y + 1.0, dy)
        };
        let (_, y, dy) =
            while_loop(|(n, ..): (Var, Var, Var)| n.lt(2.0), once, (x.0 * 0.0, x.0, dx.0));
        (y, dy)
    }

    fn number(f: &dyn Fn(Var) -> Var, x: f64) -> f64 {
        tapeloom::run(f, x).unwrap().item::<f64>().unwrap()
    }

    /// Checks that at a constant t = 0 the derivative of `f` with respect to x is 0, and not nan, in each mode and
    /// order.
    fn check(name: &str, f: &dyn Fn(Two) -> Var) {
        let of = |x: Var| f((x, constant(0.0)));
        let along = |f: &dyn Fn(Var) -> Var, x: Var| jvp(f)((x, x.ones_like())).1;
        assert_eq!(number(&|x| along(&of, x), 3.0), 0.0, "{name}, forward");
        assert_eq!(number(&|x| grad(of)(x), 3.0), 0.0, "{name}, reverse");
        assert_eq!(number(&|x| along(&|x| grad(of)(x), x), 3.0), 0.0, "{name}, forward of reverse");
        assert_eq!(number(&|x| grad(|x| along(&of, x))(x), 3.0), 0.0, "{name}, reverse of forward");
        assert_eq!(number(&|x| grad(grad(of))(x), 3.0), 0.0, "{name}, reverse of reverse");
        let batch = |x: Var| vmap(grad(of))(x * arange(2, Dtype::F64)).sum();
        assert_eq!(number(&batch, 3.0), 0.0, "{name}, a batch");
        // If t is differentiated, the derivative must be infinite.
        let both = |t: Var| f((constant(3.0), t));
        assert_eq!(number(&|t| along(&both, t), 0.0), f64::INFINITY, "{name}, in t");
    }

    #[test]
    fn a_tangent_that_is_absent_is_not_zero() {
        check("a forward rule", &custom_jvp(value, forward));
        check("a reverse rule", &custom_vjp(value, halves, backward));
        check("both rules", &custom_rules(value, forward, halves, backward));
        let outer = |x: Two| custom_jvp(value, forward)(x);
        check("a rule of a rule", &custom_jvp(outer, move |x, dx| jvp(outer)((x, dx))));
        let outer = |x: Two| custom_vjp(value, halves, backward)(x);
        check("a rule of a reverse rule", &custom_jvp(outer, move |x, dx| jvp(outer)((x, dx))));
    }

    #[test]
    fn a_tangent_that_is_absent_is_not_zero_in_loops_and_beside_rules_that_are_not_linear() {
        let twice = |(x, t): Two| (x * t.sqrt() + 1.0) * t.sqrt() + 1.0;
        let f = custom_jvp(twice, looped);
        let of = |x: Var| f((x, constant(0.0)));
        assert_eq!(number(&|x| jvp(of)((x, x.ones_like())).1, 3.0), 0.0);
        assert_eq!(number(&|x| grad(of)(x), 3.0), 0.0);
        let f = custom_rules(value, forward, halves, clipped);
        let of = |x: Var| f((x, constant(0.0)));
        assert_eq!(number(&|x| jvp(of)((x, x.ones_like())).1, 3.0), 0.0);
        assert_eq!(number(&|x| grad(of)(x), 3.0), 0.0);
        assert_eq!(number(&|x| jvp(grad(of))((x, x.ones_like())).1, 3.0), 0.0);
    }

    #[test]
    fn a_cotangent_that_is_absent_is_not_zero() {
        let both = |x: Var| (x * x, x.sqrt());
        let f = custom_vjp(
            both,
            move |x: Var| (both(x), x),
            |x: Var, (a, b): Two| 2.0 * x * a + 0.5 * b / x.sqrt(),
        );
        assert_eq!(number(&|x| grad(|x| f(x).0)(x), 0.0), 0.0);
        assert_eq!(number(&|x| grad(grad(|x| f(x).0))(x), 0.0), 2.0);
        assert_eq!(number(&|x| grad(|x| f(x).1)(x), 0.0), f64::INFINITY);
        // A value that only the rule captures (here t) gets no cotangent, so its infinite slope at 0 does not matter.
        let f = |p: Var| {
            let t = p.sqrt();
            custom_vjp(|x: Var| 2.0 * x, |x: Var| (2.0 * x, ()), move |(), ct: Var| ct * (2.0 + t))(
                p,
            )
        };
        assert_eq!(number(&|p| grad(f)(p), 0.0), 2.0);
    }

    #[test]
    fn an_adjoint_begins_where_the_slope_has_no_derivative_in_time() {
        let end = |p: Var| {
            let slope = |(t, _): Two| p * t.sqrt();
            let times = constant([0.0, 1.0]);
            ode::dopri5().adjoint().solve(slope, constant(0.0), times).0.index(1)
        };
        let slope = number(&|p| jvp(end)((p, p.ones_like())).1, 1.5);
        assert!((slope - 2.0 / 3.0).abs() < 1e-4, "{slope}");
        let slope = number(&|p| grad(end)(p), 1.5);
        assert!((slope - 2.0 / 3.0).abs() < 2e-2, "{slope}");
    }
}

/// Linear functions with branches and loops, in batches whose members take different branches or trip counts.
mod batches {
    use tapeloom::Kind;
    use tapeloom::prelude::*;

    type Two = (Var, Var);

    fn numbers(f: &dyn Fn(Var) -> Var, x: &[f64]) -> Vec<f64> {
        tapeloom::run(f, x.to_vec()).unwrap().to_vec::<f64>().unwrap()
    }

    type Function = Box<dyn Fn(Two) -> Var>;

    /// Returns linear functions of v: `k v` with k = 1, 2, 4 for n = 0, 1, 2, computed by branches or loops that depend
    /// on n.
    fn functions() -> [(&'static str, Function); 6] {
        let twice = |v: Var| 2.0 * v;
        let branch = move |(n, v): Two| {
            let more = |v: Var| cond(n.gt(1i64), |v: Var| 4.0 * v, twice, v);
            cond(n.gt(0i64), more, |v: Var| v, v)
        };
        let chosen = move |(n, v): Two| switch(n, [&|v: Var| v, &twice, &|v: Var| 4.0 * v], v);
        let counted = move |(n, v): Two| fori_loop(n, move |(_, v): Two| twice(v), v);
        let until = move |(n, v): Two| {
            let go_on = move |(i, _): Two| i.lt(n);
            while_loop(go_on, move |(i, v): Two| (i + 1i64, twice(v)), (constant(0i64), v)).1
        };
        // A loop whose condition reads only the second carry, while the first carry is linear in v.
        let behind = move |(n, v): Two| {
            let go_on = move |(_, i): Two| i.lt(n);
            while_loop(go_on, move |(v, i): Two| (twice(v), i + 1i64), (v, constant(0i64))).0
        };
        let read = move |(n, v): Two| {
            let go_on = move |(i, _): Two| i.lt(n);
            let more = move |(i, w): Two| (i + 1i64, w + v * (i + 1i64).convert(Dtype::F64));
            while_loop(go_on, more, (constant(0i64), v)).1
        };
        [
            ("branches", Box::new(branch)),
            ("one of three", Box::new(chosen)),
            ("a counted loop", Box::new(counted)),
            ("a loop on a condition", Box::new(until)),
            ("a loop on a condition after it", Box::new(behind)),
            ("a loop on a condition that reads it", Box::new(read)),
        ]
    }

    #[test]
    fn branches_and_loops_of_a_batch_stay_linear() {
        let of_two = |v: Var| {
            vmap(|(p, v): Two| cond(p, |v: Var| v, |v: Var| 2.0 * v, v))((
                constant([true, false]),
                v,
            ))
        };
        assert_eq!(
            numbers(&|x| linear_transpose(of_two, x)(x.ones_like()), &[7.0, 7.0]),
            [1.0, 2.0]
        );
        let n = || constant([0i64, 2, 1]);
        for (name, f) in functions() {
            let batch = |v: Var| vmap(&f)((n(), v));
            let back = |x: Var| linear_transpose(batch, x)(x);
            assert_eq!(numbers(&back, &[1.0, 10.0, 100.0]), [1.0, 40.0, 200.0], "{name}");
            // The transpose of a batch of linear functions must be differentiable like any function.
            let along = |x: Var| jvp(back)((x, x.ones_like())).1;
            assert_eq!(numbers(&along, &[1.0, 10.0, 100.0]), [1.0, 4.0, 2.0], "{name}");
            let slope = |x: Var| grad(|x: Var| (back(x) * x).sum())(x);
            assert_eq!(numbers(&slope, &[1.0, 10.0, 100.0]), [2.0, 80.0, 400.0], "{name}");
            // In a batch of batches, the transpose must be right for each member. If all members share the vector v, it
            // must be the sum over the members.
            let all = |v: Var| vmap(|(n, v)| vmap(&f)((n, v)))((stack(&[n(), n().flip(0)], 0), v));
            let rows = |x: Var| linear_transpose(all, x)(x);
            let found = numbers(&|x| rows(x.reshape([2, 3])).reshape([6]), &[1.0; 6]);
            assert_eq!(found, [1.0, 4.0, 2.0, 2.0, 4.0, 1.0], "{name}");
            let shared = |v: Var| vmap(|n| f((n, v)))(n());
            let total = |x: Var| linear_transpose(shared, x.index(0))(x).reshape([1]);
            assert_eq!(numbers(&total, &[1.0, 10.0, 100.0]), [241.0], "{name}");
        }
    }

    #[test]
    fn branches_and_loops_of_a_batch_are_linear_in_rules_and_systems() {
        let n = || constant([0i64, 2, 1]);
        for (name, f) in functions() {
            let batch = |v: Var| vmap(&f)((n(), v));
            let ruled = custom_jvp(batch, |v: Var, dv: Var| (batch(v), batch(dv)));
            let slope = |x: Var| grad(|x: Var| (ruled(x) * x).sum())(x);
            assert_eq!(numbers(&slope, &[1.0, 10.0, 100.0]), [2.0, 80.0, 400.0], "{name}");
            let solved =
                |b: Var| custom_linear_solve(batch, b, |_, b: Var| b * constant([1.0, 0.25, 0.5]));
            let slope = |x: Var| grad(|x: Var| (solved(x) * x).sum())(x);
            assert_eq!(numbers(&slope, &[1.0, 4.0, 100.0]), [2.0, 2.0, 100.0], "{name}");
        }
    }

    #[test]
    fn a_value_whose_gradient_is_stopped_is_not_linear() {
        let stopped = |v: Var| {
            vmap(|(p, v): Two| cond(p, |v: Var| v, |v: Var| v.stop_gradient(), v))((
                constant([true, false]),
                v,
            ))
        };
        for f in [&stopped as &dyn Fn(Var) -> Var, &|v: Var| v.stop_gradient()] {
            let error = tapeloom::run(|x: Var| linear_transpose(f, x)(x), [7.0, 7.0]).unwrap_err();
            assert_eq!(error.kind(), Kind::NotLinear, "{error}");
            assert!(error.to_string().contains("`stop_gradient` is not linear"), "{error}");
        }
    }
}
