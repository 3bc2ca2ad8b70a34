//! Donated arguments.

use crate::support::client_or_skip;
use tapeloom_pjrt::{Client, CompileOptions, Error, ErrorKind, Executable};

/// A step `x + y`, whose result takes over the memory of `x`.
const STEP: &str = "module @step {
  func.func public @main(%x: tensor<4xf64> {tf.aliasing_output = 0 : i32}, %y: tensor<4xf64>) -> tensor<4xf64> {
    %z = stablehlo.add %x, %y : tensor<4xf64>
    return %z : tensor<4xf64>
  }
}";

fn step(client: &Client) -> Executable {
    let step = client.compile(STEP, &CompileOptions::new()).unwrap();
    assert_eq!(step.donated(), Some(&[true, false][..]));
    step
}

#[test]
fn a_donated_buffer_cannot_be_used_again() {
    let Some(client) = client_or_skip(1) else { return };
    let (step, device) = (step(&client), &client.devices()[0]);
    let x = client.buffer(&[1.0; 4], &[4], device).unwrap();
    let y = client.buffer(&[0.5; 4], &[4], device).unwrap();
    let z = step.call(&[&x, &y]).unwrap().remove(0);
    assert!(x.is_deleted().unwrap() && !y.is_deleted().unwrap());
    for error in
        [step.call(&[&x, &y]).unwrap_err(), x.to_bytes().unwrap_err(), x.wait().unwrap_err()]
    {
        assert_eq!(error.kind(), ErrorKind::Deleted);
        assert!(error.to_string().contains("was donated to an execution of `step`"), "{error}");
    }
    let error = step.call(&[&x, &y]).unwrap_err();
    assert!(error.to_string().starts_with("argument 0 of `step` on "), "{error}");
    assert_eq!(z.to_vec::<f64>().unwrap(), [1.5; 4]);
}

/// If a loop donates its state in each step, nothing must be copied to the host or from it.
#[test]
fn a_state_is_donated_from_step_to_step() {
    let Some(client) = client_or_skip(1) else { return };
    let (step, device) = (step(&client), &client.devices()[0]);
    let mut x = client.buffer(&[0.0; 4], &[4], device).unwrap();
    let y = client.buffer(&[0.5; 4], &[4], device).unwrap();
    let before = client.transfers();
    for _ in 0..2000 {
        x = step.call(&[&x, &y]).unwrap().remove(0);
    }
    assert_eq!(client.transfers(), before);
    assert_eq!(x.to_vec::<f64>().unwrap(), [1000.0; 4]);
}

#[test]
fn kept_arguments_are_not_donated() {
    let Some(client) = client_or_skip(1) else { return };
    let (step, device) = (step(&client), &client.devices()[0]);
    let x = client.buffer(&[1.0; 4], &[4], device).unwrap();
    for _ in 0..3 {
        let z = step.execute_keeping(&[&[&x, &x]], &[0]).unwrap();
        assert_eq!(z.results[0][0].to_vec::<f64>().unwrap(), [2.0; 4]);
        assert_eq!(x.to_vec::<f64>().unwrap(), [1.0; 4]);
    }
    let error = step.execute_keeping(&[&[&x, &x]], &[2]).unwrap_err();
    assert!(error.to_string().contains("`step` has 2 arguments, found number 2"), "{error}");
}

/// If one execution donates a buffer and also reads it, this must be an error, and the client must
/// still work.
#[test]
fn a_buffer_is_not_donated_and_read_at_once() {
    let Some(client) = client_or_skip(1) else { return };
    let (step, device) = (step(&client), &client.devices()[0]);
    let x = client.buffer(&[1.0; 4], &[4], device).unwrap();
    let error = step.call(&[&x, &x]).unwrap_err();
    println!("{error}");
    let x = client.buffer(&[1.0; 4], &[4], device).unwrap();
    let y = client.buffer(&[1.0; 4], &[4], device).unwrap();
    assert_eq!(step.call(&[&x, &y]).unwrap()[0].to_vec::<f64>().unwrap(), [2.0; 4]);
}

/// `jax.buffer_donor` donates an argument without naming the result that takes its memory.
#[test]
fn a_donor_is_donated() {
    let Some(client) = client_or_skip(1) else { return };
    let text = STEP.replace("tf.aliasing_output = 0 : i32", "jax.buffer_donor = true");
    let step = client.compile(&text, &CompileOptions::new()).unwrap();
    let device = &client.devices()[0];
    let x = client.buffer(&[1.0; 4], &[4], device).unwrap();
    let y = client.buffer(&[0.5; 4], &[4], device).unwrap();
    assert_eq!(step.call(&[&x, &y]).unwrap()[0].to_vec::<f64>().unwrap(), [1.5; 4]);
    assert_eq!(step.donated().unwrap(), [x.is_deleted().unwrap(), y.is_deleted().unwrap()]);
    assert!(x.is_deleted().unwrap());
}

#[test]
fn deleted_buffers_cannot_be_used() {
    let Some(client) = client_or_skip(1) else { return };
    let (step, device) = (step(&client), &client.devices()[0]);
    let x = client.buffer(&[1.0; 4], &[4], device).unwrap();
    let y = client.buffer(&[1.0; 4], &[4], device).unwrap();
    let z = step.call(&[&x, &y]).unwrap();
    y.delete().unwrap();
    y.delete().unwrap();
    assert!(y.is_deleted().unwrap());
    let error = y.to_bytes().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Deleted);
    assert_eq!(error.to_string(), "this buffer, tensor<4xf64>, was deleted");
    // The execution that read the deleted buffer completes as if the buffer still existed.
    assert_eq!(z[0].to_vec::<f64>().unwrap(), [2.0; 4]);
}

/// If threads donate one buffer at once, one execution must get it, and the others must return
/// errors.
#[test]
fn threads_donate_a_buffer_once() {
    let Some(client) = client_or_skip(1) else { return };
    let (step, device) = (step(&client), &client.devices()[0]);
    let y = client.buffer(&[0.5; 4], &[4], device).unwrap();
    for _ in 0..50 {
        let x = client.buffer(&[1.0; 4], &[4], device).unwrap();
        let donate = || step.call(&[&x, &y]).map(|results| results[0].to_vec::<f64>().unwrap());
        let results: Vec<Result<Vec<f64>, Error>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(donate)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let (done, failed): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
        assert_eq!(done, [Ok(vec![1.5; 4])], "{failed:?}");
        let errors = failed.into_iter().map(Result::unwrap_err);
        let kind =
            |error: &Error| matches!(error.kind(), ErrorKind::Deleted | ErrorKind::Plugin(_));
        assert_eq!(errors.filter(kind).count(), 3);
    }
}

/// If a buffer is read while another thread donates it, the copy must have the old values or be an
/// error.
#[test]
fn a_buffer_is_read_before_it_is_donated_or_not_at_all() {
    let Some(client) = client_or_skip(1) else { return };
    let (step, device) = (step(&client), &client.devices()[0]);
    let y = client.buffer(&[0.5; 4], &[4], device).unwrap();
    for _ in 0..200 {
        let x = client.buffer(&[1.0; 4], &[4], device).unwrap();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| x.to_vec::<f64>());
            assert_eq!(step.call(&[&x, &y]).unwrap()[0].to_vec::<f64>().unwrap(), [1.5; 4]);
            if let Ok(values) = reader.join().unwrap() {
                assert_eq!(values, [1.0; 4]);
            }
        });
    }
}
