//! Finds a wrong pass: `bisect FILE` reads a function or a loop program, runs the passes that precede machine code
//! one by one, and names the first after which the interpreter's results differ. For a function, the passes before
//! reverse mode are bisected too.
//!
//! Lines `// args: 1.0; f64[2] {1.0, 2.0}` of the file give the arguments. The exit code is 1 if a pass is wrong.

use std::error::Error;
use std::process::ExitCode;
use tapeloom_backend::{loop_ir, lower_to_loops, passes::NATIVE};
use tapeloom_ir::parse_module;
use tapeloom_tests::bisect::{Verdict, bisect, bisect_function};
use tapeloom_tests::read_tensors;
use tapeloom_transforms::{BEFORE_BUDGET, BEFORE_CODE, BEFORE_REVERSE};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("bisect FILE")?;
    let text = std::fs::read_to_string(file)?;
    let lines = text.lines().filter(|line| !line.starts_with("//"));
    let code: String = lines.map(|line| format!("{line}\n")).collect();
    let (function, program) = if code.contains("func @") {
        let mut module = parse_module(&code).map_err(|e| e[0].clone())?;
        let (f, _) = module.iter().last().ok_or("the file has no function")?;
        let given = module.clone();
        let ready = BEFORE_CODE.run(&mut module, f)?;
        (Some((given, f)), lower_to_loops(&module, ready)?)
    } else {
        (None, loop_ir::parse(&code, &|_| None)?)
    };
    let mut args: Vec<_> = text.lines().filter_map(|l| l.strip_prefix("// args:")).collect();
    if args.is_empty() && program.entry.inputs().is_empty() {
        args.push("");
    }
    if args.is_empty() {
        return Err("the file has no line `// args: ..`".into());
    }
    for line in args {
        let tensors = read_tensors(line)?;
        let mut verdicts = Vec::new();
        if let Some((module, f)) = &function {
            for list in [&BEFORE_REVERSE, &BEFORE_BUDGET, &BEFORE_CODE] {
                verdicts.push((list.name, bisect_function(list, module, *f, &tensors)?));
            }
        }
        verdicts.push((NATIVE.name, bisect(&NATIVE, &program, &tensors)?));
        for (list, verdict) in verdicts {
            match verdict {
                Verdict::Right => {}
                Verdict::Wrong { .. } | Verdict::Refused(_) => {
                    print!("// args:{line}\n{verdict}of the list `{list}`\n");
                    return Ok(ExitCode::FAILURE);
                }
            }
        }
    }
    print!("{}", Verdict::Right);
    Ok(ExitCode::SUCCESS)
}
