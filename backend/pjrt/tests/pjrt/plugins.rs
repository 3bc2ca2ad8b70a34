//! Loading plugins: paths without a plugin, versions, attributes, devices.

use crate::support::{client_or_skip, plugin_or_skip};
use tapeloom_pjrt::{Client, ClientOptions, ErrorKind, NamedValue, PLUGIN_VARIABLE, Plugin};

#[track_caller]
fn no_plugin(path: &str, expected: &str) {
    let error = Plugin::at(path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoPlugin);
    assert!(error.to_string().contains(expected), "{error}");
}

#[test]
fn a_missing_file_is_an_error() {
    no_plugin("no/such/plugin.so", "there is no file no/such/plugin.so");
}

#[test]
fn a_file_that_is_no_library_is_an_error() {
    no_plugin("Cargo.toml", "cannot be loaded as a library");
}

/// A library that is no plugin must be an error. The test uses the mathematical functions of C, a library that every
/// Linux has in one of a few places.
#[test]
#[cfg(target_os = "linux")]
fn a_library_that_is_no_plugin_is_an_error() {
    let machine = format!("{}-linux-gnu", std::env::consts::ARCH);
    let folders = [
        format!("/lib/{machine}"),
        format!("/usr/lib/{machine}"),
        "/lib64".into(),
        "/usr/lib".into(),
    ];
    let libraries = folders.map(|folder| format!("{folder}/libm.so.6"));
    let Some(library) = libraries.iter().find(|path| std::path::Path::new(path).exists()) else {
        println!("skipped, because there is no libm.so.6 in {libraries:?}");
        return;
    };
    no_plugin(library, "does not export GetPjrtApi");
}

#[test]
fn without_a_plugin_the_error_says_how_to_get_one() {
    if std::env::var_os(PLUGIN_VARIABLE).is_some() {
        println!("skipped, because {PLUGIN_VARIABLE} is set");
        return;
    }
    let error = Plugin::found().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoPlugin);
    for part in [PLUGIN_VARIABLE, "pip download --no-deps xla-cpu-pjrt", "Set "] {
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn a_plugin_is_loaded_once() {
    let Some(plugin) = plugin_or_skip() else { return };
    let again = Plugin::at(plugin.path()).unwrap();
    assert_eq!(format!("{plugin:?}"), format!("{again:?}"));
    let (major, minor) = plugin.version();
    assert!(major == 0 && minor >= 81, "{plugin:?}");
    println!("{plugin:?}");
    for (name, value) in plugin.attributes().unwrap() {
        println!("{name} = {value:?}");
    }
}

#[test]
fn attributes_have_the_versions_of_stablehlo() {
    let Some(plugin) = plugin_or_skip() else { return };
    let attributes = plugin.attributes().unwrap();
    for name in ["stablehlo_current_version", "stablehlo_minimum_version"] {
        let (_, value) = attributes.iter().find(|(n, _)| n == name).unwrap();
        assert!(matches!(value, NamedValue::Ints(parts) if parts.len() == 3), "{value:?}");
    }
}

#[test]
fn devices_have_ids_and_kinds() {
    let Some(client) = client_or_skip(3) else { return };
    assert_eq!(client.platform_name().unwrap(), "cpu");
    assert!(!client.platform_version().unwrap().is_empty());
    assert_eq!(client.process_index().unwrap(), 0);
    assert_eq!(client.devices(), client.addressable_devices());
    let mut ids: Vec<i32> = client.devices().iter().map(|device| device.id()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 3);
    for device in client.devices() {
        assert!(device.is_addressable() && device.process_index() == 0);
        assert!(!device.kind().is_empty() && !device.to_string().is_empty());
    }
}

/// Two clients of a plugin exist side by side, and their objects do not mix.
#[test]
fn clients_are_independent() {
    let Some(client) = client_or_skip(1) else { return };
    let other = Client::new(client.plugin(), &ClientOptions::new()).unwrap();
    let error = client.buffer(&[1.0_f64], &[], &other.devices()[0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Argument);
    assert!(error.to_string().contains("expected one client"), "{error}");
    drop(client);
    let x = other.buffer(&[1.0_f64], &[], &other.devices()[0]).unwrap();
    assert_eq!(x.to_vec::<f64>().unwrap(), [1.0]);
}
