//! Loops that read and write arrays at random sums of their counters. Passes that make such loops carry windows or rows
//! instead of whole arrays must not change results or derivatives.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests")]

use std::fmt::Write;
use tapeloom::prelude::{Var, fori_loop, jit};
use tapeloom_ir::{ArrayType, Dtype, FuncId, Tensor, parse_module, print_function};
use tapeloom_tests::calculus::{check_products, precision};
use tapeloom_tests::transform_words::{Demand, same_numbers};
use tapeloom_tests::{Agreement, Case, Failure, Rng, Sweep, run};
use tapeloom_transforms::{by_name, jvp, vjp};

/// A random program in text form: nested loops over a matrix or a vector.
struct Text {
    rng: Rng,
    shape: Vec<usize>,
    trips: Vec<usize>,
    /// If set, each iteration of the outer loop writes the row whose index is the iteration number plus this offset.
    series: Option<usize>,
    /// Whether the outer loop's trip count is a run-time value.
    runtime: bool,
    /// The text of the finished functions. `out` has the lines of the function that is being emitted.
    functions: String,
    out: String,
    values: usize,
    /// The indices of the last write in the current function, which later reads may repeat.
    place: Vec<String>,
}

impl Text {
    fn coin(&mut self, n: usize) -> bool {
        self.rng.index(n) == 0
    }

    fn line(&mut self, ty: &str, what: &str) -> String {
        self.values += 1;
        let v = format!("%v{}", self.values);
        writeln!(self.out, "  {v}: {ty} = {what}").unwrap();
        v
    }

    /// Returns the type of the array without its first `from` axes, as text.
    fn ty(&self, from: usize) -> String {
        let extents: Vec<String> = self.shape[from..].iter().map(usize::to_string).collect();
        format!("f64[{}]", extents.join(","))
    }

    /// Emits an index for an axis of this extent: a random sum of counters, which may be out of range.
    fn index(&mut self, counters: &[String], extent: usize) -> String {
        let mut sum: Option<String> = None;
        let (mut least, mut most) = (0i64, 0i64);
        for (depth, counter) in counters.iter().enumerate() {
            let factor = [0, 1, 1, 1, -1, 2][self.rng.index(6)];
            if factor == 0 {
                continue;
            }
            let far = factor * (self.trips[depth] as i64 - 1);
            (least, most) = (least + far.min(0), most + far.max(0));
            let term = match factor {
                1 => counter.clone(),
                _ => self.line("i64[]", &format!("mul {counter}, {factor}")),
            };
            sum = Some(match sum {
                None => term,
                Some(sum) => self.line("i64[]", &format!("add {sum}, {term}")),
            });
        }
        let room = extent as i64 - 1 - (most - least);
        let shift = match room {
            _ if self.coin(12) => self.rng.index(2 * extent) as i64 - extent as i64,
            0.. => self.rng.index(room as usize + 1) as i64 - least,
            _ => -least,
        };
        let Some(sum) = sum else { return shift.to_string() };
        let at = match shift {
            0 => sum,
            _ => self.line("i64[]", &format!("add {sum}, {shift}")),
        };
        // As in user code, negative indices count from the end.
        let negative = self.line("bool[]", &format!("lt {at}, 0"));
        let moved = self.line("i64[]", &format!("add {at}, {extent}"));
        self.line("i64[]", &format!("select {negative}, {moved}, {at}"))
    }

    fn indices(&mut self, counters: &[String], n: usize, writes: bool) -> Vec<String> {
        if let Some(behind) = self.series {
            let free = self.shape[0] - self.trips[0] + 1;
            let shift = if writes { behind } else { self.rng.index(free) };
            let row = self.line("i64[]", &format!("add {}, {shift}", counters[0]));
            return match (n, counters) {
                (2, [_, column, ..]) => vec![row, column.clone()],
                _ => vec![row],
            };
        }
        (0..n).map(|axis| self.index(counters, self.shape[axis])).collect()
    }

    fn vector(&mut self, parts: &[String]) -> String {
        let parts: Vec<String> = parts
            .iter()
            .map(|part| self.line("i64[1]", &format!("reshape{{shape=[1]}} {part}")))
            .collect();
        match parts.as_slice() {
            [one] => one.clone(),
            _ => {
                let n = parts.len();
                self.line(
                    &format!("i64[{n}]"),
                    &format!("concatenate{{axis=0}} {}", parts.join(", ")),
                )
            }
        }
    }

    fn axes(n: usize) -> String {
        format!("{:?}", (0..n).collect::<Vec<_>>()).replace(' ', "")
    }

    /// Draws whether the iterations of an inner loop write the elements of a row one by one. This is possible only if
    /// the row has as many elements as the loop has iterations.
    fn is_filled(&mut self, counters: &[String]) -> bool {
        let fits = self.shape.len() == 2 && counters.len() == 2 && self.shape[1] == self.trips[1];
        fits && !self.coin(3)
    }

    /// Emits a read of the array `x` and a write to it, and returns the name of the written array.
    fn step(&mut self, counters: &[String], x: String, seen: &mut Vec<String>) -> String {
        let rank = self.shape.len();
        let again = !self.place.is_empty() && self.coin(2);
        let n = match again {
            true => self.place.len(),
            // If a row is filled one by one, the write is to one element of the row, at the index of the inner
            // iteration.
            false if self.series.is_some() => 1 + usize::from(self.is_filled(counters)),
            false if self.coin(3) => 1,
            false => rank,
        };
        let part = self.ty(n);
        let at = if again { self.place.clone() } else { self.indices(counters, n, false) };
        let read = match self.coin(3) {
            true => {
                let sizes: Vec<usize> =
                    (0..rank).map(|a| if a < n { 1 } else { self.shape[a] }).collect();
                let ty = format!("f64{sizes:?}").replace(' ', "");
                let starts: Vec<String> =
                    (0..rank).map(|a| at.get(a).cloned().unwrap_or("0".into())).collect();
                let sizes = format!("{sizes:?}").replace(' ', "");
                let slice = format!("dynamic_slice{{sizes={sizes}}} {x}, {}", starts.join(", "));
                let slice = self.line(&ty, &slice);
                let shape = part.trim_start_matches("f64");
                self.line(&part, &format!("reshape{{shape={shape}}} {slice}"))
            }
            false => {
                let at = self.vector(&at);
                let axes = Text::axes(n);
                self.line(&part, &format!("gather{{batch=0, axes={axes}, bounds=clip}} {x}, {at}"))
            }
        };
        let half = self.line(&part, &format!("mul {read}, 0.5"));
        let mut update = self.line(&part, &format!("sin {half}"));
        if let Some(other) = seen.iter().rev().find(|v| v.ends_with(&format!(":{part}"))) {
            let other = other.split(':').next().unwrap().to_owned();
            update = self.line(&part, &format!("add {update}, {other}"));
        }
        seen.push(format!("{read}:{part}"));
        if self.coin(4) {
            return x;
        }
        let at = match again && self.coin(2) {
            true => self.place.clone(),
            false => self.indices(counters, n, true),
        };
        self.place.clone_from(&at);
        let ty = self.ty(0);
        match self.rng.index(3) {
            0 => {
                let starts: Vec<String> =
                    (0..rank).map(|a| at.get(a).cloned().unwrap_or("0".into())).collect();
                let sizes: Vec<usize> =
                    (0..rank).map(|a| if a < n { 1 } else { self.shape[a] }).collect();
                let shape = format!("{sizes:?}").replace(' ', "");
                let update = self
                    .line(&format!("f64{shape}"), &format!("reshape{{shape={shape}}} {update}"));
                self.line(
                    &ty,
                    &format!("dynamic_update_slice {x}, {update}, {}", starts.join(", ")),
                )
            }
            how => {
                let how = if how == 1 { "set" } else { "add" };
                let (at, axes) = (self.vector(&at), Text::axes(n));
                let bounds = if self.coin(4) { "clip" } else { "drop" };
                let scatter = format!("scatter_{how}{{batch=0, axes={axes}, bounds={bounds}}}");
                self.line(&ty, &format!("{scatter} {x}, {at}, {update}"))
            }
        }
    }

    /// Emits a function of the loops' counters and other parameters; the closure emits its body.
    fn function(
        &mut self,
        name: &str,
        counters: usize,
        others: &[&str],
        body: impl FnOnce(&mut Text, &[String]) -> Vec<(String, String)>,
    ) -> String {
        self.values += 1;
        let name = format!("{name}{}", self.values);
        let counters: Vec<String> = (0..counters).map(|d| format!("%c{d}")).collect();
        let params = counters.iter().map(|c| format!("{c}: i64[]"));
        let others = others.iter().map(|p| (*p).to_owned());
        let params: Vec<String> = params.chain(others).collect();
        let around = (std::mem::take(&mut self.out), std::mem::take(&mut self.place));
        let (results, types): (Vec<String>, Vec<String>) =
            body(self, &counters).into_iter().unzip();
        let body = std::mem::replace(&mut self.out, around.0);
        self.place = around.1;
        let (params, types, results) = (params.join(", "), types.join(", "), results.join(", "));
        let head = format!("func @{name}({params}) -> ({types})");
        writeln!(self.functions, "{head} {{\n{body}  return {results}\n}}\n").unwrap();
        name
    }

    /// Emits a loop with this body; `slots` says how the loop binds the body's parameters after the counters.
    fn looped(
        &mut self,
        body: &str,
        depth: usize,
        slots: &str,
        operands: &str,
        ty: &str,
    ) -> String {
        let direction = if self.coin(4) { "down" } else { "up" };
        let outer: String = (0..depth).map(|d| format!("%c{d}, ")).collect();
        let takes = format!("{}index,{slots}", "const,".repeat(depth));
        let trip = self.trips[depth];
        let (trip, lead) = match self.runtime {
            true => ("runtime".to_owned(), format!("{trip}, ")),
            false => (trip.to_string(), String::new()),
        };
        let of =
            format!("loop{{body=@{body}, trip={trip}, direction={direction}, takes=[{takes}]}}");
        self.line(ty, &format!("{of} {lead}{outer}{operands}"))
    }

    /// Emits a branch. One side reads and writes `x`, the other side returns `x`.
    fn branch(&mut self, counters: &[String], x: String) -> String {
        let ty = self.ty(0);
        let param = format!("%x: {ty}");
        let no = self
            .function("no", counters.len(), &[&param], |_, _| vec![("%x".to_owned(), ty.clone())]);
        let yes = self.function("yes", counters.len(), &[&param], |text, counters| {
            vec![(text.step(counters, "%x".to_owned(), &mut Vec::new()), ty.clone())]
        });
        let counter = &counters[self.rng.index(counters.len())];
        let bound = self.rng.index(3);
        let which = self.line("bool[]", &format!("lt {counter}, {bound}"));
        let of = format!("cond{{branches=[@{no},@{yes}]}} {which}, {}, {x}", counters.join(", "));
        self.line(&ty, &of)
    }

    /// Emits a loop that reads the array `x`, updates a copy of its own, and returns a number.
    fn reader(&mut self, depth: usize, x: &str) -> String {
        let ty = self.ty(0);
        let params = [&format!("%x: {ty}")[..], "%sum: f64[]"];
        let body = self.function("reads", depth + 1, &params, |text, counters| {
            let (mut x, mut seen) = ("%x".to_owned(), Vec::new());
            for _ in 0..2 {
                x = text.step(counters, x, &mut seen);
            }
            let read = seen[1].split(':').next().unwrap().to_owned();
            let axes: Vec<usize> = (0..seen[1].matches(',').count()).collect();
            let rank = match seen[1].ends_with("f64[]") {
                true => 0,
                false => axes.len() + 1,
            };
            let axes = Text::axes(rank);
            let one = text.line("f64[]", &format!("reduce_sum{{axes={axes}}} {read}"));
            vec![(text.line("f64[]", &format!("add %sum, {one}")), "f64[]".to_owned())]
        });
        self.looped(&body, depth, "const,carry0", &format!("{x}, 0.5"), "f64[]")
    }

    /// Emits the body of the loop at this depth, which may contain the next loop.
    fn body(&mut self, depth: usize) -> String {
        let ty = self.ty(0);
        self.function("iteration", depth + 1, &[&format!("%x: {ty}")], |text, counters| {
            let (mut x, mut seen) = ("%x".to_owned(), Vec::new());
            for _ in 0..=text.rng.index(2) {
                x = text.step(counters, x, &mut seen);
            }
            if text.series.is_none() && text.coin(4) {
                x = text.branch(counters, x);
            }
            if depth + 1 < text.trips.len() {
                if text.series.is_none() && text.coin(3) {
                    let sum = text.reader(depth + 1, &x);
                    seen.push(format!("{sum}:f64[]"));
                } else {
                    let inner = text.body(depth + 1);
                    x = text.looped(&inner, depth + 1, "carry0", &x, &ty);
                }
                if text.coin(2) || seen.last().is_some_and(|v| v.ends_with(":f64[]")) {
                    x = text.step(counters, x, &mut seen);
                }
            }
            vec![(x, ty.clone())]
        })
    }
}

/// Returns a random program, and its argument.
fn program(seed: u64) -> (String, Tensor) {
    let mut rng = Rng::new(seed);
    let rank = 1 + rng.index(2);
    let mut shape: Vec<usize> = (0..rank).map(|_| 3 + rng.index(5)).collect();
    let trips: Vec<usize> = (0..1 + rng.index(3)).map(|_| 1 + rng.index(4)).collect();
    let series = (rng.index(2) == 0).then(|| rng.index(3));
    if series.is_some() {
        shape[0] = trips[0] + 2;
        if let ([_, columns], [_, inner, ..]) = (&mut shape[..], &trips[..]) {
            *columns = *inner;
        }
    }
    let x = rng.tensor(&ArrayType::new(Dtype::F64, shape.clone()));
    let runtime = rng.index(6) == 0;
    let (functions, out) = (String::new(), String::new());
    let (values, place) = (0, Vec::new());
    let mut text = Text { rng, shape, trips, series, runtime, functions, out, values, place };
    if text.coin(12) {
        // Sometimes give one of the loops a trip count of 0.
        let depth = text.rng.index(text.trips.len());
        text.trips[depth] = 0;
    }
    let ty = text.ty(0);
    text.function("f", 0, &[&format!("%x: {ty}")], |text, _| {
        let body = text.body(0);
        let all = text.looped(&body, 0, "carry0", "%x", &ty);
        let down = text.out.contains("direction=down");
        let Some(behind) = text.series.filter(|_| !text.coin(4)) else { return vec![(all, ty)] };
        // The result is one row of the series, mostly the row that the last iteration writes.
        let row = match text.rng.index(8) {
            0 => text.rng.index(text.shape[0]),
            _ if down => behind,
            _ => (behind + text.trips[0]).saturating_sub(1),
        };
        let (mut start, mut limit) = (vec![0; rank], text.shape.clone());
        (start[0], limit[0]) = (row, row + 1);
        let sizes: Vec<usize> = start.iter().zip(&limit).map(|(s, l)| l - s).collect();
        let list = |x: &[usize]| format!("{x:?}").replace(' ', "");
        let (start, limit, strides) = (list(&start), list(&limit), list(&vec![1; rank]));
        let slice = format!("slice{{start={start}, limit={limit}, strides={strides}}} {all}");
        let ty = format!("f64{}", list(&sizes));
        vec![(text.line(&ty, &slice), ty)]
    });
    (text.functions, x)
}

/// The passes on loops, in sequence; a pass whose name is indented starts from the result of the unindented passes
/// before it.
const PASSES: [&str; 11] = [
    "dedup_constants",
    "fold_ranges",
    "zero_trip_loops",
    "promote_reads",
    "narrow_carries_eager",
    "narrow_carries",
    "drained_carries",
    "forward_stores",
    " rolling_buffer",
    " stack_outputs",
    " dce rolling_buffer_last",
];

/// Checks that results and derivatives of one program are the same before and after each pass; returns, for each pass,
/// whether it changed the program.
fn check(text: &str, x: &Tensor, compiled: bool) -> Result<[bool; PASSES.len()], Failure> {
    let mut m = parse_module(text).map_err(|e| e[0].clone())?;
    let f = m.iter().map(|(id, _)| id).last().unwrap();
    let args = [x.clone()];
    let want = run(&m, f, &args)?;
    let (mut settled, mut changed) = (f, [false; PASSES.len()]);
    for (names, changed) in PASSES.iter().zip(&mut changed) {
        let mut made = settled;
        for name in names.split_whitespace() {
            let before = made;
            made = by_name(name)?.apply(&mut m, before)?;
            *changed = made != before;
            let agrees = Agreement::Exact.check_all(&run(&m, made, &args)?, &want);
            agrees.map_err(|e| format!("{name}: {e}\n{}", print_function(&m, made)))?;
        }
        if !names.starts_with(' ') {
            settled = made;
        }
    }
    let case = |f: FuncId, args: &[Tensor]| Case {
        name: "places".into(),
        f,
        args: args.to_vec(),
        smooth: true,
    };
    if compiled {
        same_numbers(&mut m, &case(f, &args), Demand::default())?;
    }
    let mut rng = Rng::new(7);
    let (dx, ct) = (rng.tensor(x.ty()), rng.tensor(want[0].ty()));
    let forward = jvp(&mut m, f, &[true])?;
    let dy = run(&m, forward.function, &[x.clone(), dx.clone()])?;
    let back = vjp(&mut m, f, &[true])?;
    let both = [x.clone(), ct.clone()];
    let ctx = run(&m, back.function, &both)?;
    Agreement::Exact.check_all(&ctx[..1], &want)?;
    if let (Some(dy), Some(ctx)) = (dy.get(1), ctx.get(1)) {
        let (ct, dy) = ([ct], [dy.clone()]);
        check_products(precision(&m, f), [&ct, &dy], [std::slice::from_ref(ctx), &[dx]], 1e-12)?;
    }
    if compiled {
        same_numbers(&mut m, &case(back.function, &both), Demand::default())?;
    }
    Ok(changed)
}

#[test]
fn narrowed_loops_compute_the_same() {
    let mut changed = [0; PASSES.len()];
    for seed in Sweep::Narrowed.seeds() {
        let (text, x) = program(seed);
        let found = check(&text, &x, seed % 10 == 0)
            .unwrap_or_else(|e| panic!("SWEEP_SEED={seed}: {e}\n{text}"));
        changed.iter_mut().zip(found).for_each(|(n, on)| *n += u64::from(on));
    }
    let all = Sweep::Narrowed.cases();
    // Each pass must change a minimum share of the programs: otherwise it would not be tested.
    for (names, n) in PASSES.iter().zip(changed) {
        println!("{names}: {n} of {all}");
        let least = match names.trim() {
            "fold_ranges" => 50,
            "narrow_carries_eager" => 10,
            "rolling_buffer" | "dce rolling_buffer_last" => 1,
            _ => 0,
        };
        assert!(n * 100 / all >= least, "{names}: {n} of {all}");
    }
}

/// Regression: an iteration computes the value to write from the array, and only then the index of the write. Passes
/// must not place the read after the computation of the index.
#[test]
fn parts_that_are_made_before_their_place_is_known() {
    let x = Tensor::new(&[36], (0..36).map(f64::from).collect::<Vec<_>>()).unwrap();
    let iteration =
        |(i, y): (Var, Var)| y.dynamic_update_slice(y.index(15).broadcast_to([35]), &[i]);
    for n in [1, 2, 3] {
        let f = jit(move |x: Var| fori_loop(n, iteration, x));
        let want = f.call(&x).unwrap();
        assert_eq!(
            jit(move |x: Var| fori_loop(n, iteration, x)).interpreted().call(&x).unwrap(),
            want
        );
        assert_eq!(want.literal(30).unwrap().to_f64(), 15.0);
    }
}
