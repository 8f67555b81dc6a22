//! What a reader gets: a form as a tensor of the bits and bound that it asks for, in one requantisation.

use super::form::{Form, Lowered, Read, Version, unit};
use super::lowering::{LowerError, Lowering, Precision, Reader, SLACK, Step, Stop, unsupported};
use super::strided::{Strided, default_groups, grouped_layout};
use std::collections::BTreeMap;
use tg_float::tgf::{self, Budget};
use tg_float::{DType, FloatTensor, Node, ValueId, convert};
use tg_ir::op;
use tg_ir::requantise::{PAIRS_MAX, TABLE_MAX};
use tg_ir::rescale::MULTIPLIER_MAX;
use tg_ir::segment::{SEGMENTS_MAX, SegmentTable};
use tg_ir::wide::{WIDE_SHIFT_MAX, WideTable};
use tg_ir::{Axis, ElementType, FIELD_BOUND, Op, Requantise, Rescale, Shape, TensorId, View};

/// What a reader asks for.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    kind: ElementType,
    limit: i64,
    forced: Option<(f64, i64)>,
}

/// More than any value reaches, and far from overflowing.
const FAR: f64 = 1e30;
/// Room that 16-bit activations have over what was seen.
const HEADROOM: f64 = 1.5;
/// Room that the argument of a table has over what was seen, at either side, as a share of its span.
const MARGIN: f64 = 0.15;
/// Most entries of all tables of a program in 16 bits, about; a quarter of those that a proof has room for.
const ENTRIES_MAX: usize = 1 << 16;
/// Entries that a table has at least.
const ENTRIES_LEAST: usize = 1 << 9;
/// Operators that need a table of their own.
const BENT: [&str; 9] = [
    "Elu", "Erf", "Exp", "Gelu", "Log", "Sigmoid", "Softplus", "Softsign", "Tanh",
];
/// So many segments of a table cost a proof as much as a shift of one element before.
const ELEMENT_SEGMENTS: usize = 2;
/// Most runs of channels that are requantised each by itself for the sake of a proof.
const RUNS_MAX: usize = 16;
/// Activations times less than this are 0.
const FACTOR_LEAST: f64 = 1.0 / (1 << WIDE_SHIFT_MAX) as f64;
/// A factor of fewer units is not near enough.
const MULTIPLIER_LEAST: f64 = 2_048.0;

impl Lowering<'_> {
    /// A value is this tensor through a layout.
    pub(crate) fn give(
        &mut self,
        value: ValueId,
        tensor: TensorId,
        layout: Strided,
        scale: f64,
        zero: i64,
    ) {
        self.give_form(
            value,
            layout,
            Form {
                value,
                tensor,
                scale,
                zero,
                channels: None,
                function: None,
            },
        );
    }

    pub(crate) fn give_form(&mut self, value: ValueId, layout: Strided, form: Form) {
        self.forms.push(form);
        self.versions.push(Vec::new());
        let form = self.forms.len() - 1;
        self.values.insert(value, Lowered { form, layout });
    }

    /// A value that is there, or the function that its region is.
    pub(crate) fn lowered(&mut self, value: ValueId) -> Step<Lowered> {
        if let Some(found) = self.values.get(&value) {
            return Ok(found.clone());
        }
        if self.is_constant(value) {
            return self.parameter(value);
        }
        let Some((root, steps)) = self.regions.get(&value).cloned() else {
            return unsupported("it reads a value that has no integer form");
        };
        let mut source = self.lowered(root)?;
        let elements = self
            .builder
            .shape(self.forms[source.form].tensor)
            .elements();
        if self.forms[source.form].function.is_some() {
            source = self.fixed(root, &source)?;
        }
        if !source.layout.is_dense(elements) {
            source = self.materialised(root)?;
        }
        let from = self.forms[source.form].clone();
        if let Some((factor, sum)) = self.affine(root, &steps, value)?
            && self.take_affine(value, &source, &from, factor, sum)
        {
            return Ok(self.values[&value].clone());
        }
        let form = Form {
            value,
            function: Some((root, steps.into())),
            ..from
        };
        self.give_form(value, source.layout, form);
        Ok(self.values[&value].clone())
    }

    /// A form as the tensor of its 16- or 8-bit version, for a function of a function.
    fn fixed(&mut self, value: ValueId, source: &Lowered) -> Step<Lowered> {
        let wanted = Wanted {
            kind: self.bits(Reader::Other),
            limit: i64::MAX,
            forced: None,
        };
        let version = self.version(source.form, wanted)?;
        let form = Form {
            value,
            tensor: version.tensor,
            scale: version.scale,
            zero: version.zero,
            channels: None,
            function: None,
        };
        self.forms.push(form);
        self.versions.push(Vec::new());
        Ok(Lowered {
            form: self.forms.len() - 1,
            layout: source.layout.clone(),
        })
    }

    /// A value moved so that its layout is its own order.
    pub(crate) fn materialised(&mut self, value: ValueId) -> Step<Lowered> {
        let read = match self.raw(value) {
            Ok(read) => read,
            Err(_) => self.read(value, Reader::Other, i64::MAX)?,
        };
        let shape = self.shape_of(value).to_vec();
        let groups = default_groups(&shape);
        let tensor = self.arranged(&read, &groups, self.prepared.graph.name_of(value))?;
        let layout = grouped_layout(&shape, &groups);
        self.give(value, tensor, layout, read.scale, read.zero);
        Ok(self.values[&value].clone())
    }

    /// A value as its tensor is, accumulators too.
    pub(crate) fn raw(&mut self, value: ValueId) -> Step<Read> {
        let found = self.lowered(value)?;
        let form = &self.forms[found.form];
        if form.function.is_some() || form.channels.is_some() {
            return unsupported("its channels have scales of their own");
        }
        Ok(Read {
            tensor: form.tensor,
            layout: found.layout,
            scale: form.scale,
            zero: form.zero,
        })
    }

    /// A value as activations of at most `limit` in magnitude.
    pub(crate) fn read(&mut self, value: ValueId, reader: Reader, limit: i64) -> Step<Read> {
        let kind = self.bits(reader);
        self.read_as(value, kind, limit, None)
    }

    /// A value as activations of a kind, within a limit, of a given scale and zero point if any.
    pub(crate) fn read_as(
        &mut self,
        value: ValueId,
        kind: ElementType,
        limit: i64,
        forced: Option<(f64, i64)>,
    ) -> Step<Read> {
        let found = self.lowered(value)?;
        let wanted = Wanted {
            kind,
            limit,
            forced,
        };
        let version = self.version(found.form, wanted)?;
        Ok(Read {
            tensor: version.tensor,
            layout: found.layout,
            scale: version.scale,
            zero: version.zero,
        })
    }

    /// A value as activations whose zero is 0.
    pub(crate) fn read_centred(
        &mut self,
        value: ValueId,
        reader: Reader,
        limit: i64,
    ) -> Step<Read> {
        let read = self.read(value, reader, limit)?;
        if read.zero == 0 {
            return Ok(read);
        }
        let how = Requantise {
            pairs: vec![Rescale::new(4, 2).ok_or(Stop::Unsupported("no identity rescale"))?],
            channel_pairs: vec![0],
            zero: i16::try_from(-read.zero).map_err(|_| Stop::Unsupported("its zero point"))?,
            range: self.builder.reach(read.tensor)?,
            clamp: [-255, 255],
            table: None,
            output: ElementType::I16,
        };
        let shape = self.builder.shape(read.tensor);
        let name = format!("{}.centred", self.builder.name(read.tensor));
        let op = Op::Requantise(op::Unary {
            input: read.tensor,
            how,
        });
        let tensor = self.builder.push(&name, op, shape, read.scale, None);
        Ok(Read {
            tensor,
            zero: 0,
            ..read
        })
    }

    /// What was read, in a coarser unit; zeros where that is so coarse that no rescale reaches it.
    pub(crate) fn in_units(&mut self, value: ValueId, read: &Read, scale: f64) -> Step<Read> {
        let form = Form {
            value,
            tensor: read.tensor,
            scale: read.scale.max(scale * FACTOR_LEAST),
            zero: read.zero,
            channels: None,
            function: None,
        };
        let kind = self.builder.kind(read.tensor);
        let clamp = match kind {
            ElementType::I8 => [-128, 127],
            _ => [-i16::MAX, i16::MAX],
        };
        let tensor = self.requantise(&form, scale, 0, clamp, None, kind)?;
        Ok(Read {
            tensor,
            scale,
            zero: 0,
            ..read.clone()
        })
    }

    fn version(&mut self, index: usize, wanted: Wanted) -> Step<Version> {
        let form = self.forms[index].clone();
        let kind = self.builder.kind(form.tensor);
        let magnitude = self.builder.magnitude(form.tensor);
        if form.function.is_none() && form.channels.is_none() {
            let same = wanted.forced.is_none_or(|(scale, zero)| {
                zero == form.zero && (scale / form.scale - 1.0).abs() < 1e-7 && kind == wanted.kind
            });
            let narrow = kind == ElementType::I8
                || kind == ElementType::I16 && wanted.kind == ElementType::I16;
            if same && narrow && magnitude <= wanted.limit {
                return Ok(Version {
                    tensor: form.tensor,
                    scale: form.scale,
                    zero: form.zero,
                    kind,
                    limit: magnitude,
                    forced: false,
                });
            }
        }
        let fits = |version: &&Version| match wanted.forced {
            Some((scale, zero)) => {
                version.scale == scale && version.zero == zero && version.kind == wanted.kind
            }
            None => {
                let close = version.limit >= wanted.limit.min(32_767) / 4;
                !version.forced
                    && version.kind == wanted.kind
                    && version.limit <= wanted.limit
                    && (close || version.kind == ElementType::I8)
            }
        };
        if let Some(found) = self.versions[index].iter().find(fits) {
            return Ok(*found);
        }
        let version = self.requantised(&form, wanted)?;
        self.versions[index].push(version);
        self.sites.push((
            form.value,
            version.tensor,
            version.scale,
            version.zero,
            index,
        ));
        Ok(version)
    }

    fn requantised(&mut self, form: &Form, wanted: Wanted) -> Step<Version> {
        let bounds = match &form.function {
            None => Some([-FAR, FAR]),
            Some((root, steps)) => self.clip(*root, steps, form.value)?,
        };
        match bounds {
            Some(bounds) => self.clipped(form, wanted, bounds),
            None => self.tabulated(form, wanted),
        }
    }

    /// Scale, zero point and greatest magnitude of a version.
    fn target(&self, form: &Form, wanted: Wanted) -> (f64, i64, i64) {
        let top = match wanted.kind {
            ElementType::I8 => 128.min(wanted.limit),
            _ => 32_767.min(wanted.limit),
        };
        if let Some((scale, zero)) = wanted.forced {
            return (scale, zero, top);
        }
        let truth = |fact: &crate::passes::Fact| fact.dtype == DType::Bool;
        if self.prepared.facts.get(&form.value).is_some_and(truth) {
            return (1.0, 0, top);
        }
        let counts = self.whole.contains(&form.value);
        let reach = self
            .statistics
            .get(&form.value)
            .map(crate::calibrate::Statistics::greatest_magnitude);
        if counts && reach.is_some_and(|reach| f64::from(reach) <= top.min(32_767) as f64 - 1.0) {
            // Whole numbers stay what they are.
            return (1.0, 0, top);
        }
        let Some(statistics) = self.statistics.get(&form.value) else {
            // A constant: its own reach, coarser where the reader's limit asks for it.
            let reach = self
                .builder
                .reach(form.tensor)
                .unwrap_or([-i32::MAX, i32::MAX]);
            let magnitude = reach.map(|end| f64::from(end).abs());
            let most = magnitude[0].max(magnitude[1]);
            return (
                form.scale * (most / top.min(32_767) as f64).max(1.0),
                0,
                top,
            );
        };
        let scale = if wanted.kind == ElementType::I8 {
            f64::from(unit(statistics.reach(self.options.reach), 127.0))
        } else {
            let reach = f64::from(statistics.greatest_magnitude()) * HEADROOM;
            f64::from(unit(reach as f32, top as f32))
        };
        (scale, 0, top)
    }

    /// Rounded and clamped: the tensor itself, or a clip of it.
    fn clipped(&mut self, form: &Form, wanted: Wanted, bounds: [f64; 2]) -> Step<Version> {
        let (mut scale, zero, top) = self.target(form, wanted);
        if wanted.kind == ElementType::I16 && wanted.forced.is_none() {
            if scale > form.scale {
                // A shift alone: 16 bits have room, and a power of two is the cheapest rescale to prove.
                scale = form.scale * 2f64.powf((scale / form.scale).log2().ceil());
            } else if form.channels.is_none() {
                // A finer unit would tell nothing more, and its factor may have no proof.
                scale = form.scale;
            }
        }
        let low = if wanted.kind == ElementType::I8 {
            -top.min(128)
        } else {
            -top
        };
        let high = if wanted.kind == ElementType::I8 {
            top.min(127)
        } else {
            top
        };
        let units =
            |bound: f64| ((bound / scale).round() + zero as f64).clamp(low as f64, high as f64);
        let clamp = bounds.map(|bound| units(bound) as i16);
        let tensor = self.requantise(form, scale, zero, clamp, None, wanted.kind)?;
        Ok(Version {
            tensor,
            scale,
            zero,
            kind: wanted.kind,
            limit: top,
            forced: wanted.forced.is_some(),
        })
    }

    /// Most entries of a table: where a program has many in 16 bits, such as one for each step of a recurrence, fewer, since a
    /// proof has room for so many in all and its time goes with them.
    fn entries(&self) -> usize {
        if self.options.precision != Precision::Bits16 {
            return TABLE_MAX;
        }
        let nodes = self.prepared.graph.nodes.iter();
        let bent = nodes.filter(|node| BENT.iter().any(|name| node.is(name)));
        let each = ENTRIES_MAX / bent.count().max(1);
        (1usize << each.max(1).ilog2()).clamp(ENTRIES_LEAST, TABLE_MAX)
    }

    /// Looked up in a table over what the argument takes.
    fn tabulated(&mut self, form: &Form, wanted: Wanted) -> Step<Version> {
        let (scale, zero, top) = self.target(form, wanted);
        let Some((root, steps)) = form.function.clone() else {
            return unsupported("it is not a function");
        };
        let statistics = self.statistics.get(&root);
        let [least, greatest] =
            statistics.map_or([-1.0, 1.0], |s| [f64::from(s.least), f64::from(s.greatest)]);
        let integer = self.whole.contains(&root);
        let ends = self.builder.reach(form.tensor);
        // Whole numbers that the tensor can be, seen or not, where the table has room for them.
        let all = ends.ok().filter(|[low, high]| {
            integer
                && form.scale == 1.0
                && i64::from(*high) - i64::from(*low) < TABLE_MAX as i64 / 2
        });
        let [least, greatest] = all.map_or([least, greatest], |all| all.map(f64::from));
        let span = (greatest - least).max(1e-6);
        let room = if integer { 0.0 } else { span * MARGIN };
        let finest = form.channels.as_ref().map_or(1.0, |factors| {
            factors.iter().copied().fold(f64::INFINITY, f64::min)
        });
        let entries = if integer { TABLE_MAX } else { self.entries() };
        let entries = entries as f64 - 3.0;
        let mut step = ((span + 2.0 * room) / entries).max(form.scale * finest);
        if wanted.kind == ElementType::I16 && form.channels.is_none() {
            step = form.scale * 2f64.powf((step / form.scale).log2().ceil());
        }
        let first = ((least - room) / step).floor().clamp(-32_700.0, 28_000.0);
        let last = ((greatest + room) / step)
            .ceil()
            .clamp(first, first + entries);
        let clamp = [first as i16, last as i16];
        let arguments: Vec<f64> = (clamp[0]..=clamp[1]).map(|i| f64::from(i) * step).collect();
        let results = self.evaluate(root, &steps, form.value, &arguments)?;
        let ends = match wanted.kind {
            ElementType::I8 => [-128.0, 127.0],
            _ => [-(top as f64), top as f64],
        };
        let entry = |y: f64| {
            let q = (y / scale).round() + zero as f64;
            if q.is_nan() {
                0
            } else {
                q.clamp(ends[0], ends[1]) as i16
            }
        };
        let table = results.into_iter().map(entry).collect();
        let tensor = self.requantise(form, step, 0, clamp, Some((table, scale)), wanted.kind)?;
        Ok(Version {
            tensor,
            scale,
            zero,
            kind: wanted.kind,
            limit: top,
            forced: wanted.forced.is_some(),
        })
    }

    /// The requantisation of a form's tensor to a unit, clamp and table. Channels of more than a few different
    /// factors are requantised run by run.
    fn requantise(
        &mut self,
        form: &Form,
        unit: f64,
        zero: i64,
        clamp: [i16; 2],
        table: Option<(Vec<i16>, f64)>,
        kind: ElementType,
    ) -> Step<TensorId> {
        let node = self.prepared.graph.name_of(form.value).to_owned();
        let name = format!("{node}.requantise");
        let rescale = |factor: f64| {
            Rescale::nearest(factor).ok_or_else(|| LowerError::Factor {
                node: node.clone(),
                factor,
            })
        };
        // Zeros are zeros in any unit.
        let zeros = form.zero == 0 && self.builder.reach(form.tensor)? == [0, 0];
        let base = if zeros { 1.0 } else { form.scale / unit };
        let factors = form.channels.as_deref().unwrap_or(&[1.0]);
        let rescales: Result<Vec<Rescale>, _> = factors.iter().map(|f| rescale(base * f)).collect();
        let rescales = rescales?;
        let offset = zero - (form.zero as f64 * base).round() as i64;
        let offset = i16::try_from(offset).map_err(|_| Stop::Unsupported("its zero point"))?;
        let shape = self.builder.shape(form.tensor);
        let (table, scale) = match table {
            None => (None, unit),
            Some((table, scale)) => (Some(table), scale),
        };
        let how = |this: &Self, input: TensorId, rescales: &[Rescale]| {
            let (pairs, channel_pairs) = pairs_of(rescales);
            Ok::<_, Stop>(Requantise {
                pairs,
                channel_pairs,
                zero: offset,
                range: this.builder.reach(input)?,
                clamp,
                table: table.clone(),
                output: kind,
            })
        };
        let write = |this: &mut Self, input: TensorId, rescales: &[Rescale], shape: Shape| {
            let how = how(this, input, rescales)?;
            let op = Op::Requantise(op::Unary { input, how });
            Ok::<_, Stop>(this.builder.push(&name, op, shape, scale, None))
        };
        if pairs_of(&rescales).0.len() <= PAIRS_MAX {
            let goes = self.goes(&how(self, form.tensor, &rescales)?, form, shape);
            let plain = kind == ElementType::I16 && table.is_none();
            if !goes
                && plain
                && let Some((multiplied, shifts)) = self.multiplied(form, base, factors)
            {
                return write(self, multiplied, &shifts, shape);
            }
            let table = table.clone().map(|table| (table, scale));
            if !goes && let Some(found) = self.in_steps(form, (unit, zero, clamp, kind), table)? {
                return Ok(found);
            }
            return write(self, form.tensor, &rescales, shape);
        }
        let mut parts = Vec::new();
        for (run, factors) in factors.chunks(PAIRS_MAX).enumerate() {
            let (part, _) = self.part(form, run * PAIRS_MAX, factors.len());
            let own = Form {
                tensor: part,
                channels: Some(factors.into()),
                ..form.clone()
            };
            let table = table.clone().map(|table| (table, scale));
            parts.push(self.requantise(&own, unit, zero, clamp, table, kind)?);
        }
        Ok(self.side_by_side(&node, parts, (shape, scale)))
    }

    /// A requantisation that has no proof as it is, in several: to 16 bits run by run of its channels, else behind a shift.
    fn in_steps(
        &mut self,
        form: &Form,
        (unit, zero, clamp, kind): (f64, i64, [i16; 2], ElementType),
        table: Option<(Vec<i16>, f64)>,
    ) -> Step<Option<TensorId>> {
        if kind == ElementType::I16 && table.is_none() {
            let runs = runs_of(form.channels.as_deref().unwrap_or(&[1.0]));
            if form.zero != 0 || !(2..=RUNS_MAX).contains(&runs.len()) {
                return Ok(None);
            }
            return self
                .run_by_run(form, &runs, (unit, zero, clamp, kind))
                .map(Some);
        }
        let factors = form.channels.as_deref().unwrap_or(&[1.0]);
        if form.zero == 0 && zero == 0 && runs_of(factors).len() > 1 {
            // Channels in the unit of the table first: each factor has else the entries of the table once more.
            let tensor = self.requantise(form, unit, 0, clamp, None, ElementType::I16)?;
            let even = Form {
                tensor,
                scale: unit,
                channels: None,
                ..form.clone()
            };
            return self
                .requantise(&even, unit, 0, clamp, table, kind)
                .map(Some);
        }
        let Some(narrow) = self.narrowed(form, unit, clamp)? else {
            return Ok(None);
        };
        self.requantise(&narrow, unit, zero, clamp, table, kind)
            .map(Some)
    }

    /// Whether a requantisation is written as it is: it has a proof, and in 16 bits a table of few segments beside those of its
    /// entries, as accumulators that reach far have many at the ends of the clamp.
    fn goes(&self, how: &Requantise, form: &Form, shape: Shape) -> bool {
        let wide = self.builder.kind(form.tensor) == ElementType::I32;
        match &how.table {
            Some(table) if wide && self.options.precision == Precision::Bits16 => {
                let most = table.len() + ELEMENT_SEGMENTS * shape.elements();
                SegmentTable::within(how, most.min(SEGMENTS_MAX)).is_ok()
            }
            _ => is_provable(how),
        }
    }

    /// A form whose accumulators reach further than a proof of this requantisation has segments for: shifted to 16 bits first,
    /// with as many digits as the units within the clamp leave room for.
    fn narrowed(&mut self, form: &Form, unit: f64, clamp: [i16; 2]) -> Step<Option<Form>> {
        let wide = self.builder.kind(form.tensor) == ElementType::I32;
        if !wide || form.zero != 0 {
            return Ok(None);
        }
        let factors = form.channels.as_deref().unwrap_or(&[1.0]);
        let least = factors.iter().copied().fold(f64::INFINITY, f64::min);
        let ends = clamp.map(|end| f64::from(end).abs());
        let reach = (ends[0].max(ends[1]) + 1.0) * unit / (form.scale * least);
        let top = f64::from(i16::MAX);
        let shift = (reach / top).log2().ceil().max(0.0);
        if shift > f64::from(WIDE_SHIFT_MAX) {
            return Ok(None);
        }
        let narrow = Form {
            scale: form.scale * shift.exp2(),
            channels: None,
            ..form.clone()
        };
        let plain = Form {
            channels: None,
            ..form.clone()
        };
        let ends = [-i16::MAX, i16::MAX];
        let tensor = self.requantise(&plain, narrow.scale, 0, ends, None, ElementType::I16)?;
        Ok(Some(Form {
            tensor,
            channels: form.channels.clone(),
            ..narrow
        }))
    }

    /// Some channels of a form's tensor, and their shape.
    fn part(&mut self, form: &Form, first: usize, count: usize) -> (TensorId, Shape) {
        let shape = self.builder.shape(form.tensor);
        let first = u32::try_from(first).expect("a channel");
        let count = u32::try_from(count).expect("few");
        let pixels = u32::try_from(shape.pixels()).expect("a shape has at most 2^26 elements");
        let channels = i32::try_from(shape.channels).expect("an axis is short");
        let op = Op::View(op::Unary {
            input: form.tensor,
            how: View::new(first, &[(pixels, channels), (count, 1)]),
        });
        let own = shape.with_axis(Axis::Channels, count);
        let name = format!("{}.channels", self.prepared.graph.name_of(form.value));
        (self.builder.push(&name, op, own, form.scale, None), own)
    }

    /// Parts along the channels as one tensor.
    fn side_by_side(
        &mut self,
        name: &str,
        parts: Vec<TensorId>,
        (shape, scale): (Shape, f64),
    ) -> TensorId {
        let op = Op::Concat(op::Concat {
            inputs: parts,
            axis: Axis::Channels,
        });
        self.builder
            .push(&format!("{name}.channels"), op, shape, scale, None)
    }

    /// Channels whose factors have nothing in common, each run of equal ones by itself: a factor alone always has a proof.
    fn run_by_run(
        &mut self,
        form: &Form,
        runs: &[(usize, usize, f64)],
        (unit, zero, clamp, kind): (f64, i64, [i16; 2], ElementType),
    ) -> Step<TensorId> {
        let mut parts = Vec::with_capacity(runs.len());
        for &(first, count, factor) in runs {
            let (tensor, _) = self.part(form, first, count);
            let alone = Form {
                tensor,
                scale: form.scale * factor,
                channels: None,
                ..form.clone()
            };
            parts.push(self.requantise(&alone, unit, zero, clamp, None, kind)?);
        }
        let (name, shape) = (
            self.prepared.graph.name_of(form.value).to_owned(),
            self.builder.shape(form.tensor),
        );
        Ok(self.side_by_side(&name, parts, (shape, unit)))
    }

    /// A tensor times a whole number, and the shift after it for each channel, that together are the factors of a rescale:
    /// shifts have proofs whatever the range is, and the product is exact.
    fn multiplied(
        &mut self,
        form: &Form,
        base: f64,
        factors: &[f64],
    ) -> Option<(TensorId, Vec<Rescale>)> {
        let zeros = form.zero == 0 && self.builder.kind(form.tensor) == ElementType::I32;
        let magnitude = self.builder.magnitude(form.tensor).max(1);
        let whole = whole_factor(base, magnitude);
        if zeros && magnitude > i64::from(i16::MAX) && (base < 0.5 || whole.is_none()) {
            // Accumulators have no room for a factor: first a shift to 16 bits, or their clamp alone, since what is beyond it
            // is clamped after the factor too.
            let shift = base.log2().floor().min(0.0);
            let shifts = factors.iter().all(|factor| factor.log2().fract() == 0.0);
            if shift.exp2() == base || !shifts {
                // It is that shift, and is here because it has no proof; or each channel has a factor of its own.
                return None;
            }
            let clamp = [-i16::MAX, i16::MAX];
            let unit = form.scale * (-shift).exp2();
            let tensor = self.requantise(form, unit, 0, clamp, None, ElementType::I16);
            let narrow = Form {
                tensor: tensor.ok()?,
                scale: unit,
                channels: None,
                ..form.clone()
            };
            return self.multiplied(&narrow, base * (-shift).exp2(), &[1.0]);
        }
        let (scaled, shift) = whole?;
        let shifts = factors.iter().map(|factor| {
            let own = f64::from(shift) - factor.log2();
            let exact = own.fract() == 0.0 && (0.0..=f64::from(WIDE_SHIFT_MAX)).contains(&own);
            exact.then(|| Rescale::nearest((-own).exp2()))?
        });
        let shifts: Vec<Rescale> = shifts.collect::<Option<_>>()?;
        let name = format!("{}.multiplied", self.prepared.graph.name_of(form.value));
        let op = Op::Add(op::Add {
            inputs: vec![form.tensor],
            multipliers: vec![scaled as i32],
            bias: 0,
        });
        let shape = self.builder.shape(form.tensor);
        let scale = form.scale / scaled;
        Some((self.builder.push(&name, op, shape, scale, None), shifts))
    }

    // ------------------------------------------------------------ functions

    /// What a region gives for these values of its root.
    fn evaluate(
        &self,
        root: ValueId,
        steps: &[usize],
        value: ValueId,
        arguments: &[f64],
    ) -> Step<Vec<f64>> {
        const FAILED: Stop = Stop::Unsupported("its function cannot be evaluated");
        let mode = convert::CastMode::default();
        let dtype = self.prepared.facts[&root].dtype;
        let data = convert::from_f64(arguments, dtype, mode).ok_or(FAILED)?;
        let start = FloatTensor::new(vec![arguments.len()], data).map_err(|_| FAILED)?;
        let mut known: BTreeMap<ValueId, FloatTensor> = BTreeMap::from([(root, start)]);
        for &step in steps {
            let node = self.node(step);
            let scalars = self.scalars(node);
            let inputs: Vec<Option<&FloatTensor>> = node
                .inputs
                .iter()
                .map(|input| input.and_then(|v| known.get(&v).or_else(|| scalars.get(&v))))
                .collect();
            let results = tgf::evaluate(node, &inputs, &Budget::default()).map_err(|_| FAILED)?;
            for (output, result) in node.outputs.iter().zip(results) {
                if let Some(output) = output {
                    known.insert(*output, result);
                }
            }
        }
        let result = known.get(&value).ok_or(FAILED)?;
        convert::to_f64(result.data()).ok_or(FAILED)
    }

    /// The constants that a node of a region reads, each of one element and none with more axes than the list of arguments: an
    /// operator that takes a parameter only along axes of its own (`PRelu`) else refuses one of shape `[1, 1]`.
    fn scalars(&self, node: &Node) -> BTreeMap<ValueId, FloatTensor> {
        let constants = &self.prepared.graph.constants;
        let flat = |value: ValueId| {
            let constant = constants.get(&value)?;
            let one = constant.shape().len() > 1 && constant.len() == 1;
            let shape = if one {
                vec![1]
            } else {
                constant.shape().to_vec()
            };
            let tensor = FloatTensor::new(shape, constant.data().clone()).ok()?;
            Some((value, tensor))
        };
        node.reads().filter_map(flat).collect()
    }

    /// The bounds, if a region only clips.
    fn clip(&self, root: ValueId, steps: &[usize], value: ValueId) -> Step<Option<[f64; 2]>> {
        let constants = &self.prepared.graph.constants;
        let clips = |&step: &usize| {
            let node = self.node(step);
            let one = node
                .reads()
                .filter(|value| !constants.contains_key(value))
                .count()
                == 1;
            one && ["Relu", "Clip", "Min", "Max", "Identity"].contains(&node.op.as_str())
        };
        if !steps.iter().all(clips) {
            return Ok(None);
        }
        let ends = self.evaluate(root, steps, value, &[-FAR, FAR])?;
        Ok(Some([ends[0], ends[1]]))
    }

    /// Factor and sum, if a region only multiplies by and adds scalars.
    fn affine(&self, root: ValueId, steps: &[usize], value: ValueId) -> Step<Option<(f64, f64)>> {
        let constants = &self.prepared.graph.constants;
        let linear = |&step: &usize| {
            let node = self.node(step);
            let one = node
                .reads()
                .filter(|value| !constants.contains_key(value))
                .count()
                == 1;
            one && ["Mul", "Div", "Add", "Sub", "Neg", "Identity"].contains(&node.op.as_str())
        };
        if !self.prepared.facts[&root].dtype.is_float() || !steps.iter().all(linear) {
            return Ok(None);
        }
        let ends = self.evaluate(root, steps, value, &[0.0, 1.0])?;
        Ok(Some((ends[1] - ends[0], ends[0])))
    }

    /// `factor x + sum` without rounding: another unit, or a sum of accumulators. Whether it can be had.
    fn take_affine(
        &mut self,
        value: ValueId,
        source: &Lowered,
        from: &Form,
        factor: f64,
        sum: f64,
    ) -> bool {
        if factor > 0.0 && sum == 0.0 {
            let form = Form {
                value,
                scale: from.scale * factor,
                ..from.clone()
            };
            self.give_form(value, source.layout.clone(), form);
            return true;
        }
        let magnitude = self.builder.magnitude(from.tensor);
        if from.channels.is_some() || factor == 0.0 || magnitude > 1 << 28 {
            return false;
        }
        let finer = if magnitude < 1 << 16 { 256 } else { 1 };
        let scale = from.scale * factor.abs() / f64::from(finer);
        let multiplier = if factor > 0.0 { finer } else { -finer };
        let bias = (sum / scale).round() - (from.zero * i64::from(multiplier)) as f64;
        if bias.abs() > f64::from(1 << 29) {
            return false;
        }
        let op = Op::Add(op::Add {
            inputs: vec![from.tensor],
            multipliers: vec![multiplier],
            bias: bias as i32,
        });
        let shape = self.builder.shape(from.tensor);
        let name = self.prepared.graph.name_of(value).to_owned();
        let tensor = self.builder.push(&name, op, shape, scale, None);
        self.give(value, tensor, source.layout.clone(), scale, 0);
        true
    }
}

/// A whole number and the shift after it that are a factor, where what is multiplied has room for one that is near enough.
fn whole_factor(base: f64, magnitude: i64) -> Option<(f64, u32)> {
    let room = ((FIELD_BOUND - SLACK) / magnitude).min(i64::from(MULTIPLIER_MAX));
    let scaled = |shift: u32| (base * f64::from(shift).exp2()).round();
    let shift = (0..=WIDE_SHIFT_MAX)
        .rev()
        .find(|&shift| scaled(shift) as i64 <= room)?;
    (scaled(shift) >= MULTIPLIER_LEAST).then(|| (scaled(shift), shift))
}

/// First channel and length of each run of channels of one factor, with it.
fn runs_of(factors: &[f64]) -> Vec<(usize, usize, f64)> {
    let mut runs: Vec<(usize, usize, f64)> = Vec::new();
    for (channel, &factor) in factors.iter().enumerate() {
        match runs.last_mut() {
            Some((_, count, before)) if *before == factor => *count += 1,
            _ => runs.push((channel, 1, factor)),
        }
    }
    runs
}

/// The distinct rescales, largest factor first, and the one of each channel.
fn pairs_of(rescales: &[Rescale]) -> (Vec<Rescale>, Vec<u8>) {
    let mut pairs = rescales.to_vec();
    pairs.sort_by_key(|pair| (pair.shift(), std::cmp::Reverse(pair.multiplier())));
    pairs.dedup();
    let place = |rescale: &Rescale| {
        let found = pairs.iter().position(|pair| pair == rescale);
        u8::try_from(found.unwrap_or(0)).unwrap_or(u8::MAX)
    };
    let channels = if pairs.len() == 1 {
        vec![0]
    } else {
        rescales.iter().map(place).collect()
    };
    (pairs, channels)
}

/// Whether a requantisation has one of the tables that a proof can show it by.
fn is_provable(how: &Requantise) -> bool {
    SegmentTable::build(how).is_ok() || WideTable::build(how).is_ok()
}
