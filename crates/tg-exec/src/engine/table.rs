//! Rows of tables of weights.

use super::context::Context;
use super::values::{ValuesMut, each, wide};
use tg_ir::{NodeWeights, op};

/// Rows of a table of weights.
#[derive(Debug)]
pub(super) struct Embedded {
    embed: op::Embed,
    channels: usize,
    table: Vec<i8>,
}

impl Embedded {
    pub(super) fn new(embed: &op::Embed, channels: usize, layer: NodeWeights<'_>) -> Self {
        Self {
            embed: embed.clone(),
            channels,
            table: layer.weights.to_vec(),
        }
    }

    pub(super) fn run(&self, context: &mut Context<'_>, out: ValuesMut<'_>) {
        let ValuesMut::I8(out) = out else {
            unreachable!("weights are bytes")
        };
        let input = context.reads.get(self.embed.input);
        let last = i32::try_from(self.embed.rows - 1).expect("a valid table has fewer rows");
        each!(input, tokens => for (&token, out) in tokens.iter().zip(out.chunks_exact_mut(self.channels)) {
            let row = wide(token).clamp(0, last).cast_unsigned() as usize;
            out.copy_from_slice(&self.table[row * self.channels..(row + 1) * self.channels]);
        });
    }
}
