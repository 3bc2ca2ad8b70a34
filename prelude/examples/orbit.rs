//! A probe is thrown around a planet. The example computes where it lands, and the speed with which it must be thrown
//! to land at a chosen place.
//!
//! The integration ends when the probe reaches the ground, an event. The place of the event is differentiable with
//! respect to the speed, so Newton's method finds the speed.
//!
//! ```text
//! cargo run --release --example orbit -- orbit.svg
//! ```

#![expect(clippy::print_stdout, reason = "an example speaks to its user")]

use std::fmt::Write as _;
use tapeloom::prelude::*;

/// Position and velocity in the plane, in units of the planet's radius and a matching unit of time.
type State = ([Var; 2], [Var; 2]);

/// Returns the derivative of the state: gravity, and drag by air that becomes thin with height.
fn fall((_, ([x, y], [u, v])): (Var, State)) -> State {
    let r = (x * x + y * y).sqrt();
    let drag = 0.02 * (-(r - 1.0) / 0.02).exp() * (u * u + v * v).sqrt();
    let g = r.powi(3).recip();
    ([u, v], [-g * x - drag * u, -g * y - drag * v])
}

/// Returns the height above the ground.
fn height((_, ([x, y], _)): (Var, State)) -> Var {
    (x * x + y * y).sqrt() - 1.0
}

/// Returns the trajectory of a probe that is thrown horizontally at this speed from a mountain at the pole, the time
/// and state at the end of the trajectory, and the status of the integration.
fn thrown(speed: Var) -> ([Var; 2], (Var, State), Var) {
    let zero = speed.zeros_like();
    let start = ([zero, zero + 1.1], [speed, zero]);
    let method = ode::dopri5().rtol(1e-9).atol(1e-9);
    let (path, end, stats) =
        method.solve_until(fall, height, start, linspace(0.0, 3.0, 101, Dtype::F64));
    (path.0, end, stats.status)
}

/// Returns the angle from the pole at which the probe lands.
fn landing(speed: Var) -> Var {
    let (_, (_, ([x, y], _)), _) = thrown(speed);
    x.atan2(y)
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Newton's method for the speed with which the probe lands a quarter of the circumference away.
    let goal = std::f64::consts::FRAC_PI_2;
    let newton = jit(move |speed: Var| {
        let (at, slope) = value_and_grad(landing)(speed);
        (at, speed - (at - goal) / slope)
    });
    let mut speeds = vec![0.88];
    for _ in 0..6 {
        let speed = *speeds.last().ok_or("no speed")?;
        let (at, next) = newton.call(speed)?;
        println!("thrown with {speed:.9} it comes down at {:.6}°", at.item::<f64>()?.to_degrees());
        speeds.push(next.item::<f64>()?);
    }
    let path = jit(thrown);
    let mut drawn = String::new();
    for (i, speed) in speeds.iter().enumerate() {
        let ([x, y], (t, ([x1, y1], _)), status) = path.call(*speed)?;
        assert_eq!(ode::Status::of(&status)?, ode::Status::Event);
        // After the event the trajectory is nan.
        let places = x.numbers().zip(y.numbers()).filter(|(x, _)| x.is_finite());
        let places = places.chain([(x1.item()?, y1.item()?)]);
        let points: Vec<String> = places.map(|(x, y)| format!("{x:.3},{:.3}", -y)).collect();
        let last = i + 1 == speeds.len();
        let (colour, width) = if last { ("#c0392b", 0.012) } else { ("#2471a3", 0.006) };
        writeln!(
            drawn,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"/>",
            points.join(" ")
        )?;
        if last {
            println!("it flies for {:.4}", t.item::<f64>()?);
            assert!((x1.item::<f64>()? - 1.0).abs() < 1e-7 && y1.item::<f64>()?.abs() < 1e-7);
        }
    }
    if let Some(file) = std::env::args().nth(1).filter(|name| name.ends_with(".svg")) {
        let picture = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-0.4 -1.3 1.8 1.7\" width=\"540\" height=\"510\">\n\
             <rect x=\"-0.4\" y=\"-1.3\" width=\"1.8\" height=\"1.7\" fill=\"white\"/>\n\
             <circle r=\"1\" fill=\"#d5e8d4\" stroke=\"#446\" stroke-width=\"0.006\"/>\n{drawn}</svg>\n"
        );
        std::fs::write(file, picture)?;
    }
    Ok(())
}
