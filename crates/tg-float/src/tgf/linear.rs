//! `MatMul`, `Gemm`, `Einsum`, `Det`.

use super::broadcast::{Walk, broadcast_shape, broadcast_strides, expand};
use super::call::Entry;
use super::call::Half::Widen;
use super::call::{Call, Results, one, tensor};
use super::each::by_real;
use super::error::OpError;
use super::gemm::multiply_f32;
use super::machine::with_scratch;
use super::meter::STEP;
use super::product::packed_elements;
use super::real::Real;
use super::real::Sizes;
use crate::convert::{self, CastMode};
use crate::kernels::{BatchF32, Bias, Right, gemm_f32_batch};
use crate::tensor::{DType, Data, Element, FloatTensor, RANK_MAX, strides};
use std::collections::BTreeSet;

/// The function of an operator of this family.
pub(super) fn lookup(op: &str) -> Option<Entry> {
    let kernel: super::call::Kernel = match op {
        "MatMul" => matmul,
        "Gemm" => gemm,
        "Einsum" => |call| by_real!(call, 0, einsum(call)),
        "Det" => |call| by_real!(call, 0, determinant(call)),
        _ => return None,
    };
    Some((kernel, Widen))
}

/// Units of a multiply-add of a type beyond that of an `f32`.
const fn units_beyond(dtype: DType) -> usize {
    match dtype {
        DType::F32 => 0,
        DType::F64 => WIDE_UNITS,
        _ => STEP as usize,
    }
}

/// Units of a multiply-add in binary64, or of integers side by side, beyond that of an `f32`.
pub(super) const WIDE_UNITS: usize = 4;

/// Most matrices of a batch.
const BATCH_MAX: usize = 1 << 24;

/// Steps of a product of a batch, beside its multiply-adds.
const BATCH_STEPS: usize = 16;

/// Products of batches of matrices: the sizes of one, and where each begins.
pub(super) struct Batches {
    pub(super) sizes: Sizes,
    pub(super) shape: Vec<usize>,
    /// Offsets in elements of the factors of each product.
    pub(super) offsets: Vec<[usize; 2]>,
}

impl Batches {
    /// The products that numpy's `matmul` makes of these shapes; their multiply-adds are charged.
    pub(super) fn new(call: &Call<'_>, a: &[usize], b: &[usize]) -> Result<Self, OpError> {
        let bad = || OpError::invalid(format!("{a:?} and {b:?} cannot be multiplied"));
        if a.is_empty() || b.is_empty() {
            return Err(bad());
        }
        let (wide_a, wide_b) = (a.len() == 1, b.len() == 1);
        let a_full = if wide_a { vec![1, a[0]] } else { a.to_vec() };
        let b_full = if wide_b { vec![b[0], 1] } else { b.to_vec() };
        let (a_batch, a_matrix) = a_full.split_at(a_full.len() - 2);
        let (b_batch, b_matrix) = b_full.split_at(b_full.len() - 2);
        let (&[m, k], &[k_too, n]) = (a_matrix, b_matrix) else {
            return Err(bad());
        };
        if k != k_too {
            return Err(bad());
        }
        let batch = broadcast_shape(&[a_batch, b_batch])?;
        if crate::tensor::elements(&batch).is_none_or(|count| count > BATCH_MAX) {
            return Err(OpError::Refused {
                reason: "more than 2^24 products in one node",
            });
        }
        let count = crate::tensor::elements(&batch).unwrap_or(0);
        call.reserve(count.saturating_mul(2), DType::U64)?;
        call.charge_steps(&[count, BATCH_STEPS])?;
        call.charge(&[count, m, n, k])?;
        let scaled = |own: &[usize], size: usize| -> Vec<usize> {
            let steps = broadcast_strides(own, &batch);
            steps.into_iter().map(|step| step * size).collect()
        };
        let walk = Walk::new(&batch, &[scaled(a_batch, m * k), scaled(b_batch, k * n)]);
        let mut offsets = Vec::new();
        walk.for_each(|[i, j]| {
            let [p, q] = walk.inner;
            offsets.extend((0..walk.length).map(|k| [i + k * p, j + k * q]));
        });
        let mut shape = batch;
        if !wide_a {
            shape.push(m);
        }
        if !wide_b {
            shape.push(n);
        }
        Ok(Self {
            sizes: Sizes { m, n, k },
            shape,
            offsets,
        })
    }

    /// Multiplies in `f32`.
    fn floats(&self, call: &Call<'_>, a: &[f32], b: &[f32]) -> Result<Vec<f32>, OpError> {
        let Sizes { m, n, k } = self.sizes;
        let mut out = call.buffer(&self.shape)?;
        if m * n == 0 {
            return Ok(out);
        }
        if let [[i, j]] = self.offsets[..] {
            let right = Right::Rows {
                values: &b[j..j + k * n],
                stride: n,
            };
            let bias = call.prepared.and_then(|own| own.bias.as_ref()?.values());
            let bias = bias.map_or(Bias::None, Bias::PerColumn);
            multiply_f32(call, self.sizes, &a[i..], &right, bias, &mut out)?;
            return Ok(out);
        }
        let batch = BatchF32 {
            sizes: [m, n, k],
            a,
            b,
            transposed: false,
            offsets: &self.offsets,
        };
        // Of one thread: what a run may take does not depend on how many there are.
        let packed = packed_elements(self.sizes);
        call.reserve(packed, DType::F32)?;
        with_scratch(|cpu, scratch| gemm_f32_batch(cpu, scratch, &batch, &mut out));
        call.release(packed, DType::F32);
        Ok(out)
    }

    /// Multiplies with `function` (factors, then the result).
    pub(super) fn each<A, B, T: Element>(
        &self,
        call: &Call<'_>,
        zero: T,
        a: &[A],
        b: &[B],
        function: impl Fn(&[A], &[B], &mut [T]),
    ) -> Result<Vec<T>, OpError> {
        let Sizes { m, n, k } = self.sizes;
        let mut out = call.filled(&self.shape, zero)?;
        if m * n == 0 {
            return Ok(out);
        }
        for (out, &[i, j]) in out.chunks_exact_mut(m * n).zip(&self.offsets) {
            function(&a[i..i + m * k], &b[j..j + k * n], out);
        }
        Ok(out)
    }
}

fn integer_product(sizes: Sizes, a: &[i64], b: &[i64], out: &mut [i64]) {
    let Sizes { m, n, k } = sizes;
    for i in 0..m {
        for j in 0..n {
            let mut sum = 0i64;
            for p in 0..k {
                sum = sum.wrapping_add(a[i * k + p].wrapping_mul(b[p * n + j]));
            }
            out[i * n + j] = sum;
        }
    }
}

fn matmul(call: &Call<'_>) -> Results {
    let (a, b) = (call.input(0)?, call.input(1)?);
    Ok(vec![multiply(call, a, b)?])
}

/// The product of two tensors of one type.
pub(super) fn multiply(
    call: &Call<'_>,
    a: &FloatTensor,
    b: &FloatTensor,
) -> Result<FloatTensor, OpError> {
    if let ([rows @ .., k], [_, n]) = (a.shape(), b.shape())
        && rows.len() > 1
        && a.dtype() == DType::F32
    {
        // One matrix for all items: they are the rows of one product.
        let flat = vec![rows.iter().product(), *k];
        let mut shape = rows.to_vec();
        shape.push(*n);
        let flat = a.clone().reshaped(flat).map_err(OpError::Tensor)?;
        let product = multiply(call, &flat, b)?;
        return product.reshaped(shape).map_err(OpError::Tensor);
    }
    let batches = Batches::new(call, a.shape(), b.shape())?;
    let sizes = batches.sizes;
    let Sizes { m, n, k } = sizes;
    call.charge(&[batches.offsets.len(), m, n, k, units_beyond(a.dtype())])?;
    let data = match (a.data(), b.data()) {
        (Data::F32(x), Data::F32(y)) => Data::F32(batches.floats(call, x, y)?),
        (Data::F64(x), Data::F64(y)) => {
            Data::F64(batches.each(call, 0f64, x, y, |a, b, out| {
                Real::product(sizes, a, b, out)
            })?)
        }
        (x, y) if x.dtype() == y.dtype() && x.dtype().is_integer() => {
            call.reserve(a.len() + b.len(), DType::I64)?;
            let (Some(x), Some(y)) = (convert::to_i64(x), convert::to_i64(y)) else {
                return Err(call.wrong_type(0));
            };
            let values = batches.each(call, 0i64, &x, &y, |a, b, out| {
                integer_product(sizes, a, b, out);
            })?;
            convert::from_i64(&values, a.dtype(), CastMode::default())
                .ok_or_else(|| call.wrong_type(0))?
        }
        _ => return Err(call.wrong_type(1)),
    };
    tensor(batches.shape, data)
}

/// A matrix with rows and columns exchanged.
pub(super) fn transposed<T: Copy>(values: &[T], rows: usize, columns: usize) -> Vec<T> {
    let mut out = Vec::with_capacity(values.len());
    for column in 0..columns {
        out.extend((0..rows).map(|row| values[row * columns + column]));
    }
    out
}

fn gemm(call: &Call<'_>) -> Results {
    if call.input(0)?.dtype().is_integer() {
        return integer_gemm(call);
    }
    match call.input(0)?.dtype() {
        DType::F32 => gemm_f32(call),
        DType::F64 => real_gemm::<f64>(call),
        _ => Err(call.wrong_type(0)),
    }
}

/// Sizes of a Gemm's product, and which factors it reads turned.
fn gemm_sizes(call: &Call<'_>) -> Result<(Sizes, [bool; 2]), OpError> {
    let (&[rows, columns], &[rows_too, columns_too]) =
        (call.input(0)?.shape(), call.input(1)?.shape())
    else {
        return Err(OpError::invalid("a factor is not a matrix"));
    };
    let turned = [call.flag("transA", false)?, call.flag("transB", false)?];
    let (m, k) = if turned[0] {
        (columns, rows)
    } else {
        (rows, columns)
    };
    let (k_too, n) = if turned[1] {
        (columns_too, rows_too)
    } else {
        (rows_too, columns_too)
    };
    if k != k_too {
        return Err(OpError::invalid("the matrices do not fit together"));
    }
    call.charge(&[m, n, k])?;
    call.charge(&[m, n, k, units_beyond(call.input(0)?.dtype())])?;
    Ok((Sizes { m, n, k }, turned))
}

/// `alpha * (A B) + beta * C` in `f32`: a C that is a row is the product's bias.
fn gemm_f32(call: &Call<'_>) -> Results {
    let (a, b) = (call.values::<f32>(0)?, call.values::<f32>(1)?);
    let (sizes, [turn_a, turn_b]) = gemm_sizes(call)?;
    let Sizes { m, n, k } = sizes;
    let turned = if turn_a {
        call.reserve(a.len(), DType::F32)?;
        Some(transposed(a, k, m))
    } else {
        None
    };
    let right = if turn_b {
        Right::Transposed {
            values: b,
            stride: k,
        }
    } else {
        Right::Rows {
            values: b,
            stride: n,
        }
    };
    let plain = call.float("alpha", 1.0)? == 1.0 && call.float("beta", 1.0)? == 1.0;
    let row = match call.optional(2) {
        Some(c) if plain && matches!(c.shape(), [own] | [1, own] if *own == n) => c.values::<f32>(),
        _ => None,
    };
    let mut out = call.buffer(&[m, n])?;
    let bias = row.map_or(Bias::None, Bias::PerColumn);
    let a = turned.as_deref().unwrap_or(a);
    multiply_f32(call, sizes, a, &right, bias, &mut out)?;
    if row.is_none() {
        scale_and_add(call, [m, n], &mut out)?;
    }
    one(vec![m, n], out)
}

/// Both factors laid out for the product, and their sizes.
fn gemm_factors<T: Element + Copy>(
    call: &Call<'_>,
    a: &[T],
    b: &[T],
) -> Result<(Sizes, Vec<T>, Vec<T>), OpError> {
    let (sizes, [turn_a, turn_b]) = gemm_sizes(call)?;
    let Sizes { m, n, k } = sizes;
    call.reserve(a.len() + b.len(), T::DTYPE)?;
    let a = if turn_a {
        transposed(a, k, m)
    } else {
        a.to_vec()
    };
    let b = if turn_b {
        transposed(b, n, k)
    } else {
        b.to_vec()
    };
    Ok((sizes, a, b))
}

/// `alpha * (A B) + beta * C`: the product first, then each scaling and the addition rounded.
fn real_gemm<R: Real>(call: &Call<'_>) -> Results {
    let (sizes, a, b) = gemm_factors(call, call.values::<R>(0)?, call.values::<R>(1)?)?;
    let mut out = call.buffer(&[sizes.m, sizes.n])?;
    R::product(sizes, &a, &b, &mut out);
    scale_and_add(call, [sizes.m, sizes.n], &mut out)?;
    one(vec![sizes.m, sizes.n], out)
}

/// `alpha * product + beta * C`.
fn scale_and_add<R: Real>(
    call: &Call<'_>,
    shape: [usize; 2],
    out: &mut [R],
) -> Result<(), OpError> {
    let alpha = R::of(call.float("alpha", 1.0)?.into());
    if alpha != R::ONE {
        for value in out.iter_mut() {
            *value = *value * alpha;
        }
    }
    if let Some(c) = call.optional(2) {
        let beta = R::of(call.float("beta", 1.0)?.into());
        if broadcast_shape(&[c.shape(), &shape])? != shape {
            return Err(OpError::invalid("the third input does not fit the product"));
        }
        let c = expand(call, c, &shape)?;
        let c = R::slice(&c).ok_or_else(|| call.wrong_type(2))?;
        for (value, &c) in out.iter_mut().zip(c) {
            *value = *value + if beta == R::ONE { c } else { c * beta };
        }
    }
    for value in out {
        *value = value.canonical();
    }
    Ok(())
}

fn integer_gemm(call: &Call<'_>) -> Results {
    let dtype = call.input(0)?.dtype();
    let (a, b) = (call.integers(0)?, call.integers(1)?);
    let (sizes, a, b) = gemm_factors(call, &a, &b)?;
    let shape = vec![sizes.m, sizes.n];
    let mut out = call.filled(&shape, 0i64)?;
    integer_product(sizes, &a, &b, &mut out);
    let (alpha, beta) = (call.float("alpha", 1.0)?, call.float("beta", 1.0)?);
    if alpha != 1.0 || beta != 1.0 {
        return call.refuse("an integer Gemm with factors");
    }
    if let Some(c) = call.optional(2) {
        if broadcast_shape(&[c.shape(), &shape])? != shape {
            return Err(OpError::invalid("the third input does not fit the product"));
        }
        let c = expand(call, c, &shape)?;
        let c = convert::to_i64(&c).ok_or_else(|| call.wrong_type(2))?;
        for (value, c) in out.iter_mut().zip(c) {
            *value = value.wrapping_add(c);
        }
    }
    let data = convert::from_i64(&out, dtype, CastMode::default());
    Ok(vec![tensor(
        shape,
        data.ok_or_else(|| call.wrong_type(0))?,
    )?])
}

// ------------------------------------------------------------ Einsum

/// An equation with its letters numbered; the axes an ellipsis stands for are letters of their own.
struct Equation {
    /// Per input, the letter of each axis.
    inputs: Vec<Vec<usize>>,
    output: Vec<usize>,
    /// Size of each letter.
    sizes: Vec<usize>,
}

const LETTERS_MAX: usize = 2 * RANK_MAX;

impl Equation {
    fn parse(text: &str, shapes: &[&[usize]]) -> Result<Self, OpError> {
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let (left, right) = match text.split_once("->") {
            Some((left, right)) => (left, Some(right)),
            None => (text.as_str(), None),
        };
        let terms: Vec<&str> = left.split(',').collect();
        if terms.len() != shapes.len() {
            return Err(OpError::invalid(
                "the equation has another number of terms than inputs",
            ));
        }
        let named = |term: &str| term.replace("...", "").chars().count();
        let hidden = terms
            .iter()
            .zip(shapes)
            .filter(|(term, _)| term.contains("..."))
            .map(|(term, shape)| shape.len().saturating_sub(named(term)))
            .max()
            .unwrap_or(0);
        let mut letters: Vec<char> = Vec::new();
        let mut sizes: Vec<usize> = vec![1; hidden];
        let mut inputs = Vec::new();
        for (term, shape) in terms.iter().zip(shapes) {
            let own_hidden = if term.contains("...") {
                shape.len().saturating_sub(named(term))
            } else {
                0
            };
            let axes = resolve(term, hidden, own_hidden, &mut letters)?;
            sizes.resize(hidden + letters.len(), 1);
            if axes.len() != shape.len() || sizes.len() > LETTERS_MAX {
                return Err(OpError::invalid(
                    "a term of the equation does not fit its input",
                ));
            }
            for (&letter, &size) in axes.iter().zip(*shape) {
                if sizes[letter] == 1 {
                    sizes[letter] = size;
                } else if size != 1 && size != sizes[letter] {
                    return Err(OpError::invalid("a letter of the equation has two sizes"));
                }
            }
            inputs.push(axes);
        }
        let output = match right {
            Some(term) => resolve(term, hidden, hidden, &mut letters)?,
            None => implicit(left, hidden, &letters),
        };
        if output.iter().any(|&letter| letter >= sizes.len()) {
            return Err(OpError::invalid("the equation's result names a new letter"));
        }
        let distinct: BTreeSet<usize> = output.iter().copied().collect();
        if distinct.len() != output.len() {
            return Err(OpError::invalid(
                "the equation's result names a letter twice",
            ));
        }
        Ok(Self {
            inputs,
            output,
            sizes,
        })
    }
}

/// Without an arrow: the ellipsis, then the letters that appear once, in alphabetical order.
fn implicit(left: &str, hidden: usize, letters: &[char]) -> Vec<usize> {
    let once = |letter: &char| left.chars().filter(|c| c == letter).count() == 1;
    let mut single: Vec<char> = letters.iter().copied().filter(once).collect();
    single.sort_unstable();
    let index = |letter: &char| letters.iter().position(|c| c == letter).unwrap_or(0);
    (0..hidden)
        .chain(single.iter().map(|letter| hidden + index(letter)))
        .collect()
}

fn resolve(
    term: &str,
    hidden: usize,
    own_hidden: usize,
    letters: &mut Vec<char>,
) -> Result<Vec<usize>, OpError> {
    let mut axes = Vec::new();
    let mut rest = term;
    while let Some(first) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("...") {
            axes.extend(hidden - own_hidden..hidden);
            rest = after;
            continue;
        }
        if !first.is_ascii_alphabetic() {
            return Err(OpError::invalid(
                "the equation holds a character that is no letter",
            ));
        }
        let index = letters.iter().position(|&c| c == first).unwrap_or_else(|| {
            letters.push(first);
            letters.len() - 1
        });
        axes.push(hidden + index);
        rest = &rest[1..];
    }
    Ok(axes)
}

/// Strides of an input along each letter; a letter named twice walks the diagonal.
fn letter_strides(axes: &[usize], shape: &[usize], letters: usize) -> Vec<usize> {
    let own = strides(shape);
    let mut steps = vec![0; letters];
    for ((&letter, &size), own) in axes.iter().zip(shape).zip(own) {
        if size != 1 {
            steps[letter] += own;
        }
    }
    steps
}

/// Sums ascending over the letters that the result does not name, in their order of appearance; a product of more
/// than two factors is taken from left to right.
fn einsum<R: Real>(call: &Call<'_>) -> Results {
    let text = call.text("equation", "")?;
    let mut shapes = Vec::new();
    for index in 0..call.inputs.len() {
        shapes.push(call.input(index)?.shape());
    }
    let equation = Equation::parse(text, &shapes)?;
    let letters = equation.sizes.len();
    let summed: Vec<usize> = (0..letters)
        .filter(|l| !equation.output.contains(l))
        .collect();
    let shape: Vec<usize> = equation.output.iter().map(|&l| equation.sizes[l]).collect();
    let mut out = call.filled(&shape, R::ZERO)?;
    let steps: Vec<Vec<usize>> = equation
        .inputs
        .iter()
        .zip(&shapes)
        .map(|(axes, shape)| letter_strides(axes, shape, letters))
        .collect();
    let depth: Vec<usize> = summed.iter().map(|&l| equation.sizes[l]).collect();
    if equation.sizes.contains(&0) {
        return one(shape, out);
    }
    let per_term = match steps.len() {
        2 => 1,
        factors => factors.saturating_mul(letters).max(1),
    };
    call.charge_steps(&[&equation.sizes, [per_term].as_slice()].concat())?;
    match steps.as_slice() {
        [a, b] => {
            let (x, y) = (call.values::<R>(0)?, call.values::<R>(1)?);
            let pick = |steps: &[usize], of: &[usize]| -> Vec<usize> {
                of.iter().map(|&letter| steps[letter]).collect()
            };
            let outer = Walk::new(
                &shape,
                &[pick(a, &equation.output), pick(b, &equation.output)],
            );
            let inner = Walk::new(&depth, &[pick(a, &summed), pick(b, &summed)]);
            let mut next = 0;
            outer.for_each(|[i, j]| {
                for k in 0..outer.length {
                    let (i, j) = (i + k * outer.inner[0], j + k * outer.inner[1]);
                    out[next] = dot(&inner, &x[i..], &y[j..]);
                    next += 1;
                }
            });
        }
        _ => general(call, &equation, &steps, &mut out)?,
    }
    one(shape, out)
}

fn dot<R: Real>(walk: &Walk<2>, x: &[R], y: &[R]) -> R {
    let mut sum = R::ZERO;
    let [p, q] = walk.inner;
    walk.for_each(|[i, j]| {
        for k in 0..walk.length {
            sum = x[i + k * p].fma(y[j + k * q], sum);
        }
    });
    sum.canonical()
}

/// Any number of factors, one index at a time.
fn general<R: Real>(
    call: &Call<'_>,
    equation: &Equation,
    steps: &[Vec<usize>],
    out: &mut [R],
) -> Result<(), OpError> {
    let letters = equation.sizes.len();
    let mut inputs = Vec::new();
    for index in 0..steps.len() {
        inputs.push(call.values::<R>(index)?);
    }
    let summed: Vec<usize> = (0..letters)
        .filter(|l| !equation.output.contains(l))
        .collect();
    let order: Vec<usize> = equation.output.iter().chain(&summed).copied().collect();
    let depth: Vec<usize> = summed.iter().map(|&l| equation.sizes[l]).collect();
    let depth = crate::tensor::elements(&depth);
    let depth = depth.ok_or_else(|| OpError::invalid("the sums are too long"))?;
    let mut index = vec![0usize; letters];
    for out in out.iter_mut() {
        let mut sum = R::ZERO;
        for _ in 0..depth {
            let mut factors = inputs.iter().zip(steps).map(|(values, steps)| {
                let place: usize = index.iter().zip(steps).map(|(i, s)| i * s).sum();
                values[place]
            });
            let first = factors.next().unwrap_or(R::ONE);
            sum = sum + factors.fold(first, |product, factor| product * factor);
            for &letter in order.iter().rev() {
                index[letter] += 1;
                if index[letter] < equation.sizes[letter] {
                    break;
                }
                index[letter] = 0;
            }
        }
        *out = sum.canonical();
    }
    Ok(())
}

/// Gaussian elimination with the largest pivot of each column, the first of equal ones.
fn determinant<R: Real>(call: &Call<'_>) -> Results {
    let shape = call.input(0)?.shape();
    let [batch @ .., rows, columns] = shape else {
        return Err(OpError::invalid("the input is not a matrix"));
    };
    let (n, columns) = (*rows, *columns);
    if n != columns {
        return Err(OpError::invalid("the matrix is not square"));
    }
    let mut values = call.values::<R>(0)?.to_vec();
    call.reserve(values.len(), R::DTYPE)?;
    let count: usize = batch.iter().product();
    call.charge_steps(&[count, n, n, n])?;
    let mut out = Vec::with_capacity(count);
    for index in 0..count {
        let matrix = &mut values[index * n * n..(index + 1) * n * n];
        out.push(eliminate(matrix, n).canonical());
    }
    one(batch.to_vec(), out)
}

fn eliminate<R: Real>(matrix: &mut [R], n: usize) -> R {
    let mut product = R::ONE;
    for column in 0..n {
        let mut pivot = column;
        for row in column + 1..n {
            if matrix[row * n + column].abs() > matrix[pivot * n + column].abs() {
                pivot = row;
            }
        }
        if pivot != column {
            for k in 0..n {
                matrix.swap(pivot * n + k, column * n + k);
            }
            product = -product;
        }
        let top = matrix[column * n + column];
        product = product * top;
        if top == R::ZERO {
            return R::ZERO;
        }
        for row in column + 1..n {
            let factor = matrix[row * n + column] / top;
            for k in column..n {
                let above = matrix[column * n + k];
                matrix[row * n + k] = (-factor).fma(above, matrix[row * n + k]);
            }
        }
    }
    product
}
