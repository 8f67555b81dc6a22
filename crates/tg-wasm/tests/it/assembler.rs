//! Modules written by hand: bodies are the bytes of instructions, so that a test can say anything, valid or not.

use tg_wasm::{ProgramFile, ProgramInput, ProgramRefused, ProgramRun, RunLimits, WasmProgram};

pub(crate) const I32: u8 = 0x7f;
pub(crate) const I64: u8 = 0x7e;
pub(crate) const F32: u8 = 0x7d;
pub(crate) const F64: u8 = 0x7c;

/// A function: what it takes and gives, its locals (count, type), its instructions without the last `end`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Function {
    pub(crate) takes: Vec<u8>,
    pub(crate) gives: Vec<u8>,
    pub(crate) locals: Vec<(u32, u8)>,
    pub(crate) body: Vec<u8>,
}

/// A module with what a program must export; tests change what they are about. Functions 0 to 2 are `alloc`, `step` and
/// `output`, further ones come after.
#[derive(Debug, Clone)]
pub(crate) struct Assembler {
    pub(crate) pages: (u32, Option<u32>),
    pub(crate) functions: Vec<Function>,
    /// Type, mutable, instructions of the first value.
    pub(crate) globals: Vec<(u8, bool, Vec<u8>)>,
    pub(crate) table: Option<(u32, Vec<u32>)>,
    pub(crate) data: Vec<(u32, Vec<u8>)>,
    pub(crate) start: Option<u32>,
    pub(crate) imports: Vec<(String, String)>,
    /// Names of functions 0, 1, ..; empty is none.
    pub(crate) names: Vec<&'static str>,
    pub(crate) extra: Vec<(u8, Vec<u8>)>,
}

pub(crate) fn number(mut value: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = value.to_le_bytes()[0] & 0x7f;
        value >>= 7;
        if value == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

pub(crate) fn signed(mut value: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = value.to_le_bytes()[0] & 0x7f;
        value >>= 7;
        let is_last = (value == 0 && low & 0x40 == 0) || (value == -1 && low & 0x40 != 0);
        bytes.push(if is_last { low } else { low | 0x80 });
        if is_last {
            return bytes;
        }
    }
}

/// `i32.const`.
pub(crate) fn i32_const(value: i32) -> Vec<u8> {
    [vec![0x41], signed(value.into())].concat()
}

/// `i64.const`.
pub(crate) fn i64_const(value: i64) -> Vec<u8> {
    [vec![0x42], signed(value)].concat()
}

fn counted(items: &[Vec<u8>]) -> Vec<u8> {
    let count = u32::try_from(items.len()).unwrap();
    [number(count), items.concat()].concat()
}

fn text(text: &str) -> Vec<u8> {
    sized(text.as_bytes().to_vec())
}

fn sized(bytes: Vec<u8>) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap();
    [number(length), bytes].concat()
}

impl Default for Assembler {
    /// Takes chunks at address 16, does nothing with them, and gives the first eight bytes of memory.
    fn default() -> Self {
        let function = |takes: &[u8], gives: &[u8], body: Vec<u8>| Function {
            takes: takes.to_vec(),
            gives: gives.to_vec(),
            locals: Vec::new(),
            body,
        };
        Self {
            pages: (1, None),
            functions: vec![
                function(&[I32], &[I32], i32_const(16)),
                function(&[I32, I32], &[I32], i32_const(0)),
                function(&[], &[I64], i64_const(8)),
            ],
            globals: Vec::new(),
            table: None,
            data: Vec::new(),
            start: None,
            imports: Vec::new(),
            names: vec!["alloc", "step", "output"],
            extra: Vec::new(),
        }
    }
}

impl Assembler {
    /// The module whose `step` is this.
    pub(crate) fn step(body: Vec<u8>) -> Self {
        Self::step_with(Vec::new(), body)
    }

    pub(crate) fn step_with(locals: Vec<(u32, u8)>, body: Vec<u8>) -> Self {
        let mut module = Self::default();
        module.functions[1].body = body;
        module.functions[1].locals = locals;
        module
    }

    pub(crate) fn module(&self) -> Vec<u8> {
        let types = self.functions.iter().map(|function| {
            let types = |types: &[u8]| sized(types.to_vec());
            [vec![0x60], types(&function.takes), types(&function.gives)].concat()
        });
        let index = |index: usize| number(u32::try_from(index).unwrap());
        let types: Vec<Vec<u8>> = types.collect();
        let imports = self
            .imports
            .iter()
            .map(|(module, name)| [text(module), text(name), vec![0], number(0)].concat());
        let mut exports = vec![[text("memory"), vec![2, 0]].concat()];
        for (place, name) in self.names.iter().enumerate() {
            if !name.is_empty() {
                exports.push([text(name), vec![0], index(place + self.imports.len())].concat());
            }
        }
        let globals = self.globals.iter().map(|(kind, is_mutable, value)| {
            [
                vec![*kind, u8::from(*is_mutable)],
                value.clone(),
                vec![0x0b],
            ]
            .concat()
        });
        let bodies = self.functions.iter().map(|function| {
            let locals = function.locals.iter();
            let locals: Vec<Vec<u8>> = locals
                .map(|(n, kind)| [number(*n), vec![*kind]].concat())
                .collect();
            sized([counted(&locals), function.body.clone(), vec![0x0b]].concat())
        });
        let data = self.data.iter().map(|(at, bytes)| {
            let at = i32_const(i32::try_from(*at).unwrap());
            [vec![0], at, vec![0x0b], sized(bytes.clone())].concat()
        });
        let memory = match self.pages {
            (least, None) => [vec![0], number(least)].concat(),
            (least, Some(most)) => [vec![1], number(least), number(most)].concat(),
        };
        let functions: Vec<Vec<u8>> = (0..self.functions.len()).map(index).collect();
        let mut sections = vec![(1, counted(&types))];
        if !self.imports.is_empty() {
            sections.push((2, counted(&imports.collect::<Vec<_>>())));
        }
        sections.push((3, counted(&functions)));
        if let Some((elements, _)) = &self.table {
            sections.push((4, counted(&[[vec![0x70, 0], number(*elements)].concat()])));
        }
        sections.push((5, counted(&[memory])));
        sections.push((6, counted(&globals.collect::<Vec<_>>())));
        sections.push((7, counted(&exports)));
        sections.extend(self.start.map(|start| (8, number(start))));
        if let Some((_, elements)) = &self.table {
            let elements: Vec<Vec<u8>> = elements.iter().map(|it| number(*it)).collect();
            let segment = [vec![0], i32_const(0), vec![0x0b], counted(&elements)].concat();
            sections.push((9, counted(&[segment])));
        }
        sections.push((10, counted(&bodies.collect::<Vec<_>>())));
        sections.push((11, counted(&data.collect::<Vec<_>>())));
        sections.extend(self.extra.clone());
        let mut bytes = b"\0asm\x01\0\0\0".to_vec();
        for (id, contents) in sections {
            bytes.push(id);
            bytes.extend(sized(contents));
        }
        bytes
    }

    pub(crate) fn read(&self) -> Result<WasmProgram, ProgramRefused> {
        self.read_with(RunLimits::default())
    }

    pub(crate) fn read_with(&self, limits: RunLimits) -> Result<WasmProgram, ProgramRefused> {
        WasmProgram::read(&ProgramFile::new(self.module(), limits).encode())
    }

    /// Runs it on one chunk of four bytes.
    pub(crate) fn run(&self) -> ProgramRun {
        self.read().unwrap().run(&one_chunk())
    }
}

pub(crate) fn one_chunk() -> Vec<u8> {
    ProgramInput::steps(vec![vec![1, 2, 3, 4]]).encode()
}
