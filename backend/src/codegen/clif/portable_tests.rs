//! Tests that generated code contains no address of the process: programs are translated into a module that only stores
//! bytes.
//!
//! Code that becomes part of an [object](crate::codegen::object) file must fulfil this condition. The test checks it
//! for all functions that generated code calls, also for those that object files do not support. Like an object file,
//! the module holds the bytes of each function and the names to which the functions refer. A linker could resolve every
//! name, and the bytes contain no address of a function of this process.

use super::{Caller, Symbols, translate};
use crate::codegen::target_isa::isa;
use crate::loop_ir::parse;
use crate::machine::MachineModel;
use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::Signature;
use cranelift_codegen::isa::{OwnedTargetIsa, TargetIsa};
use cranelift_module::{
    DataDescription, DataId, FuncId, Linkage, Module, ModuleDeclarations, ModuleReloc,
    ModuleRelocTarget, ModuleResult,
};
use tapeloom_ir::{Code, Scalar};
use target_lexicon::Triple;

/// A module that stores the bytes of its definitions, and the names to which they refer.
struct Kept {
    isa: OwnedTargetIsa,
    declarations: ModuleDeclarations,
    /// The machine code of every function, and the bytes of every constant.
    bytes: Vec<Vec<u8>>,
    /// The symbols to which the functions refer.
    references: Vec<ModuleRelocTarget>,
}

impl Module for Kept {
    fn isa(&self) -> &dyn TargetIsa {
        &*self.isa
    }

    fn declarations(&self) -> &ModuleDeclarations {
        &self.declarations
    }

    fn declare_function(&mut self, name: &str, l: Linkage, s: &Signature) -> ModuleResult<FuncId> {
        self.declarations.declare_function(name, l, s).map(|(id, _)| id)
    }

    fn declare_anonymous_function(&mut self, s: &Signature) -> ModuleResult<FuncId> {
        self.declarations.declare_anonymous_function(s)
    }

    fn declare_data(
        &mut self,
        name: &str,
        linkage: Linkage,
        writable: bool,
        tls: bool,
    ) -> ModuleResult<DataId> {
        self.declarations.declare_data(name, linkage, writable, tls).map(|(id, _)| id)
    }

    fn declare_anonymous_data(&mut self, writable: bool, tls: bool) -> ModuleResult<DataId> {
        self.declarations.declare_anonymous_data(writable, tls)
    }

    fn define_function_with_control_plane(
        &mut self,
        id: FuncId,
        cx: &mut Context,
        control: &mut ControlPlane,
    ) -> ModuleResult<()> {
        cx.compile(&*self.isa, control)?;
        let code = cx.compiled_code().unwrap();
        let relocs = code.buffer.relocs().iter();
        let relocs: Vec<_> =
            relocs.map(|r| ModuleReloc::from_mach_reloc(r, &cx.func, id)).collect();
        self.define_function_bytes(id, 16, code.code_buffer(), &relocs)
    }

    fn define_function_bytes(
        &mut self,
        _: FuncId,
        _: u64,
        bytes: &[u8],
        relocs: &[ModuleReloc],
    ) -> ModuleResult<()> {
        self.bytes.push(bytes.to_vec());
        self.references.extend(relocs.iter().map(|r| r.name.clone()));
        Ok(())
    }

    fn define_data(&mut self, _: DataId, data: &DataDescription) -> ModuleResult<()> {
        assert_eq!(data.all_relocs(cranelift_codegen::binemit::Reloc::Abs8).count(), 0);
        Ok(())
    }
}

#[test]
fn code_calls_functions_by_name() {
    let text = "program @f {
  buffer b0: f64[4,4] input 0
  buffer b1: f64[4,4] output 0
  buffer b2: f64[16] output 1
  contract f64 4 x 4 x 4: b1[0; 4, 1] = b0[0; 4, 1] * b0[0; 4, 1]
  for i0 in 16 {
    %0: f64 = load b0[i0]
    %1: f64 = exp %0
    %2: f64 = rem %1, %0
    store b2[i0], %2
  }
}";
    let exp = match Scalar::Exp.row().code {
        Code::Library(l) => l,
        code => panic!("{code} is not called"),
    };
    let program = parse(text, &|name| (name == "exp").then_some(exp)).unwrap();
    let symbols = Symbols::of(&program);
    let mut kept = Kept {
        isa: isa(&Triple::host()).unwrap(),
        declarations: ModuleDeclarations::default(),
        bytes: Vec::new(),
        references: Vec::new(),
    };
    let entry = translate(
        &program,
        MachineModel::MEASURED,
        &symbols,
        &mut kept,
        tapeloom_ir::Isa::Baseline,
        Caller::Process,
    )
    .unwrap()
    .0;
    assert_eq!(kept.declarations.get_function_decl(entry).linkage_name(entry), "@f.0");

    let mut called: Vec<String> = Vec::new();
    for name in &kept.references {
        match name {
            ModuleRelocTarget::User { namespace: 0, .. } => {
                let id = FuncId::from_name(name);
                let of = kept.declarations.get_function_decl(id);
                called.push(of.linkage_name(id).into_owned());
            }
            // A constant of the module is placed next to the code that refers to it, so the reference has no symbol
            // name.
            ModuleRelocTarget::User { namespace: 1, .. } => {}
            other => panic!("{other} has no name"),
        }
    }
    called.sort_unstable();
    called.dedup();
    assert_eq!(called, ["contract_f64", "library_exp_f64", "library_rem_f64"]);
    for symbol in symbols.iter() {
        let address = (symbol.address as usize).to_ne_bytes();
        let stands = kept.bytes.iter().any(|b| b.windows(address.len()).any(|w| w == address));
        assert!(!stands, "the address of {} is in the code", symbol.name);
    }
}
