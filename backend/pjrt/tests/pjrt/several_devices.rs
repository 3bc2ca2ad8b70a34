//! Programs on several devices: shardings, placement, many executions at once.

use crate::support::{alone, client_or_skip, resident_megabytes};
use tapeloom_pjrt::{Buffer, Client, ClientOptions, CompileOptions, Executable};

/// `loss = sum tanh(x w)^2` and its gradient, with the rows of `x` on four devices.
const LOSS: &str = r#"module @loss attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["rows"=4]>
  func.func public @main(%x: tensor<8x4xf64> {sdy.sharding = #sdy.sharding<@mesh, [{"rows"}, {}]>}, %w: tensor<4xf64> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) -> (tensor<f64> {sdy.sharding = #sdy.sharding<@mesh, []>}, tensor<4xf64> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
    %z = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<8x4xf64>, tensor<4xf64>) -> tensor<8xf64>
    %y = stablehlo.tanh %z : tensor<8xf64>
    %y2 = stablehlo.multiply %y, %y : tensor<8xf64>
    %zero = stablehlo.constant dense<0.0> : tensor<f64>
    %loss = stablehlo.reduce(%y2 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8xf64>, tensor<f64>) -> tensor<f64>
    %one = stablehlo.constant dense<1.0> : tensor<8xf64>
    %s = stablehlo.subtract %one, %y2 : tensor<8xf64>
    %two = stablehlo.constant dense<2.0> : tensor<8xf64>
    %t = stablehlo.multiply %two, %y : tensor<8xf64>
    %dz = stablehlo.multiply %t, %s : tensor<8xf64>
    %dw = stablehlo.dot_general %dz, %x, contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<8xf64>, tensor<8x4xf64>) -> tensor<4xf64>
    return %loss, %dw : tensor<f64>, tensor<4xf64>
  }
}"#;

/// The arguments of `LOSS`: `x` by rows, and `w`.
fn values() -> (Vec<f64>, Vec<f64>) {
    ((0..32).map(|i| f64::from(i % 7) * 0.1 - 0.3).collect(), vec![0.5, -0.25, 1.0, 0.125])
}

/// Computes `LOSS` in Rust.
fn expected(x: &[f64], w: &[f64]) -> (f64, Vec<f64>) {
    let (mut loss, mut dw) = (0.0, vec![0.0; 4]);
    for row in x.chunks(4) {
        let y = row.iter().zip(w).map(|(x, w)| x * w).sum::<f64>().tanh();
        loss += y * y;
        for (dw, x) in dw.iter_mut().zip(row) {
            *dw += 2.0 * y * (1.0 - y * y) * x;
        }
    }
    (loss, dw)
}

/// Copies two rows of `x` to each of four devices, and `w` to all.
fn arguments(client: &Client, program: &Executable) -> Vec<[Buffer; 2]> {
    let (x, w) = values();
    let place = |(device, rows): (&tapeloom_pjrt::Device, &[f64])| {
        [client.buffer(rows, &[2, 4], device).unwrap(), client.buffer(&w, &[4], device).unwrap()]
    };
    program.devices().iter().zip(x.chunks(8)).map(place).collect()
}

#[test]
fn four_devices_compute_a_sum_together() {
    let Some(client) = client_or_skip(4) else { return };
    let program = client.compile(LOSS, &CompileOptions::new().partitions(4)).unwrap();
    assert_eq!(program.devices().len(), 4);
    let types: Vec<String> = program.arguments().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(types, ["tensor<2x4xf64>", "tensor<4xf64>"]);
    let text = |shardings: Option<&[tapeloom_pjrt::Sharding]>| {
        shardings.unwrap().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(text(program.argument_shardings()), ["{devices=[4,1]0,1,2,3}", "{replicated}"]);
    assert_eq!(text(program.result_shardings()), ["{replicated}", "{replicated}"]);
    let operations = program.optimized_program().unwrap().operations().unwrap();
    assert!(
        operations["all-reduce"] >= 1 && !operations.contains_key("all-gather"),
        "{operations:?}"
    );
    let arguments = arguments(&client, &program);
    let lists: Vec<[&Buffer; 2]> = arguments.iter().map(|[x, w]| [x, w]).collect();
    let lists: Vec<&[&Buffer]> = lists.iter().map(|list| &list[..]).collect();
    let (x, w) = values();
    let (loss, dw) = expected(&x, &w);
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-14 * b.abs().max(1.0);
    for _ in 0..3 {
        let execution = program.execute(&lists).unwrap();
        execution.completion.wait().unwrap();
        for (device, results) in program.devices().iter().zip(&execution.results) {
            assert_eq!(results[0].device(), device);
            let (found, gradient) =
                (results[0].to_vec::<f64>().unwrap(), results[1].to_vec::<f64>().unwrap());
            assert!(close(found[0], loss), "{found:?} {loss}");
            assert!(gradient.iter().zip(&dw).all(|(a, b)| close(*a, *b)), "{gradient:?} {dw:?}");
        }
    }
}

/// Two thousand executions are started without a wait. The queue keeps the number in flight within its bound, and memory
/// stays as it is.
#[test]
fn two_thousand_executions_in_a_row() {
    let Some(client) = client_or_skip(4) else { return };
    if !alone("several_devices::two_thousand_executions_in_a_row") {
        return;
    }
    let program = client.compile(LOSS, &CompileOptions::new().partitions(4)).unwrap();
    let arguments = arguments(&client, &program);
    let lists: Vec<[&Buffer; 2]> = arguments.iter().map(|[x, w]| [x, w]).collect();
    let lists: Vec<&[&Buffer]> = lists.iter().map(|list| &list[..]).collect();
    let mut before = None;
    for step in 0..2000 {
        let execution = program.execute(&lists).unwrap();
        assert!(client.executions_in_flight() <= 32);
        if step == 200 {
            before = resident_megabytes();
        }
        if step == 1999 {
            let loss = execution.results[3][0].to_vec::<f64>().unwrap()[0];
            let (x, w) = values();
            assert!((loss - expected(&x, &w).0).abs() < 1e-12);
        }
    }
    client.wait().unwrap();
    assert_eq!(client.executions_in_flight(), 0);
    if let (Some(before), Some(after)) = (before, resident_megabytes()) {
        println!("{before} MB before, {after} MB after 1,800 steps");
        assert!(after - before < 5.0, "{before} MB before 1,800 steps, {after} MB behind them");
    }
}

/// A program must run on the device whose id the options name.
#[test]
fn a_program_runs_on_the_device_that_its_options_name() {
    let Some(client) = client_or_skip(4) else { return };
    let text = "func.func @main(%x: tensor<f64>) -> tensor<f64> {\n%y = stablehlo.negate %x : tensor<f64>\nreturn %y : tensor<f64>\n}";
    for device in client.devices() {
        let negate =
            client.compile(text, &CompileOptions::new().device_ids([device.id()])).unwrap();
        assert_eq!(negate.devices(), std::slice::from_ref(device));
        let x = client.buffer(&[1.0], &[], &client.devices()[0]).unwrap();
        let x = if device == x.device() { x } else { x.copy_to_device(device).unwrap() };
        let y = negate.call(&[&x]).unwrap();
        assert_eq!((y[0].device(), y[0].to_vec::<f64>().unwrap()), (device, vec![-1.0]));
    }
}

/// The order of devices in the options is the order of arguments.
#[test]
fn partitions_have_the_order_of_the_options() {
    let Some(client) = client_or_skip(4) else { return };
    let ids: Vec<i32> = client.devices().iter().rev().map(|device| device.id()).collect();
    let options = CompileOptions::new().partitions(4).device_ids(ids.clone());
    let program = client.compile(LOSS, &options).unwrap();
    let found: Vec<i32> = program.devices().iter().map(|device| device.id()).collect();
    assert_eq!(found, ids);
    let error =
        client.compile(LOSS, &CompileOptions::new().partitions(4).device_ids([0])).unwrap_err();
    assert!(error.to_string().contains("expected the ids of 4 devices, found 1"), "{error}");
}

/// Replicas run one program, each with its own arguments, and may add over all of them.
#[test]
fn replicas_have_arguments_of_their_own() {
    let Some(client) = client_or_skip(2) else { return };
    let text = r#"module @sum attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 2 : i32} {
  func.func public @main(%x: tensor<f64>) -> tensor<f64> {
    %y = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%a: tensor<f64>, %b: tensor<f64>):
      %c = stablehlo.add %a, %b : tensor<f64>
      stablehlo.return %c : tensor<f64>
    }) : (tensor<f64>) -> tensor<f64>
    return %y : tensor<f64>
  }
}"#;
    let sum = client.compile(text, &CompileOptions::new().replicas(2)).unwrap();
    let x: Vec<Buffer> = client
        .devices()
        .iter()
        .zip([1.0, 10.0])
        .map(|(device, x)| client.buffer(&[x], &[], device).unwrap())
        .collect();
    let execution = sum.execute(&[&[&x[0]], &[&x[1]]]).unwrap();
    for results in &execution.results {
        assert_eq!(results[0].to_vec::<f64>().unwrap(), [11.0]);
    }
}

/// Several threads call one client, one executable and one set of buffers at once.
#[test]
fn threads_share_a_client() {
    let Some(client) = client_or_skip(4) else { return };
    let many = client.compile(LOSS, &CompileOptions::new().partitions(4)).unwrap();
    let arguments = arguments(&client, &many);
    let text = "func.func @main(%x: tensor<f64>) -> tensor<f64> {\n%y = stablehlo.add %x, %x : tensor<f64>\nreturn %y : tensor<f64>\n}";
    let double = client.compile(text, &CompileOptions::new()).unwrap();
    let (x, w) = values();
    let loss = expected(&x, &w).0;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (client, many, arguments, double) = (&client, &many, &arguments, &double);
            scope.spawn(move || {
                let lists: Vec<[&Buffer; 2]> = arguments.iter().map(|[x, w]| [x, w]).collect();
                let lists: Vec<&[&Buffer]> = lists.iter().map(|list| &list[..]).collect();
                for step in 0..50 {
                    let number = f64::from(thread * 1000 + step);
                    let x = client.buffer(&[number], &[], &client.devices()[0]).unwrap();
                    let y = double.call(&[&x]).unwrap();
                    let execution = many.execute(&lists).unwrap();
                    assert_eq!(y[0].to_vec::<f64>().unwrap(), [2.0 * number]);
                    let found = execution.results[1][0].to_vec::<f64>().unwrap()[0];
                    assert!((found - loss).abs() < 1e-12);
                }
            });
        }
    });
}

/// A small bound on executions in flight holds.
#[test]
fn executions_in_flight_are_bounded() {
    let Some(client) = client_or_skip(1) else { return };
    let bounded = Client::new(client.plugin(), &ClientOptions::new().in_flight(2)).unwrap();
    let text = "func.func @main(%x: tensor<1000x1000xf64>) -> tensor<1000x1000xf64> {\n%y = stablehlo.tanh %x : tensor<1000x1000xf64>\nreturn %y : tensor<1000x1000xf64>\n}";
    let tanh = bounded.compile(text, &CompileOptions::new()).unwrap();
    let mut x =
        bounded.buffer(&vec![0.5; 1_000_000], &[1000, 1000], &bounded.devices()[0]).unwrap();
    for _ in 0..10 {
        x = tanh.call(&[&x]).unwrap().remove(0);
        assert!(bounded.executions_in_flight() <= 2);
    }
    let expected = (0..10).fold(0.5_f64, |x, _| x.tanh());
    assert!((x.to_vec::<f64>().unwrap()[999_999] - expected).abs() < 1e-14);
}

/// Clients of one plugin must be able to run programs with collective operations at once. Plugins for CPUs keep one
/// table of rendezvous for the process. So before executions were numbered, executions of two clients met in one
/// all-reduce, and the plugin of version 0.81 crashed.
#[test]
fn clients_run_collective_operations_at_once() {
    let Some(plugin) = crate::support::plugin_or_skip() else { return };
    let (x, w) = values();
    let loss = expected(&x, &w).0;
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let client =
                    Client::new(&plugin, &ClientOptions::new().cpu_device_count(4)).unwrap();
                let program = client.compile(LOSS, &CompileOptions::new().partitions(4)).unwrap();
                let arguments = arguments(&client, &program);
                let lists: Vec<[&Buffer; 2]> = arguments.iter().map(|[x, w]| [x, w]).collect();
                let lists: Vec<&[&Buffer]> = lists.iter().map(|list| &list[..]).collect();
                let runs: Vec<_> = (0..100).map(|_| program.execute(&lists).unwrap()).collect();
                for run in &runs {
                    let found = run.results[2][0].to_vec::<f64>().unwrap()[0];
                    assert!((found - loss).abs() < 1e-12, "{found} {loss}");
                }
                client.wait().unwrap();
            });
        }
    });
}

/// A result that stays divided has the dimensions and the sharding of its tiles, also if some devices have the same tile.
#[test]
fn results_are_divided_as_the_text_says() {
    let Some(client) = client_or_skip(4) else { return };
    let text = r#"module @double attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["rows"=2, "columns"=2]>
  func.func public @main(%x: tensor<4x6xf64> {sdy.sharding = #sdy.sharding<@mesh, [{"rows"}, {}]>}) -> (tensor<4x6xf64> {sdy.sharding = #sdy.sharding<@mesh, [{"rows"}, {"columns"}]>}) {
    %y = stablehlo.add %x, %x : tensor<4x6xf64>
    return %y : tensor<4x6xf64>
  }
}"#;
    let double = client.compile(text, &CompileOptions::new().partitions(4)).unwrap();
    assert_eq!(
        double.argument_shardings().unwrap()[0].to_string(),
        "{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}"
    );
    assert_eq!(double.result_shardings().unwrap()[0].to_string(), "{devices=[2,2]0,1,2,3}");
    assert_eq!(double.results().next().unwrap().dims(), [2, 3]);
    let whole: Vec<f64> = (0..24).map(f64::from).collect();
    let rows =
        |(number, device)| client.buffer(&whole[number / 2 * 12..][..12], &[2, 6], device).unwrap();
    let x: Vec<Buffer> = double.devices().iter().enumerate().map(rows).collect();
    let lists: Vec<[&Buffer; 1]> = x.iter().map(|x| [x]).collect();
    let lists: Vec<&[&Buffer]> = lists.iter().map(|list| &list[..]).collect();
    let execution = double.execute(&lists).unwrap();
    for (number, results) in execution.results.iter().enumerate() {
        let (row, column) = (number / 2 * 2, number % 2 * 3);
        let at = |i: usize, j: usize| 2.0 * whole[(row + i) * 6 + column + j];
        let expected: Vec<f64> = (0..2).flat_map(|i| (0..3).map(move |j| at(i, j))).collect();
        assert_eq!(results[0].to_vec::<f64>().unwrap(), expected, "device {number}");
    }
}
