//! Sizes and costs of the profile. They are part of its version: a change is another profile.

/// Version of the profile: what a module may hold, what each step costs, and the engine whose meaning of a stack overflow
/// holds (wasmi 2.0). A program file names it.
pub const PROFILE_VERSION: u16 = 2;

/// Bytes of a module: checking and translating one takes time in proportion, before any fuel is burned.
pub const MODULE_BYTES_MAX: usize = 512 << 10;

/// Bytes of a program file: the module and a head.
pub const FILE_BYTES_MAX: u64 = (MODULE_BYTES_MAX + 64) as u64;

/// Fuel of one run. One unit is about one instruction; what the dearest take is measured in `docs/PROGRAMS.md`.
/// It bounds what a watcher, an accuser and a provider pay for a run, in mode `optimistic`: some seconds of a core, a minute for the dearest.
pub const FUEL_MAX: u64 = 1 << 31;

/// Most fuel of a run that every validator may be asked to repeat. A longer one is made of several calls, and a dispute about it ends at one.
pub const REPEATED_FUEL_MAX: u64 = 200_000_000;

/// Pages of memory of a program of more fuel than [`REPEATED_FUEL_MAX`]: any state of it can be shown, so that nobody has to repeat it.
pub const LONG_PAGES_MAX: u32 = 191;

/// Fuel of one call into the program: what a dispute over one costs, which is one for its room and one for the chunk.
pub const CALL_FUEL_MAX: u64 = 100_000_000;

const _: () = assert!(2 * CALL_FUEL_MAX <= REPEATED_FUEL_MAX);

/// Fuel of a run whose file says nothing else.
pub const FUEL_USUAL: u64 = 100_000_000;

/// Pages (64 KiB) of memory: 32 MiB, so that two checks at once cost a validator 64 MiB.
pub const PAGES_MAX: u32 = 512;

/// Bytes of a page of memory.
pub(crate) const PAGE_BYTES: usize = 64 << 10;

/// Chunks of one input: each is a call, after which the state is hashed.
pub const CHUNKS_MAX: usize = 1_024;

/// Bytes of an output: the answer around it must fit into evidence.
pub const OUTPUT_BYTES_MAX: u32 = (1 << 20) - 64;

/// Elements of a module's table.
pub const TABLE_ELEMENTS_MAX: u64 = 16_384;

/// Types and functions of a module.
pub const FUNCTIONS_MAX: u32 = 10_000;

/// Globals of a module, whose values are hashed after each call.
pub const GLOBALS_MAX: u32 = 256;

/// Local variables of one function beside its parameters: a call sets all of them to zero.
pub const LOCALS_MAX: u32 = 256;

/// Targets of one jump table.
pub const TARGETS_MAX: u32 = 4_096;

/// Segments of data and of elements, and exports, each.
pub const SEGMENTS_MAX: u32 = 1_024;

/// Calls inside each other.
pub const CALL_DEPTH_MAX: usize = 512;

/// Bytes of the values of all calls inside each other.
pub const STACK_BYTES_MAX: usize = 1 << 20;

/// Fuel of a run for each byte of its module: making it ready.
pub const FUEL_PER_MODULE_BYTE: u64 = 16;

/// Fuel of a call for each page of memory: hashing the state after it.
pub const FUEL_PER_PAGE: u64 = 8_192;

/// Bytes that are copied, filled or newly allocated for a unit of fuel.
pub const BYTES_PER_FUEL: u32 = 16;

/// Fuel of a call inside the module: it sets up to [`LOCALS_MAX`] values to zero.
pub const FUEL_PER_INNER_CALL: u8 = 16;

/// Fuel of growing memory, beside its bytes.
pub const FUEL_PER_GROWTH: u8 = 250;

/// Fuel of a division and of a square root.
pub const FUEL_PER_DIVISION: u8 = 4;

/// Fuel of reading memory. Each of a chain of reads whose address is what the one before gave waits for memory, some 115 ns
/// within 32 MiB: 30 ns for a unit, as the dearest others.
pub const FUEL_PER_LOAD: u8 = 4;
