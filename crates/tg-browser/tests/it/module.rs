//! The committed module, as a browser runs it.

use serde_json::Value;
use tg_browser::session::{PageInput, VerifyStep};
use wasmi::{Engine, Instance, Linker, Memory, Module, Store};

use super::{KEPT, Verifies, holds_what_is_right_and_nothing_else, refuses_rows_that_wrap, verify};

const MODULE: &[u8] = include_bytes!("../../../tg-api/dashboard/verify.wasm");

/// An instance of it.
struct Interpreted {
    store: Store<()>,
    instance: Instance,
    memory: Memory,
}

impl Interpreted {
    fn new() -> Self {
        let engine = Engine::default();
        let module = Module::new(&engine, MODULE).unwrap();
        assert_eq!(module.imports().count(), 0, "it can do nothing but compute");
        let mut store = Store::new(&engine, ());
        let linker = Linker::new(&engine);
        let instance = linker.instantiate_and_start(&mut store, &module).unwrap();
        let memory = instance.get_memory(&store, "memory").unwrap();
        Self {
            store,
            instance,
            memory,
        }
    }

    fn call(&mut self, name: &str, arguments: &[i32]) -> usize {
        let function = self.instance.get_func(&self.store, name).unwrap();
        let arguments: Vec<wasmi::Val> = arguments.iter().map(|&it| wasmi::Val::I32(it)).collect();
        let mut results = [wasmi::Val::I32(0)];
        function
            .call(&mut self.store, &arguments, &mut results)
            .unwrap();
        results[0].i32().unwrap().cast_unsigned() as usize
    }
}

impl Verifies for Interpreted {
    fn write(&mut self, input: PageInput, bytes: &[u8]) -> bool {
        let length = i32::try_from(bytes.len()).unwrap();
        let at = self.call("room", &[input as i32, length]);
        if at == 0 {
            return false;
        }
        self.memory.write(&mut self.store, at, bytes).unwrap();
        true
    }

    fn take(&mut self, step: VerifyStep) -> (bool, Value) {
        let is_right = self.call("step", &[step as i32]) == 1;
        let (at, length) = (self.call("answer", &[]), self.call("answer_bytes", &[]));
        let answer = &self.memory.data(&self.store)[at..at + length];
        (is_right, serde_json::from_slice(answer).unwrap())
    }
}

/// If this fails after a change of `tg-proof` or `tg-ir`, the module is the one before it: build it anew. An interpreter takes some
/// seconds for a proof, so that only the smallest is changed here.
#[test]
fn kept_proofs_hold_in_the_committed_module() {
    holds_what_is_right_and_nothing_else(Interpreted::new(), KEPT[0]);
    for (name, proof, model) in &KEPT[1..] {
        let (is_right, verdict) = verify(&mut Interpreted::new(), (proof, model), "");
        assert!(is_right, "{name}: {verdict}");
    }
}

/// A word of the module has 32 bits: it refuses by the plan, not by a trap of an arithmetic check, which a build of the
/// verifier with another profile may lack.
#[test]
fn rows_that_wrap_are_refused_in_the_committed_module() {
    refuses_rows_that_wrap(&mut Interpreted::new());
}

#[test]
fn the_committed_module_has_the_same_limits() {
    let mut module = Interpreted::new();
    for number in 0..6 {
        let input = PageInput::numbered(number).unwrap();
        let most = i32::try_from(input.max()).unwrap();
        assert_eq!(module.call("room", &[input as i32, most + 1]), 0);
        assert_eq!(module.call("room", &[input as i32, -1]), 0);
    }
    assert_eq!(module.call("room", &[6, 1]), 0);
    assert_eq!(module.call("step", &[5]), 0);
}
