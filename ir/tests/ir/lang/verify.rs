//! Tests of `verify`.

use tapeloom_ir::prim::Call;
use tapeloom_ir::{
    Atom, Draft, Dtype, FuncId, Literal, Module, Op, Origin, Scalar, Type, ValueId, verify,
};

use cranelift_entity::EntityRef;

/// The verifier must accept zeros that pass through primitives linear in them, for any other operands, also for zeros that
/// are not floats.
#[test]
fn zeros_are_linear() {
    let linear = |zeros: &str| {
        let text = format!(
            "func @scaled(%0: f64[]; %1: f64[3], %2: f64[3]) -> (f64[3]) {{
  %3: f64[3] = broadcast{{shape=[3], dims=[]}} %0
  %4: f64[3] = mul %3, %1
  %5: f64[3] = add %2, %4
  return %5
}}
func @f(%0: f64[3]; %1: f64[1]) -> (f64[1]) {{
  %2: f64[3] = broadcast{{shape=[3], dims=[]}} 0.0
  {zeros}
  %4: f64[1] = dynamic_slice{{sizes=[1]}} %3, 0
  %5: f64[1] = add %4, %1
  return %5
}}"
        );
        tapeloom_ir::parse_module(&text).is_ok()
    };
    assert!(linear("%3: f64[3] = mul %0, %2"));
    assert!(linear("%3: f64[3] = mul %2, %2"));
    assert!(linear("%3: f64[3] = mul 0.0, %2"));
    assert!(linear(
        "%3: f64[3] = call{function=@scaled, outline=true, checkpoint=everything} 0.0, %2, %2"
    ));
    assert!(linear("%3: f64[3] = neg %2"));
    assert!(linear("%3: f64[3] = select false, %2, %2"));
    assert!(!linear("%3: f64[3] = add %0, %2"));
    assert!(!linear("%3: f64[3] = cos %2"));
}

/// Programs that no builder makes: wrong types, arities and order. All errors are found, without a panic.
#[test]
fn broken_programs() {
    let vector = Type::array(Dtype::F64, &[3]);
    let mut module = Module::new();
    let mut draft = Draft::new("broken");
    let x = draft.param(vector.clone());
    let dx = draft.linear_param(vector.clone());
    let mut push = |op: Op, operands: &[Atom], ty: &Type| {
        Atom::from(draft.push(op, operands.into(), std::slice::from_ref(ty), Origin::default())[0])
    };
    let wrong = push(Scalar::Add.into(), &[x, x], &Type::scalar(Dtype::F64));
    push(Scalar::Mul.into(), &[dx], &vector);
    push(Scalar::Neg.into(), &[ValueId::new(6).into()], &vector);
    let nowhere = Call::inline(FuncId::new(9));
    push(nowhere.into(), &[x], &vector);
    push(Scalar::Mul.into(), &[wrong, Literal::f64(2.0).into()], &Type::scalar(Dtype::F64));
    let f = draft.finish(&mut module, vec![x]).unwrap();
    let errors: String = verify(&module, f).iter().map(|e| format!("{e}\n")).collect();
    assert_eq!(
        errors,
        "@broken equation 0, `%2: f64[] = add %0, %0`: [verify] `add` gives f64[3], declared f64[]
@broken equation 1, `%3: f64[3] = mul %1`: [arguments] `mul` takes 2 operands, got 1
@broken equation 2, `%4: f64[3] = neg %6`: [verify] %6 is read before it is defined
@broken equation 2, `%4: f64[3] = neg %6`: [verify] `neg` gives f64[], declared f64[3]
@broken equation 3, `%5: f64[3] = call{function=@, outline=false} %0`: [verify] fn9 is not in the module
@broken: [not-linear] result %0 does not depend on linear parameters
"
    );
}
