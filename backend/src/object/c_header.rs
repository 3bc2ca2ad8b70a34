//! The text of the C header of an object file.

use super::{ABI, Field, Object, Options};
use std::fmt::Write;
use tapeloom_ir::Dtype;

/// The declarations that all headers have in common. They are guarded, so that a program can include several headers.
const SHARED: &str = r#"#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef TAPELOOM_ABI
#define TAPELOOM_ABI @ABI@
#define TAPELOOM_ALIGNMENT @ALIGNMENT@ /* of a workspace, in bytes */

/* The status of a call. */
enum {
    TAPELOOM_OK = 0,
    TAPELOOM_FULL = 2,     /* the tape has too little memory; `needed` has a number of bytes that gets further */
    TAPELOOM_INTERNAL = 3, /* an error of the compiler */
    TAPELOOM_MEMORY = 4,   /* the workspace or the tape is null or not aligned */
    TAPELOOM_ROUTINE = 5   /* the library behind the object was built without a routine that it calls */
};

/* Memory for the values that loops of unknown length save for the reverse pass. The caller sets `memory`, aligned to 8, and
   `bytes`. After a call, `used` and `needed` have the bytes that it took. */
typedef struct tl_arena {
    void *memory;
    size_t bytes;
    size_t used;
    size_t needed;
} tl_arena;
#elif TAPELOOM_ABI != @ABI@
#error "this object is for another version of tapeloom than an earlier header"
#endif

#if defined(__cplusplus) && !defined(TAPELOOM_RESTRICT)
#define TAPELOOM_RESTRICT __restrict
#elif !defined(TAPELOOM_RESTRICT)
#define TAPELOOM_RESTRICT restrict
#endif
"#;

/// Returns the text of the header.
pub(super) fn text(object: &Object) -> String {
    let Options { name, triple, isa } = &object.options;
    let upper = name.to_ascii_uppercase();
    let version = env!("CARGO_PKG_VERSION");
    let shared = SHARED
        .replace("@ABI@", &ABI.to_string())
        .replace("@ALIGNMENT@", &Object::ALIGNMENT.to_string());
    let mut text = format!(
        "/* {name}: made by tapeloom {version} for {triple}, {isa}. {}. */\n\
         #ifndef TAPELOOM_{upper}_H\n#define TAPELOOM_{upper}_H\n\n{shared}\n",
        link(object)
    );
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "#define {upper}_WORKSPACE_BYTES {}\n#define {upper}_USES_TAPE {}\n",
        object.workspace_bytes,
        u8::from(object.uses_arena)
    );
    if let Some(rows) = object.block_rows {
        text.truncate(text.len() - 1);
        let _ = writeln!(text, "#define {upper}_BLOCK_ROWS {rows}\n");
    }
    text += "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n/*\n";
    if object.block_rows.is_some() {
        text += " * n: the number of rows; it may be 0\n";
    }
    for (field, of) in object.fields() {
        let (name, path, elements) = (&field.name, &field.path, field.elements());
        let array = field.array();
        let _ = writeln!(text, " * {name}: {of} `{path}`, {array}, {elements} elements in rows");
    }
    if let Some(line) = object.order_of_sums() {
        let _ = write!(text, " *\n * {line}\n");
    }
    text += " *\n * Results overlap neither one another nor an argument nor the workspace. A bool is true if its byte is not 0.\n";
    text += if object.workspace_bytes == 0 {
        " * The workspace may be null.\n"
    } else {
        " * The workspace may hold anything; calls on several threads need one each.\n"
    };
    text += match (object.uses_arena, object.block_rows) {
        (true, None) => " * The tape is needed, see `tl_arena`.\n */\n",
        (true, Some(_)) => {
            " * The tape is needed, see `tl_arena`; it holds the values of one block at a time.\n */\n"
        }
        (false, _) => " * The tape may be null.\n */\n",
    };
    let _ =
        write!(text, "int {name}({}", if object.block_rows.is_some() { "size_t n, " } else { "" });
    for (field, of) in object.fields() {
        let constant = if of == ARGUMENT { "const " } else { "" };
        let ty = c_type(field.ty.dtype);
        let _ = write!(text, "{constant}{ty} *TAPELOOM_RESTRICT {}, ", field.name);
    }
    text += "void *TAPELOOM_RESTRICT workspace, tl_arena *tape);\n\n";
    text += "#ifdef __cplusplus\n}\n#endif\n\n#endif\n";
    text
}

/// Returns the options that must follow the object in a linker's command. They name the libraries that the object
/// needs: `tapeloom-runtime`, the C library, or none.
pub(super) fn link_options(object: &Object) -> String {
    match (object.undefined.is_empty(), object.needs_runtime()) {
        (true, _) => String::new(),
        (false, false) => " -lm".to_owned(),
        (false, true) => " libtapeloom_runtime.a -lm".to_owned(),
    }
}

/// Returns a sentence for the header that names the libraries that an object needs.
fn link(object: &Object) -> String {
    match link_options(object).as_str() {
        "" => "It needs no library".to_owned(),
        options => format!("Link it with{options} ({})", object.undefined.join(", ")),
    }
}

/// The word by which the texts of objects name an argument.
pub(super) const ARGUMENT: &str = "argument";

impl Object {
    /// Returns the arguments and then the results, each with the word that names it in texts, such as `argument` or
    /// `result`.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&Field, &'static str)> {
        let arguments = self.arguments.iter().map(|field| (field, ARGUMENT));
        let results = self.results.iter().map(|field| match (self.block_rows, field.per_row) {
            (None, _) => (field, "result"),
            (Some(_), true) => (field, "stacked result"),
            (Some(_), false) => (field, "summed result"),
        });
        arguments.chain(results)
    }

    /// Returns sentences for the documentation of the entry that say in which order the terms of sums over rows are
    /// added. `None` if no result is such a sum.
    pub(super) fn order_of_sums(&self) -> Option<String> {
        let rows = self.block_rows.filter(|_| self.results.iter().any(|field| !field.per_row))?;
        Some(format!(
            "A summed result is 0, plus the sum of each block of {rows} rows in order, plus the value of each of the last n % {rows} rows in order."
        ))
    }
}

/// Returns the type of an element in C.
fn c_type(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Bool => "bool",
        Dtype::I32 => "int32_t",
        Dtype::I64 => "int64_t",
        Dtype::U32 => "uint32_t",
        Dtype::U64 => "uint64_t",
        Dtype::F32 => "float",
        Dtype::F64 => "double",
    }
}

/// Returns an identifier of C, made from a path such as `argument.0.weights[2]`, that is not in `taken`.
pub(super) fn identifier(path: &str, taken: &[String]) -> String {
    let words = path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut name = words.collect::<Vec<_>>().join("_");
    let reserved = ["workspace", "tape", "n"];
    while taken.contains(&name) || reserved.contains(&name.as_str()) || name.is_empty() {
        name.push('_');
    }
    name
}
