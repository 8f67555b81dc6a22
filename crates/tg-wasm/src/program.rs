//! A program that was checked and made ready to run: the engine, its settings, and the module.

use tg_types::{ModelId, ProgramId};
use wasmi::{
    CompilationMode, Config, CustomFuelCosts, EnforcedLimits, Engine, ExternType, Module,
    OperatorCost, ValType,
};

use crate::file::{FileError, ProgramFile, RunLimits, model_id, program_id};
use crate::input::ProgramInput;
use crate::limits::{
    BYTES_PER_FUEL, CALL_DEPTH_MAX, FUEL_PER_DIVISION, FUEL_PER_GROWTH, FUEL_PER_INNER_CALL,
    FUEL_PER_LOAD, STACK_BYTES_MAX,
};
use crate::profile::{
    ModuleError, ModuleFacts, MutableGlobal, look, with_exported_globals, without_start,
};

/// Why a file is no program that can be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProgramRefused {
    /// The file around the module does not hold.
    #[error(transparent)]
    File(#[from] FileError),
    /// The profile does not allow the module.
    #[error(transparent)]
    Module(#[from] ModuleError),
}

/// A program that was checked and made ready to run, any number of times.
#[derive(Debug)]
pub struct WasmProgram {
    id: ProgramId,
    limits: RunLimits,
    facts: ModuleFacts,
    /// Bytes of the module.
    pub(crate) bytes: u64,
    /// The mutable globals.
    pub(crate) globals: Vec<MutableGlobal>,
    pub(crate) engine: Engine,
    pub(crate) module: Module,
    /// The module without its start function, where it has one: in an instance that is put into a state it ran already.
    restored: Option<Module>,
}

impl WasmProgram {
    /// Checks a program file and makes its module ready. Takes time and memory in proportion to the file.
    ///
    /// # Errors
    /// [`ProgramRefused`], with what is wrong.
    pub fn read(file: &[u8]) -> Result<Self, ProgramRefused> {
        let ProgramFile { limits, module } = ProgramFile::decode(file)?;
        let looked = look(&module, limits.pages)?;
        let engine = Engine::new(&config());
        let exported = with_exported_globals(&module, &looked.mutable)?;
        let translate = |bytes: &[u8]| {
            Module::new(&engine, bytes).map_err(|error| ModuleError::Invalid {
                reason: error.to_string(),
            })
        };
        let ready = translate(&exported)?;
        let restored = match looked.has_start {
            true => Some(translate(&without_start(&exported)?)?),
            false => None,
        };
        let has_merge = check_exports(&ready)?;
        Ok(Self {
            id: program_id(file),
            limits,
            facts: ModuleFacts {
                functions: looked.functions,
                pages: u32::try_from(looked.pages).unwrap_or(u32::MAX),
                globals: u32::try_from(looked.mutable.len()).unwrap_or(u32::MAX),
                has_start: looked.has_start,
                has_merge,
            },
            bytes: module.len() as u64,
            globals: looked.mutable,
            engine,
            module: ready,
            restored,
        })
    }

    /// The hash of its file.
    #[must_use]
    pub const fn id(&self) -> ProgramId {
        self.id
    }

    /// The id under which it is registered and ordered.
    #[must_use]
    pub fn model_id(&self) -> ModelId {
        model_id(self.id)
    }

    /// What one run may take.
    #[must_use]
    pub const fn limits(&self) -> RunLimits {
        self.limits
    }

    /// What is known of its module.
    #[must_use]
    pub const fn facts(&self) -> ModuleFacts {
        self.facts
    }

    /// Bytes of memory that it takes to be kept ready, at most: what the densest module becomes, twice if it is translated
    /// twice. Usual ones take a tenth.
    #[must_use]
    pub const fn memory(&self) -> u64 {
        let translated = 1 + self.facts.has_start as u64;
        64 * self.bytes * translated + (64 << 10)
    }

    /// What an input gives it, if it takes that.
    pub(crate) fn given(&self, input: &[u8]) -> Option<ProgramInput> {
        if input.len() > self.limits.input as usize {
            return None;
        }
        let is_taken = |it: &ProgramInput| match it {
            ProgramInput::Steps(_) => true,
            ProgramInput::Merge(_) => self.facts.has_merge,
        };
        ProgramInput::decode(input).ok().filter(is_taken)
    }

    /// The module whose instances are put into a state: nothing of it runs by itself.
    pub(crate) fn without_start(&self) -> &Module {
        self.restored.as_ref().unwrap_or(&self.module)
    }
}

/// The engine's settings: the profile.
fn config() -> Config {
    let costs = OperatorCost {
        call: FUEL_PER_INNER_CALL,
        call_indirect: FUEL_PER_INNER_CALL,
        memory_grow: FUEL_PER_GROWTH,
        i32_div_s: FUEL_PER_DIVISION,
        i32_div_u: FUEL_PER_DIVISION,
        i32_rem_s: FUEL_PER_DIVISION,
        i32_rem_u: FUEL_PER_DIVISION,
        i64_div_s: FUEL_PER_DIVISION,
        i64_div_u: FUEL_PER_DIVISION,
        i64_rem_s: FUEL_PER_DIVISION,
        i64_rem_u: FUEL_PER_DIVISION,
        f32_sqrt: FUEL_PER_DIVISION,
        f64_sqrt: FUEL_PER_DIVISION,
        f32_div: FUEL_PER_DIVISION,
        f64_div: FUEL_PER_DIVISION,
        // As dear as others: reaching it ends the run.
        unreachable: 1,
        ..with_dear_loads()
    };
    let mut config = Config::default();
    config
        .set_max_recursion_depth(CALL_DEPTH_MAX)
        .set_max_stack_height(STACK_BYTES_MAX)
        .set_max_cached_stacks(1)
        .wasm_mutable_global(true)
        .wasm_sign_extension(true)
        .wasm_saturating_float_to_int(true)
        // Stops: blocks with parameters, of which this engine translates some so that a value is read that nobody wrote, another one on
        // each machine; and types of many results, of which each jump is translated to as many copies.
        .wasm_multi_value(false)
        .wasm_bulk_memory(true)
        .wasm_multi_memory(false)
        // For the long form of call_indirect that compilers write; its instructions are refused by name.
        .wasm_reference_types(true)
        .wasm_tail_call(false)
        .wasm_extended_const(false)
        .wasm_custom_page_sizes(false)
        .wasm_wide_arithmetic(false)
        .floats(true)
        .consume_fuel(true)
        .allow_start_fn(true)
        .ignore_custom_sections(true)
        .operator_cost(costs)
        .fuel_cost(CustomFuelCosts {
            bytes_copied_per_fuel: BYTES_PER_FUEL,
            fuel_per_bytes_translated: 0,
            fuel_per_bytes_validated: 0,
        })
        .compilation_mode(CompilationMode::Eager)
        .enforced_limits(EnforcedLimits::strict());
    config
}

/// The usual costs but for reading memory.
fn with_dear_loads() -> OperatorCost {
    OperatorCost {
        i32_load: FUEL_PER_LOAD,
        i64_load: FUEL_PER_LOAD,
        f32_load: FUEL_PER_LOAD,
        f64_load: FUEL_PER_LOAD,
        i32_load8_s: FUEL_PER_LOAD,
        i32_load8_u: FUEL_PER_LOAD,
        i32_load16_s: FUEL_PER_LOAD,
        i32_load16_u: FUEL_PER_LOAD,
        i64_load8_s: FUEL_PER_LOAD,
        i64_load8_u: FUEL_PER_LOAD,
        i64_load16_s: FUEL_PER_LOAD,
        i64_load16_u: FUEL_PER_LOAD,
        i64_load32_s: FUEL_PER_LOAD,
        i64_load32_u: FUEL_PER_LOAD,
        ..OperatorCost::default()
    }
}

/// Whether a module exports `merge`, and all that a program must.
fn check_exports(module: &Module) -> Result<bool, ModuleError> {
    use ValType::{I32, I64};
    let exports = |name: &str| {
        module
            .exports()
            .find(|it| it.name() == name)
            .map(|it| it.ty().clone())
    };
    let is = |name: &str, given: &[ValType], gives: &[ValType]| match exports(name) {
        Some(ExternType::Func(found)) => found.params() == given && found.results() == gives,
        _ => false,
    };
    for (holds, export) in [
        (
            matches!(exports("memory"), Some(ExternType::Memory(_))),
            "memory",
        ),
        (is("alloc", &[I32], &[I32]), "alloc(i32) -> i32"),
        (is("step", &[I32, I32], &[I32]), "step(i32, i32) -> i32"),
        (is("output", &[], &[I64]), "output() -> i64"),
    ] {
        if !holds {
            return Err(ModuleError::Export { export });
        }
    }
    let has_merge = exports("merge").is_some();
    if has_merge && !is("merge", &[I32, I32], &[I32]) {
        let export = "merge(i32, i32) -> i32";
        return Err(ModuleError::Export { export });
    }
    Ok(has_merge)
}
