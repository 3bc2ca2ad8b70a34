//! Objects (functions compiled to object files) in programs of other languages: a C program calls objects on given
//! arguments, and its results are compared.
//!
//! The C program is hard on objects: arrays are aligned to their elements only, results and workspace are poisoned
//! before each call, a true bool may be any byte but 0, and the bytes around each array must not change. The program
//! calls the function of each object twice.

use crate::{Agreement, Failure};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use tapeloom::object::Object;
use tapeloom_ir::{ArrayType, Dtype, Tensor};

/// An object with arguments for a call, and the expected results, which are those of the same function as machine code
/// in memory.
#[derive(Clone)]
pub struct ObjectCase {
    /// The object. Different objects of a program have different names.
    pub object: Object,
    /// The arguments of the object's function. If the number of rows is an argument, it is given by the leading extent
    /// of the arrays with rows.
    pub args: Vec<Tensor>,
    /// The expected results.
    pub want: Vec<Tensor>,
}

/// The commands by which C programs are compiled and run.
#[derive(Clone, Debug)]
pub struct Toolchain {
    /// The command of the compiler, with its options.
    pub compile: Vec<String>,
    /// The options that follow the objects in the command.
    pub link: Vec<String>,
    /// The command that runs a program, such as an emulator; empty for none.
    pub run: Vec<String>,
}

impl Toolchain {
    /// Returns the C compiler of this machine; `None`, with a message, if there is none.
    pub fn here() -> Option<Toolchain> {
        if !cfg!(target_os = "linux") {
            skipped("objects have the format of Linux");
            return None;
        }
        Toolchain::of(&["cc", "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror"], &["-lm"], &[])
    }

    /// Returns a toolchain: a compiler with its options, the options that follow the objects, and the command that runs
    /// a program, if any. If a command is missing, prints a message and returns `None`.
    pub fn of(compile: &[&str], link: &[&str], run: &[&str]) -> Option<Toolchain> {
        for command in [compile, run].into_iter().filter_map(<[&str]>::first) {
            let found = Command::new(command).arg("--version").output();
            if !found.is_ok_and(|output| output.status.success()) {
                skipped(&format!("there is no command `{command}`"));
                return None;
            }
        }
        let [compile, link, run] =
            [compile, link, run].map(|words| words.iter().map(|word| (*word).to_owned()).collect());
        Some(Toolchain { compile, link, run })
    }
}

/// Prints that a test is skipped. The message is written directly to the terminal, because the test harness drops the
/// output of tests that pass.
pub fn skipped(why: &str) {
    use std::io::Write;
    drop(std::io::stderr().write(format!("skipped: {why}\n").as_bytes()));
}

/// A folder for the files of a test, which is removed when this value is dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Creates a new folder.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn new() -> std::io::Result<Scratch> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tapeloom_{}_{n}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Scratch(path))
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Returns the options of a linker for the shared library that some objects need, which is built with the tests.
///
/// # Errors
/// If the path of the running test is unknown.
pub fn runtime(cases: &[ObjectCase]) -> Result<Vec<String>, Failure> {
    if !cases.iter().any(|case| case.object.needs_runtime()) {
        return Ok(Vec::new());
    }
    let test = std::env::current_exe()?;
    let folder = test.parent().ok_or("a test without a folder")?.display();
    Ok(vec![format!("-L{folder}"), format!("-Wl,-rpath,{folder}"), "-ltapeloom_runtime".to_owned()])
}

/// Compiles a C program that calls all objects, runs it, and compares the results in every bit.
///
/// # Errors
/// The messages of the compiler; the failure of the program; the first result that differs.
pub fn check(toolchain: &Toolchain, cases: &[ObjectCase]) -> Result<(), Failure> {
    let folder = Scratch::new()?;
    let path = |name: &str| folder.path().join(name);
    let mut data = Vec::new();
    for case in cases {
        case.object.save(folder.path())?;
        case.args.iter().for_each(|x| data.extend(foreign_bytes(x)));
    }
    std::fs::write(path("arguments"), data)?;
    std::fs::write(path("main.c"), main_of(cases))?;
    let names: BTreeSet<&str> = cases.iter().map(|case| case.object.name()).collect();
    let objects = names.iter().map(|name| path(&format!("{name}.o")));
    let (compiler, options) = toolchain.compile.split_first().ok_or("no compiler")?;
    let compiled = Command::new(compiler)
        .args(options)
        .arg(path("main.c"))
        .args(objects)
        .args(runtime(cases)?)
        .args(&toolchain.link)
        .arg("-o")
        .arg(path("main"))
        .output()?;
    if !compiled.status.success() || !compiled.stderr.is_empty() {
        return Err(String::from_utf8_lossy(&compiled.stderr).into());
    }
    let mut command = toolchain.run.clone();
    command.push(path("main").display().to_string());
    let (program, arguments) = command.split_first().ok_or("no program")?;
    // Cargo's library path begins with a folder that may have an older build of the library that some objects need.
    let ran = Command::new(program)
        .args(arguments)
        .current_dir(folder.path())
        .env_remove("LD_LIBRARY_PATH")
        .output()?;
    if !ran.status.success() {
        return Err(format!("{}: {}", ran.status, String::from_utf8_lossy(&ran.stderr)).into());
    }
    let results = std::fs::read(path("results"))?;
    let mut rest = results.as_slice();
    for case in cases {
        let name = case.object.name();
        for (i, want) in case.want.iter().enumerate() {
            let (bytes, after) =
                rest.split_at_checked(want.bytes().len()).ok_or("too few results")?;
            let got = Tensor::from_bytes(want.ty(), bytes)
                .map_err(|e| format!("{name}, result {i}: {e}"))?;
            Agreement::Exact.check(&got, want).map_err(|e| format!("{name}, result {i}: {e}"))?;
            rest = after;
        }
    }
    Ok(())
}

/// Returns the bytes of a tensor as code in another language may pass them: for a bool that is true, any byte but 0.
fn foreign_bytes(x: &Tensor) -> Vec<u8> {
    let mut bytes = x.bytes().to_vec();
    if x.dtype() == Dtype::Bool {
        let truths = [1, 2, 255, 128].into_iter().cycle();
        bytes.iter_mut().zip(truths).for_each(|(byte, truth)| *byte *= truth);
    }
    bytes
}

const HELPERS: &str = r#"
enum { GUARD = 128 };
static FILE *in, *out;

/* Memory of this size behind a guard, aligned to `skip` and no more, with poison around and inside. */
static void *memory(size_t bytes, size_t skip) {
    unsigned char *p = aligned_alloc(64, (2 * GUARD + skip + bytes + 63) / 64 * 64);
    if (!p) exit(90);
    memset(p, 0xa5, 2 * GUARD + skip + bytes);
    return p + GUARD + skip;
}

static void guarded(const char *name, const void *of, size_t bytes) {
    const unsigned char *p = of;
    for (size_t i = 1; i <= 64; i++)
        if (p[-(ptrdiff_t)i] != 0xa5 || p[bytes + i - 1] != 0xa5) {
            fprintf(stderr, "%s: a byte outside of an array changed\n", name);
            exit(91);
        }
}

static void *argument(size_t bytes, size_t skip) {
    void *p = memory(bytes, skip);
    if (fread(p, 1, bytes, in) != bytes) exit(92);
    return p;
}

static void poison(void *p, size_t bytes) {
    memset(p, 0xa5, bytes);
}

static void larger(tl_arena *tape) {
    if (tape->needed <= tape->bytes) exit(93);
    free(tape->memory);
    tape->bytes = 2 * tape->needed;
    tape->memory = malloc(tape->bytes);
}
"#;

/// Returns the C program that calls the objects.
fn main_of(cases: &[ObjectCase]) -> String {
    let mut text = String::from("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n");
    for case in cases {
        let _ = writeln!(text, "#include \"{}.h\"", case.object.name());
    }
    text += HELPERS;
    for (i, case) in cases.iter().enumerate() {
        text += &call_of(case, i);
    }
    text += "\nint main(void) {\n    in = fopen(\"arguments\", \"rb\");\n    out = fopen(\"results\", \"wb\");\n";
    for i in 0..cases.len() {
        let _ = writeln!(text, "    call_{i}();");
    }
    text + "    return fclose(out);\n}\n"
}

impl ObjectCase {
    /// Returns the number of rows, if it is an argument of the object's function.
    pub fn rows(&self) -> Option<usize> {
        self.object.block_rows()?;
        let mut arguments = self.object.arguments().iter().zip(&self.args);
        arguments.find(|(field, _)| field.per_row).map(|(_, x)| x.ty().shape[0])
    }
}

fn call_of(case: &ObjectCase, number: usize) -> String {
    let object = &case.object;
    let (name, upper) = (object.name(), object.name().to_ascii_uppercase());
    let size = |ty: &ArrayType| (ty.bytes(), ty.dtype.bytes());
    let mut text = format!("\nstatic void call_{number}(void) {{\n");
    let mut names: Vec<String> = case.rows().map(|n| n.to_string()).into_iter().collect();
    let count = names.len();
    for (i, x) in case.args.iter().enumerate() {
        let (bytes, element) = size(x.ty());
        let _ = writeln!(text, "    void *a{i} = argument({bytes}, {element});");
        names.push(format!("a{i}"));
    }
    for (i, y) in case.want.iter().enumerate() {
        let (bytes, element) = size(y.ty());
        let _ = writeln!(text, "    void *r{i} = memory({bytes}, {element});");
        names.push(format!("r{i}"));
    }
    let _ = writeln!(text, "    void *w = memory({upper}_WORKSPACE_BYTES, 0);");
    let _ = writeln!(text, "    tl_arena tape = {{malloc(64), 64, 0, 0}};");
    let _ = writeln!(text, "    for (int twice = 0; twice < 2; twice++) {{\n        int status;");
    for (i, y) in case.want.iter().enumerate() {
        let _ = writeln!(text, "        poison(r{i}, {});", y.ty().bytes());
    }
    names.push(format!("{upper}_WORKSPACE_BYTES ? w : NULL"));
    names.push(format!("{upper}_USES_TAPE ? &tape : NULL"));
    let call = format!("{name}({})", names.join(", "));
    let _ = writeln!(text, "        while ((status = {call}) == TAPELOOM_FULL) larger(&tape);");
    let _ = writeln!(
        text,
        "        if (status) {{ fprintf(stderr, \"{name}: status %d\\n\", status); exit(94); }}\n    }}"
    );
    let _ = writeln!(text, "    if (tape.needed != tape.used) exit(95);");
    let all = case.args.iter().chain(&case.want).map(|x| x.ty().bytes());
    for (array, bytes) in names.iter().skip(count).zip(all) {
        let _ = writeln!(text, "    guarded(\"{name}\", {array}, {bytes});");
    }
    let _ = writeln!(text, "    guarded(\"{name}\", w, {upper}_WORKSPACE_BYTES);");
    for (i, y) in case.want.iter().enumerate() {
        let _ = writeln!(text, "    fwrite(r{i}, 1, {}, out);", y.ty().bytes());
    }
    text + "    free(tape.memory);\n}\n"
}
