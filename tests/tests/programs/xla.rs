//! Programs on a plugin of XLA. The tests run if `TAPELOOM_PJRT_PLUGIN` is set, and say so if it is not.

use crate::files::Folder;
use tapeloom::prelude::*;
use tapeloom::xla::{self, Client, ClientOptions, DeviceArray, Plugin};
use tapeloom::{Kind, Mesh, PartitionSpec, Target, files};
use tapeloom_tests::Agreement;
use tapeloom_tests::transformer::{self, Block, Blocks, Extents};
use tapeloom_tests::xla::{client_or_skip, devices_or_skip};

#[path = "../../../prelude/examples/many_devices.rs"]
mod many_devices;

fn on<A: Tree<Var>, B: Tree<Var>, F: Fn(A) -> B>(client: &Client, f: F) -> Jit<A, B, F> {
    jit(f).on(Target::Xla(client.clone()))
}

fn other_client(client: &Client) -> Client {
    Client::new(client.plugin(), &ClientOptions::new()).unwrap()
}

#[derive(Tree, Clone)]
struct Layer<T> {
    w: T,
    b: T,
}

fn loss(layers: &[Layer<Var>], x: Var) -> Var {
    layers.iter().fold(x, |x, layer| (x.dot(layer.w) + layer.b).tanh()).square().mean()
}

fn step((layers, x): (Vec<Layer<Var>>, Var)) -> Vec<Layer<Var>> {
    let g = grad(move |layers: Vec<Layer<Var>>| loss(&layers, x))(layers.clone());
    tree_map2(|p, g| p - 0.5 * g, &layers, &g)
}

fn data() -> (Vec<Layer<Tensor>>, Tensor) {
    let wave = |shape: &[usize], phase: f64| {
        let x = |i: usize| (phase + 0.9 * i as f64).sin();
        let all: Tensor = (0..shape.iter().product()).map(x).collect();
        all.reshape(shape).unwrap()
    };
    let layer = |phase| Layer { w: wave(&[8, 8], phase), b: wave(&[8], phase + 0.3) };
    (vec![layer(0.1), layer(0.7)], wave(&[16, 8], 2.0))
}

#[test]
fn calls_have_the_results_of_this_machine() {
    let Some(client) = client_or_skip() else { return };
    let (layers, x) = data();
    let got = on(&client, step).call((&layers, &x)).unwrap();
    let want = jit(step).call((&layers, &x)).unwrap();
    for (got, want) in got.iter().zip(&want) {
        Agreement::CLOSE.check(&got.w, &want.w).unwrap();
        Agreement::CLOSE.check(&got.b, &want.b).unwrap();
    }
}

/// Steps with arrays that stay on the device must copy nothing, and compute the same values as steps on this machine.
#[test]
fn resident_training_copies_nothing() {
    let Some(client) = client_or_skip() else { return };
    let (mut host, x) = data();
    let (native, device) = (jit(step), on(&client, step));
    let mut resident = xla::upload(&client, &host).unwrap();
    let batch = xla::upload(&client, &x).unwrap();
    let before = client.transfers();
    for _ in 0..50 {
        host = native.call((&host, &x)).unwrap();
        resident = device.call_on_device((resident, batch.clone())).unwrap();
    }
    assert_eq!(client.transfers(), before);
    assert_eq!(device.programs(), 1);
    let got = xla::download(&resident).unwrap();
    for (got, want) in got.iter().zip(&host) {
        Agreement::relative(1e-9).check(&got.w, &want.w).unwrap();
    }
    // The steps may take over the memory of an array only if no other handle of it exists. `batch` is such a handle.
    assert_eq!(xla::download(&batch).unwrap(), x);
}

#[test]
fn captured_tensors_are_copied_once() {
    let Some(client) = client_or_skip() else { return };
    let (_, x) = data();
    let captured = x.clone();
    let f = on(&client, move |y: Var| y + constant(&captured));
    let two = f.call(&x).unwrap();
    let before = client.transfers().to_devices;
    assert_eq!(f.call(&x).unwrap(), two);
    let of_argument = x.ty().bytes() as u64;
    assert_eq!(client.transfers().to_devices - before, of_argument);
}

/// Functions and decompositions that StableHLO lacks are called in this process, so results must have the bits of this
/// machine.
#[test]
fn programs_call_functions_of_this_process() {
    let Some(client) = client_or_skip() else { return };
    let x: Tensor = (1..20).map(|i| 0.3 * f64::from(i)).collect();
    let functions = |x: Var| {
        let narrow = x.convert(Dtype::F32);
        (x.expi(), x.spence(), narrow.expi(), x.bessel_jn(5))
    };
    assert_eq!(on(&client, functions).call(&x).unwrap(), jit(functions).call(&x).unwrap());
    let (_, a) = data();
    let factors = |a: Var| {
        let square = a.t().dot(a) + eye(8, Dtype::F64);
        let (q, r) = linalg::qr(a);
        let (u, s, v) = linalg::svd(a);
        vec![linalg::solve(square, a.index(0)), linalg::eigh(square).0, q.dot(r), (u * s).dot(v)]
    };
    let got = on(&client, factors).call(&a).unwrap();
    let want = jit(factors).call(&a).unwrap();
    for (got, want) in got.iter().zip(&want) {
        Agreement::relative(1e-9).check(got, want).unwrap();
    }
}

/// Steps must start before earlier steps have ended, and without copies. The queue of a client holds 32 steps.
#[test]
fn many_steps_start_without_a_wait() {
    let Some(client) = client_or_skip() else { return };
    let (host, x) = data();
    let device = on(&client, step);
    let batch = xla::upload(&client, &x).unwrap();
    let mut resident = xla::upload(&client, &host).unwrap();
    let mut steps = |n: usize| {
        for _ in 0..n {
            let kept = resident.clone();
            resident = device.call_on_device((kept, batch.clone())).unwrap();
            let given = std::mem::take(&mut resident);
            resident = device.call_on_device((given, batch.clone())).unwrap();
        }
    };
    steps(100);
    let before = client.transfers();
    steps(1000);
    assert_eq!(client.transfers(), before);
    assert!(client.executions_in_flight() <= 33);
    assert_eq!(
        device.programs(),
        2,
        "one that borrows its arguments, and one that takes them over"
    );
    let norm = xla::download(&resident).unwrap()[0].w.to_vec::<f64>().unwrap();
    assert!(norm.iter().all(|w| w.is_finite()));
}

/// 2,000 steps on an array of a megabyte must need the memory of a few arrays. Other tests of this process run at the
/// same time.
#[test]
fn many_steps_need_no_more_memory() {
    let Some(client) = client_or_skip() else { return };
    let f = on(&client, |x: Var| 0.5 * x + 1.0);
    let mut x = xla::upload(&client, &Tensor::zeros(&[1 << 17], Dtype::F64).unwrap()).unwrap();
    let before = resident_bytes();
    for _ in 0..2000 {
        x = f.call_on_device(x).unwrap();
    }
    client.wait().unwrap();
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 500 << 20, "2000 steps took {grown} bytes");
}

/// Returns the number of bytes of this process that are in memory (resident); 0 where that is unknown.
fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    pages.split(' ').nth(1).and_then(|n| n.parse::<usize>().ok()).unwrap_or(0) * 4096
}

#[test]
fn arrays_of_any_shape_and_dtype_go_through() {
    let Some(client) = client_or_skip() else { return };
    let empty =
        |x: Var| (x.sum(), 2.0 * x, x.cumsum(1), x.sort(0), grad(|x: Var| x.sin().sum())(x));
    let x = Tensor::zeros(&[0, 4], Dtype::F32).unwrap();
    assert_eq!(on(&client, empty).call(&x).unwrap(), jit(empty).call(&x).unwrap());
    let deep = |x: Var| (x.permute([5, 3, 1, 0, 2, 4]).cumsum(2), x.index(1).flip([0, 2]), x.max());
    let x: Tensor = (0..64).map(|i| i * 37 % 64).collect();
    let x = x.reshape(&[2, 2, 2, 2, 2, 2]).unwrap();
    assert_eq!(on(&client, deep).call(&x).unwrap(), jit(deep).call(&x).unwrap());
    let mixed = |(a, b, c): (Var, Var, Var)| (a & b, a.select(c, -c), c % 3, b.count_true(), c / 0);
    let args = ([true, false], [true, true], [5i32, -7]);
    assert_eq!(on(&client, mixed).call(args).unwrap(), jit(mixed).call(args).unwrap());
    let none = on(&client, |_: ()| constant([1.0, 2.0]));
    assert_eq!(xla::download(&none.call_on_device(()).unwrap()).unwrap(), Tensor::from([1.0, 2.0]));
    let nothing = on(&client, |_: Var| ());
    assert_eq!(nothing.call(1.0).unwrap(), ());
}

/// If a handle occurs twice among the arguments, the array must be kept. A result may be an argument, once or several
/// times.
#[test]
fn handles_and_results_may_repeat() {
    let Some(client) = client_or_skip() else { return };
    let x = Tensor::from([1.0, 2.0]);
    let upload = || xla::upload(&client, &x).unwrap();
    let both = on(&client, |(x, y): (Var, Var)| (x + 1.0, 2.0 * y));
    let handle = upload();
    let got = both.call_on_device((handle.clone(), handle)).unwrap();
    let want = (Tensor::from([2.0, 3.0]), Tensor::from([2.0, 4.0]));
    assert_eq!(xla::download(&got).unwrap(), want);
    let same = on(&client, |x: Var| (x, x, x + 1.0));
    let (first, second, _) = same.call_on_device(upload()).unwrap();
    // The memory of `first` is taken over; `second` is another array and stays.
    let third = same.call_on_device(first).unwrap().2;
    assert_eq!(xla::download(&(second, third)).unwrap(), (x.clone(), Tensor::from([2.0, 3.0])));
}

#[test]
fn threads_call_one_program_and_arrays_outlive_their_client() {
    let Some(client) = client_or_skip() else { return };
    let f = on(&client, |x: Var| (x.sin() * 2.0, x.expi()));
    let x = xla::upload(&client, &Tensor::from([1.0, 2.0])).unwrap();
    let want = f.call([1.0, 2.0]).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let y = f.call_on_device(x.clone()).unwrap();
                    assert_eq!(xla::download(&y).unwrap(), want);
                }
            });
        }
    });
    let y = f.call_on_device(x).unwrap();
    drop((f, client));
    assert_eq!(xla::download(&y).unwrap(), want);
}

/// If a loop exceeds its limit, the call must end with the error of every other engine. With arrays on the device, the
/// results must be errors.
#[test]
fn loops_end_at_their_limit() {
    let Some(client) = client_or_skip() else { return };
    let counted = |x: Var| while_loop(|x: Var| x.lt(100.0), |x: Var| x + 1.0, x);
    let f = on(&client, counted).max_steps(10);
    assert_eq!(f.call(95.0).unwrap(), Tensor::from(100.0));
    for error in [
        f.call(0.0).unwrap_err(),
        f.call_on_device(xla::upload(&client, &Tensor::from(0.0)).unwrap())
            .and_then(|y| xla::download(&y))
            .unwrap_err(),
    ] {
        assert_eq!(error.kind(), Kind::Limit, "{error}");
        let said = "a loop did not end after 10 iterations, the limit of `max_steps`: the loop at ";
        assert!(error.to_string().contains(said), "{error}");
        assert!(error.to_string().contains("programs/xla.rs"), "{error}");
    }
    // After the error, the program must still run.
    assert_eq!(f.call(95.0).unwrap(), Tensor::from(100.0));
    // `max_steps` limits the loops of a gradient, too.
    let slope = grad(|x: Var| while_loop(|x: Var| x.lt(100.0), |x: Var| x * x, x));
    assert_eq!(on(&client, &slope).max_steps(4).call(2.0).unwrap(), jit(&slope).call(2.0).unwrap());
    let error = on(&client, &slope).max_steps(2).call(2.0).unwrap_err();
    assert_eq!(error.kind(), Kind::Limit, "{error}");
}

#[test]
fn explain_describes_the_program_of_xla() {
    let Some(client) = client_or_skip() else { return };
    let offset = Tensor::from([1.0, 2.0]);
    let f = move |(w, x): (Var, Var)| {
        let y = (x + constant(&offset)).expi().sum()
            + 0.0 * linalg::slogdet(x.sum() * eye(20, Dtype::F64)).1;
        (w - 0.1 * x.dot(w).tanh() * x, y)
    };
    let f = on(&client, f);
    f.call(([1.0, 2.0], [3.0, 4.0])).unwrap();
    let e = f.explain(([1.0, 2.0], [3.0, 4.0])).unwrap();
    assert_eq!(e.misses(), ["first call"]);
    let report = e.xla().unwrap();
    assert!(report.text.contains("stablehlo.tanh"), "{}", report.text);
    let calls: Vec<_> = report.calls.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    assert_eq!(calls, [("tapeloom.expi", 1), ("tapeloom.lu", 1)]);
    let arguments: Vec<String> =
        report.arguments.iter().map(|x| format!("{} {} {:?}", x.path, x.ty, x.result)).collect();
    assert_eq!(arguments, ["argument.0 f64[2] Some(0)", "argument.1 f64[2] None"]);
    assert_eq!(report.captured.len(), 1);
    let operations = report.operations.as_ref().unwrap();
    assert!(operations["custom-call"] >= 2, "{operations:?}");
    assert_eq!((e.kernels(), e.tape().bytes(), e.work()), (String::new(), 0, None));
    assert!(e.peak_bytes() >= 3 * 16 + 24, "{}", e.peak_bytes());
    let text = e.to_string();
    for section in [
        "== trace (",
        "== StableHLO\nmodule @jit {",
        "== functions of this process\n    1 tapeloom.expi",
        "== operations of the optimized program\n",
        "argument.0: f64[2], can be donated: result 0 may lie in its memory\n",
        "argument.1: f64[2], cannot be donated\ncaptured: f64[2], copied to the device once\n",
        "== memory\n48 bytes of arguments, ",
        "\nXLA  ",
        "== programs\n1. first call",
    ] {
        assert!(text.contains(section), "{section}\n{text}");
    }
}

#[test]
fn mistakes_are_errors() {
    let Some(client) = client_or_skip() else { return };
    let x = xla::upload(&client, &Tensor::from([1.0, 2.0])).unwrap();
    let error = jit(|x: Var| 2.0 * x).call_on_device(x.clone()).unwrap_err();
    assert_eq!(error.kind(), Kind::Target);
    assert!(error.to_string().contains("on(Target::Xla(client))"), "{error}");
    let error = DeviceArray::missing().download().unwrap_err();
    assert_eq!(error.kind, Kind::Arguments);
    let other = xla::upload(&other_client(&client), &Tensor::from([1.0, 2.0])).unwrap();
    let error = on(&client, |(x, y): (Var, Var)| x + y).call_on_device((x, other)).unwrap_err();
    assert_eq!(error.kind(), Kind::Arguments);
    assert!(error.to_string().contains("`argument.1` is an array of another client"), "{error}");
    assert!(error.to_string().contains("programs/xla.rs"), "{error}");
    let huge = |x: Var| x.broadcast_to([1 << 20, 1 << 20]);
    let error = on(&client, huge).call(1.0).unwrap_err();
    assert_eq!(error.kind(), Kind::TooLarge);
    let error = on(&client, |x: Var| x).profile(1.0).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), Kind::Target);
    let error = Plugin::at("no_such_file.so").map_err(tapeloom::Error::from).unwrap_err();
    assert!(error.to_string().contains("no_such_file.so"), "{error}");
}

/// Returns a step of gradient descent, which computes the loss and the new weights.
fn descent(size: Extents) -> impl Fn((Blocks<Var>, Var)) -> (Var, Blocks<Var>) {
    move |(blocks, x)| {
        let (loss, g) = transformer::step(size)((blocks.clone(), x));
        (loss, tree_map2(|w, g| w - 0.02 * g, &blocks, &g))
    }
}

/// The division of a block's weights along the mesh axis `model`: the first matrix of each pair by columns, the second
/// by rows, so that one sum over devices follows each pair.
fn by_columns_and_rows() -> Block<PartitionSpec> {
    let spec = |words: &[&str]| PartitionSpec::new(words.iter().copied());
    Block {
        qkv: spec(&["_", "_", "model"]),
        out: spec(&["model", "_"]),
        up: spec(&["_", "model"]),
        down: spec(&["model", "_"]),
    }
}

/// Twenty steps must have the same losses as on one device, if batches are divided among devices, if weights are, and
/// if both are.
#[test]
fn steps_of_a_transformer_have_the_losses_of_one_device() {
    let size = Extents { batch: 8, tokens: 6, width: 16, heads: 4, blocks: 2 };
    let (start, x) = transformer::data(size, Dtype::F64).unwrap();
    let one = jit(descent(size));
    let (mut weights, mut losses) = (start.clone(), Vec::new());
    for _ in 0..20 {
        let (loss, next) = one.call((&weights, &x)).unwrap();
        losses.push(loss);
        weights = next;
    }
    let replicated = Block {
        qkv: PartitionSpec::replicated(),
        out: PartitionSpec::replicated(),
        up: PartitionSpec::replicated(),
        down: PartitionSpec::replicated(),
    };
    for (mesh, blocks) in [
        ("data=2", replicated.clone()),
        ("data=4", replicated),
        ("data=1, model=4", by_columns_and_rows()),
        ("data=2, model=2", by_columns_and_rows()),
    ] {
        let mesh: Mesh = mesh.parse().unwrap();
        let Some(client) = devices_or_skip(mesh.devices()) else { return };
        let blocks = vec![blocks; size.blocks];
        let step = on(&client, descent(size))
            .mesh(mesh.clone())
            .argument_shardings((blocks.clone(), PartitionSpec::new(["data"])))
            .result_shardings((PartitionSpec::replicated(), blocks));
        let explained = step.explain((&start, &x)).unwrap();
        let operations = explained.xla().and_then(|of| of.operations.clone()).unwrap();
        let count = |name: &str| operations.get(name).copied().unwrap_or(0);
        println!(
            "{mesh}: {} all-reduces, {} all-gathers",
            count("all-reduce"),
            count("all-gather")
        );
        // Gradients must be added over devices, and no device may gather a weight or a batch.
        assert!(count("all-reduce") > 0, "{mesh}: {operations:?}");
        assert_eq!(count("all-gather"), 0, "{mesh}: {operations:?}");
        let (mut weights, batch) = step.upload((&start, &x)).unwrap();
        let before = client.transfers();
        let mut found = Vec::new();
        for _ in 0..20 {
            let (loss, next) = step.call_on_device((weights, batch.clone())).unwrap();
            found.push(loss);
            weights = next;
        }
        assert_eq!(client.transfers(), before, "{mesh}");
        for (found, want) in found.iter().zip(&losses) {
            let found = found.download().unwrap();
            Agreement::relative(1e-9).check(&found, want).unwrap();
        }
        // If the arguments are tensors in the memory of this process, the call must divide them like arrays on the
        // devices.
        let (loss, _) = step.call((&start, &x)).unwrap();
        Agreement::relative(1e-9).check(&loss, &losses[0]).unwrap();
    }
}

/// The example of the chapter *Many devices* must run. Without a plugin, it must say how to get one.
#[test]
fn the_example_runs() {
    many_devices::main().unwrap();
}

/// Two thousand steps on four devices must run without waiting for one another.
#[test]
fn steps_need_not_wait() {
    let Some(client) = devices_or_skip(4) else { return };
    let step =
        |(w, x): (Var, Var)| w - 0.1 * grad(move |w: Var| (x.dot(w) - 1.0).square().mean())(w);
    let sharded = on(&client, step)
        .mesh(Mesh::new([("data", 4)]).unwrap())
        .argument_shardings((PartitionSpec::replicated(), PartitionSpec::new(["data"])));
    let (start, x) = (Tensor::zeros(&[8], Dtype::F64).unwrap(), data().1);
    let (mut w, x) = sharded.upload((&start, &x)).unwrap();
    for _ in 0..2000 {
        w = sharded.call_on_device((w, x.clone())).unwrap();
    }
    let solved = xla::download(&w).unwrap();
    let one = jit(step);
    let mut want = start;
    for _ in 0..2000 {
        want = one.call((&want, &data().1)).unwrap();
    }
    Agreement::relative(1e-9).check(&solved, &want).unwrap();
}

/// Captured tensors must be copied to all devices. Integers and bools must have the bits of one device. Scans and
/// branches must run divided.
#[test]
fn programs_are_divided() {
    let Some(client) = devices_or_skip(4) else { return };
    let mesh = || Mesh::new([("rows", 2), ("columns", 2)]).unwrap();
    let (_, x) = data();
    let captured = x.clone();
    let f = move |x: Var| {
        let x = x.sharded(["rows", "columns"]);
        let moved = (x + constant(&captured)).t().sharded(["rows"]);
        let total =
            fori_loop(5, |(_, y): (Var, Var)| (y * 0.5 + moved).sharded(["_", "columns"]), moved);
        let order = x.argsort(0).sharded(["_", "rows.columns"]);
        (total, order, x.gt(0.0), cond(x.sum().gt(0.0), |x: Var| 2.0 * x, |x: Var| -x, x))
    };
    let sharded =
        on(&client, f.clone()).mesh(mesh()).argument_shardings(PartitionSpec::new(["rows"]));
    let (got, want) = (sharded.call(&x).unwrap(), jit(f).call(&x).unwrap());
    Agreement::relative(1e-12).check(&got.0, &want.0).unwrap();
    Agreement::relative(1e-12).check(&got.3, &want.3).unwrap();
    assert_eq!((got.1, got.2), (want.1, want.2));
}

#[test]
fn mistakes_of_shardings_are_errors() {
    let spec = |words: &[&str]| PartitionSpec::new(words.iter().copied());
    let x = || Tensor::zeros(&[6, 4], Dtype::F64).unwrap();
    let f = |x: Var| x * 2.0;
    #[track_caller]
    fn check<T>(found: Result<T, tapeloom::Error>, expected: &str) {
        let error = found.err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(error.contains("xla.rs:"), "{error}");
    }
    let divided = |spec: PartitionSpec| {
        jit(f).mesh(Mesh::new([("data", 4)]).unwrap()).argument_shardings(spec).stablehlo(x())
    };
    check(divided(spec(&["data"])), "cannot be divided into 4 equal parts along `data`");
    check(divided(spec(&["_", "dta"])), "no axis `dta`");
    check(divided(spec(&["data", "data"])), "along the mesh axis `data` twice");
    check(divided(spec(&["_", "_", "_"])), "is for 3 axes, and the array has 2 axes");
    check(divided(spec(&["_", "open"])), "leaves a division open");
    check(jit(f).argument_shardings(spec(&["_"])).stablehlo(x()), "and no mesh");
    let two = jit(|(x, y): (Var, Var)| x + y).mesh(Mesh::new([("data", 2)]).unwrap());
    check(two.argument_shardings(vec![spec(&["data"])]).stablehlo((x(), x())), "`argument[0]`");
    let inside = jit(|x: Var| x.sharded(["rows"])).mesh(Mesh::new([("data", 2)]).unwrap());
    check(inside.stablehlo(x()), "no axis `rows`");
    check(run(|x: Var| x.sharded(["rows", "rows"]), x()), "twice");
    check(run(|x: Var| x.sharded(["a", "b", "c"]), x()), "is for 3 axes");
    check(jit(f).upload(x()), "for programs of XLA");

    let Some(client) = client_or_skip() else { return };
    let four = on(&client, f).mesh(Mesh::new([("data", 4)]).unwrap());
    check(four.call(x()), "has 4 devices, and the client has 1");
    check(four.upload(x()), "cpu_device_count(4)");
    let Some(client) = devices_or_skip(2) else { return };
    let two = on(&client, f).mesh(Mesh::new([("data", 2)]).unwrap());
    let two = two.argument_shardings(spec(&["data"]));
    let whole = xla::upload(&client, &x()).unwrap();
    check(two.call_on_device(whole), "the program needs f64[6,4] as f64[3,4] on 2 devices");
    let divided = two.upload(x()).unwrap();
    let replicated = two.call_on_device(divided).unwrap();
    check(two.call_on_device(replicated), "result_shardings");
}

/// Two processes with two devices each, and four with one device each, must compute the same values as one device,
/// under JAX's distributed runtime.
#[test]
fn processes_have_the_results_of_one_device() {
    let Some(python) = std::env::var_os("TAPELOOM_JAX").filter(|path| !path.is_empty()) else {
        println!("skipped, because TAPELOOM_JAX does not name a Python with JAX");
        return;
    };
    let step = |(w, x): (Var, Var)| {
        w - 0.1 * grad(move |w: Var| (x.dot(w).tanh() - 0.5).square().mean())(w)
    };
    let (mut want, x) = (Tensor::zeros(&[8], Dtype::F64).unwrap(), data().1);
    let divided = jit(step)
        .mesh(Mesh::new([("data", 4)]).unwrap())
        .argument_shardings((PartitionSpec::replicated(), PartitionSpec::new(["data"])));
    let folder = Folder::new();
    let file = |name: &str| folder.file(name);
    std::fs::write(file("step.mlir"), divided.stablehlo((&want, &x)).unwrap()).unwrap();
    files::save_npz(file("arguments.npz"), &vec![want.clone(), x.clone()]).unwrap();
    let one = jit(step);
    for _ in 0..20 {
        want = one.call((&want, &x)).unwrap();
    }
    let launcher = concat!(env!("CARGO_MANIFEST_DIR"), "/../prelude/examples/processes.py");
    for (processes, devices) in [("2", "2"), ("4", "1")] {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let output = std::process::Command::new(&python)
            .arg(launcher)
            .args([file("step.mlir"), file("arguments.npz"), file("results.npz")])
            .args(["--processes", processes, "--devices", devices, "--steps", "20"])
            .args(["--coordinator", &format!("localhost:{port}")])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let found = files::load_npz(file("results.npz"), &vec![want.clone()]).unwrap();
        Agreement::relative(1e-9).check(&found[0], &want).unwrap();
    }
}
