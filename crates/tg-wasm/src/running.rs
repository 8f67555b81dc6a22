//! A run under way: one call after the other, with fuel counted and the state looked at after each.

use wasmi::errors::ErrorKind;
use wasmi::{
    Error, Global, Instance, Linker, Memory, Module, ResourceLimiter, Store, TrapCode, TypedFunc,
};
use wasmi_core::{LimiterError, MemoryError, TableError};

use crate::answer::{ProgramAnswer, ProgramEnd, ProgramTrap};
use crate::input::ProgramInput;
use crate::limits::{
    BYTES_PER_FUEL, CALL_FUEL_MAX, FUEL_PER_MODULE_BYTE, FUEL_PER_PAGE, PAGE_BYTES,
};
use crate::profile::global_name;
use crate::program::WasmProgram;
use crate::state::{GlobalValue, ProgramState, StateLook};

/// This machine has too little memory for a run. That says nothing of the program: the run is to be done again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this machine has too little memory for the program")]
pub struct NoMemory;

/// Why a run does not go on.
pub(crate) enum RunStop {
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
                ErrorKind::Memory(MemoryError::OutOfSystemMemory)
                | ErrorKind::Table(TableError::OutOfSystemMemory) => return Self::NoMemory,
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
pub(crate) struct RunUnderWay<'a> {
    program: &'a WasmProgram,
    store: Store<MemoryRoom>,
    /// What is left of the run's fuel.
    fuel: u64,
    calls: u32,
    output: Vec<u8>,
}

/// What a run calls and looks at.
pub(crate) struct Exports {
    memory: Memory,
    globals: Vec<Global>,
    alloc: TypedFunc<u32, u32>,
    take: TypedFunc<(u32, u32), u32>,
    output: TypedFunc<(), u64>,
}

/// What is seen after a call.
pub(crate) struct CallSeen<'a> {
    /// Fuel that the run has burned, the hash of this state among it.
    pub(crate) fuel: u64,
    pub(crate) state: StateLook<'a>,
    /// Whether the run goes on; else it ended with this state, in a call or for want of the fuel of the state's hash.
    pub(crate) goes_on: bool,
}

impl<'a> RunUnderWay<'a> {
    pub(crate) fn new(program: &'a WasmProgram) -> Self {
        let room = MemoryRoom {
            bytes: program.limits().pages as usize * PAGE_BYTES,
            failed: false,
        };
        let mut store = Store::new(&program.engine, room);
        store.limiter(|room| room);
        Self {
            program,
            store,
            fuel: program.limits().fuel,
            calls: 0,
            output: Vec::new(),
        }
    }

    /// The whole run; `see` is shown the state after the start and after each chunk, and the one in which a run ended that did not finish.
    pub(crate) fn all(
        &mut self,
        input: &[u8],
        see: &mut dyn FnMut(&CallSeen<'_>),
    ) -> Result<(), RunStop> {
        let (input, exports) = self.start(input)?;
        self.hash(&exports, see)?;
        for chunk in input.chunks() {
            let taken = self.take(&exports, chunk);
            self.ending(&exports, taken, see)?;
            self.hash(&exports, see)?;
        }
        let read = self.read_output(&exports);
        self.ending(&exports, read, see)
    }

    /// How it ended, what it burned, and its output.
    pub(crate) fn into_answer(self, end: ProgramEnd) -> Result<ProgramAnswer, NoMemory> {
        if self.store.data().failed {
            return Err(NoMemory);
        }
        let output = match end {
            ProgramEnd::Finished => self.output,
            _ => Vec::new(),
        };
        Ok(ProgramAnswer {
            end,
            fuel: self.program.limits().fuel - self.fuel,
            calls: self.calls,
            output,
        })
    }

    /// The start of a run: what is paid for it, and the module's own start function.
    pub(crate) fn start(&mut self, input: &[u8]) -> Result<(ProgramInput, Exports), RunStop> {
        let program = self.program;
        self.burn(program.bytes.saturating_mul(FUEL_PER_MODULE_BYTE))?;
        self.burn_bytes(input.len())?;
        let input = program.given(input).ok_or(ProgramEnd::BadInput)?;
        let instance = self.metered(|store| instance_of(program, &program.module, store))?;
        let exports = self.exports(&instance, &input)?;
        Ok((input, exports))
    }

    /// Takes up a run that took so many chunks and burned so much fuel, at its state then. Nothing of it is billed.
    pub(crate) fn restore(
        &mut self,
        input: &ProgramInput,
        (state, chunks, burned): (&ProgramState, usize, u64),
    ) -> Result<Exports, RunStop> {
        let program = self.program;
        self.store.set_fuel(CALL_FUEL_MAX)?;
        let instance = instance_of(program, program.without_start(), &mut self.store)?;
        let exports = self.exports(&instance, input)?;
        let memory = exports.memory;
        let pages = u64::from(state.pages());
        let missing = pages.saturating_sub(memory.size(&self.store));
        let grown = memory.grow(&mut self.store, missing);
        if self.store.data().failed {
            return Err(RunStop::NoMemory);
        }
        // A module may say itself how far its memory grows.
        grown.map_err(|_| ProgramEnd::NoRoom)?;
        state.write_to(memory.data_mut(&mut self.store));
        for (global, value) in exports.globals.iter().zip(state.globals()) {
            global
                .set(&mut self.store, value.to_engine())
                .map_err(|_| ProgramEnd::BadInput)?;
        }
        self.calls = u32::try_from(chunks).unwrap_or(u32::MAX);
        self.fuel = program.limits().fuel.saturating_sub(burned);
        Ok(exports)
    }

    /// A step of a run: its start, a chunk, or the output; the start has no state before it. How the run ends there, if it finishes.
    pub(crate) fn step(
        &mut self,
        input: &[u8],
        (step, state, burned): (usize, Option<&ProgramState>, u64),
        see: &mut dyn FnMut(&CallSeen<'_>),
    ) -> Result<Option<ProgramEnd>, RunStop> {
        let Some(state) = state else {
            let (_, exports) = self.start(input)?;
            self.hash(&exports, see)?;
            return Ok(None);
        };
        let input = self.program.given(input).ok_or(ProgramEnd::BadInput)?;
        let taken = step.saturating_sub(1);
        let exports = self.restore(&input, (state, taken, burned))?;
        match input.chunks().get(taken) {
            Some(chunk) => {
                let taken = self.take(&exports, chunk);
                self.ending(&exports, taken, see)?;
                self.hash(&exports, see)?;
                Ok(None)
            }
            None => {
                let read = self.read_output(&exports);
                self.ending(&exports, read, see)?;
                Ok(Some(ProgramEnd::Finished))
            }
        }
    }

    fn exports(&self, instance: &Instance, input: &ProgramInput) -> Result<Exports, RunStop> {
        // All of them were checked when the module was read.
        let absent = || RunStop::from(ProgramEnd::BadInput);
        let globals = self.program.globals.iter();
        let globals: Option<Vec<Global>> = globals
            .map(|it| instance.get_global(&self.store, &global_name(it.index)))
            .collect();
        let take = match input {
            ProgramInput::Steps(_) => "step",
            ProgramInput::Merge(_) => "merge",
        };
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
    pub(crate) fn take(&mut self, exports: &Exports, chunk: &[u8]) -> Result<(), RunStop> {
        let length = u32::try_from(chunk.len()).map_err(|_| ProgramEnd::NoRoom)?;
        let at = self.metered(|store| exports.alloc.call(store, length))?;
        if at == 0 {
            return Err(ProgramEnd::NoRoom.into());
        }
        let written = exports.memory.write(&mut self.store, at as usize, chunk);
        written.map_err(|_| ProgramEnd::NoRoom)?;
        match self.metered(|store| exports.take.call(store, (at, length)))? {
            0 => {
                self.calls += 1;
                Ok(())
            }
            code => Err(ProgramEnd::Refused(code).into()),
        }
    }

    pub(crate) fn read_output(&mut self, exports: &Exports) -> Result<(), RunStop> {
        let named = self.metered(|store| exports.output.call(store, ()))?;
        let (at, length) = (
            (named >> 32) as usize,
            (named & u64::from(u32::MAX)) as usize,
        );
        if length > self.program.limits().output as usize {
            return Err(ProgramEnd::BadOutput.into());
        }
        self.burn_bytes(length)?;
        let memory = exports.memory.data(&self.store);
        let bytes = memory.get(at..).and_then(|rest| rest.get(..length));
        self.output = bytes.ok_or(ProgramEnd::BadOutput)?.to_vec();
        Ok(())
    }

    /// Shows the state, and pays for its hash.
    pub(crate) fn hash(
        &mut self,
        exports: &Exports,
        see: &mut dyn FnMut(&CallSeen<'_>),
    ) -> Result<(), RunStop> {
        let pages = (exports.memory.data_size(&self.store) / PAGE_BYTES) as u64;
        let paid = burn(&mut self.fuel, pages.saturating_mul(FUEL_PER_PAGE));
        self.show(exports, paid.is_ok(), see);
        paid
    }

    /// Shows the state in which a call ended the run, if it did. Stops: votes on runs that do not finish by who did not run them. One hash
    /// that nobody pays for.
    fn ending(
        &self,
        exports: &Exports,
        called: Result<(), RunStop>,
        see: &mut dyn FnMut(&CallSeen<'_>),
    ) -> Result<(), RunStop> {
        if matches!(called, Err(RunStop::End(_))) {
            self.show(exports, false, see);
        }
        called
    }

    fn show(&self, exports: &Exports, goes_on: bool, see: &mut dyn FnMut(&CallSeen<'_>)) {
        let globals = exports.globals.iter();
        let globals = globals.map(|it| GlobalValue::of_engine(&it.get(&self.store)));
        let memory = exports.memory.data(&self.store);
        see(&CallSeen {
            fuel: self.program.limits().fuel - self.fuel,
            state: StateLook::new(globals.collect(), memory),
            goes_on,
        });
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
        burn(&mut self.fuel, fuel)
    }
}

fn instance_of(
    program: &WasmProgram,
    module: &Module,
    store: &mut Store<MemoryRoom>,
) -> Result<Instance, Error> {
    Linker::new(&program.engine).instantiate_and_start(store, module)
}

/// Takes fuel from what is left.
fn burn(left: &mut u64, fuel: u64) -> Result<(), RunStop> {
    let Some(rest) = left.checked_sub(fuel) else {
        *left = 0;
        return Err(ProgramEnd::OutOfFuel.into());
    };
    *left = rest;
    Ok(())
}
