//! Recurrent layers: `RNN`, `GRU`, `LSTM`.
//!
//! A gate is `(W x + Wb) + (R h + Rb)`, each product in TGF-1's order.

use super::activation::{exponential, leaky, ramp, softplus, softsign, thresholded};
use super::call::Entry;
use super::call::Half::Widen;
use super::call::{Call, Results, tensor};
use super::each::by_real;
use super::error::OpError;
use super::linear::WIDE_UNITS;
use super::real::Real;
use super::real::Sizes;
use crate::tensor::DType;

/// The function of an operator of this family.
pub(super) fn lookup(op: &str) -> Option<Entry> {
    let kernel: super::call::Kernel = match op {
        "RNN" => |call| by_real!(call, 0, layer(call, Cell::Plain)),
        "GRU" => |call| by_real!(call, 0, layer(call, Cell::Gru)),
        "LSTM" => |call| by_real!(call, 0, layer(call, Cell::Lstm)),
        _ => return None,
    };
    Some((kernel, Widen))
}

/// Steps of a gate's sum and function.
const FUNCTION_STEPS: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cell {
    Plain,
    Gru,
    Lstm,
}

impl Cell {
    const fn gates(self) -> usize {
        match self {
            Self::Plain => 1,
            Self::Gru => 3,
            Self::Lstm => 4,
        }
    }

    /// Activations of a direction, by default.
    const fn activations(self) -> &'static [&'static str] {
        match self {
            Self::Plain => &["Tanh"],
            Self::Gru => &["Sigmoid", "Tanh"],
            Self::Lstm => &["Sigmoid", "Tanh", "Tanh"],
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Function {
    Sigmoid,
    Tanh,
    Relu,
    Affine(f32, f32),
    LeakyRelu(f32),
    ThresholdedRelu(f32),
    ScaledTanh(f32, f32),
    HardSigmoid(f32, f32),
    Elu(f32),
    Softsign,
    Softplus,
}

impl Function {
    fn new(name: &str, alpha: Option<f32>, beta: Option<f32>) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        Some(match name.as_str() {
            "sigmoid" => Self::Sigmoid,
            "tanh" => Self::Tanh,
            "relu" => Self::Relu,
            "affine" => Self::Affine(alpha.unwrap_or(1.0), beta.unwrap_or(0.0)),
            "leakyrelu" => Self::LeakyRelu(alpha.unwrap_or(0.01)),
            "thresholdedrelu" => Self::ThresholdedRelu(alpha.unwrap_or(1.0)),
            "scaledtanh" => Self::ScaledTanh(alpha.unwrap_or(1.0), beta.unwrap_or(1.0)),
            "hardsigmoid" => Self::HardSigmoid(alpha.unwrap_or(0.2), beta.unwrap_or(0.5)),
            "elu" => Self::Elu(alpha.unwrap_or(1.0)),
            "softsign" => Self::Softsign,
            "softplus" => Self::Softplus,
            _ => return None,
        })
    }

    fn apply<R: Real>(self, x: R) -> R {
        let of = |value: f32| R::of(value.into());
        match self {
            Self::Sigmoid => x.sigmoid(),
            Self::Tanh => x.tanh(),
            Self::Relu => thresholded(x, 0.0),
            Self::Affine(alpha, beta) => x.fma(of(alpha), of(beta)),
            Self::LeakyRelu(alpha) => leaky(x, of(alpha)),
            Self::ThresholdedRelu(alpha) => thresholded(x, alpha.into()),
            Self::ScaledTanh(alpha, beta) => of(alpha) * (of(beta) * x).tanh(),
            Self::HardSigmoid(alpha, beta) => ramp(x, alpha.into(), beta.into()),
            Self::Elu(alpha) => exponential(x, 1.0, alpha.into(), 1.0),
            Self::Softsign => softsign(x),
            Self::Softplus => softplus(x),
        }
    }
}

/// The activations of every direction; parameters are taken from the lists in order, by those that have any.
fn functions(call: &Call<'_>, cell: Cell, directions: usize) -> Result<Vec<Function>, OpError> {
    let names = match call.texts("activations")? {
        Some(names) => names,
        None => cell.activations().repeat(directions),
    };
    let alphas = call.floats("activation_alpha")?.unwrap_or_default();
    let betas = call.floats("activation_beta")?.unwrap_or_default();
    let each = |(index, name): (usize, &&str)| {
        let function = Function::new(name, alphas.get(index).copied(), betas.get(index).copied());
        function.ok_or(OpError::Refused {
            reason: "an activation that ONNX does not name",
        })
    };
    let functions: Result<Vec<Function>, _> = names.iter().enumerate().map(each).collect();
    let functions = functions?;
    if functions.len() < cell.activations().len() * directions {
        return Err(OpError::Attribute {
            name: "activations",
        });
    }
    Ok(functions)
}

/// Sizes and options of a layer.
struct Layer {
    cell: Cell,
    steps: usize,
    batch: usize,
    inputs: usize,
    hidden: usize,
    directions: usize,
    /// Batch before time in the file's tensors.
    batch_first: bool,
    clip: Option<f32>,
    /// GRU: the reset gate multiplies the product, not the state.
    linear_before_reset: bool,
    /// LSTM: the input gate is one less the forget gate.
    input_forget: bool,
}

impl Layer {
    fn new(call: &Call<'_>, cell: Cell) -> Result<Self, OpError> {
        let bad = || OpError::invalid("input, weights and hidden size do not fit together");
        let batch_first = call.flag("layout", false)?;
        let (&[first, second, inputs], &[directions, rows, columns]) =
            (call.input(0)?.shape(), call.input(1)?.shape())
        else {
            return Err(bad());
        };
        let (steps, batch) = if batch_first {
            (second, first)
        } else {
            (first, second)
        };
        let hidden = rows / cell.gates();
        let stated = call.optional_int("hidden_size")?;
        let wanted = if call.text("direction", "forward")? == "bidirectional" {
            2
        } else {
            1
        };
        let fits = columns == inputs
            && rows == hidden * cell.gates()
            && call.input(2)?.shape() == [directions, rows, hidden]
            && directions == wanted
            && stated.is_none_or(|stated| usize::try_from(stated) == Ok(hidden));
        if !fits {
            return Err(bad());
        }
        Ok(Self {
            cell,
            steps,
            batch,
            inputs,
            hidden,
            directions,
            batch_first,
            clip: call.optional_float("clip")?,
            linear_before_reset: call.flag("linear_before_reset", false)?,
            input_forget: call.flag("input_forget", false)?,
        })
    }

    /// Takes the work of every step: the gates' products, and their functions.
    fn charge(&self, call: &Call<'_>, dtype: DType) -> Result<(), OpError> {
        let steps = [self.directions, self.steps, self.batch];
        let rows = self.cell.gates() * self.hidden;
        let depth = self.inputs + self.hidden;
        let products = [steps.as_slice(), &[rows, depth]].concat();
        call.charge(&products)?;
        if dtype != DType::F32 {
            call.charge(&[products.as_slice(), &[WIDE_UNITS]].concat())?;
        }
        if self.cell == Cell::Gru && !self.linear_before_reset {
            let inner = [self.hidden, self.hidden];
            call.charge_steps(&[steps.as_slice(), &inner].concat())?;
        }
        call.charge_steps(&[steps.as_slice(), &[1 + rows, FUNCTION_STEPS]].concat())?;
        // Weights are turned.
        call.charge_steps(&[self.directions, rows, depth])?;
        call.reserve(rows.saturating_mul(depth), dtype)
    }

    /// An initial state: zeros, or an input of `[directions, batch, hidden]` (or batch first).
    fn initial<R: Real>(
        &self,
        call: &Call<'_>,
        index: usize,
        direction: usize,
    ) -> Result<Vec<R>, OpError> {
        let count = self.batch * self.hidden;
        let Some(values) = call.optional_values::<R>(index)? else {
            return call.filled(&[count], R::ZERO);
        };
        if values.len() != count * self.directions {
            return Err(OpError::invalid("an initial state does not fit"));
        }
        if !self.batch_first {
            return Ok(values[direction * count..(direction + 1) * count].to_vec());
        }
        let row = |item: usize| (item * self.directions + direction) * self.hidden;
        Ok((0..self.batch)
            .flat_map(|item| values[row(item)..row(item) + self.hidden].iter().copied())
            .collect())
    }
}

/// Weights of one direction.
struct Weights<R> {
    /// Recurrent weights, transposed.
    recurrent: Vec<R>,
    input_bias: Vec<R>,
    recurrent_bias: Vec<R>,
    /// LSTM: input, output and forget peepholes.
    peepholes: Vec<R>,
    functions: Vec<Function>,
}

fn part<R: Real>(
    call: &Call<'_>,
    index: usize,
    direction: usize,
    count: usize,
) -> Result<Vec<R>, OpError> {
    match call.optional_values::<R>(index)? {
        None => Ok(vec![R::ZERO; count]),
        Some(values) => values
            .get(direction * count..(direction + 1) * count)
            .map(<[R]>::to_vec)
            .ok_or_else(|| OpError::invalid("a bias or peephole does not fit")),
    }
}

/// Steps of each item.
fn lengths(call: &Call<'_>, layer: &Layer) -> Result<Vec<usize>, OpError> {
    let lengths = match call.optional_integers(4)? {
        None => vec![layer.steps; layer.batch],
        Some(lengths) => super::movement::sizes_of_any(&lengths)?,
    };
    if lengths.len() == layer.batch && lengths.iter().all(|&length| length <= layer.steps) {
        Ok(lengths)
    } else {
        Err(OpError::invalid(
            "there is not one length per item within the steps",
        ))
    }
}

impl<R: Real> Weights<R> {
    fn new(
        call: &Call<'_>,
        layer: &Layer,
        direction: usize,
        functions: &[Function],
    ) -> Result<Self, OpError> {
        let (cell, hidden) = (layer.cell, layer.hidden);
        let rows = cell.gates() * hidden;
        let recurrent = &call.values::<R>(2)?[direction * rows * hidden..][..rows * hidden];
        let bias: Vec<R> = part(call, 3, direction, 2 * rows)?;
        let per = cell.activations().len();
        Ok(Self {
            recurrent: super::linear::transposed(recurrent, rows, hidden),
            input_bias: bias[..rows].to_vec(),
            recurrent_bias: bias[rows..].to_vec(),
            peepholes: if cell == Cell::Lstm {
                part(call, 7, direction, 3 * hidden)?
            } else {
                Vec::new()
            },
            functions: functions[direction * per..(direction + 1) * per].to_vec(),
        })
    }
}

fn layer<R: Real>(call: &Call<'_>, cell: Cell) -> Results {
    let layer = Layer::new(call, cell)?;
    let functions = functions(call, cell, layer.directions)?;
    let lengths = lengths(call, &layer)?;
    let reverse_only = call.text("direction", "forward")? == "reverse";
    let last = [layer.directions, layer.batch, layer.hidden];
    layer.charge(call, R::DTYPE)?;
    let mut sequence = call.filled(&[layer.steps, last[0], last[1], last[2]], R::ZERO)?;
    let mut finals = [call.filled(&last, R::ZERO)?, call.filled(&last, R::ZERO)?];
    for direction in 0..layer.directions {
        let weights = Weights::<R>::new(call, &layer, direction, &functions)?;
        let backwards = reverse_only || direction == 1;
        let gates = input_gates::<R>(call, &layer, direction)?;
        let mut state = layer.initial::<R>(call, 5, direction)?;
        let mut memory = if cell == Cell::Lstm {
            layer.initial::<R>(call, 6, direction)?
        } else {
            Vec::new()
        };
        for step in 0..layer.steps {
            let place = |item: usize| {
                let at = if backwards {
                    lengths[item].checked_sub(step + 1)
                } else {
                    Some(step)
                };
                at.filter(|&at| at < lengths[item])
            };
            advance(&layer, &weights, &gates, place, &mut state, &mut memory);
            for item in 0..layer.batch {
                let Some(at) = place(item) else { continue };
                let row = &state[item * layer.hidden..(item + 1) * layer.hidden];
                let target = sequence_place(&layer, at, direction, item);
                sequence[target..target + layer.hidden].copy_from_slice(row);
            }
        }
        for (values, finals) in [&state, &memory].into_iter().zip(&mut finals) {
            keep_last(&layer, direction, values, finals);
        }
    }
    results(&layer, sequence, finals)
}

/// Writes the last states of a direction to their place.
fn keep_last<R: Real>(layer: &Layer, direction: usize, values: &[R], finals: &mut [R]) {
    for (item, row) in values.chunks_exact(layer.hidden.max(1)).enumerate() {
        let target = if layer.batch_first {
            item * layer.directions + direction
        } else {
            direction * layer.batch + item
        };
        finals[target * layer.hidden..(target + 1) * layer.hidden].copy_from_slice(row);
    }
}

fn results<R: Real>(layer: &Layer, sequence: Vec<R>, finals: [Vec<R>; 2]) -> Results {
    let Layer {
        steps,
        batch,
        hidden,
        directions,
        ..
    } = *layer;
    let (long, short) = if layer.batch_first {
        (
            vec![batch, steps, directions, hidden],
            vec![batch, directions, hidden],
        )
    } else {
        (
            vec![steps, directions, batch, hidden],
            vec![directions, batch, hidden],
        )
    };
    let [state, memory] = finals;
    let mut results = vec![
        tensor(long, R::wrap(sequence))?,
        tensor(short.clone(), R::wrap(state))?,
    ];
    if layer.cell == Cell::Lstm {
        results.push(tensor(short, R::wrap(memory))?);
    }
    Ok(results)
}

const fn sequence_place(layer: &Layer, step: usize, direction: usize, item: usize) -> usize {
    let index = if layer.batch_first {
        (item * layer.steps + step) * layer.directions + direction
    } else {
        (step * layer.directions + direction) * layer.batch + item
    };
    index * layer.hidden
}

/// `W x` of every step and item: rows in time-major order.
fn input_gates<R: Real>(
    call: &Call<'_>,
    layer: &Layer,
    direction: usize,
) -> Result<Vec<R>, OpError> {
    let rows = layer.cell.gates() * layer.hidden;
    let x = call.values::<R>(0)?;
    let w = &call.values::<R>(1)?[direction * rows * layer.inputs..][..rows * layer.inputs];
    let mut ordered = Vec::new();
    let x = if layer.batch_first {
        call.reserve(x.len(), R::DTYPE)?;
        for step in 0..layer.steps {
            for item in 0..layer.batch {
                let start = (item * layer.steps + step) * layer.inputs;
                ordered.extend_from_slice(&x[start..start + layer.inputs]);
            }
        }
        ordered.as_slice()
    } else {
        x
    };
    let sizes = Sizes {
        m: layer.steps * layer.batch,
        n: rows,
        k: layer.inputs,
    };
    let mut out = call.filled(&[sizes.m, rows], R::ZERO)?;
    R::product(
        sizes,
        x,
        &super::linear::transposed(w, rows, layer.inputs),
        &mut out,
    );
    Ok(out)
}

/// One step of every item whose sequence still runs.
fn advance<R: Real>(
    layer: &Layer,
    weights: &Weights<R>,
    gates: &[R],
    place: impl Fn(usize) -> Option<usize>,
    state: &mut [R],
    memory: &mut [R],
) {
    let (hidden, rows) = (layer.hidden, layer.cell.gates() * layer.hidden);
    let sizes = Sizes {
        m: layer.batch,
        n: rows,
        k: hidden,
    };
    let mut recurrent = vec![R::ZERO; layer.batch * rows];
    R::product(sizes, state, &weights.recurrent, &mut recurrent);
    for item in 0..layer.batch {
        let Some(at) = place(item) else { continue };
        let start = (at * layer.batch + item) * rows;
        let own = Gates {
            input: &gates[start..start + rows],
            recurrent: &recurrent[item * rows..(item + 1) * rows],
            layer,
            weights,
        };
        let state = &mut state[item * hidden..(item + 1) * hidden];
        match layer.cell {
            Cell::Plain => {
                for (j, state) in state.iter_mut().enumerate() {
                    *state = weights.functions[0].apply(own.sum(j)).canonical();
                }
            }
            Cell::Gru => own.gru(state),
            Cell::Lstm => own.lstm(state, &mut memory[item * hidden..(item + 1) * hidden]),
        }
    }
}

/// The sums of one item at one step.
struct Gates<'a, R> {
    input: &'a [R],
    recurrent: &'a [R],
    layer: &'a Layer,
    weights: &'a Weights<R>,
}

impl<R: Real> Gates<'_, R> {
    fn clipped(&self, value: R) -> R {
        match self.layer.clip {
            Some(clip) if value > R::of(clip.into()) => R::of(clip.into()),
            Some(clip) if value < R::of((-clip).into()) => R::of((-clip).into()),
            _ => value,
        }
    }

    fn input_sum(&self, row: usize) -> R {
        self.input[row] + self.weights.input_bias[row]
    }

    fn state_sum(&self, row: usize) -> R {
        self.recurrent[row] + self.weights.recurrent_bias[row]
    }

    fn sum(&self, row: usize) -> R {
        self.clipped(self.input_sum(row) + self.state_sum(row))
    }

    /// Gates in the order update, reset, hidden.
    fn gru(&self, state: &mut [R]) {
        let hidden = self.layer.hidden;
        let [f, g] = [self.weights.functions[0], self.weights.functions[1]];
        let reset: Vec<R> = (0..hidden).map(|j| f.apply(self.sum(hidden + j))).collect();
        let candidate: Vec<R> = if self.layer.linear_before_reset {
            (0..hidden)
                .map(|j| {
                    let row = 2 * hidden + j;
                    let sum = reset[j].fma(self.state_sum(row), self.input_sum(row));
                    g.apply(self.clipped(sum))
                })
                .collect()
        } else {
            // The product with the state that the reset gate has passed.
            let passed: Vec<R> = reset.iter().zip(&*state).map(|(&r, &h)| r * h).collect();
            let rows = 3 * hidden;
            (0..hidden)
                .map(|j| {
                    let row = 2 * hidden + j;
                    let terms = passed.iter().enumerate();
                    let product = terms.fold(R::ZERO, |sum, (p, &h)| {
                        h.fma(self.weights.recurrent[p * rows + row], sum)
                    });
                    let state = product + self.weights.recurrent_bias[row];
                    g.apply(self.clipped(self.input_sum(row) + state))
                })
                .collect()
        };
        for (j, state) in state.iter_mut().enumerate() {
            let update = f.apply(self.sum(j));
            let value = (R::ONE - update) * candidate[j] + update * *state;
            *state = value.canonical();
        }
    }

    /// Gates in the order input, output, forget, cell.
    fn lstm(&self, state: &mut [R], memory: &mut [R]) {
        let hidden = self.layer.hidden;
        let [f, g, h] = [0, 1, 2].map(|index| self.weights.functions[index]);
        let peephole = |gate: usize, j: usize, cell: R, sum: R| {
            let weight = self.weights.peepholes[gate * hidden + j];
            if weight == R::ZERO {
                sum
            } else {
                weight.fma(cell, sum)
            }
        };
        for j in 0..hidden {
            let old = memory[j];
            let raw =
                |gate: usize| self.input_sum(gate * hidden + j) + self.state_sum(gate * hidden + j);
            let input = f.apply(self.clipped(peephole(0, j, old, raw(0))));
            let forget = if self.layer.input_forget {
                R::ONE - input
            } else {
                f.apply(self.clipped(peephole(2, j, old, raw(2))))
            };
            let candidate = g.apply(self.clipped(raw(3)));
            let cell = forget * old + input * candidate;
            let output = f.apply(self.clipped(peephole(1, j, cell, raw(1))));
            memory[j] = cell.canonical();
            state[j] = (output * h.apply(cell)).canonical();
        }
    }
}
