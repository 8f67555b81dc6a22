//! CPU in the units that tables and shapes count in.

/// One unit of CPU in the tables, in thousandths of a core. Coarser tables are smaller and make more machines look
/// alike; on the trace two cores did no worse than a thousandth of one.
pub const CPU_UNIT_MILLI: u32 = 2_000;

/// Most units that are told apart (1,024 cores); machines with more count as having these.
pub const CPU_UNITS_MAX: u16 = 512;

/// Units of `milli` thousandths of a core, rounded down and capped.
#[must_use]
pub const fn cpu_units_floor(milli: u32) -> u16 {
    let units = milli / CPU_UNIT_MILLI;
    if units > CPU_UNITS_MAX as u32 {
        CPU_UNITS_MAX
    } else {
        units as u16
    }
}

/// Units of `milli` thousandths of a core, rounded up and capped.
#[must_use]
pub const fn cpu_units_ceil(milli: u32) -> u16 {
    let units = milli.div_ceil(CPU_UNIT_MILLI);
    if units > CPU_UNITS_MAX as u32 {
        CPU_UNITS_MAX
    } else {
        units as u16
    }
}
