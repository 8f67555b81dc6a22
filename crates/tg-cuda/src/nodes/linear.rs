//! What products of matrices share: tiles of sums, and the requantisation that is fused into them.

use super::launches::{Operand, int, output, pair_word};
use crate::plan::{Address, Arguments, Launch, Planner};
use tg_ir::op;
use tg_ir::{Op, Requantise, TensorId};

/// Most blocks along the third axis of a grid.
pub(super) const GRID_DEPTH_MAX: u32 = 65_535;

/// Groups of fewer outputs are computed without tiles.
pub(super) const TILED_OUTPUTS_MIN: u32 = 8;

/// Elements of the depth that a block multiplies at a time (`TILE_DEPTH`).
const TILE_DEPTH: u32 = 64;

/// A part of the depth is at least so many tiles long: less costs more to bring together than it gains.
const TILES_PER_SPLIT_MIN: u32 = 4;

/// Most parts of a depth.
const SPLITS_MAX: u32 = 32;

/// Blocks that keep a multiprocessor busy.
const BLOCKS_PER_MULTIPROCESSOR: u64 = 4;

/// Elements that kernels read at once.
pub(super) const RUN: u32 = 16;

/// `struct Finish`: a requantisation to `out` with the sums to `sums`.
pub(super) fn finish_words(
    planner: &mut Planner<'_>,
    arguments: &mut Arguments,
    sums: Option<Address>,
    requantised: Option<(Operand, &Requantise)>,
) {
    let Some((out, how)) = requantised else {
        let none = [None, sums, None, None];
        none.into_iter().for_each(|address| {
            arguments.address(address);
        });
        arguments.words(&[0; 6]);
        return;
    };
    let pairs = how.channel_pairs.iter();
    let words = pairs.map(|&pair| pair_word(how.pairs[usize::from(pair)]));
    let pairs = planner.constant(words.flat_map(u32::to_ne_bytes));
    let table = how.table.as_ref().map(|table| {
        let entries = table.iter().flat_map(|entry| entry.to_ne_bytes());
        planner.constant(entries)
    });
    arguments.address(out.address).address(sums);
    arguments.address(Some(pairs)).address(table);
    arguments.words(&[
        i32::from(how.channel_pairs.len() == 1),
        i32::from(how.zero),
        i32::from(how.clamp[0]),
        i32::from(how.clamp[1]),
        out.kind,
        0,
    ]);
}

/// `struct Finish` of a linear node, with the requantisation that reads it if there is one.
pub(super) fn finish_of(planner: &mut Planner<'_>, arguments: &mut Arguments, node: usize) {
    let (fused, keeps_sums) = planner.fuse(node);
    let sums = keeps_sums.then(|| planner.reserve(TensorId::of_node(node)));
    let program = planner.program;
    let requantised = fused.and_then(|fused| match &program.nodes[fused].op {
        Op::Requantise(op::Unary { how, .. }) => Some((output(planner, fused), how)),
        _ => None,
    });
    finish_words(planner, arguments, sums, requantised);
}

/// The sizes of a matrix product: `struct GemmArguments` after `finish`.
pub(super) struct Gemm {
    pub(super) rows: u32,
    pub(super) columns: u32,
    pub(super) depth: u32,
    pub(super) batches: u32,
    pub(super) a_row: u32,
    pub(super) a_batch: u32,
    pub(super) a_wide: bool,
    pub(super) a_fill: i16,
    pub(super) b_kind: i32,
    pub(super) b_row: u32,
    pub(super) b_batch: u32,
    pub(super) b_wide: bool,
    pub(super) b_repeat: u32,
    pub(super) b_across: bool,
    pub(super) out_row: u32,
    pub(super) out_batch: u32,
    pub(super) channel_batch: u32,
    pub(super) out_width: u32,
    pub(super) group_channels: u32,
    pub(super) window: Option<[i32; 13]>,
}

pub(super) fn gemm(
    planner: &mut Planner<'_>,
    node: usize,
    a: &Operand,
    b: Option<Address>,
    bias: Option<Address>,
    sizes: &Gemm,
) {
    let mut arguments = Arguments::default();
    arguments.address(a.address).address(b).address(bias);
    finish_of(planner, &mut arguments, node);
    // After the memory of the results: what a node has for its own time may be given to the next one that asks.
    let tiling = Tiling::of(sizes, planner.multiprocessors);
    let (parts, arrived) = tiling.gathering(planner);
    arguments.address(parts).address(arrived);
    arguments.words(&[
        int(tiling.splits),
        int(sizes.rows),
        int(sizes.columns),
        int(sizes.depth),
        int(sizes.batches),
        a.kind,
        int(sizes.a_row),
        int(sizes.a_batch),
        i32::from(sizes.a_wide),
        i32::from(sizes.a_fill),
        sizes.b_kind,
        int(sizes.b_row),
        int(sizes.b_batch),
        i32::from(sizes.b_wide),
        int(sizes.b_repeat),
        i32::from(sizes.b_across),
        int(sizes.out_row),
        int(sizes.out_batch),
        int(sizes.channel_batch),
        int(sizes.out_width),
        i32::from(sizes.window.is_some()),
        int(sizes.group_channels),
    ]);
    arguments.words(&sizes.window.unwrap_or([0; 13]));
    let [x, y, z] = tiling.blocks;
    planner.push(Launch {
        node,
        kernel: tiling.kernel,
        grid: [x, y, z * tiling.splits],
        threads: tiling.threads,
        arguments,
    });
}

/// Which kernel computes a product, and by how many blocks.
struct Tiling {
    kernel: &'static str,
    threads: u32,
    /// Sums along each side of a block.
    side: u32,
    /// Blocks of rows, of columns, and of batches.
    blocks: [u32; 3],
    /// Parts of the depth, each by a block of its own: a product of few rows and columns would leave most of a device idle.
    splits: u32,
}

impl Tiling {
    fn of(sizes: &Gemm, multiprocessors: u32) -> Self {
        let batches = sizes.batches.min(GRID_DEPTH_MAX);
        let blocks = |side: u32| {
            [
                sizes.rows.div_ceil(side),
                sizes.columns.div_ceil(side),
                batches,
            ]
        };
        let count = |blocks: [u32; 3]| blocks.iter().map(|&side| u64::from(side)).product::<u64>();
        let fills = count(blocks(128)) >= u64::from(multiprocessors);
        let (kernel, side, threads) = if !(sizes.a_wide && sizes.b_wide) {
            ("tg_gemm_gather", 64, 128)
        } else if fills {
            ("tg_gemm_large", 128, 256)
        } else {
            ("tg_gemm_small", 64, 128)
        };
        let blocks = blocks(side);
        let wanted = u64::from(multiprocessors) * BLOCKS_PER_MULTIPROCESSOR / count(blocks).max(1);
        let longest = u64::from(sizes.depth.div_ceil(TILE_DEPTH) / TILES_PER_SPLIT_MIN);
        let splits = wanted.min(longest).clamp(1, u64::from(SPLITS_MAX));
        Self {
            kernel,
            threads,
            side,
            blocks,
            splits: u32::try_from(splits).unwrap_or(SPLITS_MAX),
        }
    }

    /// Memory for the sums of parts, and for a count of each block's parts that starts at zero.
    fn gathering(&self, planner: &mut Planner<'_>) -> (Option<Address>, Option<Address>) {
        if self.splits == 1 {
            return (None, None);
        }
        let blocks: usize = self.blocks.iter().map(|&count| count as usize).product();
        let sums = blocks * (self.side * self.side * self.splits) as usize;
        let parts = planner.scratch(4 * sums);
        // Every run leaves zeros behind.
        let arrived = planner.constant(std::iter::repeat_n(0, 4 * blocks));
        (Some(parts), Some(arrived))
    }
}
