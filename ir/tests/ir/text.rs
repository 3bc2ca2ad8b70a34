//! Round trips of every primitive's samples and of hand-written modules; errors with their positions.

use tapeloom_ir::{
    Atom, Builder, Draft, Module, Op, ParseError, Type, parse_module, parse_type, print_function,
    print_module,
};

fn round_trip(text: &str) -> String {
    let module = parse_module(text).unwrap_or_else(|e| panic!("{}\n{text}", show(&e)));
    print_module(&module)
}

fn show(errors: &[ParseError]) -> String {
    errors.iter().map(|e| format!("{e}\n")).collect()
}

/// Checks that the module parsed from `text` prints as exactly `text`.
#[track_caller]
fn check(text: &str) {
    assert_eq!(round_trip(text), text);
}

#[track_caller]
fn check_errors(text: &str, expected: &str) {
    let errors = parse_module(text).map(|m| print_module(&m)).unwrap_err();
    assert_eq!(show(&errors), expected);
}

#[test]
fn samples_of_every_primitive() {
    let mut module = Module::new();
    for sample in Op::samples(&mut module) {
        let mut draft = Draft::new("sample");
        let operands: Vec<Atom> =
            sample.operands.iter().map(|t| draft.param(Type::Array(t.ty().clone()))).collect();
        let outputs = Builder::new(&mut module, &mut draft).emit(sample.op, &operands);
        draft.finish(&mut module, outputs.to_vec()).unwrap();
    }
    let text = print_module(&module);
    check(&text);
    for (id, _) in module.iter() {
        check(&print_function(&module, id));
    }
}

#[test]
fn hand_written() {
    check("");
    check("func @nothing() -> () {\n  return\n}\n");
    check(
        "func @constants() -> (f64[], i64[], bool[], f32[], u32[]) {\n  return -0.0, -3, true, 0x7f800000f32, 3u32\n}\n",
    );
    check(
        "func @id(%0: tape<f64[3], tape<bool[]>>, %1: f64[2,0]) -> (tape<f64[3], tape<bool[]>>) {\n  return %0\n}\n",
    );
    check(
        "func @f.lin(; %0: f64[3]) -> (f64[3], f64[]) {\n  %1: f64[3] = add %0, %0\n  %2: f64[] = reduce_sum{axes=[0]} %1\n  return %1, %2\n}\n",
    );
}

#[test]
fn phases() {
    let all = "func @f(%0: f64[], %1: f64[]) -> (f64[]) {
  %2: f64[] = sin %0
forward rematerialized:
  %3: f64[] = cos %0
reverse transposed:
  %4: f64[] = mul %1, %3
  %5: f64[] = mul %4, %3
reverse 2:
  %6: f64[] = mul %5, %4
reverse 255 transposed rematerialized:
  %7: f64[] = mul %6, %4
forward:
  %8: f64[] = mul %7, %2
  return %8
}
";
    check(all);
    // A phase line that repeats the current phase is not printed, and each function begins with `forward`.
    let loose = "func @f() -> () { forward: reverse: return } func @g() -> (f64[]) {
  reverse 1 : %0: f64[] = add 1.0, 2.0
  reverse:
  return %0
}";
    let printed = "func @f() -> () {
  return
}

func @g() -> (f64[]) {
reverse:
  %0: f64[] = add 1.0, 2.0
  return %0
}
";
    assert_eq!(round_trip(loose), printed);
    check_errors(
        "func @f() -> () {
reverse 0:
reverse 256:
forward 1:
forward transposed transposed:
reverse rematerialized transposed:
reverse
  return
}
",
        "2:9: [parse] expected an order between 1 and 255, found `0`
3:9: [parse] expected an order between 1 and 255, found `256`
4:9: [parse] expected `:`, found `1`
5:20: [parse] expected `:`, found `transposed`
6:24: [parse] expected `:`, found `transposed`
8:3: [parse] expected `:`, found `return`
",
    );
}

#[test]
fn any_names_and_layout() {
    let loose = "// a comment\nfunc @f( %x : f64[ 3 ], ; %dx: f64[3], ) -> (f64[3],) { // more\n\n %dy: f64[3] = mul %dx,\n  %x\n return %dy }";
    assert_eq!(
        round_trip(loose),
        "func @f(%0: f64[3]; %1: f64[3]) -> (f64[3]) {\n  %2: f64[3] = mul %1, %0\n  return %2\n}\n"
    );
}

#[test]
fn names_that_clash() {
    let mut module = Module::new();
    for (n, name) in ["f", "f", "f.2", "a::<b>", ""].into_iter().enumerate() {
        let mut draft = Draft::new(name);
        let x = draft.param(Type::array(tapeloom_ir::Dtype::F64, &[n]));
        draft.finish(&mut module, vec![x]).unwrap();
    }
    let text = print_module(&module);
    let names: Vec<&str> =
        text.lines().filter_map(|l| l.strip_prefix("func ")?.split('(').next()).collect();
    assert_eq!(names, ["@f", "@f.2", "@f.2.2", "@a___b_", "@f.3"]);
    check(&text);
}

#[test]
fn types() {
    for text in ["f64[]", "bool[3,4]", "tape<>", "tape<f32[1], u64[]>"] {
        assert_eq!(parse_type(text).unwrap().to_string(), text);
    }
    let deep = "tape<".repeat(100_000);
    assert!(parse_type(&deep).is_err());
}

#[test]
fn errors() {
    check_errors(
        "nonsense",
        "1:1: [parse] expected `func`, found `nonsense`
",
    );
    check_errors(
        "func @f(%0: f64[3], %1: f64[2]) -> (f64[3]) {
  %2: f64[3] = mul %0, %1
  %3: f64[3] = mull %0, %2
  %4: f64[] = reduce_sum{axis=[0]} %0
  %5: f64[] = reduce_sum{axes=[0], axs=[1]} %0
  %6: f64[2] = mul %0, %7
  %8: f64[2] = mul %0, %6
  %9: f64[2] = mul %0, 1.0
  %9: f64[3] = mul %0, 1.x
  %10: f64[3], %11: f64[3] = mul %0, 2.0
  %12: f64[3] = call{function=@g, outline=true} %0
  %13: f16[3] = neg %0
  %14: f64[3] = neg %0 %0
  %15: f64[3] = neg
  %16: f64[3] = neg %4
  return %9, 2
}
func @f(; %0: i64[]) -> (i64[]) {
  return %0
}
func @g(; %0: i64[]) -> (i64[]) {
  return 1
}
func @h(; %0: f64[]) -> (f64[]) {
  %1: f64[] = mul %0, %0
  return %1
",
        "2:16: [shape] `mul` needs equal shapes, got f64[3] and f64[2] (make the shapes equal or broadcastable)
3:16: [parse] there is no primitive `mull` (did you mean `mul`?)
4:15: [parse] attribute `axes` is missing (found `axis`)
5:36: [parse] `reduce_sum` has no attribute `axs` (did you mean `axes`?)
6:24: [parse] %7 is read before it is defined
8:7: [parse] `mul` gives f64[3], the text says f64[2]
9:3: [parse] %9 is defined twice
9:24: [parse] `1.x` is not a literal (literals are `2.5`, `3`, `2.5f32`, `3u32`, `true`, `0x7ff8000000000000f64`)
10:3: [parse] `mul` has 1 output, the text names 2
11:31: [parse] `@g` is not defined before this line
12:8: [parse] expected a type such as `f64[3,4]`, found `f16`
13:24: [parse] expected `,` or the end of the line, found `%0`
14:17: [arguments] `neg` takes 1 operands, got 0
16:3: [parse] expected 1 result, found 2
18:6: [parse] there are two functions `@f`
21:6: [not-linear] linear parameter %0 is i64[], not a float
21:6: [not-linear] result 1 does not depend on linear parameters
26:12: [parse] expected `}`, found the end of the text
",
    );
}
