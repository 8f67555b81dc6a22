//! RunUnderWay a program: one chunk after the other, with fuel counted and the state hashed after each.

use tg_types::{Digest, Domain, ModelId, ProgramId, Writer};
use wasmi::errors::ErrorKind;
use wasmi::{
    CompilationMode, Config, CustomFuelCosts, EnforcedLimits, Engine, Error, ExternType, Global,
    Instance, Linker, Memory, Module, OperatorCost, ResourceLimiter, Store, TrapCode, TypedFunc,
    Val, ValType,
};
use wasmi_core::{LimiterError, MemoryError};

use crate::answer::{ProgramAnswer, ProgramEnd, ProgramTrap};
use crate::file::{FileError, ProgramFile, RunLimits, model_id, program_id};
use crate::input::ProgramInput;
use crate::limits::{
    BYTES_PER_FUEL, CALL_DEPTH_MAX, CALL_FUEL_MAX, FUEL_PER_DIVISION, FUEL_PER_GROWTH,
    FUEL_PER_INNER_CALL, FUEL_PER_MODULE_BYTE, FUEL_PER_PAGE, STACK_BYTES_MAX,
};
use crate::profile::{ModuleError, ModuleFacts, global_name, look, with_exported_globals};

/// Bytes of a page of memory.
const PAGE: usize = 64 << 10;

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

/// This machine has too little memory for a run. That says nothing of the program: the run is to be done again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this machine has too little memory for the program")]
pub struct NoMemory;

/// What a run gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramRun {
    /// What it answers.
    pub answer: ProgramAnswer,
    /// The digest of its states: after the start, and after each chunk.
    pub trace: Digest,
}

/// A program that was checked and made ready to run, any number of times.
#[derive(Debug)]
pub struct WasmProgram {
    id: ProgramId,
    limits: RunLimits,
    facts: ModuleFacts,
    bytes: u64,
    /// Indices of the mutable globals.
    globals: Vec<u32>,
    engine: Engine,
    module: Module,
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
        let ready = Module::new(&engine, &exported).map_err(|error| ModuleError::Invalid {
            reason: error.to_string(),
        })?;
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

    /// Bytes of memory that it takes to be kept ready, about: translated code is a few times its bytes.
    #[must_use]
    pub const fn memory(&self) -> u64 {
        16 * self.bytes + (64 << 10)
    }

    /// Runs it on an input. The same on every machine.
    ///
    /// # Panics
    /// If this machine has too little memory; see [`Self::try_run`].
    #[must_use]
    pub fn run(&self, input: &[u8]) -> ProgramRun {
        self.try_run(input).expect("memory for one run")
    }

    /// Runs it on an input. The same on every machine, if it has an outcome.
    ///
    /// # Errors
    /// [`NoMemory`] if this machine has too little.
    pub fn try_run(&self, input: &[u8]) -> Result<ProgramRun, NoMemory> {
        let mut running = RunUnderWay::new(self);
        let end = match running.all(self, input) {
            Ok(()) => ProgramEnd::Finished,
            Err(RunStop::End(end)) => end,
            Err(RunStop::NoMemory) => return Err(NoMemory),
        };
        if running.store.data().failed {
            return Err(NoMemory);
        }
        let finished = end == ProgramEnd::Finished;
        Ok(ProgramRun {
            answer: ProgramAnswer {
                end,
                fuel: self.limits.fuel - running.fuel,
                calls: running.calls,
                output: if finished { running.output } else { Vec::new() },
            },
            trace: Digest::of(Domain::WasmTrace, &running.states.into_bytes()),
        })
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
        ..OperatorCost::default()
    };
    let mut config = Config::default();
    config
        .set_max_recursion_depth(CALL_DEPTH_MAX)
        .set_max_stack_height(STACK_BYTES_MAX)
        .set_max_cached_stacks(1)
        .wasm_mutable_global(true)
        .wasm_sign_extension(true)
        .wasm_saturating_float_to_int(true)
        .wasm_multi_value(true)
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

/// Why a run does not go on.
enum RunStop {
    End(ProgramEnd),
    NoMemory,
}

impl From<ProgramEnd> for RunStop {
    fn from(end: ProgramEnd) -> Self {
        Self::End(end)
    }
}

impl From<Error> for RunStop {
    fn from(error: Error) -> Self {
        let trap = match error.as_trap_code() {
            Some(TrapCode::OutOfFuel) => return Self::End(ProgramEnd::OutOfFuel),
            Some(TrapCode::OutOfSystemMemory) => return Self::NoMemory,
            Some(TrapCode::UnreachableCodeReached) => ProgramTrap::Unreachable,
            Some(TrapCode::MemoryOutOfBounds | TrapCode::GrowthOperationLimited) => {
                ProgramTrap::Memory
            }
            Some(
                TrapCode::TableOutOfBounds | TrapCode::IndirectCallToNull | TrapCode::BadSignature,
            ) => ProgramTrap::IndirectCall,
            Some(TrapCode::IntegerDivisionByZero) => ProgramTrap::DivisionByZero,
            Some(TrapCode::IntegerOverflow | TrapCode::BadConversionToInteger) => {
                ProgramTrap::Overflow
            }
            Some(TrapCode::StackOverflow) => ProgramTrap::CallDepth,
            None => match error.kind() {
                ErrorKind::Memory(MemoryError::OutOfSystemMemory) => return Self::NoMemory,
                // Segments that do not fit, before anything runs.
                _ => ProgramTrap::Memory,
            },
        };
        Self::End(ProgramEnd::Trapped(trap))
    }
}

/// Keeps memory within its limit, and notes when this machine has none to give.
struct MemoryRoom {
    bytes: usize,
    failed: bool,
}

impl ResourceLimiter for MemoryRoom {
    fn memory_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> Result<bool, LimiterError> {
        Ok(desired <= self.bytes)
    }

    fn memory_grow_failed(&mut self, error: &MemoryError) -> Result<(), LimiterError> {
        self.failed |= matches!(error, MemoryError::OutOfSystemMemory);
        Ok(())
    }

    fn table_growing(
        &mut self,
        _current: usize,
        _desired: usize,
        _maximum: Option<usize>,
    ) -> Result<bool, LimiterError> {
        Ok(true)
    }

    fn instances(&self) -> usize {
        1
    }

    fn tables(&self) -> usize {
        1
    }

    fn memories(&self) -> usize {
        1
    }
}

/// A run under way.
struct RunUnderWay {
    store: Store<MemoryRoom>,
    /// What is left of the run's fuel.
    fuel: u64,
    calls: u32,
    output: Vec<u8>,
    /// The digests of the states so far.
    states: Writer,
}

/// What a run calls and looks at.
struct Exports {
    memory: Memory,
    globals: Vec<Global>,
    alloc: TypedFunc<u32, u32>,
    take: TypedFunc<(u32, u32), u32>,
    output: TypedFunc<(), u64>,
}

impl RunUnderWay {
    fn new(program: &WasmProgram) -> Self {
        let room = MemoryRoom {
            bytes: program.limits.pages as usize * PAGE,
            failed: false,
        };
        let mut store = Store::new(&program.engine, room);
        store.limiter(|room| room);
        Self {
            store,
            fuel: program.limits.fuel,
            calls: 0,
            output: Vec::new(),
            states: Writer::new(),
        }
    }

    /// The whole run.
    fn all(&mut self, program: &WasmProgram, input: &[u8]) -> Result<(), RunStop> {
        self.burn(program.bytes.saturating_mul(FUEL_PER_MODULE_BYTE))?;
        self.burn_bytes(input.len())?;
        if input.len() > program.limits.input as usize {
            return Err(ProgramEnd::BadInput.into());
        }
        let input = ProgramInput::decode(input).map_err(|_| ProgramEnd::BadInput)?;
        let take = match &input {
            ProgramInput::Steps(_) => "step",
            ProgramInput::Merge(_) if program.facts.has_merge => "merge",
            ProgramInput::Merge(_) => return Err(ProgramEnd::BadInput.into()),
        };
        let instance = self.metered(|store| {
            Linker::new(&program.engine).instantiate_and_start(store, &program.module)
        })?;
        let exports = self.exports(program, &instance, take)?;
        self.hash(&exports)?;
        for chunk in input.chunks() {
            self.take(&exports, chunk)?;
            self.calls += 1;
            self.hash(&exports)?;
        }
        self.read_output(&exports, program.limits.output)
    }

    fn exports(
        &self,
        program: &WasmProgram,
        instance: &Instance,
        take: &str,
    ) -> Result<Exports, RunStop> {
        // All of them were checked when the module was read.
        let absent = || RunStop::from(ProgramEnd::BadInput);
        let global = |index: &u32| instance.get_global(&self.store, &global_name(*index));
        let globals: Option<Vec<Global>> = program.globals.iter().map(global).collect();
        Ok(Exports {
            memory: instance
                .get_memory(&self.store, "memory")
                .ok_or_else(absent)?,
            globals: globals.ok_or_else(absent)?,
            alloc: instance.get_typed_func(&self.store, "alloc")?,
            take: instance.get_typed_func(&self.store, take)?,
            output: instance.get_typed_func(&self.store, "output")?,
        })
    }

    /// Gives the program one chunk.
    fn take(&mut self, exports: &Exports, chunk: &[u8]) -> Result<(), RunStop> {
        let length = u32::try_from(chunk.len()).map_err(|_| ProgramEnd::NoRoom)?;
        let at = self.metered(|store| exports.alloc.call(store, length))?;
        if at == 0 {
            return Err(ProgramEnd::NoRoom.into());
        }
        let written = exports.memory.write(&mut self.store, at as usize, chunk);
        written.map_err(|_| ProgramEnd::NoRoom)?;
        match self.metered(|store| exports.take.call(store, (at, length)))? {
            0 => Ok(()),
            code => Err(ProgramEnd::Refused(code).into()),
        }
    }

    fn read_output(&mut self, exports: &Exports, limit: u32) -> Result<(), RunStop> {
        let named = self.metered(|store| exports.output.call(store, ()))?;
        let (at, length) = (
            (named >> 32) as usize,
            (named & u64::from(u32::MAX)) as usize,
        );
        if length > limit as usize {
            return Err(ProgramEnd::BadOutput.into());
        }
        self.burn_bytes(length)?;
        let memory = exports.memory.data(&self.store);
        let bytes = memory.get(at..).and_then(|rest| rest.get(..length));
        self.output = bytes.ok_or(ProgramEnd::BadOutput)?.to_vec();
        Ok(())
    }

    /// Adds the digest of the state to the trace: values of the mutable globals, and the memory.
    fn hash(&mut self, exports: &Exports) -> Result<(), RunStop> {
        let memory = exports.memory.data(&self.store);
        let pages = memory.len() / PAGE;
        let mut state = Writer::new();
        state.count(exports.globals.len());
        for global in &exports.globals {
            let (tag, bits) = match global.get(&self.store) {
                Val::I32(value) => (0, u64::from(value.cast_unsigned())),
                Val::I64(value) => (1, value.cast_unsigned()),
                Val::F32(value) => (2, u64::from(value.to_bits())),
                Val::F64(value) => (3, value.to_bits()),
                // The profile has no other types.
                _ => (4, 0),
            };
            state.u8(tag);
            state.u64(bits);
        }
        state.count(pages);
        state.raw(blake3::hash(memory).as_bytes());
        let digest = Digest::of(Domain::WasmState, &state.into_bytes());
        self.states.raw(digest.as_bytes());
        self.burn((pages as u64).saturating_mul(FUEL_PER_PAGE))
    }

    /// Calls into the program with what is left of the fuel, at most that of one call.
    fn metered<T>(
        &mut self,
        call: impl FnOnce(&mut Store<MemoryRoom>) -> Result<T, Error>,
    ) -> Result<T, RunStop> {
        let granted = self.fuel.min(CALL_FUEL_MAX);
        self.store.set_fuel(granted)?;
        let result = call(&mut self.store);
        let left = self.store.get_fuel()?.min(granted);
        self.fuel -= granted - left;
        Ok(result?)
    }

    fn burn_bytes(&mut self, bytes: usize) -> Result<(), RunStop> {
        self.burn((bytes as u64).div_ceil(BYTES_PER_FUEL.into()))
    }

    fn burn(&mut self, fuel: u64) -> Result<(), RunStop> {
        let Some(left) = self.fuel.checked_sub(fuel) else {
            self.fuel = 0;
            return Err(ProgramEnd::OutOfFuel.into());
        };
        self.fuel = left;
        Ok(())
    }
}
