//! The part of Python's pickle that a file of weights needs: dictionaries, tuples, texts and numbers, and of all the functions
//! that a pickle can call only those that put a tensor together. Nothing of it is executed.

use std::rc::Rc;

/// Most bytes of a pickle.
pub(crate) const PICKLE_MAX: u64 = 64 << 20;
/// Most instructions of a pickle.
const STEPS_MAX: usize = 1 << 24;
/// How deep values may lie in each other.
const DEPTH_MAX: u32 = 24;
/// Most axes of a tensor.
const RANK_MAX: usize = 8;

/// Why a pickle is not taken.
#[derive(Debug, thiserror::Error)]
pub enum PickleProblem {
    /// It names a function or a class that no file of weights needs.
    #[error("it asks for `{name}`, which a file of weights does not need")]
    Global {
        /// The name, with its module.
        name: String,
    },
    /// An instruction that no file of weights needs.
    #[error("it has the instruction {code:#04x}, which a file of weights does not need")]
    Instruction {
        /// The byte.
        code: u8,
    },
    /// It does not give a dictionary of tensors, or is malformed.
    #[error("it is not a dictionary of tensors by name")]
    Malformed,
    /// It is larger than its limits.
    #[error("it is larger than a file of weights is")]
    TooLarge,
}

/// A tensor as elements of a storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TensorView {
    /// Name of the storage's class, such as `FloatStorage`.
    pub(crate) storage: Rc<str>,
    /// Name of the storage's file.
    pub(crate) key: Rc<str>,
    pub(crate) offset: usize,
    pub(crate) shape: Vec<usize>,
    pub(crate) strides: Vec<usize>,
}

/// A tensor with its name.
type NamedView = (Rc<str>, Rc<TensorView>);

/// A value on the stack.
#[derive(Debug, Clone)]
enum PickleValue {
    /// `None`, a truth value, a float: nothing that a tensor is read from.
    Other,
    Int(i64),
    Text(Rc<str>),
    Global(Rc<str>),
    Tuple(Rc<Vec<Self>>, u32),
    /// A dictionary, with the tensors among its items; what else it holds is not kept.
    Dict(Vec<NamedView>),
    Storage(Rc<str>, Rc<str>),
    Tensor(Rc<TensorView>),
}

impl PickleValue {
    fn depth(&self) -> u32 {
        match self {
            Self::Tuple(_, depth) => *depth,
            _ => 0,
        }
    }

    fn tuple(items: Vec<Self>) -> Result<Self, PickleProblem> {
        let depth = 1 + items.iter().map(Self::depth).max().unwrap_or(0);
        if depth > DEPTH_MAX {
            return Err(PickleProblem::TooLarge);
        }
        Ok(Self::Tuple(Rc::new(items), depth))
    }

    /// A list of numbers that are not negative.
    fn sizes(&self) -> Option<Vec<usize>> {
        let Self::Tuple(items, _) = self else {
            return None;
        };
        let size = |item: &Self| match item {
            Self::Int(number) => usize::try_from(*number).ok(),
            _ => None,
        };
        items.iter().map(size).collect()
    }
}

/// The dictionary's tensors.
pub(crate) fn tensors(pickle: &[u8]) -> Result<Vec<NamedView>, PickleProblem> {
    let mut machine = PickleReader {
        rest: pickle,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: Vec::new(),
    };
    for _ in 0..STEPS_MAX {
        if machine.step()? {
            return match machine.pop()? {
                PickleValue::Dict(items) => Ok(items),
                _ => Err(PickleProblem::Malformed),
            };
        }
    }
    Err(PickleProblem::TooLarge)
}

/// A pickle that is being read.
struct PickleReader<'a> {
    rest: &'a [u8],
    stack: Vec<PickleValue>,
    /// Lengths of the stack at the marks.
    marks: Vec<usize>,
    memo: Vec<PickleValue>,
}

impl<'a> PickleReader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], PickleProblem> {
        let (own, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or(PickleProblem::Malformed)?;
        self.rest = rest;
        Ok(own)
    }

    fn number(&mut self, bytes: usize) -> Result<usize, PickleProblem> {
        let own = self.take(bytes)?.iter().rev();
        Ok(own.fold(0, |all, &byte| all << 8 | usize::from(byte)))
    }

    fn text(&mut self, length: usize) -> Result<Rc<str>, PickleProblem> {
        let bytes = self.take(length)?;
        let text = std::str::from_utf8(bytes).map_err(|_| PickleProblem::Malformed)?;
        Ok(text.into())
    }

    /// Up to the next line's start.
    fn line(&mut self) -> Result<Rc<str>, PickleProblem> {
        let end = self.rest.iter().position(|&byte| byte == b'\n');
        let line = self.text(end.ok_or(PickleProblem::Malformed)?)?;
        self.take(1)?;
        Ok(line)
    }

    fn pop(&mut self) -> Result<PickleValue, PickleProblem> {
        let floor = self.marks.last().copied().unwrap_or(0);
        if self.stack.len() <= floor {
            return Err(PickleProblem::Malformed);
        }
        self.stack.pop().ok_or(PickleProblem::Malformed)
    }

    fn since_mark(&mut self) -> Result<Vec<PickleValue>, PickleProblem> {
        let mark = self.marks.pop().ok_or(PickleProblem::Malformed)?;
        Ok(self.stack.split_off(mark.min(self.stack.len())))
    }

    fn last_ones(&mut self, count: usize) -> Result<(), PickleProblem> {
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(self.pop()?);
        }
        items.reverse();
        self.stack.push(PickleValue::tuple(items)?);
        Ok(())
    }

    /// One instruction; whether it was the last.
    fn step(&mut self) -> Result<bool, PickleProblem> {
        let code = self.take(1)?[0];
        match code {
            b'.' => return Ok(true),
            0x80 => drop(self.take(1)?),
            0x95 => drop(self.take(8)?),
            b'(' => self.marks.push(self.stack.len()),
            b'N' | 0x88 | 0x89 => self.stack.push(PickleValue::Other),
            b'G' => {
                self.take(8)?;
                self.stack.push(PickleValue::Other);
            }
            b'}' => self.stack.push(PickleValue::Dict(Vec::new())),
            b')' | b']' => self.stack.push(PickleValue::tuple(Vec::new())?),
            b'K' | b'M' | b'J' | 0x8a => self.integer(code)?,
            b'X' | 0x8c | b'U' | b'T' => {
                let length = self.number(if matches!(code, b'X' | b'T') { 4 } else { 1 })?;
                let text = self.text(length)?;
                self.stack.push(PickleValue::Text(text));
            }
            b'q' | b'r' | 0x94 => self.remember(code)?,
            b'h' | b'j' => {
                let index = self.number(if code == b'h' { 1 } else { 4 })?;
                let value = self.memo.get(index).ok_or(PickleProblem::Malformed)?;
                self.stack.push(value.clone());
            }
            b't' => {
                let items = self.since_mark()?;
                self.stack.push(PickleValue::tuple(items)?);
            }
            0x85..=0x87 => self.last_ones(usize::from(code - 0x84))?,
            b'c' => {
                let [module, name] = [self.line()?, self.line()?];
                self.global(&module, &name)?;
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                let (PickleValue::Text(module), PickleValue::Text(name)) = (module, name) else {
                    return Err(PickleProblem::Malformed);
                };
                self.global(&module, &name)?;
            }
            b'Q' => self.stored()?,
            b'R' => self.call()?,
            // The state of an object (what a dictionary has beside its items), or an item of a list: not kept.
            b'b' | b'a' => drop(self.pop()?),
            b'e' => drop(self.since_mark()?),
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.items(&[key, value])?;
            }
            b'u' => {
                let items = self.since_mark()?;
                self.items(&items)?;
            }
            _ => return Err(PickleProblem::Instruction { code }),
        }
        Ok(false)
    }

    fn integer(&mut self, code: u8) -> Result<(), PickleProblem> {
        let bytes = match code {
            b'K' => 1,
            b'M' => 2,
            b'J' => 4,
            _ => self.number(1)?,
        };
        if bytes > 8 {
            return Err(PickleProblem::Malformed);
        }
        let own = self.take(bytes)?;
        let signed = matches!(code, b'J' | 0x8a) && own.last().is_some_and(|&top| top >= 0x80);
        let mut wide = [if signed { 0xff } else { 0 }; 8];
        wide[..bytes].copy_from_slice(own);
        self.stack.push(PickleValue::Int(i64::from_le_bytes(wide)));
        Ok(())
    }

    fn remember(&mut self, code: u8) -> Result<(), PickleProblem> {
        let index = match code {
            b'q' => self.number(1)?,
            b'r' => self.number(4)?,
            _ => self.memo.len(),
        };
        // Indices are given out in order.
        if index > self.memo.len() {
            return Err(PickleProblem::Malformed);
        }
        let value = match self.stack.last().ok_or(PickleProblem::Malformed)? {
            // A dictionary that is filled later: nobody reads it again.
            PickleValue::Dict(_) => PickleValue::Other,
            value => value.clone(),
        };
        if index == self.memo.len() {
            self.memo.push(value);
        } else {
            self.memo[index] = value;
        }
        Ok(())
    }

    /// A function or class that a file of weights needs.
    fn global(&mut self, module: &str, name: &str) -> Result<(), PickleProblem> {
        let known = match module {
            "collections" => name == "OrderedDict",
            "torch._utils" => ["_rebuild_tensor_v2", "_rebuild_parameter"].contains(&name),
            "torch" => name.ends_with("Storage"),
            _ => false,
        };
        if !known {
            let name = format!("{module}.{name}").chars().take(200).collect();
            return Err(PickleProblem::Global { name });
        }
        self.stack.push(PickleValue::Global(name.into()));
        Ok(())
    }

    /// A storage: `("storage", class, name of the file, device, elements)`.
    fn stored(&mut self) -> Result<(), PickleProblem> {
        let PickleValue::Tuple(items, _) = self.pop()? else {
            return Err(PickleProblem::Malformed);
        };
        let [
            PickleValue::Text(word),
            PickleValue::Global(class),
            PickleValue::Text(key),
            ..,
        ] = items.as_slice()
        else {
            return Err(PickleProblem::Malformed);
        };
        if &**word != "storage" {
            return Err(PickleProblem::Malformed);
        }
        let storage = PickleValue::Storage(Rc::clone(class), Rc::clone(key));
        self.stack.push(storage);
        Ok(())
    }

    fn call(&mut self) -> Result<(), PickleProblem> {
        let (arguments, function) = (self.pop()?, self.pop()?);
        let (PickleValue::Tuple(arguments, _), PickleValue::Global(function)) =
            (arguments, function)
        else {
            return Err(PickleProblem::Malformed);
        };
        let value = match (&*function, arguments.as_slice()) {
            ("OrderedDict", _) => PickleValue::Dict(Vec::new()),
            ("_rebuild_parameter", [tensor @ PickleValue::Tensor(_), ..]) => tensor.clone(),
            (
                "_rebuild_tensor_v2",
                [
                    PickleValue::Storage(class, key),
                    PickleValue::Int(offset),
                    shape,
                    strides,
                    ..,
                ],
            ) => {
                let found = (
                    usize::try_from(*offset).ok(),
                    shape.sizes(),
                    strides.sizes(),
                );
                let (Some(offset), Some(shape), Some(strides)) = found else {
                    return Err(PickleProblem::Malformed);
                };
                if shape.len() != strides.len() || shape.len() > RANK_MAX {
                    return Err(PickleProblem::Malformed);
                }
                PickleValue::Tensor(Rc::new(TensorView {
                    storage: Rc::clone(class),
                    key: Rc::clone(key),
                    offset,
                    shape,
                    strides,
                }))
            }
            _ => return Err(PickleProblem::Malformed),
        };
        self.stack.push(value);
        Ok(())
    }

    /// Puts keys and values into the dictionary below them.
    fn items(&mut self, items: &[PickleValue]) -> Result<(), PickleProblem> {
        let Some(PickleValue::Dict(own)) = self.stack.last_mut() else {
            return Err(PickleProblem::Malformed);
        };
        for pair in items.chunks_exact(2) {
            if let [PickleValue::Text(name), PickleValue::Tensor(tensor)] = pair {
                own.push((Rc::clone(name), Rc::clone(tensor)));
            }
        }
        Ok(())
    }
}
