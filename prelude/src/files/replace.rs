//! Reading of a whole file, and replacement of a whole file in one step.

use super::in_file;
use crate::Error;
use crate::var::caller;
use std::fs::{File, OpenOptions};
#[cfg(any(feature = "safetensors", feature = "npy"))]
use std::io::Read;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use tapeloom_ir::{Kind, Problem};

/// Replaces the content of a file, or creates it, so that no reader finds a part of it.
///
/// The bytes are written to a new file in the same folder and flushed to the device; then that file is renamed to
/// `path`. If the program is killed or the machine stops, the file is the old or the new one. A killed program leaves
/// its unfinished file, `.name.N.part`, which the next call with the same `path` removes. Several processes may
/// replace the same file: the last one counts.
///
/// All functions of [`files`](super) that save use this one. It is public for other files of a run, such as tables
/// and pictures.
///
/// # Errors
/// [`Kind::File`] if the folder does not exist, may not be written, or has no space.
///
/// ```
/// use tapeloom::files;
/// let path = std::env::temp_dir().join(format!("losses-{}.csv", std::process::id()));
/// files::replace(&path, b"1.5\n")?;
/// files::replace(&path, b"1.5\n0.5\n")?;
/// assert_eq!(std::fs::read(&path).unwrap(), b"1.5\n0.5\n");
/// # std::fs::remove_file(path).ok();
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn replace(path: impl AsRef<Path>, bytes: &[u8]) -> Result<(), Error> {
    let at = caller();
    write(path.as_ref(), bytes).map_err(|problem| Error::at(problem, at))
}

/// Replaces a file as [`replace`] does. The error has no line of the user's code; the caller adds it.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), Problem> {
    let missing = "create the folder first, or correct the path";
    replaced(path, bytes).map_err(|e| failed(path, "cannot be written", &e, missing))
}

fn replaced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path has no file name"));
    };
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    };
    // If the path is a symbolic link, replace its target, so that the link remains.
    if let Ok(target) = std::fs::read_link(path) {
        return replaced(&folder.join(target), bytes);
    }
    let prefix = format!(".{}.", name.to_string_lossy());
    remove_unfinished(folder, &prefix);
    let (part, mut file) = unfinished(folder, &prefix)?;
    let written = (|| {
        // If a file is replaced, the new file gets the permissions of the old one.
        if let Ok(old) = std::fs::metadata(path) {
            file.set_permissions(old.permissions())?;
        }
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&part, path)
    })();
    if written.is_err() {
        // Ignore an error of the removal: the error of the write is reported.
        let _ = std::fs::remove_file(&part);
    }
    written?;
    // Flush the folder, too, because the rename is stored there. Systems that cannot open folders flush them by
    // themselves.
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
    Ok(())
}

/// Creates a temporary file with a new name in the folder, and locks it until it is closed.
fn unfinished(folder: &Path, prefix: &str) -> io::Result<(PathBuf, File)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // WebAssembly has no processes, and `id` panics there.
    let process = if cfg!(target_family = "wasm") { 0 } else { std::process::id() };
    loop {
        let number = u64::from(process) << 32 | NEXT.fetch_add(1, Ordering::Relaxed);
        let part = folder.join(format!("{prefix}{number}.part"));
        let file = match OpenOptions::new().write(true).create_new(true).open(&part) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(e) => return Err(e),
        };
        // If the file system has no locks, continue without one.
        let locked = file.lock().is_ok();
        // Between creation and lock, another process may have removed the file, taking it for a file of a killed
        // process.
        if !locked || part.exists() {
            return Ok((part, file));
        }
    }
}

/// Removes temporary files that processes left when they were killed. These are the files that no process has locked.
fn remove_unfinished(folder: &Path, prefix: &str) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let number = name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(".part"));
        if !number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit())) {
            continue;
        }
        if let Ok(file) = OpenOptions::new().write(true).open(entry.path())
            && file.try_lock().is_ok()
        {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Reads a regular file, at most up to the size that it has when it is opened.
#[cfg(any(feature = "safetensors", feature = "npy"))]
pub(super) fn read(path: &Path) -> Result<Vec<u8>, Problem> {
    let whole = || -> io::Result<Vec<u8>> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        // Pipes and devices have no size, and reading them may never end.
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        let size = metadata.len();
        let mut bytes = Vec::new();
        let room = usize::try_from(size).map_err(|_| io::ErrorKind::OutOfMemory)?;
        bytes.try_reserve_exact(room).map_err(|_| io::ErrorKind::OutOfMemory)?;
        file.take(size).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    whole().map_err(|e| failed(path, "cannot be read", &e, "correct the path"))
}

/// Returns the error for a failed access to a file. `missing` is its help text if the file or folder does not exist.
fn failed(path: &Path, what: &str, error: &io::Error, missing: &str) -> Problem {
    let help = match error.kind() {
        io::ErrorKind::NotFound => missing,
        io::ErrorKind::PermissionDenied => "choose a place that you may read and write",
        _ => "",
    };
    in_file(path, Problem::new(Kind::File, format!("{what}: {error}"), help))
}
