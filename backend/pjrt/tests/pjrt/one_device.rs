//! Programs on one device.

use crate::support::{alone, client_or_skip, resident_megabytes};
use tapeloom_pjrt::{Client, CompileOptions, ElementType, ErrorKind, OverrideValue};

/// A sum of squared differences and its gradient: `z = x w`, `loss = sum z^2`, `dw = 2 xᵀ z`.
const LOSS: &str = r#"module @loss {
  func.func public @main(%x: tensor<3x2xf64>, %w: tensor<2xf64>) -> (tensor<f64>, tensor<2xf64>) {
    %z = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x2xf64>, tensor<2xf64>) -> tensor<3xf64>
    %z2 = stablehlo.multiply %z, %z : tensor<3xf64>
    %zero = stablehlo.constant dense<0.0> : tensor<f64>
    %loss = stablehlo.reduce(%z2 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
    %two = stablehlo.constant dense<2.0> : tensor<3xf64>
    %dz = stablehlo.multiply %two, %z : tensor<3xf64>
    %dw = stablehlo.dot_general %dz, %x, contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3xf64>, tensor<3x2xf64>) -> tensor<2xf64>
    return %loss, %dw : tensor<f64>, tensor<2xf64>
  }
}"#;

#[test]
fn floats_are_computed() {
    let Some(client) = client_or_skip(1) else { return };
    let loss = client.compile(LOSS, &CompileOptions::new()).unwrap();
    assert_eq!(loss.name(), "loss");
    assert_eq!(loss.devices(), client.devices());
    let arguments: Vec<String> =
        loss.arguments().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(arguments, ["tensor<3x2xf64>", "tensor<2xf64>"]);
    let results: Vec<String> = loss.results().map(ToString::to_string).collect();
    assert_eq!(results, ["tensor<f64>", "tensor<2xf64>"]);
    assert_eq!(loss.donated(), Some(&[false, false][..]));
    let device = &client.devices()[0];
    let x = client.buffer(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[3, 2], device).unwrap();
    let w = client.buffer(&[0.5, -1.0], &[2], device).unwrap();
    for _ in 0..3 {
        let results = loss.call(&[&x, &w]).unwrap();
        assert_eq!(results[0].to_vec::<f64>().unwrap(), [1.5 * 1.5 + 2.5 * 2.5 + 3.5 * 3.5]);
        assert_eq!(results[1].to_vec::<f64>().unwrap(), [-53.0, -68.0]);
        assert_eq!(results[1].device(), device);
    }
}

/// The copies to and from the host are counted, and executions copy nothing.
#[test]
fn transfers_are_counted() {
    let Some(client) = client_or_skip(1) else { return };
    let loss = client.compile(LOSS, &CompileOptions::new()).unwrap();
    let device = &client.devices()[0];
    let x = client.buffer(&[1.0_f64; 6], &[3, 2], device).unwrap();
    let w = client.buffer(&[1.0_f64; 2], &[2], device).unwrap();
    let before = client.transfers();
    assert_eq!((before.to_devices, before.to_host), (64, 0));
    let results = loss.call(&[&x, &w]).unwrap();
    results[0].wait().unwrap();
    assert_eq!(client.transfers(), before);
    results[1].to_bytes().unwrap();
    assert_eq!(client.transfers().to_host, 16);
}

/// Applies a function of one argument, whose text is an expression of `%x`.
fn apply(
    client: &Client,
    from: &str,
    body: &str,
    to: &str,
    x: &tapeloom_pjrt::Buffer,
) -> tapeloom_pjrt::Buffer {
    let text = format!(
        "func.func @main(%x: tensor<{from}>) -> tensor<{to}> {{\n{body}\nreturn %y : tensor<{to}>\n}}"
    );
    let program =
        client.compile(&text, &CompileOptions::new()).unwrap_or_else(|e| panic!("{e}\n{text}"));
    program.call(&[x]).unwrap().remove(0)
}

#[test]
fn integers_and_bools_are_computed() {
    let Some(client) = client_or_skip(1) else { return };
    let device = &client.devices()[0];
    let x = client.buffer(&[i64::MAX, -3, 7], &[3], device).unwrap();
    let y = apply(&client, "3xi64", "%y = stablehlo.add %x, %x : tensor<3xi64>", "3xi64", &x);
    assert_eq!(y.to_vec::<i64>().unwrap(), [-2, -6, 14]);
    let y = apply(
        &client,
        "3xi64",
        "%y = stablehlo.compare LT, %x, %x : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi1>",
        "3xi1",
        &x,
    );
    assert_eq!(y.to_vec::<bool>().unwrap(), [false; 3]);
    let x = client.buffer(&[true, false, true], &[3], device).unwrap();
    let y = apply(&client, "3xi1", "%y = stablehlo.not %x : tensor<3xi1>", "3xi1", &x);
    assert_eq!(y.to_vec::<bool>().unwrap(), [false, true, false]);
    let x = client.buffer(&[250_u8, 7], &[2], device).unwrap();
    let y = apply(&client, "2xui8", "%y = stablehlo.add %x, %x : tensor<2xui8>", "2xui8", &x);
    assert_eq!(y.to_vec::<u8>().unwrap(), [244, 14]);
}

/// Every element type that the plugin computes with survives a copy to a device and back, through a program.
#[test]
fn all_element_types_pass() {
    let Some(client) = client_or_skip(1) else { return };
    for element in ElementType::ALL.iter().filter(|element| **element != ElementType::Token) {
        let mut bytes = vec![0_u8; 3 * element.bytes()];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = if *element == ElementType::Pred { (at % 2) as u8 } else { (at * 5 + 1) as u8 };
        }
        let x = client.buffer_from_bytes(&bytes, *element, &[3], &client.devices()[0]).unwrap();
        let of = format!("3x{element}");
        let y = apply(
            &client,
            &of,
            &format!("%y = stablehlo.reverse %x, dims = [0] : tensor<{of}>"),
            &of,
            &x,
        );
        let back = apply(
            &client,
            &of,
            &format!("%y = stablehlo.reverse %x, dims = [0] : tensor<{of}>"),
            &of,
            &y,
        );
        assert_eq!(x.to_bytes().unwrap(), bytes, "{element}");
        assert_eq!(back.to_bytes().unwrap(), bytes, "{element}");
    }
}

#[test]
fn empty_arrays_and_scalars_pass() {
    let Some(client) = client_or_skip(1) else { return };
    let device = &client.devices()[0];
    let x = client.buffer::<f64>(&[], &[0, 3], device).unwrap();
    assert_eq!(x.to_vec::<f64>().unwrap(), [0.0; 0]);
    let y = apply(&client, "0x3xf64", "%y = stablehlo.add %x, %x : tensor<0x3xf64>", "0x3xf64", &x);
    assert_eq!(y.array_type().dims(), [0, 3]);
    assert_eq!(y.to_vec::<f64>().unwrap(), [0.0; 0]);
    let zero = "%zero = stablehlo.constant dense<1.0> : tensor<f64>\n";
    let sum = format!(
        "{zero}%y = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<0x3xf64>, tensor<f64>) -> tensor<f64>"
    );
    assert_eq!(apply(&client, "0x3xf64", &sum, "f64", &x).to_vec::<f64>().unwrap(), [1.0]);
    let x = client.buffer(&[2.5_f32], &[], device).unwrap();
    let y = apply(&client, "f32", "%y = stablehlo.negate %x : tensor<f32>", "f32", &x);
    assert_eq!(y.to_vec::<f32>().unwrap(), [-2.5]);
}

/// Programs without arguments, and programs without results, must run.
#[test]
fn programs_may_have_no_arguments_or_no_results() {
    let Some(client) = client_or_skip(1) else { return };
    let seven = "func.func @main() -> tensor<i32> {\n%y = stablehlo.constant dense<7> : tensor<i32>\nreturn %y : tensor<i32>\n}";
    let seven = client.compile(seven, &CompileOptions::new()).unwrap();
    assert_eq!(seven.call(&[]).unwrap()[0].to_vec::<i32>().unwrap(), [7]);
    let nothing = client
        .compile("func.func @main(%x: tensor<f64>) {\nreturn\n}", &CompileOptions::new())
        .unwrap();
    let x = client.buffer(&[1.0], &[], &client.devices()[0]).unwrap();
    assert_eq!(nothing.call(&[&x]).unwrap().len(), 0);
}

/// A result that lies in column-major order on the device is copied to the host in row-major order.
#[test]
fn copies_to_the_host_are_in_row_major_order() {
    let Some(client) = client_or_skip(1) else { return };
    let text = r#"module {
  func.func public @main(%x: tensor<2x3xi32>) -> (tensor<2x3xi32> {mhlo.layout_mode = "{0,1}"}) {
    %y = stablehlo.add %x, %x : tensor<2x3xi32>
    return %y : tensor<2x3xi32>
  }
}"#;
    let double = client.compile(text, &CompileOptions::new()).unwrap();
    let x = client.buffer(&[1, 2, 3, 4, 5, 6], &[2, 3], &client.devices()[0]).unwrap();
    let y = double.call(&[&x]).unwrap();
    assert_eq!(y[0].to_vec::<i32>().unwrap(), [2, 4, 6, 8, 10, 12]);
    // A program that expects row-major order would read the elements of this argument in the wrong order.
    let negate = "func.func @main(%x: tensor<2x3xi32>) -> tensor<2x3xi32> {\n%y = stablehlo.negate %x : tensor<2x3xi32>\nreturn %y : tensor<2x3xi32>\n}";
    let rows = client.compile(negate, &CompileOptions::new()).unwrap();
    let error = rows.call(&[&y[0]]).unwrap_err();
    assert!(error.to_string().contains("in the order [0, 1] on the device"), "{error}");
    let by_columns =
        text.replace("%x: tensor<2x3xi32>)", "%x: tensor<2x3xi32> {mhlo.layout_mode = \"{0,1}\"})");
    let columns = client.compile(&by_columns, &CompileOptions::new()).unwrap();
    assert_eq!(columns.call(&[&y[0]]).unwrap()[0].to_vec::<i32>().unwrap(), [4, 8, 12, 16, 20, 24]);
    assert!(columns.call(&[&x]).unwrap_err().to_string().contains("in the order [1, 0]"));
}

#[test]
fn a_bad_program_is_an_error_of_the_plugin() {
    let Some(client) = client_or_skip(1) else { return };
    for (text, expected) in [
        ("this is no program", "'this' is unknown"),
        (
            "func.func @main(%x: tensor<2xf64>) -> tensor<3xf64> { return %x : tensor<2xf64> }",
            "2xf64",
        ),
        (
            "func.func @main(%x: tensor<2xf64>) -> tensor<2xf64> { %y = stablehlo.no_such %x : tensor<2xf64>\nreturn %y : tensor<2xf64> }",
            "no_such",
        ),
        ("", ""),
    ] {
        let error = client.compile(text, &CompileOptions::new()).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Plugin(_)), "{error}");
        assert!(error.message().contains(expected), "{text}: {error}");
        println!("{error}");
    }
}

#[test]
fn options_of_xla_are_passed() {
    let Some(client) = client_or_skip(1) else { return };
    let with =
        |name: &str, value| client.compile(LOSS, &CompileOptions::new().xla_option(name, value));
    with("xla_cpu_enable_fast_math", OverrideValue::Bool(false)).unwrap();
    let error = with("xla_no_such_option", OverrideValue::Int(1)).unwrap_err();
    assert!(error.to_string().contains("xla_no_such_option"), "{error}");
}

#[test]
fn the_optimized_program_lists_its_operations() {
    let Some(client) = client_or_skip(1) else { return };
    let loss = client.compile(LOSS, &CompileOptions::new()).unwrap();
    let program = loss.optimized_program().unwrap();
    let operations = program.operations().unwrap();
    assert_eq!(operations["parameter"] >= 2, !program.bytes().is_empty());
    assert!(!operations.contains_key("all-reduce"), "{operations:?}");
    println!("{}: {operations:?}", program.format());
}

/// Errors of the plugin, clients, buffers, programs and events must be freed: the memory of the process must not grow
/// if many of them are made.
#[test]
fn nothing_is_leaked() {
    let Some(client) = client_or_skip(1) else { return };
    if !alone("one_device::nothing_is_leaked") {
        return;
    }
    let device = &client.devices()[0];
    let megabyte = vec![1.0_f64; 1 << 17];
    let square = "func.func @main(%x: tensor<131072xf64>) -> tensor<131072xf64> {\n%y = stablehlo.multiply %x, %x : tensor<131072xf64>\nreturn %y : tensor<131072xf64>\n}";
    let square = client.compile(square, &CompileOptions::new()).unwrap();
    let step = || {
        let x = client.buffer(&megabyte, &[1 << 17], device).unwrap();
        let y = square.call(&[&x]).unwrap();
        assert_eq!(y[0].to_vec::<f64>().unwrap()[7], 1.0);
        client.compile("no program", &CompileOptions::new()).unwrap_err();
    };
    (0..50).for_each(|_| step());
    let before = resident_megabytes();
    (0..300).for_each(|_| step());
    if let (Some(before), Some(after)) = (before, resident_megabytes()) {
        println!("{before} MB before, {after} MB after 300 steps");
        assert!(
            after - before < 20.0,
            "{before} MB before 300 steps of some megabytes each, {after} MB behind them"
        );
    }
}
