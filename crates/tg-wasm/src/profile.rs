//! What a module may hold. It is looked at before anything is translated, so that nothing in it can cost more than its bytes.

use wasmparser::{BinaryReaderError, FunctionBody, Operator, Parser, Payload, ValType};

use crate::limits::{
    FUNCTIONS_MAX, GLOBALS_MAX, LOCALS_MAX, MODULE_BYTES_MAX, SEGMENTS_MAX, TABLE_ELEMENTS_MAX,
    TARGETS_MAX,
};

/// Begins the names under which globals are exported for the hash of the state; no module may use it.
const GLOBAL_NAME: &str = "tg:global:";

/// Why a module is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModuleError {
    /// It is no module, or not a valid one under the profile's features.
    #[error("the module is not valid: {reason}")]
    Invalid {
        /// What is wrong and where.
        reason: String,
    },
    /// It imports something: a program has nothing but its input.
    #[error("the module imports something, and a program has nothing but its input")]
    Imports,
    /// It has more of something than the profile allows.
    #[error("the module has {got} {what}, at most {limit} are allowed")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        got: u64,
        /// How many are allowed.
        limit: u64,
    },
    /// It uses an instruction that the profile leaves out.
    #[error("the module uses {instruction}, which the profile leaves out")]
    Instruction {
        /// Which.
        instruction: &'static str,
    },
    /// It does not export what a program must, or not of this type.
    #[error("the module does not export {export}")]
    Export {
        /// What, with its type.
        export: &'static str,
    },
}

/// What is known of a module that the profile allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModuleFacts {
    /// Functions of its own.
    pub functions: u32,
    /// Pages of memory that it starts with.
    pub pages: u32,
    /// Mutable globals, whose values are part of the state.
    pub globals: u32,
    /// Whether something runs before the first chunk.
    pub has_start: bool,
    /// Whether it exports `merge`.
    pub has_merge: bool,
}

/// What the look at a module found.
pub(crate) struct ModuleLook {
    pub(crate) functions: u32,
    pub(crate) pages: u64,
    pub(crate) has_start: bool,
    pub(crate) mutable: Vec<MutableGlobal>,
}

/// A global whose value is part of the state.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MutableGlobal {
    pub(crate) index: u32,
    /// Its type: 0 i32, 1 i64, 2 f32, 3 f64.
    pub(crate) kind: u8,
}

fn invalid(error: &BinaryReaderError) -> ModuleError {
    ModuleError::Invalid {
        reason: error.to_string(),
    }
}

fn bounded(what: &'static str, got: u64, limit: u64) -> Result<(), ModuleError> {
    if got > limit {
        return Err(ModuleError::TooMany { what, got, limit });
    }
    Ok(())
}

/// Looks at every section and instruction of a module against the profile; its types are checked when it is translated.
pub(crate) fn look(module: &[u8], pages_max: u32) -> Result<ModuleLook, ModuleError> {
    bounded("bytes", module.len() as u64, MODULE_BYTES_MAX as u64)?;
    let mut found = ModuleLook {
        functions: 0,
        pages: 0,
        has_start: false,
        mutable: Vec::new(),
    };
    for payload in Parser::new(0).parse_all(module) {
        match payload.map_err(|error| invalid(&error))? {
            Payload::ImportSection(section) if section.count() > 0 => {
                return Err(ModuleError::Imports);
            }
            Payload::TypeSection(section) => {
                bounded("types", section.count().into(), FUNCTIONS_MAX.into())?;
                for function in section.into_iter_err_on_gc_types() {
                    let function = function.map_err(|error| invalid(&error))?;
                    let mut types = function.params().iter().chain(function.results());
                    types.try_for_each(|it| numeric(*it).map(|_| ()))?;
                }
            }
            Payload::FunctionSection(section) => {
                found.functions = section.count();
                bounded("functions", section.count().into(), FUNCTIONS_MAX.into())?;
            }
            Payload::TableSection(section) => {
                bounded("tables", section.count().into(), 1)?;
                for table in section {
                    let initial = table.map_err(|error| invalid(&error))?.ty.initial;
                    bounded("table elements", initial, TABLE_ELEMENTS_MAX)?;
                }
            }
            Payload::MemorySection(section) => {
                bounded("memories", section.count().into(), 1)?;
                for memory in section {
                    found.pages = memory.map_err(|error| invalid(&error))?.initial;
                    bounded("pages of memory", found.pages, pages_max.into())?;
                }
            }
            Payload::GlobalSection(section) => {
                bounded("globals", section.count().into(), GLOBALS_MAX.into())?;
                for (index, global) in (0..).zip(section) {
                    let kind = global.map_err(|error| invalid(&error))?.ty;
                    let is_mutable = kind.mutable;
                    let kind = numeric(kind.content_type)?;
                    if is_mutable {
                        found.mutable.push(MutableGlobal { index, kind });
                    }
                }
            }
            Payload::ExportSection(section) => {
                bounded("exports", section.count().into(), SEGMENTS_MAX.into())?;
            }
            Payload::ElementSection(section) => {
                bounded(
                    "element segments",
                    section.count().into(),
                    SEGMENTS_MAX.into(),
                )?;
            }
            Payload::DataSection(section) => {
                bounded("data segments", section.count().into(), SEGMENTS_MAX.into())?;
            }
            Payload::StartSection { .. } => found.has_start = true,
            Payload::CodeSectionEntry(body) => look_at_body(&body)?,
            // What else there is, translation refuses or has no meaning.
            _ => {}
        }
    }
    Ok(found)
}

/// The number of a type in states. Refuses one that is no number: references cannot be hashed.
const fn numeric(kind: ValType) -> Result<u8, ModuleError> {
    match kind {
        ValType::I32 => Ok(0),
        ValType::I64 => Ok(1),
        ValType::F32 => Ok(2),
        ValType::F64 => Ok(3),
        ValType::V128 | ValType::Ref(_) => Err(ModuleError::Instruction {
            instruction: "a value that is no number",
        }),
    }
}

fn look_at_body(body: &FunctionBody<'_>) -> Result<(), ModuleError> {
    let invalid = |error| invalid(&error);
    let mut locals = 0_u64;
    for group in body.get_locals_reader().map_err(invalid)? {
        let (count, kind) = group.map_err(invalid)?;
        numeric(kind)?;
        locals = locals.saturating_add(count.into());
        bounded("locals of a function", locals, LOCALS_MAX.into())?;
    }
    for operator in body.get_operators_reader().map_err(invalid)? {
        let instruction = match operator.map_err(invalid)? {
            Operator::BrTable { targets } => {
                bounded(
                    "targets of a jump table",
                    targets.len().into(),
                    TARGETS_MAX.into(),
                )?;
                continue;
            }
            Operator::MemoryInit { .. } => "memory.init",
            Operator::DataDrop { .. } => "data.drop",
            Operator::TableInit { .. } => "table.init",
            Operator::TableCopy { .. } => "table.copy",
            Operator::TableGet { .. } => "table.get",
            Operator::TableSet { .. } => "table.set",
            Operator::TableGrow { .. } => "table.grow",
            Operator::TableSize { .. } => "table.size",
            Operator::TableFill { .. } => "table.fill",
            Operator::ElemDrop { .. } => "elem.drop",
            Operator::RefNull { .. } => "ref.null",
            Operator::RefIsNull => "ref.is_null",
            Operator::RefFunc { .. } => "ref.func",
            _ => continue,
        };
        return Err(ModuleError::Instruction { instruction });
    }
    Ok(())
}

/// The name under which a global is exported for the hash of the state.
pub(crate) fn global_name(index: u32) -> String {
    format!("{GLOBAL_NAME}{index}")
}

const EXPORT_SECTION: u8 = 7;
const START_SECTION: u8 = 8;
const GLOBAL_EXPORT: u8 = 3;

/// The module with its mutable globals exported beside what it exports. The rest of its bytes is the same.
pub(crate) fn with_exported_globals(
    module: &[u8],
    globals: &[MutableGlobal],
) -> Result<Vec<u8>, ModuleError> {
    let mut written = Vec::new();
    each_section(module, &mut |part| {
        match part {
            ModulePart::Section(EXPORT_SECTION, contents, _) => {
                let extended = extended(contents, globals).ok_or_else(cut_off)?;
                written.push(EXPORT_SECTION);
                let length = u32::try_from(extended.len()).map_err(|_| cut_off())?;
                write_number(&mut written, length);
                written.extend_from_slice(&extended);
            }
            ModulePart::Head(whole) | ModulePart::Section(_, _, whole) => {
                written.extend_from_slice(whole);
            }
        }
        Ok(())
    })?;
    Ok(written)
}

/// The module without the start of it. The rest of its bytes is the same.
pub(crate) fn without_start(module: &[u8]) -> Result<Vec<u8>, ModuleError> {
    let mut written = Vec::new();
    each_section(module, &mut |part| {
        match part {
            ModulePart::Section(START_SECTION, ..) => {}
            ModulePart::Head(whole) | ModulePart::Section(_, _, whole) => {
                written.extend_from_slice(whole);
            }
        }
        Ok(())
    })?;
    Ok(written)
}

/// A part of a module's bytes.
enum ModulePart<'a> {
    /// Magic and version.
    Head(&'a [u8]),
    /// The id of a section, its contents, and all of its bytes.
    Section(u8, &'a [u8], &'a [u8]),
}

/// Goes through the parts of a module.
fn each_section(
    module: &[u8],
    see: &mut dyn FnMut(ModulePart<'_>) -> Result<(), ModuleError>,
) -> Result<(), ModuleError> {
    let (head, mut rest) = module.split_at_checked(8).ok_or_else(cut_off)?;
    see(ModulePart::Head(head))?;
    while let Some((id, after)) = rest.split_first() {
        let (length, after) = number(after).ok_or_else(cut_off)?;
        let (contents, after) = after
            .split_at_checked(length as usize)
            .ok_or_else(cut_off)?;
        let whole = &rest[..rest.len() - after.len()];
        see(ModulePart::Section(*id, contents, whole))?;
        rest = after;
    }
    Ok(())
}

fn cut_off() -> ModuleError {
    ModuleError::Invalid {
        reason: "a section is cut off".to_owned(),
    }
}

/// The contents of an export section with the globals after its own exports.
fn extended(contents: &[u8], globals: &[MutableGlobal]) -> Option<Vec<u8>> {
    let (count, entries) = number(contents)?;
    let added = u32::try_from(globals.len()).ok()?;
    let mut written = Vec::new();
    write_number(&mut written, count.checked_add(added)?);
    written.extend_from_slice(entries);
    for global in globals {
        let name = global_name(global.index);
        write_number(&mut written, u32::try_from(name.len()).ok()?);
        written.extend_from_slice(name.as_bytes());
        written.push(GLOBAL_EXPORT);
        write_number(&mut written, global.index);
    }
    Some(written)
}

/// Reads a LEB128 number of at most five bytes.
fn number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let mut value = 0_u64;
    for (index, byte) in bytes.iter().enumerate().take(5) {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((u32::try_from(value).ok()?, &bytes[index + 1..]));
        }
    }
    None
}

fn write_number(to: &mut Vec<u8>, mut value: u32) {
    loop {
        let low = value.to_le_bytes()[0] & 0x7f;
        value >>= 7;
        if value == 0 {
            to.push(low);
            return;
        }
        to.push(low | 0x80);
    }
}
