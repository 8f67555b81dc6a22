//! Attention, rotary embeddings, linear attention.

use super::broadcast::{broadcast_shape, broadcast_strides};
use super::call::Entry;
use super::call::Half::Widen;
use super::call::{Call, Results, tensor};
use super::each::by_real;
use super::error::OpError;
use super::linear::WIDE_UNITS;
use super::norm::softmax_row;
use super::real::Real;
use super::real::Sizes;
use crate::convert;
use crate::tensor::{DType, Data, FloatTensor};

/// The function of an operator of this family.
pub(super) fn lookup(op: &str) -> Option<Entry> {
    let kernel: super::call::Kernel = match op {
        "Attention" => |call| by_real!(call, 0, attention(call)),
        "RotaryEmbedding" => |call| by_real!(call, 0, rotary(call)),
        "LinearAttention" => |call| by_real!(call, 0, linear(call)),
        _ => return None,
    };
    Some((kernel, Widen))
}

/// The function of an operator of `com.microsoft`.
pub(super) fn lookup_microsoft(_op: &str) -> Option<Entry> {
    None
}

/// Numbers per batch, head, position and feature, whichever way the file lays them out.
struct Heads<R> {
    batch: usize,
    heads: usize,
    length: usize,
    size: usize,
    values: Vec<R>,
}

impl<R: Real> Heads<R> {
    /// An input with four axes, or with three and the heads side by side in the last.
    fn read(call: &Call<'_>, index: usize, heads: Option<usize>) -> Result<Self, OpError> {
        let values = call.values::<R>(index)?;
        call.reserve(values.len(), R::DTYPE)?;
        match (call.input(index)?.shape(), heads) {
            (&[batch, heads, length, size], _) => Ok(Self {
                batch,
                heads,
                length,
                size,
                values: values.to_vec(),
            }),
            (&[batch, length, hidden], Some(heads))
                if (1..=hidden.max(1)).contains(&heads) && hidden % heads == 0 =>
            {
                let size = hidden / heads;
                let mut out = Vec::with_capacity(values.len());
                for item in 0..batch {
                    for head in 0..heads {
                        for place in 0..length {
                            let start = (item * length + place) * hidden + head * size;
                            out.extend_from_slice(&values[start..start + size]);
                        }
                    }
                }
                Ok(Self {
                    batch,
                    heads,
                    length,
                    size,
                    values: out,
                })
            }
            _ => Err(OpError::invalid(
                "an input has neither heads nor a number of them",
            )),
        }
    }

    /// The matrix (positions by features) of a head.
    fn head(&self, item: usize, head: usize) -> &[R] {
        let size = self.length * self.size;
        let index = item * self.heads + head;
        &self.values[index * size..(index + 1) * size]
    }

    fn tensor(&self) -> Result<FloatTensor, OpError> {
        let shape = vec![self.batch, self.heads, self.length, self.size];
        tensor(shape, R::wrap(self.values.clone()))
    }

    /// Laid out as an input with `rank` axes was.
    fn write(self, rank: usize) -> Result<FloatTensor, OpError> {
        if rank == 4 {
            return self.tensor();
        }
        let mut out = Vec::with_capacity(self.values.len());
        for item in 0..self.batch {
            for place in 0..self.length {
                for head in 0..self.heads {
                    let start = place * self.size;
                    out.extend_from_slice(&self.head(item, head)[start..start + self.size]);
                }
            }
        }
        let shape = vec![self.batch, self.length, self.heads * self.size];
        tensor(shape, R::wrap(out))
    }

    /// What was kept before, and this after it.
    fn after(self, call: &Call<'_>, index: usize) -> Result<Self, OpError> {
        if call.optional(index).is_none() {
            return Ok(self);
        }
        let past = Self::read(call, index, None)?;
        if [past.batch, past.heads, past.size] != [self.batch, self.heads, self.size] {
            return Err(OpError::invalid("the kept keys or values do not fit"));
        }
        call.reserve(past.values.len() + self.values.len(), R::DTYPE)?;
        let mut values = Vec::with_capacity(past.values.len() + self.values.len());
        for item in 0..self.batch {
            for head in 0..self.heads {
                values.extend_from_slice(past.head(item, head));
                values.extend_from_slice(self.head(item, head));
            }
        }
        Ok(Self {
            length: past.length + self.length,
            values,
            ..self
        })
    }
}

fn count(call: &Call<'_>, name: &'static str) -> Result<Option<usize>, OpError> {
    match call.optional_int(name)? {
        None | Some(0) => Ok(None),
        Some(value) => usize::try_from(value)
            .map(Some)
            .map_err(|_| OpError::Attribute { name }),
    }
}

/// Farther than any position: places beyond it are all alike.
const FAR: i64 = 1 << 40;

/// Steps of a score: mask, exponential and division.
const SCORE_STEPS: usize = 12;

/// What is added to the scores: minus infinity where a query may not look.
struct Bias<'a, R> {
    mask: Option<(&'a FloatTensor, Vec<R>)>,
    /// Last axis of the mask; keys beyond it are not looked at.
    covered: usize,
    causal: bool,
    left: i64,
    right: i64,
    /// Keys before the first query, per item.
    offsets: Vec<i64>,
    /// Keys that are there, per item.
    present: Option<Vec<i64>>,
}

impl<'a, R: Real> Bias<'a, R> {
    fn new(call: &Call<'a>, batch: usize, queries: usize, past: usize) -> Result<Self, OpError> {
        let mask = match call.optional(3) {
            None => None,
            Some(mask) => {
                let values = match mask.data() {
                    Data::Bool(values) => {
                        let one = |&look: &bool| if look { R::ZERO } else { -R::INFINITY };
                        values.iter().map(one).collect()
                    }
                    data => {
                        let wide = convert::to_f64(data).ok_or_else(|| call.wrong_type(3))?;
                        wide.into_iter().map(R::of).collect()
                    }
                };
                Some((mask, values))
            }
        };
        let present = call.optional_integers(6)?;
        if present
            .as_ref()
            .is_some_and(|present| present.len() != batch)
        {
            return Err(OpError::invalid("there is not one length per item"));
        }
        let offsets = match &present {
            Some(present) if past == 0 => {
                let before = |n: &i64| n.saturating_sub(queries as i64).max(-FAR);
                present.iter().map(|n| before(n).min(FAR)).collect()
            }
            _ => vec![past as i64; batch],
        };
        let covered = mask
            .as_ref()
            .and_then(|(mask, _)| mask.shape().last().copied());
        Ok(Self {
            mask,
            covered: covered.unwrap_or(usize::MAX),
            causal: call.flag("is_causal", false)?,
            left: call.int("left_window_size", -1)?,
            right: call.int("right_window_size", -1)?,
            offsets,
            present,
        })
    }

    /// Adds to the scores of one head; per query, whether it may look at anything.
    fn add(
        &self,
        [item, head, heads]: [usize; 3],
        [queries, keys]: [usize; 2],
        scores: &mut [R],
    ) -> Result<Vec<bool>, OpError> {
        let batch = self.offsets.len();
        let place = match &self.mask {
            None => None,
            Some((mask, values)) => {
                let shape = [batch, heads, queries, self.covered];
                if mask.rank() > 4 || broadcast_shape(&[mask.shape(), &shape])? != shape {
                    return Err(OpError::invalid("the mask does not fit the scores"));
                }
                Some((values, broadcast_strides(mask.shape(), &shape)))
            }
        };
        let mut looks = vec![false; queries];
        for query in 0..queries {
            let position = query as i64 + self.offsets[item];
            for key in 0..keys {
                let ahead = key as i64 - position;
                let mut bias = R::ZERO;
                let hidden = (self.causal && ahead > 0)
                    || (self.left >= 0 && -ahead > self.left)
                    || (self.right >= 0 && ahead > self.right)
                    || self.present.as_ref().is_some_and(|n| key as i64 >= n[item])
                    || key >= self.covered;
                if hidden {
                    bias = -R::INFINITY;
                } else if let Some((values, steps)) = &place {
                    let at = [item, head, query, key];
                    let index: usize = at.iter().zip(steps).map(|(at, step)| at * step).sum();
                    bias = values[index];
                }
                looks[query] |= bias > -R::INFINITY || bias.is_nan();
                let score = &mut scores[query * keys + key];
                // A hidden place is minus infinity even where the score is infinite.
                *score = if hidden { bias } else { *score + bias };
            }
        }
        Ok(looks)
    }
}

/// Queries, keys and values of an attention, and how the scores are made.
struct Parts<'a, R> {
    query: Heads<R>,
    key: Heads<R>,
    value: Heads<R>,
    bias: Bias<'a, R>,
    /// Square root of the scale: both factors are multiplied by it.
    root: R,
    softcap: R,
}

impl<'a, R: Real> Parts<'a, R> {
    fn new(call: &Call<'a>) -> Result<Self, OpError> {
        let (query_heads, key_heads) = (count(call, "q_num_heads")?, count(call, "kv_num_heads")?);
        let query = Heads::<R>::read(call, 0, query_heads)?;
        let key = Heads::<R>::read(call, 1, key_heads)?;
        let value = Heads::<R>::read(call, 2, key_heads)?;
        let before = key.length;
        let (key, value) = (key.after(call, 4)?, value.after(call, 5)?);
        let past = key.length - before;
        let fits = key.size == query.size
            && [key.batch, value.batch] == [query.batch; 2]
            && key.heads == value.heads
            && key.length == value.length
            && key.heads > 0
            && query.heads.is_multiple_of(key.heads);
        if !fits {
            return Err(OpError::invalid(
                "queries, keys and values do not fit together",
            ));
        }
        let root = match call.optional_float("scale")? {
            Some(scale) => f64::from(scale).sqrt(),
            None => (1.0 / (query.size as f64).sqrt()).sqrt(),
        };
        Ok(Self {
            bias: Bias::new(call, query.batch, query.length, past)?,
            root: R::of(root),
            softcap: R::of(call.float("softcap", 0.0)?.into()),
            query,
            key,
            value,
        })
    }

    /// Computes a head: its scores end as probabilities. `show` is given the scores after each of the four stages
    /// that the operator can give out.
    fn head(
        &self,
        item: usize,
        head: usize,
        scores: &mut [R],
        out: &mut [R],
        mut show: impl FnMut(i64, &[R]),
    ) -> Result<(), OpError> {
        let shared = head / (self.query.heads / self.key.heads);
        let (queries, keys) = (self.query.length, self.key.length);
        let scaled = |values: &[R]| -> Vec<R> { values.iter().map(|&v| v * self.root).collect() };
        let own = scaled(self.key.head(item, shared));
        let own = super::linear::transposed(&own, keys, self.key.size);
        let sizes = Sizes {
            m: queries,
            n: keys,
            k: self.query.size,
        };
        R::product(sizes, &scaled(self.query.head(item, head)), &own, scores);
        show(0, scores);
        if self.softcap > R::ZERO {
            for score in &mut *scores {
                *score = (*score / self.softcap).tanh() * self.softcap;
            }
        }
        show(1, scores);
        let place = [item, head, self.query.heads];
        let looks = self.bias.add(place, [queries, keys], scores)?;
        show(2, scores);
        for (row, looks) in scores.chunks_exact_mut(keys.max(1)).zip(looks) {
            if looks {
                softmax_row(row);
            } else {
                row.fill(R::ZERO);
            }
        }
        show(3, scores);
        let sizes = Sizes {
            m: queries,
            n: self.value.size,
            k: keys,
        };
        R::product(sizes, scores, self.value.head(item, shared), out);
        Ok(())
    }
}

fn attention<R: Real>(call: &Call<'_>) -> Results {
    let rank = call.input(0)?.rank();
    let mode = call.int("qk_matmul_output_mode", 0)?;
    let parts = Parts::<R>::new(call)?;
    let (batch, heads, queries) = (parts.query.batch, parts.query.heads, parts.query.length);
    let (keys, size) = (parts.key.length, parts.value.size);
    let wants = call.wants(3);
    let all = batch * heads;
    call.charge(&[all, queries, keys, parts.query.size + size])?;
    if R::DTYPE != DType::F32 {
        call.charge(&[all, queries, keys, parts.query.size + size, WIDE_UNITS])?;
    }
    call.charge_steps(&[all, queries, keys, SCORE_STEPS])?;
    // Queries and keys are scaled, and keys turned, for every head.
    call.charge_steps(&[all, 2 * keys + queries, parts.query.size])?;
    let turned = keys.saturating_mul(parts.query.size).saturating_mul(2);
    call.reserve(turned, R::DTYPE)?;
    let shown_shape = [batch, heads, queries, keys];
    let mut shown = call.filled(if wants { &shown_shape } else { &[0] }, R::ZERO)?;
    let mut out = call.filled(&[batch, heads, queries, size], R::ZERO)?;
    let mut scores = call.filled(&[queries, keys], R::ZERO)?;
    for index in 0..batch * heads {
        let target = &mut out[index * queries * size..(index + 1) * queries * size];
        parts.head(
            index / heads,
            index % heads,
            &mut scores,
            target,
            |stage, scores| {
                if wants && stage == mode {
                    shown[index * queries * keys..][..queries * keys].copy_from_slice(scores);
                }
            },
        )?;
    }
    let out = Heads {
        batch,
        heads,
        length: queries,
        size,
        values: out,
    };
    let mut results = vec![out.write(rank)?, parts.key.tensor()?, parts.value.tensor()?];
    if wants {
        results.push(tensor(shown_shape.to_vec(), R::wrap(shown))?);
    }
    Ok(results)
}

/// Turns pairs of features by the angle of their position.
fn rotary<R: Real>(call: &Call<'_>) -> Results {
    let rank = call.input(0)?.rank();
    let mut heads = Heads::<R>::read(call, 0, count(call, "num_heads")?)?;
    let (cosines, sines) = (call.values::<R>(1)?, call.values::<R>(2)?);
    let positions = call.optional_integers(3)?;
    let turned = count(call, "rotary_embedding_dim")?.unwrap_or(heads.size);
    let half = turned / 2;
    call.charge_steps(&[heads.values.len(), 2])?;
    let interleaved = call.flag("interleaved", false)?;
    let rows = cosines.len().checked_div(half).unwrap_or(0);
    let fits = turned <= heads.size
        && half > 0
        && call.input(1)?.shape().last() == Some(&half)
        && cosines.len() == sines.len();
    if !fits {
        return Err(OpError::invalid("the caches do not fit the features"));
    }
    for item in 0..heads.batch {
        for place in 0..heads.length {
            let index = item * heads.length + place;
            let row = match &positions {
                Some(positions) => positions.get(index).and_then(|&p| usize::try_from(p).ok()),
                None => Some(index),
            };
            let row = row.filter(|&row| row < rows);
            let row = row.ok_or_else(|| OpError::invalid("a position is beyond the caches"))?;
            for head in 0..heads.heads {
                let start = ((item * heads.heads + head) * heads.length + place) * heads.size;
                let features = &mut heads.values[start..start + turned];
                for k in 0..half {
                    let (i, j) = if interleaved {
                        (2 * k, 2 * k + 1)
                    } else {
                        (k, k + half)
                    };
                    let (cos, sin) = (cosines[row * half + k], sines[row * half + k]);
                    let (x, y) = (features[i], features[j]);
                    features[i] = (cos * x - sin * y).canonical();
                    features[j] = (sin * x + cos * y).canonical();
                }
            }
        }
    }
    Ok(vec![heads.write(rank)?])
}

/// The inputs of a linear attention.
struct Recurrence<'a, R> {
    query: Heads<R>,
    key: Heads<R>,
    value: Heads<R>,
    scale: R,
    /// Decays, and how many there are per position: one per head or per key feature.
    decay: Option<(&'a [R], usize)>,
    /// Corrections, and how many there are per position: one for all or per head.
    beta: Option<(&'a [R], usize)>,
}

impl<'a, R: Real> Recurrence<'a, R> {
    fn new(call: &Call<'a>) -> Result<Self, OpError> {
        let (query_heads, key_heads) = (count(call, "q_num_heads")?, count(call, "kv_num_heads")?);
        let query = Heads::<R>::read(call, 0, query_heads)?;
        let key = Heads::<R>::read(call, 1, key_heads)?;
        let value = Heads::<R>::read(call, 2, key_heads)?;
        let (gates, corrects) = match call.text("update_rule", "gated_delta")? {
            "linear" => (false, false),
            "gated" => (true, false),
            "delta" => (false, true),
            "gated_delta" => (true, true),
            _ => {
                return Err(OpError::Attribute {
                    name: "update_rule",
                });
            }
        };
        let fits = [key.length, value.length] == [query.length; 2]
            && [key.batch, value.batch] == [query.batch; 2]
            && key.size == query.size
            && key.heads == value.heads
            && key.heads > 0
            && query.heads.is_multiple_of(key.heads)
            && gates == call.optional(4).is_some()
            && corrects == call.optional(5).is_some();
        if !fits {
            return Err(OpError::invalid(
                "the inputs do not fit the update rule or each other",
            ));
        }
        let side = |index: usize,
                    allowed: [usize; 2]|
         -> Result<Option<(&'a [R], usize)>, OpError> {
            let Some(values) = call.optional_values::<R>(index)? else {
                return Ok(None);
            };
            match *call.input(index)?.shape() {
                [batch, steps, last]
                    if [batch, steps] == [query.batch, query.length] && allowed.contains(&last) =>
                {
                    Ok(Some((values, last)))
                }
                _ => Err(OpError::invalid(
                    "decay or correction does not fit the inputs",
                )),
            }
        };
        let (decay, beta) = (
            side(4, [key.heads, key.heads * key.size])?,
            side(5, [key.heads, 1])?,
        );
        let scale = match call.float("scale", 0.0)? {
            0.0 => R::ONE / R::of(key.size as f64).sqrt(),
            scale => R::of(scale.into()),
        };
        Ok(Self {
            query,
            key,
            value,
            scale,
            decay,
            beta,
        })
    }

    /// Brings the state of a head to the next position.
    fn update(&self, state: &mut [R], item: usize, head: usize, step: usize) {
        let (keys, values) = (self.key.size, self.value.size);
        let row = item * self.query.length + step;
        if let Some((decay, count)) = self.decay {
            decay_state(state, values, |k| {
                let place = if count == self.key.heads {
                    head
                } else {
                    head * keys + k
                };
                decay[row * count + place]
            });
        }
        let k = &self.key.head(item, head)[step * keys..(step + 1) * keys];
        let v = &self.value.head(item, head)[step * values..(step + 1) * values];
        let correction = self.beta.map(|(beta, count)| {
            let place = if count == 1 { 0 } else { head };
            beta[row * count + place]
        });
        write_state(state, k, v, correction);
    }
}

/// A state per head (key features by value features) that decays, is corrected, written and read at each position.
fn linear<R: Real>(call: &Call<'_>) -> Results {
    let parts = Recurrence::<R>::new(call)?;
    let (query, key) = (&parts.query, &parts.key);
    let (keys, values, length) = (key.size, parts.value.size, query.length);
    let state_shape = vec![query.batch, key.heads, keys, values];
    let mut states = match call.optional_values::<R>(3)? {
        Some(past) if call.input(3)?.shape() == state_shape => past.to_vec(),
        Some(_) => return Err(OpError::invalid("the state does not fit the inputs")),
        None => call.filled(&state_shape, R::ZERO)?,
    };
    let mut out = call.filled(&[query.batch, query.heads, length, values], R::ZERO)?;
    let group = query.heads / key.heads;
    call.charge_steps(&[query.batch, key.heads, length, keys, values, 4 + 2 * group])?;
    for (index, state) in states.chunks_exact_mut((keys * values).max(1)).enumerate() {
        let (item, head) = (index / key.heads, index % key.heads);
        for step in 0..length {
            parts.update(state, item, head, step);
            for own in head * group..(head + 1) * group {
                let q = &query.head(item, own)[step * keys..(step + 1) * keys];
                let start = ((item * query.heads + own) * length + step) * values;
                for (m, out) in out[start..start + values].iter_mut().enumerate() {
                    *out = (parts.scale * read_state(state, values, q, m)).canonical();
                }
            }
        }
    }
    let out = Heads {
        batch: query.batch,
        heads: query.heads,
        length,
        size: values,
        values: out,
    };
    Ok(vec![out.write(3)?, tensor(state_shape, R::wrap(states))?])
}

fn decay_state<R: Real>(state: &mut [R], values: usize, decay: impl Fn(usize) -> R) {
    for (k, row) in state.chunks_exact_mut(values.max(1)).enumerate() {
        let factor = decay(k).exp();
        for value in row {
            *value = *value * factor;
        }
    }
}

/// `sum over k of q[k] state[k][m]`.
fn read_state<R: Real>(state: &[R], values: usize, q: &[R], m: usize) -> R {
    let terms = q.iter().enumerate();
    terms.fold(R::ZERO, |sum, (k, &q)| q.fma(state[k * values + m], sum))
}

/// Adds the outer product of key and value; with a correction, of what the state does not yet give for the key.
fn write_state<R: Real>(state: &mut [R], k: &[R], v: &[R], correction: Option<R>) {
    let values = v.len();
    let written: Vec<R> = match correction {
        None => v.to_vec(),
        Some(beta) => (0..values)
            .map(|m| beta * (v[m] - read_state(state, values, k, m)))
            .collect(),
    };
    for (row, &k) in state.chunks_exact_mut(values.max(1)).zip(k) {
        for (value, &written) in row.iter_mut().zip(&written) {
            *value = k.fma(written, *value);
        }
    }
}
