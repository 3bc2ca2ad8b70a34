//! Plugins: libraries with the PJRT C API.

use crate::calls::Table;
use crate::error::{Error, ErrorKind};
use crate::library;
use crate::options::NamedValue;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The environment variable with the path of the plugin that [`Plugin::found`] loads.
pub const PLUGIN_VARIABLE: &str = "TAPELOOM_PJRT_PLUGIN";

/// A loaded plugin. Clones stand for the same library, which is loaded once for each path and never unloaded.
#[derive(Clone)]
pub struct Plugin {
    pub(crate) table: Table,
    path: Arc<Path>,
}

/// The plugins that this process has loaded, by their canonical paths.
static LOADED: Mutex<BTreeMap<PathBuf, Plugin>> = Mutex::new(BTreeMap::new());

impl Plugin {
    /// Loads the plugin at a path.
    ///
    /// Errors: there is no such file; it is no library, or no plugin; the version of its C API is older than 0.81.
    ///
    /// ```
    /// use tapeloom_pjrt::{ErrorKind, Plugin};
    /// let error = Plugin::at("no_such_plugin.so").unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::NoPlugin);
    /// ```
    pub fn at(path: impl AsRef<Path>) -> Result<Plugin, Error> {
        let path = path.as_ref();
        // A missing file has no canonical path; `load` then reports the missing file.
        let canonical = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plugin) = loaded.get(&canonical) {
            return Ok(plugin.clone());
        }
        let table = Table::new(library::load(&canonical)?);
        table.initialize()?;
        let plugin = Plugin { table, path: canonical.as_path().into() };
        loaded.insert(canonical, plugin.clone());
        Ok(plugin)
    }

    /// Loads the plugin that the environment variable `TAPELOOM_PJRT_PLUGIN` names.
    ///
    /// Errors: the variable is not set; those of [`Plugin::at`].
    pub fn found() -> Result<Plugin, Error> {
        match std::env::var_os(PLUGIN_VARIABLE).filter(|path| !path.is_empty()) {
            Some(path) => Plugin::at(PathBuf::from(path)),
            None => Err(Error::new(ErrorKind::NoPlugin, how_to_get_one())),
        }
    }

    /// Wraps a table that comes from no library.
    #[cfg(all(test, debug_assertions))]
    pub(crate) fn of_table(table: Table) -> Plugin {
        Plugin { table, path: Path::new("table").into() }
    }

    /// Returns the path of the library.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns major and minor version of the plugin's C API.
    pub fn version(&self) -> (i32, i32) {
        self.table.version()
    }

    /// Returns the attributes of the plugin, such as `xla_version` and `stablehlo_current_version`.
    pub fn attributes(&self) -> Result<Vec<(String, NamedValue)>, Error> {
        self.table.attributes()
    }
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.version();
        write!(f, "Plugin({}, PJRT C API {major}.{minor})", self.path.display())
    }
}

/// Returns the part of an error message that says how to get a plugin.
fn how_to_get_one() -> String {
    format!(
        "the environment variable {PLUGIN_VARIABLE} is not set; expected the path of a PJRT plugin. Plugins for CPUs are \
         in packages of Python and need no Python to run: `pip download --no-deps fastatomstruct-xla-cpu` (x86-64 Linux) or \
         `pip download --no-deps xla-cpu-pjrt` (x86-64 and aarch64 Linux), unpacked with `unzip`, have one library each \
         (libpjrt_cpu.so, xla_cpu_pjrt.so). Set {PLUGIN_VARIABLE} to its path"
    )
}
