//! Products of activations, softmax with its mask, normalisations.

use super::form::{Form, Read};
use super::lowering::{Lowering, Reader, Step, Stop, operand, result, unsupported};
use super::lowering::{SLACK, narrow};
use super::strided::{Factor, Strided, is_contiguous, normal};
use super::strided::{axis_of, grouped_layout};
use crate::passes::int;
use tg_float::{Attribute, Node, ValueId, convert};
use tg_ir::op::{self, NORM_FRACTION_MAX, NORM_PRECISION_MAX};
use tg_ir::op::{Norm, PROBABILITY_ONE, Softmax};
use tg_ir::requantise::TABLE_MAX;
use tg_ir::{ElementType, FIELD_BOUND, Op, Rescale, Shape, TensorId};

/// Beyond this distance from the greatest score an exponential is below half a unit of 2^-15.
pub(crate) const EXPONENT_REACH: f64 = 11.1;

/// Two readings as one product: axes of each that are batch, kept and summed over.
pub(crate) struct Contraction {
    pub(crate) batch: [Vec<usize>; 2],
    pub(crate) kept: [Vec<usize>; 2],
    pub(crate) summed: [Vec<usize>; 2],
}

impl Lowering<'_> {
    /// A product of two computed matrices, or of a computed one with parameters.
    pub(crate) fn matrices(&mut self, index: usize) -> Step<()> {
        let node = self.node(index);
        let (a, b, value) = (operand(node, 0)?, operand(node, 1)?, result(node)?);
        let shape = self.shape_of(value);
        let [left, right] = [a, b].map(|input| self.shape_of(input).len());
        if left < 2 || right < 2 {
            return unsupported("it multiplies a vector that is not a matrix");
        }
        let rank = shape.len();
        let batch = &shape[..rank - 2];
        let [mut left, mut right] =
            self.factors_of_product(a, b, self.shape_of(a)[self.shape_of(a).len() - 1])?;
        for read in [&mut left, &mut right] {
            let own = read.layout.sizes();
            let target = [batch, &own[own.len() - 2..]].concat();
            let layout = read.layout.expanded(&target);
            read.layout = layout.ok_or(Stop::Unsupported("its matrices do not broadcast"))?;
        }
        let axes: Vec<usize> = (0..rank - 2).collect();
        let contraction = Contraction {
            batch: [axes.clone(), axes],
            kept: [vec![rank - 2], vec![rank - 1]],
            summed: [vec![rank - 1], vec![rank - 2]],
        };
        let name = node.name.clone();
        let (tensor, scale) = self.contract(&name, &left, &right, &contraction)?;
        self.give_sums(value, tensor, Strided::contiguous(shape), scale);
        Ok(())
    }

    /// Both sides as activations whose products stay within the field.
    fn factors_of_product(&mut self, a: ValueId, b: ValueId, inner: usize) -> Step<[Read; 2]> {
        let room = FIELD_BOUND - 2 * SLACK;
        let inner = inner.max(1) as i64;
        if let Ok(found) = self.raw(a)
            && matches!(self.builder.op(found.tensor), Some(Op::Softmax(_)))
        {
            let row = i64::from(PROBABILITY_ONE) + inner / 2 + 1;
            let right = self.read_centred(b, Reader::Product, room / row)?;
            return Ok([found, right]);
        }
        let each = (room / inner).isqrt();
        let left = self.read_centred(a, Reader::Product, each)?;
        let right = self.read_centred(b, Reader::Product, each)?;
        Ok([left, right])
    }

    /// Sums over an axis of products, as batches x kept axes of the left x kept axes of the right.
    pub(crate) fn contract(
        &mut self,
        name: &str,
        left: &Read,
        right: &Read,
        axes: &Contraction,
    ) -> Step<(TensorId, f64)> {
        let of = |read: &Read, axes: &Vec<usize>| read.layout.factors(axes.iter().copied());
        let batch = of(left, &axes.batch[0]);
        let mut repeated = of(right, &axes.batch[1]);
        // Each matrix of the right for several of the left in a row: grouped queries.
        while repeated.last().is_some_and(|factor| factor.stride == 0) {
            repeated.pop();
        }
        let left_groups = [batch, of(left, &axes.kept[0]), of(left, &axes.summed[0])];
        let [kept, summed] = [of(right, &axes.kept[1]), of(right, &axes.summed[1])];
        let direct = |groups: &[&Vec<Factor>; 3]| {
            let all: Vec<Factor> = groups
                .iter()
                .flat_map(|group| group.iter().copied())
                .collect();
            let shape = self.builder.shape(right.tensor);
            let size = |group: &Vec<Factor>| group.iter().map(|f| f.size).product::<usize>() as u32;
            let wanted = Shape::new(size(groups[0]), size(groups[1]), size(groups[2]));
            wanted == shape && is_contiguous(&normal(all), shape.elements())
        };
        let transposed = !direct(&[&repeated, &summed, &kept]);
        let right_groups = if transposed {
            [repeated, kept, summed]
        } else {
            [repeated, summed, kept]
        };
        let a = self.placed(left, &left_groups, name)?;
        let b = self.placed(right, &right_groups, name)?;
        let (first, second) = (self.builder.shape(a), self.builder.shape(b));
        let columns = if transposed {
            second.width
        } else {
            second.channels
        };
        let op = Op::MatMul(op::MatMul {
            inputs: [a, b],
            transposed,
        });
        let shape = Shape::new(first.height, first.width, columns);
        if !shape.is_valid() {
            return unsupported("its result is too large");
        }
        let scale = left.scale * right.scale;
        Ok((self.builder.push(name, op, shape, scale, None), scale))
    }

    /// Products of two tensors summed over the letters that the result lacks.
    pub(crate) fn einsum(&mut self, index: usize) -> Step<()> {
        let node = self.node(index);
        let value = result(node)?;
        let Some(Attribute::Text(text)) = node.attributes.get("equation") else {
            return unsupported("it has no equation");
        };
        let text: String = String::from_utf8_lossy(text).split_whitespace().collect();
        let parts: Vec<&str> = text
            .split([',', '-', '>'])
            .filter(|part| !part.is_empty())
            .collect();
        let &[left, right, output] = parts.as_slice() else {
            return unsupported("only products of two tensors with a stated result are taken");
        };
        if text.contains('.') {
            return unsupported("its equation has an ellipsis");
        }
        let at = |term: &str, letter: char| term.chars().position(|own| own == letter);
        let [mut batch, mut kept, mut summed]: [[Vec<usize>; 2]; 3] = Default::default();
        let mut order = Vec::new();
        let mut batch_letters = Vec::new();
        for letter in left.chars() {
            let own = at(left, letter).unwrap_or(0);
            match (at(right, letter), at(output, letter)) {
                (Some(other), Some(_)) => {
                    batch[0].push(own);
                    batch[1].push(other);
                    batch_letters.push(letter);
                }
                (Some(other), None) => {
                    summed[0].push(own);
                    summed[1].push(other);
                }
                (None, Some(_)) => kept[0].push(own),
                (None, None) => return unsupported("it sums over an axis of one tensor"),
            }
        }
        order.extend(batch_letters);
        order.extend(left.chars().filter(|&l| at(right, l).is_none()));
        for letter in right.chars().filter(|&letter| at(left, letter).is_none()) {
            if at(output, letter).is_none() {
                return unsupported("it sums over an axis of one tensor");
            }
            kept[1].push(at(right, letter).unwrap_or(0));
            order.push(letter);
        }
        let (a, b) = (operand(node, 0)?, operand(node, 1)?);
        let inner: usize = summed[0]
            .iter()
            .map(|&axis| self.shape_of(a)[axis])
            .product();
        let [a, b] = self.factors_of_product(a, b, inner)?;
        let contraction = Contraction {
            batch,
            kept,
            summed,
        };
        let name = node.name.clone();
        let (tensor, scale) = self.contract(&name, &a, &b, &contraction)?;
        let shape = self.shape_of(value);
        let places: Option<Vec<usize>> = order.iter().map(|&letter| at(output, letter)).collect();
        let places = places.ok_or(Stop::Unsupported("its equation is not understood"))?;
        self.give_sums(value, tensor, Strided::ordered(shape, &places), scale);
        Ok(())
    }

    // ------------------------------------------------------------ softmax

    /// A sum or choice that masks scores for the softmax that alone reads it, if the mask is causal: taken in there.
    pub(crate) fn as_mask(&mut self, index: usize) -> Step<bool> {
        let node = self.node(index);
        let value = result(node)?;
        if !self.feeds_softmax(value) {
            return Ok(false);
        }
        let Some((scores, allowed)) = self.mask_of(node) else {
            return Ok(false);
        };
        if self.shape_of(scores) != self.shape_of(value) {
            return Ok(false);
        }
        let shape = self.shape_of(value);
        let [rows, columns] = [shape[shape.len() - 2], shape[shape.len() - 1]];
        let Some(offset) = causal_offset(&allowed, rows, columns) else {
            return Ok(false);
        };
        self.masks.insert(value, offset);
        let found = self.lowered(scores)?;
        self.values.insert(value, found);
        Ok(true)
    }

    /// The scores that a node masks, and per row and column whether they stay.
    fn mask_of(&self, node: &Node) -> Option<(ValueId, Vec<bool>)> {
        let constant = |value: ValueId| {
            let tensor = self.prepared.graph.constants.get(&value)?;
            Some((tensor.shape().to_vec(), convert::to_f64(tensor.data())?))
        };
        let value = result(node).ok()?;
        let shape = self.shape_of(value);
        let [rows, columns] = *shape.get(shape.len().checked_sub(2)?..)? else {
            return None;
        };
        let far = f64::from(super::elementwise::MASKED);
        let inputs: Vec<ValueId> = node.reads().collect();
        let (scores, mask, keeps) = match (node.op.as_str(), inputs.as_slice()) {
            ("Add", &[a, b]) => {
                let (scores, mask) = if self.is_constant(b) { (a, b) } else { (b, a) };
                let (own, values) = constant(mask)?;
                if values.iter().any(|&v| v != 0.0 && v > far) {
                    return None;
                }
                let keeps = values.iter().map(|&v| v == 0.0).collect();
                (scores, own, keeps)
            }
            ("Where", &[condition, yes, no]) => {
                let (own, values) = constant(condition)?;
                let masked = |value: ValueId| {
                    constant(value).is_some_and(|(_, v)| v.iter().all(|&v| v < far))
                };
                let (scores, kept) = match (masked(yes), masked(no)) {
                    (false, true) => (yes, 1.0),
                    (true, false) => (no, 0.0),
                    _ => return None,
                };
                let keeps: Vec<bool> = values.iter().map(|&v| v == kept).collect();
                (scores, own, keeps)
            }
            _ => return None,
        };
        let keeps: Vec<bool> = keeps;
        if keeps.len() != rows * columns || mask.ends_with(&[rows, columns]).then_some(()).is_none()
        {
            return None;
        }
        Some((scores, keeps))
    }

    pub(crate) fn softmax(&mut self, index: usize) -> Step<()> {
        let node = self.node(index);
        let value = result(node)?;
        let (tensor, layout) = self.probabilities(index)?;
        self.give(value, tensor, layout, 1.0 / f64::from(PROBABILITY_ONE), 0);
        Ok(())
    }

    fn probabilities(&mut self, index: usize) -> Step<(TensorId, Strided)> {
        let node = self.node(index);
        let x = operand(node, 0)?;
        let shape = self.shape_of(x);
        let rank = shape.len();
        let axis = axis_of(int(node, "axis", -1), rank);
        let read = match self.raw(x) {
            Ok(read) if self.builder.magnitude(read.tensor) <= FIELD_BOUND / 2 => read,
            _ => self.read(x, Reader::Other, 32_767)?,
        };
        let causal = self.masks.get(&x).copied();
        let name = node.name.clone();
        let (tensor, layout) = if causal.is_some() {
            let groups = [(0..rank - 2).collect(), vec![rank - 2], vec![rank - 1]];
            let tensor = self.arranged(&read, &groups, &name)?;
            (tensor, grouped_layout(shape, &groups))
        } else {
            self.channels_last(&read, axis, &name)?
        };
        let unit = (EXPONENT_REACH / (TABLE_MAX as f64 - 2.0)).max(read.scale / 8_000.0);
        let factor = read.scale / unit;
        let rescale =
            Rescale::nearest(factor).ok_or_else(|| super::lowering::LowerError::Factor {
                node: name.clone(),
                factor,
            })?;
        let entries = (EXPONENT_REACH / unit).ceil() as usize + 1;
        let one = f64::from(PROBABILITY_ONE);
        let entry = |i: usize| (one * (-(i as f64) * unit).exp()).round() as u16;
        let how = Softmax {
            rescale,
            table: (0..entries.min(TABLE_MAX)).map(entry).collect(),
            causal,
        };
        let op = Op::Softmax(op::Unary { input: tensor, how });
        let shape = self.builder.shape(tensor);
        let tensor = self.builder.push(&name, op, shape, 1.0 / one, None);
        Ok((tensor, layout))
    }

    /// The logarithm of the softmax's probability, at least that of one unit of 2^-15, through a table.
    pub(crate) fn log_softmax(&mut self, index: usize) -> Step<()> {
        let node = self.node(index);
        let value = result(node)?;
        let (tensor, layout) = self.probabilities(index)?;
        let kind = self.bits(Reader::Other);
        let unit = if kind == ElementType::I8 {
            11.0 / 127.0
        } else {
            11.0 / 32_000.0
        };
        let last = TABLE_MAX as i16 - 1;
        let logarithm = |i: i16| {
            let p = (f64::from(i) / f64::from(last)).max(1.0 / 32_767.0);
            (p.ln() / unit).round() as i16
        };
        let factor = f64::from(last) / f64::from(PROBABILITY_ONE);
        let how = tg_ir::Requantise {
            pairs: vec![Rescale::nearest(factor).ok_or(Stop::Unsupported("no rescale"))?],
            channel_pairs: vec![0],
            zero: 0,
            range: self.builder.reach(tensor)?,
            clamp: [0, last],
            table: Some((0..=last).map(logarithm).collect()),
            output: kind,
        };
        let shape = self.builder.shape(tensor);
        let name = format!("{}.log", node.name);
        let op = Op::Requantise(op::Unary { input: tensor, how });
        let tensor = self.builder.push(&name, op, shape, unit, None);
        self.give(value, tensor, layout, unit, 0);
        Ok(())
    }

    // ------------------------------------------------------------ normalisations

    pub(crate) fn norm(&mut self, index: usize) -> Step<()> {
        let node = self.node(index);
        let (x, value) = (operand(node, 0)?, result(node)?);
        let shape = self.shape_of(x);
        let rank = shape.len();
        let instance = node.op == "InstanceNormalization";
        if !instance && axis_of(int(node, "axis", -1), rank) + 1 != rank {
            return unsupported("only the last axis is normalised");
        }
        let centred = node.op != "RMSNormalization" && node.op != "SimplifiedLayerNormalization";
        let rows = if instance { 2 } else { rank - 1 };
        let length = shape[rows..].iter().product();
        let epsilon = f64::from(crate::passes::float(node, "epsilon", 1e-5));
        let read = self.normalisable(x, (narrow(length)?, epsilon, centred))?;
        let name = node.name.clone();
        let (tensor, layout) = if instance {
            let groups = [vec![0, 1], Vec::new(), (2..rank).collect()];
            let tensor = self.arranged(&read, &groups, &name)?;
            (tensor, grouped_layout(shape, &groups))
        } else {
            self.channels_last(&read, rank - 1, &name)?
        };
        let own = self.builder.shape(tensor);
        let how = norm_of(
            own.channels,
            self.builder.magnitude(tensor),
            epsilon / read.scale.powi(2),
            centred,
        )?;
        let unit = 0.5f64.powi(how.fraction.into());
        let op = Op::Norm(op::Unary { input: tensor, how });
        let tensor = self.builder.push(&name, op, own, unit, None);
        let normalised = Read {
            tensor,
            layout,
            scale: unit,
            zero: 0,
        };
        let axis = if instance { 1 } else { rank - 1 };
        let channels = shape[axis];
        let gain = match node.inputs.get(1).copied().flatten() {
            None => vec![1.0; channels],
            some => self.bias(some, channels)?,
        };
        let offset = self.bias(node.inputs.get(2).copied().flatten(), channels)?;
        // An instance normalisation has its channels in rows.
        let in_place = !instance;
        if gain.iter().all(|&g| g == 1.0) && offset.iter().all(|&o| o == 0.0) {
            self.give(value, normalised.tensor, normalised.layout, unit, 0);
            return Ok(());
        }
        if in_place && offset.iter().all(|&o| o == 0.0) && gain.iter().all(|&g| is_power_of_two(g))
        {
            // Shifts of the requantisation that reads it.
            let form = Form {
                value,
                tensor: normalised.tensor,
                scale: unit,
                zero: 0,
                channels: Some(gain.into()),
                function: None,
            };
            self.give_form(value, normalised.layout, form);
            return Ok(());
        }
        let name = format!("{name}.gain");
        self.channel_affine(value, &normalised, axis, &gain, &offset, &name)
    }

    /// A value that rows of so many elements are normalised of: with fewer units where the rows are so long that a proof has
    /// no room for all.
    fn normalisable(
        &mut self,
        x: ValueId,
        (length, epsilon, centred): (u32, f64, bool),
    ) -> Step<Read> {
        let mut limit = i64::from(i16::MAX);
        let reach = self.statistics.get(&x).map_or(1.0, |found| {
            f64::from(found.greatest_magnitude()).max(1e-30)
        });
        let short = |limit: i64| {
            let unit = reach / limit as f64;
            let how = norm_of(length, limit, epsilon / unit.powi(2), centred);
            how.is_ok_and(|how| !has_room(how, length, limit))
        };
        while self.bits(Reader::Other) == ElementType::I16
            && short(limit)
            && limit > NORM_LIMIT_LEAST
        {
            limit /= 2;
        }
        let read = self.read(x, Reader::Other, limit)?;
        if centred || read.zero == 0 {
            return Ok(read);
        }
        self.read_centred(x, Reader::Other, limit)
    }
}

/// Whether a proof has room for normalising rows of so many elements of so many units.
fn has_room(how: Norm, length: u32, magnitude: i64) -> bool {
    let (n, most) = (i128::from(length), i128::from(magnitude));
    let bits = how.precision + how.fraction;
    bits >= PROVED_BITS
        && (n * most) << how.precision < 1 << 28
        && (2 * n * most) << bits < 1 << 42
        && (length <= 1 << 12 || n * most * most <= i128::from(FIELD_BOUND))
}

/// Units that a normalised value has at least, whatever a proof has room for.
const NORM_LIMIT_LEAST: i64 = 256;

fn is_power_of_two(factor: f64) -> bool {
    factor > 0.0 && factor.log2().fract() == 0.0 && (-8.0..=8.0).contains(&factor.log2())
}

/// Fewest bits of precision and fraction together with which a normalisation is proved.
const PROVED_BITS: u8 = 12;

/// A normalisation as precise as its bounds let it be, and as a proof wants it.
pub(crate) fn norm_of(channels: u32, magnitude: i64, epsilon: f64, centred: bool) -> Step<Norm> {
    let n = i128::from(channels);
    let magnitude = i128::from(magnitude);
    let fraction = (0..=NORM_FRACTION_MAX)
        .rev()
        .find(|&f| n << (2 * f) <= (1 << 30) - (1 << 16))
        .ok_or(Stop::Unsupported("its axis is too long"))?;
    let epsilon = (epsilon * f64::from(channels).powi(2))
        .round()
        .clamp(0.0, 1e17);
    let fits = |&k: &u8| {
        let radicand = (n * n * magnitude * magnitude + epsilon as i128) << (2 * k);
        let numerator = (2 * n * magnitude) << (k + fraction);
        radicand < 1 << 62 && numerator < 1 << 62
    };
    // A root of 24 bits is precise enough and the cheapest to prove, unless that takes fewer than 12 bits in all.
    let short = |&k: &u8| fits(&k) && (n * magnitude) << k < 1 << 24;
    let least = PROVED_BITS.saturating_sub(fraction);
    let precision = (least..=NORM_PRECISION_MAX).rev().find(short);
    let precision = precision.or_else(|| (0..=least).rev().find(fits));
    Ok(Norm {
        centred,
        epsilon: epsilon as u64,
        precision: precision.ok_or(Stop::Unsupported("its values are too large"))?,
        fraction,
    })
}

/// The offset of a causal mask: row i keeps columns up to `i + offset`.
fn causal_offset(allowed: &[bool], rows: usize, columns: usize) -> Option<u32> {
    let first = allowed[..columns]
        .iter()
        .take_while(|&&keeps| keeps)
        .count();
    let offset = first.checked_sub(1)?;
    let causal = (0..rows).all(|row| {
        let keeps = &allowed[row * columns..][..columns];
        keeps
            .iter()
            .enumerate()
            .all(|(column, &k)| k == (column <= row + offset))
    });
    (causal && rows * columns > 1).then(|| narrow(offset).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causal_masks_are_recognised() {
        let lower = |offset: usize, rows: usize, columns: usize| -> Vec<bool> {
            let each = (0..rows).flat_map(|r| (0..columns).map(move |c| (r, c)));
            each.map(|(row, column)| column <= row + offset).collect()
        };
        assert_eq!(causal_offset(&lower(0, 4, 4), 4, 4), Some(0));
        assert_eq!(causal_offset(&lower(3, 2, 5), 2, 5), Some(3));
        let mut other = lower(0, 4, 4);
        other[4] = false;
        assert_eq!(causal_offset(&other, 4, 4), None);
        assert_eq!(causal_offset(&[false; 4], 2, 2), None);
    }
}
