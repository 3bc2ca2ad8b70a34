//! Arguments that do not fit are errors of this client, before the plugin sees them.

use crate::support::client_or_skip;
use tapeloom_pjrt::{
    Buffer, Client, ClientOptions, CompileOptions, ElementType, ErrorKind, Executable, NamedValue,
};

fn add(client: &Client) -> Executable {
    let text = "module @add {\nfunc.func public @main(%x: tensor<4xf64>, %y: tensor<4xf64>) -> tensor<4xf64> {\n%z = stablehlo.add %x, %y : tensor<4xf64>\nreturn %z : tensor<4xf64>\n}\n}";
    client.compile(text, &CompileOptions::new()).unwrap()
}

#[track_caller]
fn check(add: &Executable, arguments: &[&[&Buffer]], expected: &str) {
    let error = add.execute(arguments).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
    assert!(error.to_string().contains(expected), "{error}");
}

#[test]
fn arguments_are_checked() {
    let Some(client) = client_or_skip(2) else { return };
    let (add, device) = (add(&client), &client.devices()[0]);
    let x = client.buffer(&[1.0_f64; 4], &[4], device).unwrap();
    let shape = client.buffer(&[1.0_f64; 4], &[2, 2], device).unwrap();
    let element = client.buffer(&[1_i64; 4], &[4], device).unwrap();
    let elsewhere = client.buffer(&[1.0_f64; 4], &[4], &client.devices()[1]).unwrap();
    check(&add, &[&[&x]], "expected 2 arguments, found 1");
    check(&add, &[&[&x, &x, &x]], "expected 2 arguments, found 3");
    check(&add, &[&[&x, &shape]], "expected tensor<4xf64>, found tensor<2x2xf64>");
    check(&add, &[&[&element, &x]], "expected tensor<4xf64>, found tensor<4xi64>");
    check(&add, &[&[&x, &elsewhere]], "copy it with `copy_to_device`");
    check(&add, &[], "`add` runs on 1 devices; expected as many lists of arguments, found 0");
    check(&add, &[&[&x, &x], &[&x, &x]], "found 2");
    assert_eq!(add.call(&[&x, &x]).unwrap()[0].to_vec::<f64>().unwrap(), [2.0; 4]);
}

#[test]
fn bytes_are_checked() {
    let Some(client) = client_or_skip(1) else { return };
    let device = &client.devices()[0];
    let error = client.buffer(&[1.0_f64; 3], &[4], device).unwrap_err();
    assert_eq!(error.to_string(), "tensor<4xf64> has 32 bytes, found 24 bytes");
    let error = client.buffer(&[1.0_f64; 3], &[usize::MAX, 2], device).unwrap_err();
    assert!(error.to_string().contains("more bytes than memory has addresses"), "{error}");
    let x = client.buffer(&[1.0_f64; 4], &[4], device).unwrap();
    let error = x.to_vec::<f32>().unwrap_err();
    assert_eq!(error.to_string(), "the buffer is tensor<4xf64>, expected elements of type f32");
    let error = x.copy_to(&mut [0; 31]).unwrap_err();
    assert_eq!(error.to_string(), "tensor<4xf64> has 32 bytes, found room for 31 bytes");
}

/// Mistakes that end the process in some plugins must be errors of this client.
#[test]
fn mistakes_that_plugins_do_not_survive_are_errors() {
    let Some(client) = client_or_skip(2) else { return };
    let text = "func.func @main(%x: tensor<f64>) -> tensor<f64> { return %x : tensor<f64> }";
    for (options, expected) in [
        (CompileOptions::new().replicas(0), "expected at least one replica and one partition"),
        (CompileOptions::new().device_ids([-1]), "there is no device with the id -1"),
        (CompileOptions::new().partitions(8), "device"),
    ] {
        let error = client.compile(text, &options).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    let options = ClientOptions::new().value("cpu_device_count", NamedValue::Text("two".into()));
    assert_eq!(Client::new(client.plugin(), &options).unwrap_err().kind(), ErrorKind::Argument);
    let token = client.buffer_from_bytes(&[], ElementType::Token, &[], &client.devices()[0]);
    assert_eq!(token.unwrap_err().kind(), ErrorKind::Argument);
}
