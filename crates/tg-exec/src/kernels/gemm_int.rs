//! Integer matrix products: `sum over k of a[i][k] b[k][j]`, of numbers of 8 or 16 bits on both sides.
//!
//! The matrix is packed once ([`PackedMatrix`]); the rows are copied into the form the instructions read at each call.
//! Then tiles of the output are computed one after the other, each over the whole of k, and finished while they are
//! in the cache: 32-bit sums, or activations through a [`Requantiser`].

use super::SimdLevel;
use super::cpu::Cpu;
use super::memory::{Buffer, LINE_BYTES, Plain, Scratch, Shared};
use super::requantise::{Block, Place, Requantiser};
use super::tile_int::{Lanes, PANEL, TILE_ROWS, TILE_SUMS, Walk, Width};

/// Bytes of rows that stay in the second-level cache while all columns pass.
const BLOCK_BYTES: usize = 256 << 10;
/// Elements that one thread copies: fewer are copied before another thread is awake.
pub(super) const COPIED: usize = 1 << 19;
/// Products of an i16 and an i8 whose sum surely fits 32 bits: 256 * 2^15 * 2^7 = 2^30.
const WIDE_RUN: usize = 256;

/// Numbers of 8 or 16 bits.
#[derive(Debug, Clone, Copy)]
pub enum Elements<'a> {
    /// 8 bits.
    I8(&'a [i8]),
    /// 16 bits.
    I16(&'a [i16]),
}

impl Elements<'_> {
    /// How many.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self {
            Self::I8(values) => values.len(),
            Self::I16(values) => values.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Their width.
    #[must_use]
    pub const fn width(&self) -> Width {
        match self {
            Self::I8(_) => Width::I8,
            Self::I16(_) => Width::I16,
        }
    }
}

/// Rows of numbers: row i starts at `i * stride`.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    /// The elements; the last row need not be padded.
    pub values: Elements<'a>,
    /// Rows.
    pub rows: usize,
    /// Elements from a row to the next.
    pub stride: usize,
}

/// How a matrix of columns is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// `[k][n]`: row k at `k * stride`.
    Rows,
    /// `[n][k]`: column j at `j * stride`.
    Columns,
}

/// Where results go, row-major: element (i, j) at `i * stride + j`.
#[derive(Debug)]
pub enum Sink<'a> {
    /// The sums, modulo 2^32: exact if they fit.
    Sums {
        /// The output.
        out: &'a mut [i32],
        /// Elements from a row to the next.
        stride: usize,
    },
    /// Activations of 8 bits of the sums, which must fit 32 bits.
    I8 {
        /// The output.
        out: &'a mut [i8],
        /// Elements from a row to the next.
        stride: usize,
        /// From sums to activations; column j is channel j.
        how: &'a Requantiser,
    },
    /// Activations of 16 bits of the sums, which must fit 32 bits.
    I16 {
        /// The output.
        out: &'a mut [i16],
        /// Elements from a row to the next.
        stride: usize,
        /// From sums to activations; column j is channel j.
        how: &'a Requantiser,
    },
}

/// A matrix of `n` columns and depth `k`, and one bias for each column, in the form the instructions read.
#[derive(Debug, Clone)]
pub struct PackedMatrix {
    lanes: Lanes,
    n: usize,
    k: usize,
    /// Whether the numbers fit 8 bits.
    narrow: bool,
    panels: Buffer,
    bias: Vec<i32>,
    /// What is added to the sums of the instructions: the bias, less what the offset of the activations brought in.
    base: Vec<i32>,
}

impl PackedMatrix {
    /// A matrix of zeros, with room for `n` columns of depth `k`.
    #[must_use]
    pub fn new(level: SimdLevel, width: Width, n: usize, k: usize) -> Self {
        let lanes = Lanes::of(level, width);
        let mut panels = Buffer::new();
        panels.numbers_mut::<u8>(panels_bytes(lanes, n, k)).fill(0);
        Self {
            lanes,
            n,
            k,
            narrow: true,
            panels,
            bias: vec![0; n],
            base: vec![0; n.next_multiple_of(PANEL)],
        }
    }

    /// Packs weights `[n][k]` with their biases (none: zeros).
    ///
    /// # Panics
    /// If there are other than `n` biases or fewer than `n * k` weights.
    #[must_use]
    pub fn from_weights(
        level: SimdLevel,
        width: Width,
        [n, k]: [usize; 2],
        weights: &[i8],
        bias: Option<&[i32]>,
    ) -> Self {
        let mut packed = Self::new(level, width, n, k);
        if let Some(bias) = bias {
            packed.bias.copy_from_slice(bias);
        }
        packed.pack(Elements::I8(weights), Order::Columns, k);
        packed
    }

    /// Columns.
    #[must_use]
    pub const fn n(&self) -> usize {
        self.n
    }

    /// Depth.
    #[must_use]
    pub const fn k(&self) -> usize {
        self.k
    }

    pub(super) fn panels(&self) -> &[u8] {
        self.panels
            .numbers(panels_bytes(self.lanes, self.n, self.k))
    }

    pub(super) fn base(&self) -> &[i32] {
        &self.base
    }

    /// Takes the numbers of the matrix; the biases stay.
    ///
    /// # Panics
    /// If the storage is too short, or its numbers are wider than what the matrix was made for.
    pub fn pack(&mut self, values: Elements<'_>, order: Order, stride: usize) {
        let (n, k) = (self.n, self.k);
        let size = Size { n, k, stride };
        self.narrow = values.width() == Width::I8;
        let count = panels_bytes(self.lanes, n, k) / self.lanes.column_bytes();
        match (self.lanes, values) {
            (Lanes::Bytes | Lanes::Naturals, Elements::I8(values)) => {
                size.fill::<4, i8, i8>(self.panels.numbers_mut(count), values, order);
            }
            (Lanes::Bytes | Lanes::Naturals, Elements::I16(_)) => {
                panic!("the matrix was made for 8 bits")
            }
            (Lanes::WidePairs | Lanes::Pairs, Elements::I8(values)) => {
                size.fill::<2, i8, i16>(self.panels.numbers_mut(count), values, order);
            }
            (Lanes::WidePairs | Lanes::Pairs, Elements::I16(values)) => {
                size.fill::<2, i16, i16>(self.panels.numbers_mut(count), values, order);
            }
            (Lanes::Singles, Elements::I8(values)) => {
                size.fill::<1, i8, i16>(self.panels.numbers_mut(count), values, order);
            }
            (Lanes::Singles, Elements::I16(values)) => {
                size.fill::<1, i16, i16>(self.panels.numbers_mut(count), values, order);
            }
        }
        self.set_base();
    }

    fn set_base(&mut self) {
        let Self {
            lanes,
            n,
            k,
            narrow: _,
            panels,
            bias,
            base,
        } = self;
        base[..*n].copy_from_slice(bias);
        if lanes.offset() == 0 {
            return;
        }
        let length = k.div_ceil(lanes.group()) * lanes.panel_group_bytes();
        let panels = panels.numbers::<i8>(panels_bytes(*lanes, *n, *k));
        for (base, panel) in base
            .chunks_exact_mut(PANEL)
            .zip(panels.chunks_exact(length.max(1)))
        {
            let mut sums = [0i32; 4 * PANEL];
            for group in panel.as_chunks::<{ 4 * PANEL }>().0 {
                for (sum, &value) in sums.iter_mut().zip(group) {
                    *sum += i32::from(value);
                }
            }
            for (base, sums) in base.iter_mut().zip(sums.as_chunks::<4>().0) {
                let sum = sums.iter().fold(0i32, |sum, part| sum.wrapping_add(*part));
                *base = base.wrapping_sub(sum.wrapping_mul(lanes.offset()));
            }
        }
    }
}

fn panels_bytes(lanes: Lanes, n: usize, k: usize) -> usize {
    n.div_ceil(PANEL) * k.div_ceil(lanes.group()) * lanes.panel_group_bytes()
}

/// Size and storage of a matrix that is packed.
struct Size {
    n: usize,
    k: usize,
    stride: usize,
}

impl Size {
    fn fill<const GROUP: usize, S: Plain + Into<T>, T: Plain + Default>(
        &self,
        panels: &mut [T],
        values: &[S],
        order: Order,
    ) {
        let length = self.k.div_ceil(GROUP) * GROUP * PANEL;
        for (panel, target) in panels.chunks_exact_mut(length.max(1)).enumerate() {
            let (target, _) = target.as_chunks_mut::<GROUP>();
            let first = panel * PANEL;
            match order {
                Order::Rows => self.fill_rows(target, values, first),
                Order::Columns => self.fill_columns(target, values, first),
            }
        }
    }

    fn fill_columns<const GROUP: usize, S: Plain + Into<T>, T: Plain + Default>(
        &self,
        target: &mut [[T; GROUP]],
        values: &[S],
        first: usize,
    ) {
        for lane in 0..PANEL.min(self.n - first) {
            let column = &values[(first + lane) * self.stride..][..self.k];
            let (whole, rest) = column.as_chunks::<GROUP>();
            for (group, whole) in whole.iter().enumerate() {
                target[group * PANEL + lane] = whole.map(Into::into);
            }
            if !rest.is_empty() {
                let last = &mut target[whole.len() * PANEL + lane];
                *last = [T::default(); GROUP];
                for (slot, &value) in last.iter_mut().zip(rest) {
                    *slot = value.into();
                }
            }
        }
    }

    fn fill_rows<const GROUP: usize, S: Plain + Into<T>, T: Plain + Default>(
        &self,
        target: &mut [[T; GROUP]],
        values: &[S],
        first: usize,
    ) {
        let width = PANEL.min(self.n - first);
        for (group, target) in target.chunks_exact_mut(PANEL).enumerate() {
            let mut rows = [[T::default(); PANEL]; GROUP];
            for (step, row) in rows.iter_mut().enumerate().take(self.k - group * GROUP) {
                let source = &values[(group * GROUP + step) * self.stride + first..][..width];
                for (slot, &value) in row.iter_mut().zip(source) {
                    *slot = value.into();
                }
            }
            for (lane, slot) in target.iter_mut().enumerate() {
                *slot = std::array::from_fn(|step| rows[step][lane]);
            }
        }
    }
}

/// Multiplies rows by a packed matrix, modulo 2^32: exact where the sums fit 32 bits.
///
/// # Panics
/// If the matrix was made for another level or for narrower rows, or the rows or the output are too short.
pub fn gemm_int(
    cpu: &Cpu,
    scratch: &mut Scratch,
    a: &Matrix<'_>,
    b: &PackedMatrix,
    sink: Sink<'_>,
) {
    let bytes = copy_rows(cpu, scratch, a, b);
    multiply(cpu, &scratch.shared, a.rows, bytes, b, &Target::from(sink));
}

/// Multiplies rows by a packed matrix of 8-bit numbers into 64-bit sums, row-major without gaps.
///
/// # Panics
/// As [`gemm_int`], or if the matrix was not made for rows of 16 bits.
pub fn gemm_int_wide(
    cpu: &Cpu,
    scratch: &mut Scratch,
    a: &Matrix<'_>,
    b: &PackedMatrix,
    out: &mut [i64],
) {
    assert!(
        b.narrow && b.lanes.offset() == 0,
        "a matrix of 8 bits for rows of 16 bits"
    );
    let bytes = copy_rows(cpu, scratch, a, b);
    let target = Target {
        stride: b.n,
        column: 0,
        kind: Kind::Wide(Shared::new(out)),
    };
    multiply(cpu, &scratch.shared, a.rows, bytes, b, &target);
}

/// Copies the rows and returns the bytes of one.
fn copy_rows(cpu: &Cpu, scratch: &mut Scratch, a: &Matrix<'_>, b: &PackedMatrix) -> usize {
    let rows = Rows {
        count: a.rows,
        stride: a.stride,
        length: b.k,
    };
    let depth = b.k.next_multiple_of(b.lanes.group());
    let shared = &mut scratch.shared;
    match (b.lanes, a.values) {
        (Lanes::Bytes, Elements::I8(values)) => {
            let target = shared.numbers_mut::<u8>(a.rows * depth);
            rows.copy(cpu, values, target, depth, 128, |value| {
                value.cast_unsigned() ^ 0x80
            });
        }
        (Lanes::Naturals, Elements::I8(values)) => {
            check_naturals(cpu, values);
            let target = shared.numbers_mut::<u8>(a.rows * depth);
            rows.copy(cpu, values, target, depth, 0, i8::cast_unsigned);
        }
        (Lanes::Bytes | Lanes::Naturals, Elements::I16(_)) => {
            panic!("the matrix was made for rows of 8 bits")
        }
        (_, Elements::I8(values)) => {
            let target = shared.numbers_mut::<i16>(a.rows * depth);
            rows.copy(cpu, values, target, depth, 0, i16::from);
        }
        (_, Elements::I16(values)) => {
            let target = shared.numbers_mut::<i16>(a.rows * depth);
            rows.copy(cpu, values, target, depth, 0, |value| value);
        }
    }
    depth * b.lanes.activation_bytes()
}

/// Checks what exact products of [`Width::U7`] rely on.
///
/// # Panics
/// If a number is negative.
pub(super) fn check_naturals(cpu: &Cpu, values: &[i8]) {
    let bits = cpu.vectorised(|| values.iter().fold(0, |bits: i8, &value| bits | value));
    assert!(bits >= 0, "numbers of 7 bits");
}

/// The rows of a matrix in its storage.
struct Rows {
    count: usize,
    stride: usize,
    length: usize,
}

impl Rows {
    /// Copies each row to `depth` elements of the target, the rest filled.
    fn copy<S: Plain + Sync, T: Plain + Sync>(
        &self,
        cpu: &Cpu,
        values: &[S],
        target: &mut [T],
        depth: usize,
        fill: T,
        convert: impl Fn(S) -> T + Sync,
    ) {
        if self.count == 0 || depth == 0 {
            return;
        }
        let step = (COPIED / depth + 1).min(self.count);
        let target = Shared::new(target);
        cpu.pool().run(self.count.div_ceil(step), &|_, task| {
            for row in task * step..self.count.min((task + 1) * step) {
                let source = &values[row * self.stride..][..self.length];
                // SAFETY: each row is written by the one task that holds it.
                let target = unsafe { target.part(row * depth, depth) };
                let (whole, rest) = target.split_at_mut(self.length);
                for (slot, &value) in whole.iter_mut().zip(source) {
                    *slot = convert(value);
                }
                rest.fill(fill);
            }
        });
    }
}

fn multiply(
    cpu: &Cpu,
    shared: &Buffer,
    rows: usize,
    row_bytes: usize,
    b: &PackedMatrix,
    target: &Target<'_>,
) {
    let product = Product {
        lanes: b.lanes,
        a: shared.numbers(rows * row_bytes),
        starts: Starts::Stride(row_bytes),
        rows,
        row_bytes,
        segments: &[0],
        groups: b.k.div_ceil(b.lanes.group()),
        panels: b.panels(),
        n: b.n,
        base: &b.base,
    };
    product.run(cpu, target);
}

/// Where the rows of a product start.
#[derive(Debug, Clone, Copy)]
pub(super) enum Starts<'a> {
    /// At multiples of that many bytes.
    Stride(usize),
    /// At these byte offsets.
    Table(&'a [u32]),
}

impl Starts<'_> {
    fn of(&self, row: usize) -> usize {
        match self {
            Self::Stride(stride) => row * stride,
            Self::Table(offsets) => offsets[row] as usize,
        }
    }

    fn greatest(&self, rows: usize) -> usize {
        match self {
            Self::Stride(stride) => rows.saturating_sub(1) * stride,
            Self::Table(offsets) => {
                assert!(rows <= offsets.len(), "an offset for each row");
                offsets[..rows]
                    .iter()
                    .max()
                    .map_or(0, |&most| most as usize)
            }
        }
    }
}

/// A product of prepared operands.
#[derive(Debug)]
pub(super) struct Product<'a> {
    pub lanes: Lanes,
    /// The rows' bytes.
    pub a: &'a [u8],
    pub starts: Starts<'a>,
    pub rows: usize,
    /// Bytes of a that one more row brings in: decides how many rows go through the cache together.
    pub row_bytes: usize,
    /// Byte offsets of the runs of k from a row's start.
    pub segments: &'a [usize],
    /// Groups of a run.
    pub groups: usize,
    /// The matrix: `[panel][segment][group][16][k of a group]`.
    pub panels: &'a [u8],
    pub n: usize,
    /// Added to the sums; a multiple of 16 numbers.
    pub base: &'a [i32],
}

/// Where a product's results go: element (i, j) at `i * stride + column + j`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target<'a> {
    pub kind: Kind<'a>,
    pub stride: usize,
    pub column: usize,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Kind<'a> {
    Sums(Shared<'a, i32>),
    Wide(Shared<'a, i64>),
    I8(Shared<'a, i8>, &'a Requantiser),
    I16(Shared<'a, i16>, &'a Requantiser),
}

impl<'a> From<Sink<'a>> for Target<'a> {
    fn from(sink: Sink<'a>) -> Self {
        let (kind, stride) = match sink {
            Sink::Sums { out, stride } => (Kind::Sums(Shared::new(out)), stride),
            Sink::I8 { out, stride, how } => (Kind::I8(Shared::new(out), how), stride),
            Sink::I16 { out, stride, how } => (Kind::I16(Shared::new(out), how), stride),
        };
        Self {
            kind,
            stride,
            column: 0,
        }
    }
}

impl Target<'_> {
    /// Checks that there is room for that many rows and columns and that rows do not overlap.
    pub(super) fn check(&self, rows: usize, columns: usize) {
        let last = (rows.max(1) - 1) * self.stride + self.column + columns;
        assert!(rows == 0 || last <= self.len(), "the output has room");
        assert!(
            columns <= self.stride || rows <= 1,
            "rows of the output do not overlap"
        );
    }

    /// Writes a block of sums whose first element is (row, column) of the product.
    ///
    /// # Safety
    /// The block lies within rows and columns that were checked, and nobody else reads or writes them meanwhile.
    pub(super) unsafe fn write(&self, cpu: &Cpu, block: &Block<'_>, [row, column]: [usize; 2]) {
        let first = row * self.stride + self.column + column;
        match &self.kind {
            Kind::Sums(out) => {
                for row in 0..block.rows {
                    // SAFETY: a row of the block.
                    let out = unsafe { out.part(first + row * self.stride, block.width) };
                    let sums = &block.sums[row * block.stride..][..block.width];
                    for ((out, &sum), &base) in out.iter_mut().zip(sums).zip(block.base) {
                        *out = sum.wrapping_add(base);
                    }
                }
            }
            Kind::I8(out, how) => {
                let room = (block.rows - 1) * self.stride + block.width;
                // SAFETY: only the block's columns are written.
                unsafe {
                    let out = Place::I8(out.start_of(first, room));
                    how.finish(cpu, block, self.column + column, out, self.stride);
                }
            }
            Kind::I16(out, how) => {
                let room = (block.rows - 1) * self.stride + block.width;
                // SAFETY: only the block's columns are written.
                unsafe {
                    let out = Place::I16(out.start_of(first, room));
                    how.finish(cpu, block, self.column + column, out, self.stride);
                }
            }
            Kind::Wide(_) => unreachable!("64-bit sums are not made of blocks"),
        }
    }

    const fn len(&self) -> usize {
        match &self.kind {
            Kind::Sums(out) => out.len(),
            Kind::Wide(out) => out.len(),
            Kind::I8(out, _) => out.len(),
            Kind::I16(out, _) => out.len(),
        }
    }
}

/// Sums of one tile; aligned so that whole vectors are stored.
#[repr(C, align(64))]
struct TileSums([i32; TILE_SUMS]);

impl Product<'_> {
    /// Computes every element of the output.
    pub(super) fn run(&self, cpu: &Cpu, target: &Target<'_>) {
        self.check(cpu, target);
        if self.rows == 0 || self.n == 0 {
            return;
        }
        let threads = cpu.threads();
        let panels = self.n.div_ceil(PANEL);
        let mut block = (BLOCK_BYTES / self.row_bytes.max(1)).clamp(24, 1 << 12);
        if threads > 1 {
            block = block.min(self.rows.div_ceil(2 * threads).max(24));
        }
        let block = block.next_multiple_of(24);
        let blocks = self.rows.div_ceil(block);
        // Few rows: the threads share the columns instead.
        let parts = if threads > 1 && blocks < 2 * threads {
            panels.div_ceil(4).min(2 * threads)
        } else {
            1
        };
        let part = panels.div_ceil(parts);
        cpu.pool().run(blocks * parts, &|_, task| {
            let first = (task / parts) * block;
            let rows = first..self.rows.min(first + block);
            let first = (task % parts) * part;
            self.run_part(cpu, rows, first..panels.min(first + part), target);
        });
    }

    /// What the tiles rely on.
    fn check(&self, cpu: &Cpu, target: &Target<'_>) {
        assert!(
            self.lanes.level() <= cpu.level(),
            "the instructions are in use"
        );
        let group_bytes = self.lanes.group() * self.lanes.activation_bytes();
        let run = self.groups * group_bytes;
        let last = self.segments.iter().max().copied().unwrap_or(0);
        assert!(
            self.rows == 0 || self.starts.greatest(self.rows) + last + run <= self.a.len(),
            "every row lies in the rows' bytes"
        );
        let panels = self.n.div_ceil(PANEL);
        assert_eq!(
            self.panels.len(),
            panels * self.panel_bytes(),
            "the whole matrix"
        );
        assert!(
            self.base.len() >= panels * PANEL,
            "a number to add for each column"
        );
        target.check(self.rows, self.n);
    }

    const fn panel_bytes(&self) -> usize {
        self.segments.len() * self.groups * self.lanes.panel_group_bytes()
    }

    fn run_part(
        &self,
        cpu: &Cpu,
        rows: std::ops::Range<usize>,
        panels: std::ops::Range<usize>,
        target: &Target<'_>,
    ) {
        let mut sums = TileSums([0; TILE_SUMS]);
        let mut panel = panels.start;
        while panel < panels.end {
            let strip = self.lanes.strip(panels.end - panel);
            let mut row = rows.start;
            while row < rows.end {
                row += self.run_tile(cpu, row..rows.end, panel, strip, &mut sums, target);
            }
            panel += strip;
        }
    }

    /// Computes the tile that starts at the first of `rows` and returns how many rows it has.
    fn run_tile(
        &self,
        cpu: &Cpu,
        rows: std::ops::Range<usize>,
        panel: usize,
        strip: usize,
        sums: &mut TileSums,
        target: &Target<'_>,
    ) -> usize {
        let (height, tile) = self.lanes.tile(strip, rows.len());
        let mut offsets = [0usize; TILE_ROWS];
        for (row, offset) in offsets.iter_mut().enumerate().take(height) {
            *offset = self.starts.of(rows.start + row);
        }
        let walk = Walk {
            a: self.a.as_ptr(),
            rows: &offsets,
            segments: self.segments,
            groups: self.groups,
            b: self.panels[panel * self.panel_bytes()..].as_ptr(),
            panel_stride: self.panel_bytes(),
            sums: sums.0.as_mut_ptr(),
        };
        let column = panel * PANEL;
        let width = (strip * PANEL).min(self.n - column);
        let first = rows.start * target.stride + target.column + column;
        if let Kind::Wide(out) = &target.kind {
            // SAFETY: `check` covers every row, run and panel; tasks hold disjoint rows or columns.
            unsafe {
                self.wide_tile(
                    tile,
                    &walk,
                    [height, width],
                    [first, target.stride],
                    column,
                    out,
                )
            };
            return height;
        }
        // SAFETY: `check` covers every row, run and panel; a tile has at most `TILE_SUMS` sums.
        unsafe { tile(&walk) };
        let block = Block {
            sums: &sums.0,
            stride: strip * PANEL,
            rows: height,
            width,
            base: &self.base[column..],
        };
        // SAFETY: `check` has the bounds; tasks hold disjoint tiles.
        unsafe { target.write(cpu, &block, [rows.start, column]) };
        height
    }

    /// A tile of 64-bit sums: runs short enough for 32 bits, one after the other.
    ///
    /// # Safety
    /// As for a tile, and nobody else writes the same elements of the output.
    unsafe fn wide_tile(
        &self,
        tile: super::tile_int::Tile,
        walk: &Walk<'_>,
        [height, width]: [usize; 2],
        [first, stride]: [usize; 2],
        column: usize,
        out: &Shared<'_, i64>,
    ) {
        for row in 0..height {
            // SAFETY: by the caller.
            let out = unsafe { out.part(first + row * stride, width) };
            for (out, &base) in out.iter_mut().zip(&self.base[column..]) {
                *out = i64::from(base);
            }
        }
        let strip = width.div_ceil(PANEL);
        let mut sums = TileSums([0; TILE_SUMS]);
        let run = WIDE_RUN / self.lanes.group();
        let group_bytes = self.lanes.group() * self.lanes.activation_bytes();
        for (index, &segment) in self.segments.iter().enumerate() {
            for group in (0..self.groups).step_by(run) {
                let panel_offset = (index * self.groups + group) * self.lanes.panel_group_bytes();
                let walk = Walk {
                    segments: &[segment + group * group_bytes],
                    groups: run.min(self.groups - group),
                    // SAFETY: inside the panel.
                    b: unsafe { walk.b.add(panel_offset) },
                    sums: sums.0.as_mut_ptr(),
                    ..*walk
                };
                // SAFETY: by the caller; a part of each run.
                unsafe { tile(&walk) };
                for row in 0..height {
                    // SAFETY: by the caller.
                    let out = unsafe { out.part(first + row * stride, width) };
                    for (out, &sum) in out.iter_mut().zip(&sums.0[row * strip * PANEL..]) {
                        *out += i64::from(sum);
                    }
                }
            }
        }
    }
}

const _: () = assert!(
    (TILE_SUMS * size_of::<i32>()).is_multiple_of(LINE_BYTES),
    "whole vectors"
);

#[cfg(test)]
#[path = "gemm_int_tests.rs"]
mod tests;
