//! Programs on a plugin of XLA. The tests run if `TAPELOOM_PJRT_PLUGIN` is set, and say so if it is not.

use tapeloom::prelude::*;
use tapeloom::xla::{self, Client, DeviceArray, Plugin};
use tapeloom::{Kind, Target};
use tapeloom_tests::Agreement;
use tapeloom_tests::xla::client_or_skip;

fn on<A: Tree<Var>, B: Tree<Var>, F: Fn(A) -> B>(client: &Client, f: F) -> Jit<A, B, F> {
    jit(f).on(Target::Xla(client.clone()))
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

/// Steps with arrays that stay on the device copy nothing, and compute what steps on this machine compute.
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
    // The batch was kept, because a handle of it is alive.
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

/// Functions and decompositions that StableHLO lacks are called in this process, so they have the bits of this machine.
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

#[test]
fn mistakes_are_errors() {
    let Some(client) = client_or_skip() else { return };
    let x = xla::upload(&client, &Tensor::from([1.0, 2.0])).unwrap();
    let error = jit(|x: Var| 2.0 * x).call_on_device(x.clone()).unwrap_err();
    assert_eq!(error.kind(), Kind::Target);
    assert!(error.to_string().contains("on(Target::Xla(client))"), "{error}");
    let error = on(&client, |x: Var| tap(x, |_: Tensor| ())).call(1.0);
    assert_eq!(error.unwrap_err().kind(), Kind::Target);
    let error = DeviceArray::missing().download().unwrap_err();
    assert_eq!(error.kind, Kind::Internal);
    let error = Plugin::at("no_such_file.so").map_err(tapeloom::Error::from).unwrap_err();
    assert!(error.to_string().contains("no_such_file.so"), "{error}");
}
