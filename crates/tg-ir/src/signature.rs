//! What the integers of a program mean to people: names, units, shape and order in the file that the program was made from.
//!
//! Execution and proofs read none of it. It is a part of the program's id all the same, so that whoever holds an answer and
//! the public model reads the same reals and class names as everybody else.

use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};

/// Most axes of a value in a file.
pub const RANK_MAX: usize = 8;
/// Most inputs, and most outputs.
pub const PORTS_MAX: usize = 16;
/// Most bytes of a name.
pub const PORT_NAME_MAX: usize = 128;
/// Most class names of an output.
pub const LABELS_MAX: usize = 65_536;
/// Most bytes of one class name.
pub const LABEL_BYTES_MAX: usize = 256;
/// Most bytes of all class names of an output together.
pub const LABELS_BYTES_MAX: usize = 1 << 20;

/// The inputs and outputs of a program as the file names them.
#[derive(Debug, Clone, PartialEq)]
pub struct Signature {
    /// What a caller gives, in the order of the file.
    pub inputs: Vec<InputPort>,
    /// What a caller gets, in the order of the file.
    pub outputs: Vec<OutputPort>,
}

/// An input in the file. How its reals become integers is [`crate::InputSpec`]'s.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputPort {
    /// Its name.
    pub name: String,
    /// Lengths of its axes.
    pub shape: Vec<u32>,
}

/// An output in the file, and how its integers become reals: `x = (q - zero) * scale`.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputPort {
    /// Its name.
    pub name: String,
    /// Real value of one unit: finite, above 0.
    pub scale: f32,
    /// The integer that stands for 0.
    pub zero: i32,
    /// Lengths of its axes.
    pub shape: Vec<u32>,
    /// Its axes in the order in which the program stores them, outermost first: a permutation.
    pub order: Vec<u8>,
    /// Names of classes: one for each element, or, if the output is one whole number (scale 1, zero 0), one for each that it
    /// may be. Empty: there are none.
    pub labels: Vec<String>,
}

/// Why a signature is not one of its program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// Another number of outputs than the program has.
    #[error("it names {stated} outputs, and the program has {outputs}")]
    Outputs {
        /// In the signature.
        stated: usize,
        /// In the program.
        outputs: usize,
    },
    /// A shape of another number of elements than the program's output.
    #[error("an output of it has {stated} elements, and the program's {elements}")]
    Elements {
        /// In the signature.
        stated: u64,
        /// In the program.
        elements: usize,
    },
    /// A storage order that is no permutation of the axes.
    #[error("the storage order of an output of it is not one of its axes")]
    Order,
    /// Two inputs, or two outputs, of one name: who names one, to hide it or to read it, would mean either.
    #[error("two of its {what} have the name `{name}`")]
    Names {
        /// Inputs or outputs.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// Names of classes that do not fit.
    #[error(
        "it has {labels} class names, and its output {elements} elements; give one name for each, in the order of the file, \
         at most 65,536"
    )]
    Labels {
        /// Names.
        labels: usize,
        /// Elements.
        elements: usize,
    },
}

impl Signature {
    /// Whether it is one of a program whose outputs have so many elements.
    ///
    /// # Errors
    /// What does not fit.
    pub fn check(&self, elements: &[usize]) -> Result<(), SignatureError> {
        let (stated, outputs) = (self.outputs.len(), elements.len());
        if stated != outputs {
            return Err(SignatureError::Outputs { stated, outputs });
        }
        check_names("inputs", self.inputs.iter().map(|it| it.name.as_str()))?;
        check_names("outputs", self.outputs.iter().map(|it| it.name.as_str()))?;
        let mut outputs = self.outputs.iter().zip(elements);
        outputs.try_for_each(|(output, &elements)| output.check(elements))
    }
}

/// Whether names differ; what has none is asked for by its place.
fn check_names<'a>(
    what: &'static str,
    names: impl Iterator<Item = &'a str>,
) -> Result<(), SignatureError> {
    let mut names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    names.sort_unstable();
    let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
    match twice {
        None => Ok(()),
        Some(pair) => Err(SignatureError::Names {
            what,
            name: pair[0].to_owned(),
        }),
    }
}

/// How many elements a value of this shape has.
pub(crate) fn elements_of(shape: &[u32]) -> u64 {
    let lengths = shape.iter().map(|&length| u64::from(length));
    lengths.fold(1, u64::saturating_mul)
}

/// Per element of a value in the order of its axes, its place if they are stored in another `order`, outermost first.
pub(crate) fn sources(shape: &[u32], order: &[u8]) -> Vec<usize> {
    let mut strides = vec![0; shape.len()];
    let mut stride = 1;
    for &axis in order.iter().rev() {
        strides[usize::from(axis)] = stride;
        stride *= shape[usize::from(axis)] as usize;
    }
    let mut sources = vec![0];
    for (&length, stride) in shape.iter().zip(strides) {
        let along = |&from: &usize| (0..length as usize).map(move |at| from + at * stride);
        sources = sources.iter().flat_map(along).collect();
    }
    sources
}

impl OutputPort {
    /// Whether it is one of an output with so many elements.
    fn check(&self, elements: usize) -> Result<(), SignatureError> {
        let stated = elements_of(&self.shape);
        if stated != elements as u64 {
            return Err(SignatureError::Elements { stated, elements });
        }
        let mut axes: Vec<usize> = self.order.iter().map(|&axis| usize::from(axis)).collect();
        axes.sort_unstable();
        if !axes.into_iter().eq(0..self.shape.len()) {
            return Err(SignatureError::Order);
        }
        let labels = self.labels.len();
        let fits = labels == 0 || labels == elements || self.is_whole_number();
        if fits && labels <= LABELS_MAX {
            Ok(())
        } else {
            Err(SignatureError::Labels { labels, elements })
        }
    }

    /// Whether it is one element that counts something, such as the index of a class.
    #[must_use]
    pub fn is_whole_number(&self) -> bool {
        elements_of(&self.shape) == 1 && self.zero == 0 && self.scale.to_bits() == 1.0f32.to_bits()
    }

    /// Per element in the order of the file the element in the program's storage order. The port must be one of the program
    /// ([`Signature::check`]).
    #[must_use]
    pub fn sources(&self) -> Vec<usize> {
        sources(&self.shape, &self.order)
    }

    /// The elements in the order of the file, given those in storage order; missing ones are left out.
    #[must_use]
    pub fn in_file_order(&self, stored: &[i32]) -> Vec<i32> {
        let sources = self.sources();
        let values = sources.iter().map(|&at| stored.get(at).copied());
        values.flatten().collect()
    }

    /// The real value of an element.
    #[must_use]
    pub fn real(&self, value: i32) -> f64 {
        (f64::from(value) - f64::from(self.zero)) * f64::from(self.scale)
    }

    /// The name of the class that the elements choose, given in the order of the file: the greatest one's, the first of equal
    /// ones; or the one that a whole number names.
    #[must_use]
    pub fn label(&self, values: &[i32]) -> Option<&str> {
        let index = if self.is_whole_number() {
            usize::try_from(*values.first()?).ok()?
        } else {
            let greatest = values.iter().max()?;
            values.iter().position(|value| value == greatest)?
        };
        self.labels.get(index).map(String::as_str)
    }
}

impl Encode for Signature {
    fn encode(&self, writer: &mut Writer) {
        let Self { inputs, outputs } = self;
        writer.seq(inputs);
        writer.seq(outputs);
    }
}

impl Decode for Signature {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            inputs: reader.seq("signature inputs", PORTS_MAX, 8)?,
            outputs: reader.seq("signature outputs", PORTS_MAX, 24)?,
        })
    }
}

impl Encode for InputPort {
    fn encode(&self, writer: &mut Writer) {
        let Self { name, shape } = self;
        writer.str(name);
        encode_shape(shape, writer);
    }
}

impl Decode for InputPort {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            name: reader.str("input name", PORT_NAME_MAX)?.to_owned(),
            shape: decode_shape(reader)?,
        })
    }
}

impl Encode for OutputPort {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            name,
            scale,
            zero,
            shape,
            order,
            labels,
        } = self;
        writer.str(name);
        writer.f32(*scale);
        writer.i32(*zero);
        encode_shape(shape, writer);
        order.iter().for_each(|&axis| writer.u8(axis));
        writer.count(labels.len());
        labels.iter().for_each(|label| writer.str(label));
    }
}

impl Decode for OutputPort {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let name = reader.str("output name", PORT_NAME_MAX)?.to_owned();
        let scale = reader.f32("output scale")?;
        if scale <= 0.0 {
            return Err(DecodeError::Invalid {
                field: "output scale",
                value: u64::from(scale.to_bits()),
            });
        }
        let zero = reader.i32()?;
        let shape = decode_shape(reader)?;
        let order = shape.iter().map(|_| reader.u8());
        let order = order.collect::<Result<_, _>>()?;
        let count = reader.count("class names", LABELS_MAX, 4)?;
        let mut labels = Vec::with_capacity(count);
        let mut bytes = 0;
        for _ in 0..count {
            let label = reader.str("class name", LABEL_BYTES_MAX)?;
            bytes += label.len();
            if bytes > LABELS_BYTES_MAX {
                return Err(DecodeError::Invalid {
                    field: "bytes of class names",
                    value: bytes as u64,
                });
            }
            labels.push(label.to_owned());
        }
        Ok(Self {
            name,
            scale,
            zero,
            shape,
            order,
            labels,
        })
    }
}

fn encode_shape(shape: &[u32], writer: &mut Writer) {
    writer.count(shape.len());
    shape.iter().for_each(|&length| writer.u32(length));
}

fn decode_shape(reader: &mut Reader<'_>) -> Result<Vec<u32>, DecodeError> {
    let rank = reader.count("axes", RANK_MAX, 4)?;
    (0..rank).map(|_| reader.u32()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// Two channels of 2 x 3 pixels, stored by row, column and channel.
    fn image() -> OutputPort {
        OutputPort {
            name: "scores".to_owned(),
            scale: 0.5,
            zero: 1,
            shape: vec![1, 2, 2, 3],
            order: vec![0, 2, 3, 1],
            labels: Vec::new(),
        }
    }

    fn with(output: OutputPort) -> Signature {
        Signature {
            inputs: vec![InputPort {
                name: "x".to_owned(),
                shape: vec![1, 3],
            }],
            outputs: vec![output],
        }
    }

    #[test]
    fn elements_come_in_the_order_of_the_file() {
        let output = image();
        assert_eq!(with(output.clone()).check(&[12]), Ok(()));
        // Stored: pixel by pixel, both channels of each.
        let stored: Vec<i32> = (0..12).collect();
        let first = [0, 2, 4, 6, 8, 10];
        let second = [1, 3, 5, 7, 9, 11];
        assert_eq!(output.in_file_order(&stored), [first, second].concat());
        assert_eq!(output.real(3).to_bits(), 1.0f64.to_bits());
        let scalar = OutputPort {
            shape: Vec::new(),
            order: Vec::new(),
            ..image()
        };
        assert_eq!(scalar.in_file_order(&[7]), [7]);
    }

    #[test]
    fn a_class_is_named_by_the_greatest_element_or_by_a_whole_number() {
        let labels: Vec<String> = ["cat", "dog", "eel"].map(str::to_owned).to_vec();
        let scores = OutputPort {
            shape: vec![1, 3],
            order: vec![0, 1],
            labels: labels.clone(),
            ..image()
        };
        assert_eq!(with(scores.clone()).check(&[3]), Ok(()));
        assert_eq!(scores.label(&[5, 9, 9]), Some("dog"));
        let index = OutputPort {
            shape: vec![1],
            order: vec![0],
            scale: 1.0,
            zero: 0,
            labels,
            ..image()
        };
        assert_eq!(with(index.clone()).check(&[1]), Ok(()));
        assert_eq!(index.label(&[2]), Some("eel"));
        assert_eq!(index.label(&[3]), None);
        assert_eq!(index.label(&[-1]), None);
    }

    #[test]
    fn what_does_not_fit_the_program_is_refused() {
        let check = |change: &dyn Fn(&mut OutputPort)| {
            let mut output = image();
            change(&mut output);
            with(output).check(&[12])
        };
        assert_eq!(
            check(&|it| it.shape[0] = 2),
            Err(SignatureError::Elements {
                stated: 24,
                elements: 12
            })
        );
        assert_eq!(
            check(&|it| it.order = vec![0, 2, 3, 2]),
            Err(SignatureError::Order)
        );
        assert_eq!(
            check(&|it| it.order = vec![0, 2, 3]),
            Err(SignatureError::Order)
        );
        assert_eq!(
            check(&|it| it.labels = vec![String::new()]),
            Err(SignatureError::Labels {
                labels: 1,
                elements: 12
            })
        );
        let two = Signature {
            inputs: Vec::new(),
            outputs: vec![image(), image()],
        };
        assert_eq!(
            two.check(&[12]),
            Err(SignatureError::Outputs {
                stated: 2,
                outputs: 1
            })
        );
    }

    #[test]
    fn bytes_are_canonical_and_bounded() {
        let signature = with(OutputPort {
            labels: vec!["é".to_owned(); 12],
            ..image()
        });
        let bytes = signature.to_bytes();
        assert_eq!(Signature::from_bytes(&bytes), Ok(signature));
        for end in 0..bytes.len() {
            Signature::from_bytes(&bytes[..end]).unwrap_err();
        }
        for scale in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            let bytes = with(OutputPort { scale, ..image() }).to_bytes();
            Signature::from_bytes(&bytes).unwrap_err();
        }
        let long = vec!["x".repeat(LABEL_BYTES_MAX); LABELS_BYTES_MAX / LABEL_BYTES_MAX + 1];
        let bytes = with(OutputPort {
            labels: long,
            ..image()
        });
        Signature::from_bytes(&bytes.to_bytes()).unwrap_err();
    }
}
