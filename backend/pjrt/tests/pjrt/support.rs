//! A plugin for the tests, and programs.

use std::path::Path;
use tapeloom_pjrt::{Client, ClientOptions, PLUGIN_VARIABLE, Plugin};

/// Returns the plugin that the environment names. Without one, the caller's test is skipped, which is printed.
#[track_caller]
pub(crate) fn plugin_or_skip() -> Option<Plugin> {
    if std::env::var_os(PLUGIN_VARIABLE).is_none_or(|path| path.is_empty()) {
        let line = std::panic::Location::caller();
        println!("skipped, because {PLUGIN_VARIABLE} is not set: {}:{}", line.file(), line.line());
        return None;
    }
    // A plugin that is named and cannot be loaded is a failure.
    Some(Plugin::found().unwrap())
}

/// Returns a client with this number of devices, or `None` without a plugin.
#[track_caller]
pub(crate) fn client_or_skip(devices: u32) -> Option<Client> {
    let plugin = plugin_or_skip()?;
    let client = Client::new(&plugin, &ClientOptions::new().cpu_device_count(devices)).unwrap();
    assert_eq!(client.addressable_devices().len(), devices as usize);
    Some(client)
}

/// Runs the test `test` in a process of its own. Returns true in that process, and false in the calling process.
/// A test that measures the memory of its process needs this, because other tests of the process allocate as
/// well.
#[track_caller]
pub(crate) fn alone(test: &str) -> bool {
    const WITHIN: &str = "TAPELOOM_TEST_WITHIN";
    if std::env::var(WITHIN).is_ok_and(|within| within == test) {
        return true;
    }
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--exact", test, "--nocapture"]).env(WITHIN, test).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("test result: ok. 1 passed"), "there is no test {test}: {text}");
    print!("{text}");
    false
}

/// Returns the megabytes of the process that are in memory (resident), where the system reports them.
pub(crate) fn resident_megabytes() -> Option<f64> {
    let status = std::fs::read_to_string(Path::new("/proc/self/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes / 1024.0)
}
