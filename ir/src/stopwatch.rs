//! Times for reports.

use std::time::{Duration, Instant};

/// A stopwatch, which runs from its creation. Only reports read it.
///
/// WebAssembly without a system (`wasm32-unknown-unknown`) has no clock, and `Instant::now` panics there. The stopwatch
/// shows zero instead.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Option<Instant>);

impl Stopwatch {
    /// Starts a stopwatch.
    #[must_use]
    pub fn start() -> Stopwatch {
        let has_clock = !cfg!(all(target_family = "wasm", target_os = "unknown"));
        Stopwatch(has_clock.then(Instant::now))
    }

    /// Returns the time since the start; zero on a machine without a clock.
    ///
    /// ```
    /// use std::time::Duration;
    /// let watch = tapeloom_ir::Stopwatch::start();
    /// std::thread::sleep(Duration::from_millis(1));
    /// assert!(watch.elapsed() >= Duration::from_millis(1));
    /// ```
    pub fn elapsed(self) -> Duration {
        self.0.map_or(Duration::ZERO, |start| start.elapsed())
    }
}
