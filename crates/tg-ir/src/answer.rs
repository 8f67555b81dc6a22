//! The integers of an output, as reals in the order of the model's file.

use crate::program::Program;
use crate::shape::TensorId;
use crate::signature::OutputPort;

/// The integers of one output, of one inference or of several one after the other, in storage order.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    port: Option<&'a OutputPort>,
    tensor: TensorId,
    values: &'a [i32],
    /// Elements of all outputs of one inference.
    all: usize,
    /// Where this output's begin among them.
    start: usize,
    /// How many it has.
    elements: usize,
}

impl<'a> Answer<'a> {
    /// The first output of what a program gave: `values` are the integers of all outputs of one inference, one output after the
    /// other, then those of the next. `values` that are no whole number of inferences lose the last, incomplete one.
    #[must_use]
    pub fn new(program: &'a Program, values: &'a [i32]) -> Self {
        Self::all(program, values).swap_remove(0)
    }

    /// All outputs of what a program gave, in order, see [`Self::new`].
    #[must_use]
    pub fn all(program: &'a Program, values: &'a [i32]) -> Vec<Self> {
        let all = program.output_elements();
        let signature = program.signature.as_ref();
        let mut start = 0;
        let outputs = program.outputs().into_iter().enumerate();
        outputs
            .map(|(index, tensor)| {
                let elements = program.shape(tensor).elements();
                let first = start;
                start += elements;
                Self {
                    port: signature.and_then(|signature| signature.outputs.get(index)),
                    tensor,
                    values,
                    all,
                    start: first,
                    elements,
                }
            })
            .collect()
    }

    /// What the output is called and what its integers mean; nothing if the program was not made from a file, or does not
    /// give the file's output.
    #[must_use]
    pub const fn port(&self) -> Option<&'a OutputPort> {
        self.port
    }

    /// The program's tensor that is this output.
    #[must_use]
    pub const fn tensor(&self) -> TensorId {
        self.tensor
    }

    /// The output of one inference after the other, in storage order.
    pub fn stored(&self) -> impl Iterator<Item = &'a [i32]> + use<'a> {
        let own = self.start..self.start + self.elements;
        let inferences = self.values.chunks_exact(self.all);
        inferences.map(move |values| &values[own.clone()])
    }

    /// The output of one inference after the other, each in the order of the file; in storage order if there is no port.
    pub fn each(&self) -> impl Iterator<Item = Vec<i32>> + use<'a> {
        let port = self.port;
        self.stored().map(move |stored| match port {
            Some(port) => port.in_file_order(stored),
            None => stored.to_vec(),
        })
    }

    /// All reals, in the order of [`Self::each`]; the integers themselves if there is no port.
    #[must_use]
    pub fn reals(&self) -> Vec<f64> {
        let real = |value| self.port.map_or(f64::from(value), |port| port.real(value));
        self.each().flatten().map(real).collect()
    }

    /// The name of the class that the output of the first inference chooses, if the model has names of classes.
    #[must_use]
    pub fn label(&self) -> Option<&'a str> {
        self.port?.label(&self.each().next()?)
    }
}
