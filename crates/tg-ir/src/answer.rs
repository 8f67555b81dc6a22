//! The integers of an output, as reals in the order of the model's file.

use crate::program::Program;
use crate::signature::OutputPort;

/// The integers of an output, of one inference or of several one after the other, in storage order.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    port: Option<&'a OutputPort>,
    values: &'a [i32],
    elements: usize,
}

impl<'a> Answer<'a> {
    /// What a program gave. `values` that are no whole number of outputs lose the last, incomplete one.
    #[must_use]
    pub fn new(program: &'a Program, values: &'a [i32]) -> Self {
        let signature = program.signature.as_ref();
        Self {
            port: signature.and_then(|signature| signature.outputs.first()),
            values,
            elements: program.shape(program.output()).elements(),
        }
    }

    /// What the output is called and what its integers mean; nothing if the program was not made from a file, or does not
    /// give the file's output.
    #[must_use]
    pub const fn port(&self) -> Option<&'a OutputPort> {
        self.port
    }

    /// The outputs one by one, in storage order.
    pub fn stored(&self) -> impl Iterator<Item = &'a [i32]> + use<'a> {
        self.values.chunks_exact(self.elements)
    }

    /// The outputs one by one, each in the order of the file; in storage order if there is no port.
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

    /// The name of the class that the first output chooses, if the model has names of classes.
    #[must_use]
    pub fn label(&self) -> Option<&'a str> {
        self.port?.label(&self.each().next()?)
    }
}
