//! Programs that call Rust functions.

use crate::support::client_or_skip;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tapeloom_pjrt::{
    Attribute, Buffer, Client, Code, CompileOptions, ElementType, Error, ErrorKind, Executable,
};

/// Compiles a program that is one call of a handler.
#[track_caller]
fn call_of(client: &Client, name: &str, attributes: &str, from: &[&str], to: &str) -> Executable {
    let arguments: Vec<String> =
        (0..from.len()).map(|i| format!("%x{i}: tensor<{}>", from[i])).collect();
    let operands: Vec<String> = (0..from.len()).map(|i| format!("%x{i}")).collect();
    let types: Vec<String> = from.iter().map(|of| format!("tensor<{of}>")).collect();
    let text = format!(
        "func.func @main({}) -> tensor<{to}> {{
            %y = stablehlo.custom_call @{name}({}) {{api_version = 4 : i32{attributes}}} : ({}) -> tensor<{to}>
            return %y : tensor<{to}>
        }}",
        arguments.join(", "),
        operands.join(", "),
        types.join(", ")
    );
    client.compile(&text, &CompileOptions::new()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn a_handler_adds() {
    let Some(client) = client_or_skip(1) else { return };
    client
        .plugin()
        .register_handler("test.add", |call| {
            assert_eq!(call.arguments().len(), 2);
            let (x, y) =
                (call.argument(0)?.elements::<f64>()?, call.argument(1)?.elements::<f64>()?);
            let z = call.result(0)?.elements::<f64>()?;
            for (z, (x, y)) in z.iter_mut().zip(x.iter().zip(y)) {
                *z = x + y;
            }
            Ok(())
        })
        .unwrap();
    let device = &client.devices()[0];
    for dims in [&[2, 3][..], &[], &[0, 3]] {
        let of: String = dims.iter().map(|d| format!("{d}x")).collect::<String>() + "f64";
        let add = call_of(&client, "test.add", "", &[&of, &of], &of);
        let x: Vec<f64> = (0..dims.iter().product()).map(|i: usize| i as f64).collect();
        let doubled: Vec<f64> = x.iter().map(|x| x + x).collect();
        let x = client.buffer(&x, dims, device).unwrap();
        for _ in 0..100 {
            assert_eq!(add.call(&[&x, &x]).unwrap()[0].to_vec::<f64>().unwrap(), doubled);
        }
    }
}

/// Handlers get the values that a program computes, and results are used in the program. A function without captured values
/// is a handler, too.
#[test]
fn handlers_stand_inside_of_programs() {
    fn count_true(call: &mut tapeloom_pjrt::CustomCall<'_>) -> Result<(), Error> {
        assert_eq!(call.argument(0)?.array_type().element(), ElementType::Pred);
        let count = call.argument(0)?.bytes().iter().filter(|byte| **byte != 0).count();
        call.result(0)?.elements::<i32>()?[0] = i32::try_from(count).unwrap();
        Ok(())
    }
    let Some(client) = client_or_skip(1) else { return };
    client.plugin().register_handler("test.count_true", count_true).unwrap();
    let text = "func.func @main(%x: tensor<4xf64>) -> tensor<i32> {
        %zero = stablehlo.constant dense<0.0> : tensor<4xf64>
        %p = stablehlo.compare GT, %x, %zero : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xi1>
        %n = stablehlo.custom_call @test.count_true(%p) {api_version = 4 : i32} : (tensor<4xi1>) -> tensor<i32>
        %m = stablehlo.multiply %n, %n : tensor<i32>
        return %m : tensor<i32>
    }";
    let program = client.compile(text, &CompileOptions::new()).unwrap();
    let x = client.buffer(&[1.0, -1.0, 2.0, 3.0], &[4], &client.devices()[0]).unwrap();
    assert_eq!(program.call(&[&x]).unwrap()[0].to_vec::<i32>().unwrap(), [9]);
}

#[test]
fn attributes_are_read() {
    let Some(client) = client_or_skip(1) else { return };
    client
        .plugin()
        .register_handler("test.attributes", |call| {
            assert_eq!(call.attribute("flag"), Some(Attribute::Bool(true)));
            assert_eq!(call.attribute("int"), Some(Attribute::Int(-3)));
            assert_eq!(call.attribute("unsigned"), Some(Attribute::UInt(250)));
            assert_eq!(call.attribute("float"), Some(Attribute::Float(2.5)));
            assert_eq!(call.attribute("text"), Some(Attribute::Text("a \"b\"".into())));
            let list = [1, -2, 3].map(Attribute::Int);
            assert_eq!(call.attribute("list"), Some(Attribute::List(list.into())));
            let inner = Attribute::Dictionary([("x".to_owned(), Attribute::Int(7))].into());
            assert_eq!(call.attribute("inner"), Some(inner));
            assert_eq!(call.attribute("missing"), None);
            call.result(0)?.elements::<f64>()?[0] = 1.0;
            Ok(())
        })
        .unwrap();
    let attributes = r#", backend_config = {flag = true, int = -3 : i64, unsigned = 250 : ui8, float = 2.5 : f32,
        text = "a \"b\"", list = array<i64: 1, -2, 3>, inner = {x = 7 : i32}}"#;
    let program = call_of(&client, "test.attributes", attributes, &[], "f64");
    assert_eq!(program.call(&[]).unwrap()[0].to_vec::<f64>().unwrap(), [1.0]);
}

/// The error of a handler is that of the execution and of its results; the next execution is not affected.
#[test]
fn errors_and_panics_of_handlers_are_errors_of_the_execution() {
    let Some(client) = client_or_skip(1) else { return };
    client
        .plugin()
        .register_handler("test.fails", |call| {
            let kind = call.argument(0)?.elements::<i32>()?[0];
            match kind {
                1 => return Err(Error::new(ErrorKind::Plugin(Code::NotFound), "no such row\0!")),
                2 => panic!("row {kind} is odd"),
                3 => std::panic::panic_any(7_u8),
                4 => call.argument(5).map(|_| ())?,
                5 => call.result(0)?.elements::<f32>().map(|_| ())?,
                _ => {}
            }
            call.result(0)?.elements::<i32>()?[0] = kind;
            Ok(())
        })
        .unwrap();
    let program = call_of(&client, "test.fails", "", &["i32"], "i32");
    let run = |kind: i32| {
        let x = client.buffer(&[kind], &[], &client.devices()[0]).unwrap();
        let execution = program.execute(&[&[&x]]);
        // A plugin may run a small program before the start returns, and return the error of the program from the
        // start.
        execution.and_then(|e| e.completion.wait().and(e.results[0][0].to_vec::<i32>()))
    };
    for (kind, expected) in [
        (1, "handler `test.fails`: no such row !"),
        (2, "handler `test.fails`: panicked: row 2 is odd"),
        (3, "handler `test.fails`: panicked: a panic without text"),
        (4, "the custom call has 1 arguments, expected one with number 5"),
        (5, "an array of a custom call is tensor<i32>, expected aligned elements of type f32"),
    ] {
        let error = run(kind).unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Plugin(_)) && error.message().contains(expected),
            "{error}"
        );
        assert_eq!(run(8), Ok(vec![8]));
    }
    assert!(run(1).unwrap_err().to_string().contains("NOT_FOUND"));
    // The client reports the errors of executions that were not waited for.
    let x = client.buffer(&[1], &[], &client.devices()[0]).unwrap();
    if let Ok(execution) = program.execute(&[&[&x]]) {
        let error = client.wait().unwrap_err();
        assert!(error.message().contains("no such row"), "{error}");
        assert!(execution.results[0][0].to_bytes().is_err());
    }
    assert_eq!(client.wait(), Ok(()));
}

#[test]
fn names_are_registered_once() {
    let Some(client) = client_or_skip(1) else { return };
    let plugin = client.plugin();
    plugin.register_handler("test.once", |_| Ok(())).unwrap();
    let error = plugin.register_handler("test.once", |_| Ok(())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Argument);
    assert!(error.to_string().contains("has a handler `test.once` already"), "{error}");
    let text = "func.func @main() -> tensor<f64> {
        %y = stablehlo.custom_call @test.nobody() {api_version = 4 : i32} : () -> tensor<f64>
        return %y : tensor<f64>
    }";
    // Some versions of the plugin report the mistake when they compile, others when they execute.
    let program = client.compile(text, &CompileOptions::new());
    let error = program.and_then(|program| program.call(&[])?[0].to_bytes()).unwrap_err();
    assert!(error.to_string().contains("test.nobody"), "{error}");
}

/// Handlers must run on several devices, each on its own shard.
#[test]
fn handlers_run_on_four_devices() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let Some(client) = client_or_skip(4) else { return };
    client
        .plugin()
        .register_handler("test.square", |call| {
            CALLS.fetch_add(1, Ordering::Relaxed);
            let x = call.argument(0)?.elements::<f64>()?;
            let y = call.result(0)?.elements::<f64>()?;
            y.iter_mut().zip(x).for_each(|(y, x)| *y = x * x);
            Ok(())
        })
        .unwrap();
    let text = r#"module @squares attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 4 : i32} {
        func.func public @main(%x: tensor<2xf64>) -> tensor<2xf64> {
            %y = stablehlo.custom_call @test.square(%x) {api_version = 4 : i32} : (tensor<2xf64>) -> tensor<2xf64>
            return %y : tensor<2xf64>
        }
    }"#;
    let squares = client.compile(text, &CompileOptions::new().replicas(4)).unwrap();
    let shard = |(i, device)| client.buffer(&[f64::from(i), 1.0], &[2], device).unwrap();
    let x: Vec<Buffer> = (0_u8..).zip(squares.devices()).map(shard).collect();
    let lists: Vec<[&Buffer; 1]> = x.iter().map(|x| [x]).collect();
    let lists: Vec<&[&Buffer]> = lists.iter().map(|list| &list[..]).collect();
    for _ in 0..50 {
        let execution = squares.execute(&lists).unwrap();
        for (i, results) in (0_u8..).zip(&execution.results) {
            assert_eq!(results[0].to_vec::<f64>().unwrap(), [f64::from(i).powi(2), 1.0]);
        }
    }
    assert_eq!(CALLS.load(Ordering::Relaxed), 200);
}

/// Effects in a loop keep their order by a token that the loop carries.
#[test]
fn tokens_order_effects_in_loops() {
    static SEEN: Mutex<Vec<i32>> = Mutex::new(Vec::new());
    let Some(client) = client_or_skip(1) else { return };
    client
        .plugin()
        .register_handler("test.record", |call| {
            assert_eq!(call.argument(1)?.array_type().element(), ElementType::Token);
            SEEN.lock().unwrap().push(call.argument(0)?.elements::<i32>()?[0]);
            Ok(())
        })
        .unwrap();
    let text = "func.func @main(%n: tensor<i32>) -> tensor<i32> {
        %zero = stablehlo.constant dense<0> : tensor<i32>
        %one = stablehlo.constant dense<1> : tensor<i32>
        %t = stablehlo.create_token : !stablehlo.token
        %r:2 = stablehlo.while(%i = %zero, %u = %t) : tensor<i32>, !stablehlo.token
          cond {
            %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
          } do {
            %v = stablehlo.custom_call @test.record(%i, %u) {api_version = 4 : i32, has_side_effect = true} : (tensor<i32>, !stablehlo.token) -> !stablehlo.token
            %j = stablehlo.add %i, %one : tensor<i32>
            %k = stablehlo.multiply %j, %j : tensor<i32>
            %w = stablehlo.custom_call @test.record(%k, %v) {api_version = 4 : i32, has_side_effect = true} : (tensor<i32>, !stablehlo.token) -> !stablehlo.token
            stablehlo.return %j, %w : tensor<i32>, !stablehlo.token
          }
        return %r#0 : tensor<i32>
    }";
    let program = client.compile(text, &CompileOptions::new()).unwrap();
    let n = client.buffer(&[4], &[], &client.devices()[0]).unwrap();
    assert_eq!(program.call(&[&n]).unwrap()[0].to_vec::<i32>().unwrap(), [4]);
    assert_eq!(*SEEN.lock().unwrap(), [0, 1, 1, 4, 2, 9, 3, 16]);
}

/// A call whose result lies in the memory of an argument must be refused, since the handler would get a shared and a
/// mutable reference to one array.
#[test]
fn results_that_share_memory_are_refused() {
    let Some(client) = client_or_skip(1) else { return };
    client.plugin().register_handler("test.aliased", |_| Ok(())).unwrap();
    let aliases = ", output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], \
                   operand_index = 0, operand_tuple_indices = []>]";
    let program = call_of(&client, "test.aliased", aliases, &["4xf64"], "4xf64");
    let x = client.buffer(&[1.0; 4], &[4], &client.devices()[0]).unwrap();
    let error = program.call(&[&x]).and_then(|results| results[0].to_bytes()).unwrap_err();
    assert!(error.to_string().contains("without output_operand_aliases"), "{error}");
}
