//! The command by which a crate compiles its functions to object files.

#![expect(clippy::print_stdout, reason = "the report of a command")]

use super::{Isa, Object, Options};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tapeloom_ir::{Kind, Problem, closest_name};

const USAGE: &str = "\
usage: [--out FOLDER] [--triple TRIPLE] [--isa baseline|avx2|avx512] [--list] [NAME ..]

  NAME ..   the functions whose objects are made; all of them by default
  --out     the folder for the files; by default the current one
  --triple  the machine, such as aarch64-unknown-linux-gnu; by default this one
  --isa     the instructions that the machine has
  --list    print the names of the functions, one in each line
";

type Make<'f> = Box<dyn Fn(Options) -> Result<Object, String> + 'f>;

/// A command that makes objects. It is the `main` of a program that a crate has beside its functions. The machine, the
/// output folder and the names of functions are command-line arguments.
///
/// ```text
/// cargo run --release --bin objects -- --triple x86_64-unknown-linux-gnu --isa avx2 --out target
/// ```
///
/// The book's chapter *Shipping a gradient* has such a program. Source: the command `tfcompile` of XLA.
#[derive(Default)]
pub struct Command<'f> {
    functions: Vec<(String, Make<'f>)>,
}

/// The parsed command-line arguments.
struct Arguments {
    folder: PathBuf,
    /// The machine for all objects of the command. The `name` in these options is replaced by the name of each
    /// function.
    machine: Options,
    list: bool,
    help: bool,
    names: BTreeSet<String>,
}

impl<'f> Command<'f> {
    /// Returns a command without functions.
    pub fn new() -> Command<'f> {
        Command::default()
    }

    /// Adds a function. `make` returns the function's object for options with this name and with the machine from the
    /// command line.
    #[must_use]
    pub fn add<E: Display>(
        mut self,
        name: &str,
        make: impl Fn(Options) -> Result<Object, E> + 'f,
    ) -> Command<'f> {
        let make = move |options| make(options).map_err(|e| e.to_string());
        self.functions.push((name.to_owned(), Box::new(make)));
        self
    }

    /// Runs the command with the command-line arguments of the process. Prints a line for each object, or the errors.
    pub fn run(&self) -> ExitCode {
        match self.run_with(std::env::args().skip(1)) {
            Ok(report) => {
                print!("{report}");
                ExitCode::SUCCESS
            }
            Err(problem) => {
                eprintln!("{problem}");
                ExitCode::FAILURE
            }
        }
    }

    /// Runs the command with these arguments. Returns the report, which has a line for each object.
    ///
    /// # Errors
    /// [`Kind::Arguments`] for wrong arguments, and if two functions have the same name. [`Kind::Target`], with all
    /// errors, if objects of some functions could not be made; the objects of all other functions are made.
    /// [`Kind::File`] if a file cannot be written.
    ///
    /// ```
    /// use tapeloom_backend::object::Command;
    /// let problem = Command::new().run_with(["--isa", "avx"]).unwrap_err();
    /// assert!(problem.to_string().contains("`--isa avx` names no instruction set"));
    /// ```
    pub fn run_with<S: Into<String>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
    ) -> Result<String, Problem> {
        let mut known = BTreeSet::new();
        if let Some((name, _)) = self.functions.iter().find(|(name, _)| !known.insert(name)) {
            let message = format!("two functions of the command have the name `{name}`");
            return Err(Problem::new(Kind::Arguments, message, "give each its own name"));
        }
        let arguments = Arguments::parse(arguments.into_iter().map(Into::into))?;
        if arguments.help {
            return Ok(USAGE.to_owned());
        }
        for name in &arguments.names {
            if !known.contains(name) {
                let names = known.iter().map(|name| name.as_str());
                let help = match closest_name(name, names) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "`--list` prints the names".to_owned(),
                };
                return Err(wrong(format!("the command has no function `{name}`"), help));
            }
        }
        let is_asked = |name: &String| arguments.names.is_empty() || arguments.names.contains(name);
        let asked = self.functions.iter().filter(|(name, _)| is_asked(name));
        if arguments.list {
            return Ok(asked.map(|(name, _)| format!("{name}\n")).collect());
        }
        let (mut report, mut failed) = (String::new(), Vec::new());
        for (name, make) in asked {
            match make(Options { name: name.clone(), ..arguments.machine.clone() }) {
                Ok(object) => {
                    object.save(&arguments.folder)?;
                    report += &line(&object, &arguments.folder);
                }
                Err(message) => failed.push(format!("`{name}`: {message}")),
            }
        }
        match failed.is_empty() {
            true => Ok(report),
            false => Err(Problem::new(Kind::Target, failed.join("\n"), "")),
        }
    }
}

impl Arguments {
    fn parse(mut given: impl Iterator<Item = String>) -> Result<Arguments, Problem> {
        let mut parsed = Arguments {
            folder: PathBuf::from("."),
            machine: Options::new(""),
            list: false,
            help: false,
            names: BTreeSet::new(),
        };
        while let Some(argument) = given.next() {
            let mut value = || {
                let missing = || wrong(format!("`{argument}` has no value"), USAGE);
                given.next().ok_or_else(missing)
            };
            match argument.as_str() {
                "--out" => parsed.folder = value()?.into(),
                "--triple" => {
                    let name = value()?;
                    parsed.machine.triple = name.parse().map_err(|e| {
                        let message = format!("`--triple {name}` names no machine: {e}");
                        wrong(message, "write one such as x86_64-unknown-linux-gnu")
                    })?;
                }
                "--isa" => {
                    let name = value()?;
                    let found = Isa::ALL.into_iter().find(|isa| isa.name() == name);
                    parsed.machine.isa = found.ok_or_else(|| {
                        let message = format!("`--isa {name}` names no instruction set");
                        wrong(message, "write baseline, avx2 or avx512")
                    })?;
                }
                "--list" => parsed.list = true,
                "--help" | "-h" => parsed.help = true,
                option if option.starts_with('-') => {
                    return Err(wrong(format!("`{option}` is no option"), USAGE));
                }
                _ => _ = parsed.names.insert(argument),
            }
        }
        Ok(parsed)
    }
}

fn wrong(message: String, help: impl Into<String>) -> Problem {
    Problem::new(Kind::Arguments, message, help)
}

/// Returns the report's line about an object: its file, its memory, and the functions that must be linked with it.
fn line(object: &Object, folder: &Path) -> String {
    let file = folder.join(format!("{}.o", object.name()));
    let linked = match object.undefined() {
        [] => "nothing".to_owned(),
        names => names.join(", "),
    };
    format!(
        "{}: {} bytes for {}, workspace {} bytes, calls {linked}\n",
        file.display(),
        object.bytes().len(),
        object.options.triple,
        object.workspace_bytes()
    )
}
