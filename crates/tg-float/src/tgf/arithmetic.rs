//! Operators of two and more tensors that broadcast together: arithmetic, comparisons, logic, bits.

use super::broadcast::{broadcast_shape, zip};
use super::call::Entry;
use super::call::Half::{Native, Widen};
use super::call::{Call, Results, one, tensor};
use super::error::OpError;
use super::real::Real;
use crate::convert::{self, CastMode};
use crate::tensor::{DType, Data, Element, FloatTensor};

/// The function of an operator of this family.
pub(super) fn lookup(op: &str) -> Option<Entry> {
    Some(match op {
        "Add" => (|call| binary(call, Operation::Add), Widen),
        "Sub" => (|call| binary(call, Operation::Sub), Widen),
        "Mul" => (|call| binary(call, Operation::Mul), Widen),
        "Div" => (|call| binary(call, Operation::Div), Widen),
        "Mod" => (modulo, Widen),
        "Pow" => (power, Widen),
        "PRelu" => (|call| binary(call, Operation::PRelu), Widen),
        "Max" => (|call| fold(call, Operation::Max), Widen),
        "Min" => (|call| fold(call, Operation::Min), Widen),
        "Sum" => (|call| fold(call, Operation::Add), Widen),
        "Mean" => (mean, Widen),
        "BitwiseAnd" => (|call| binary(call, Operation::BitAnd), Native),
        "BitwiseOr" => (|call| binary(call, Operation::BitOr), Native),
        "BitwiseXor" => (|call| binary(call, Operation::BitXor), Native),
        "BitShift" => (shift, Native),
        "And" => (|call| logic(call, |a, b| a & b), Native),
        "Or" => (|call| logic(call, |a, b| a | b), Native),
        "Xor" => (|call| logic(call, |a, b| a ^ b), Native),
        "Equal" => (|call| compare(call, Comparison::Equal), Widen),
        "Greater" => (|call| compare(call, Comparison::Greater), Widen),
        "Less" => (|call| compare(call, Comparison::Less), Widen),
        "GreaterOrEqual" => (|call| compare(call, Comparison::GreaterOrEqual), Widen),
        "LessOrEqual" => (|call| compare(call, Comparison::LessOrEqual), Widen),
        _ => return None,
    })
}

/// An operation of two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Add,
    Sub,
    Mul,
    Div,
    /// The remainder with the sign of the divisor.
    Mod,
    /// The remainder with the sign of the dividend.
    Rem,
    Max,
    Min,
    PRelu,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
}

/// An integer type; operations are in `i128` and wrap.
pub(super) trait Int: Element + Copy {
    fn wide(self) -> i128;
    fn narrow(value: i128) -> Self;
    const BITS: u32;
}

macro_rules! int {
    ($($type:ty),*) => {$(
        impl Int for $type {
            #[inline(always)]
            fn wide(self) -> i128 {
                self.into()
            }
            #[inline(always)]
            fn narrow(value: i128) -> Self {
                value as Self
            }
            const BITS: u32 = <$type>::BITS;
        }
    )*};
}

int!(i8, i16, i32, i64, u8, u16, u32, u64);

/// Runs an expression on two integer vectors of one type; the fallback for any other pair.
macro_rules! both_ints {
    ($a:expr, $b:expr, ($x:ident, $y:ident) => $body:expr, $other:expr) => {
        match ($a, $b) {
            (Data::I8($x), Data::I8($y)) => $body,
            (Data::I16($x), Data::I16($y)) => $body,
            (Data::I32($x), Data::I32($y)) => $body,
            (Data::I64($x), Data::I64($y)) => $body,
            (Data::U8($x), Data::U8($y)) => $body,
            (Data::U16($x), Data::U16($y)) => $body,
            (Data::U32($x), Data::U32($y)) => $body,
            (Data::U64($x), Data::U64($y)) => $body,
            _ => $other,
        }
    };
}

/// Two tensors, their common shape and its size.
struct Pair<'a> {
    a: &'a FloatTensor,
    b: &'a FloatTensor,
    shape: Vec<usize>,
    count: usize,
}

impl<'a> Pair<'a> {
    fn new(
        call: &Call<'_>,
        a: &'a FloatTensor,
        b: &'a FloatTensor,
        out: DType,
    ) -> Result<Self, OpError> {
        let shape = broadcast_shape(&[a.shape(), b.shape()])?;
        let count = call.reserve_shape(&shape, out)?;
        Ok(Self { a, b, shape, count })
    }

    #[inline]
    fn zip<A: Copy, B: Copy, R>(&self, a: &[A], b: &[B], f: impl Fn(A, B) -> R) -> Vec<R> {
        let (a, b) = ((a, self.a.shape()), (b, self.b.shape()));
        zip(a, b, &self.shape, self.count, f)
    }
}

fn binary(call: &Call<'_>, operation: Operation) -> Results {
    let (a, b) = (call.input(0)?, call.input(1)?);
    if operation == Operation::PRelu && b.rank() > a.rank() {
        return Err(OpError::invalid("the slope has more axes than the input"));
    }
    Ok(vec![combine(call, a, b, operation)?])
}

fn combine(
    call: &Call<'_>,
    a: &FloatTensor,
    b: &FloatTensor,
    operation: Operation,
) -> Result<FloatTensor, OpError> {
    let pair = Pair::new(call, a, b, a.dtype())?;
    let data = match (a.data(), b.data()) {
        (Data::F32(x), Data::F32(y)) => Data::F32(reals(&pair, x, y, operation)?),
        (Data::F64(x), Data::F64(y)) => Data::F64(reals(&pair, x, y, operation)?),
        (x, y) => both_ints!(x, y, (x, y) => Element::wrap(ints(&pair, x, y, operation)?),
            return Err(call.wrong_type(1))),
    };
    tensor(pair.shape, data)
}

fn reals<R: Real>(pair: &Pair<'_>, a: &[R], b: &[R], op: Operation) -> Result<Vec<R>, OpError> {
    Ok(match op {
        Operation::Add => pair.zip(a, b, |x, y| (x + y).canonical()),
        Operation::Sub => pair.zip(a, b, |x, y| (x - y).canonical()),
        Operation::Mul => pair.zip(a, b, |x, y| (x * y).canonical()),
        Operation::Div => pair.zip(a, b, |x, y| (x / y).canonical()),
        Operation::Max => pair.zip(a, b, Real::larger),
        Operation::Min => pair.zip(a, b, Real::smaller),
        Operation::Rem => pair.zip(a, b, |x, y| x.rem(y).canonical()),
        Operation::Mod => pair.zip(a, b, |x, y| {
            let rest = x.rem(y);
            let other_sign = (rest < R::ZERO) != (y < R::ZERO);
            let rest = if rest != R::ZERO && other_sign {
                rest + y
            } else {
                rest
            };
            rest.canonical()
        }),
        Operation::PRelu => pair.zip(a, b, |x, y| {
            let value = if x < R::ZERO { x * y } else { x };
            value.canonical()
        }),
        Operation::BitAnd
        | Operation::BitOr
        | Operation::BitXor
        | Operation::ShiftLeft
        | Operation::ShiftRight => return Err(OpError::invalid("floats have no bit operations")),
    })
}

fn ints<T: Int>(pair: &Pair<'_>, a: &[T], b: &[T], op: Operation) -> Result<Vec<T>, OpError> {
    let divides = matches!(op, Operation::Div | Operation::Mod | Operation::Rem);
    if divides && b.iter().any(|y| y.wide() == 0) {
        return Err(OpError::invalid("an integer is divided by zero"));
    }
    let bits = i128::from(T::BITS);
    let compute = |x: i128, y: i128| match op {
        Operation::Add => x + y,
        Operation::Sub => x - y,
        Operation::Mul => x.wrapping_mul(y),
        Operation::Div => x / y,
        Operation::Rem => x % y,
        Operation::Mod => {
            let rest = x % y;
            if rest != 0 && (rest < 0) != (y < 0) {
                rest + y
            } else {
                rest
            }
        }
        Operation::Max => x.max(y),
        Operation::Min => x.min(y),
        Operation::PRelu => {
            if x < 0 {
                x.wrapping_mul(y)
            } else {
                x
            }
        }
        Operation::BitAnd => x & y,
        Operation::BitOr => x | y,
        Operation::BitXor => x ^ y,
        Operation::ShiftLeft if (0..bits).contains(&y) => x << y,
        Operation::ShiftLeft => 0,
        Operation::ShiftRight if (0..bits).contains(&y) => x >> y,
        Operation::ShiftRight => x >> 127,
    };
    Ok(pair.zip(a, b, |x, y| T::narrow(compute(x.wide(), y.wide()))))
}

fn modulo(call: &Call<'_>) -> Results {
    let operation = if call.flag("fmod", false)? {
        Operation::Rem
    } else {
        Operation::Mod
    };
    binary(call, operation)
}

fn shift(call: &Call<'_>) -> Results {
    match call.text("direction", "")? {
        "LEFT" => binary(call, Operation::ShiftLeft),
        "RIGHT" => binary(call, Operation::ShiftRight),
        _ => Err(OpError::Attribute { name: "direction" }),
    }
}

/// The base and the exponent may have different types; the result has the base's.
fn power(call: &Call<'_>) -> Results {
    let (a, b) = (call.input(0)?, call.input(1)?);
    let pair = Pair::new(call, a, b, a.dtype())?;
    let data = match (a.data(), b.data()) {
        (Data::F32(x), Data::F64(y)) => {
            Data::F32(pair.zip(x, y, |x, y| Real::pow(f64::from(x), y) as f32))
        }
        (Data::F32(x), y) => {
            let y = convert::to_f32(y).ok_or_else(|| call.wrong_type(1))?;
            Data::F32(powers(&pair, x, &y))
        }
        (Data::F64(x), y) => {
            let y = convert::to_f64(y).ok_or_else(|| call.wrong_type(1))?;
            Data::F64(powers(&pair, x, &y))
        }
        (x, y) => integer_power(call, &pair, x, y)?,
    };
    Ok(vec![tensor(pair.shape, data)?])
}

fn powers<R: Real>(pair: &Pair<'_>, x: &[R], y: &[R]) -> Vec<R> {
    match y {
        // One exponent for all, as exporters write squares and roots.
        [exponent] if exponent.to_f64() == 2.0 => pair.zip(x, y, |x, _| (x * x).canonical()),
        _ => pair.zip(x, y, |x, y| x.pow(y)),
    }
}

fn integer_power(call: &Call<'_>, pair: &Pair<'_>, x: &Data, y: &Data) -> Result<Data, OpError> {
    let base = convert::to_i64(x).ok_or_else(|| call.wrong_type(0))?;
    if let Some(exponent) = convert::to_i64(y) {
        let values = pair.zip(&base, &exponent, |x, y| match (x, y) {
            (x, 0..) => wrapping_power(x, y),
            (1, _) => 1,
            (-1, _) => 1 - 2 * (y & 1),
            _ => 0,
        });
        return convert::from_i64(&values, x.dtype(), CastMode::default())
            .ok_or_else(|| call.wrong_type(0));
    }
    let exponent = convert::to_f64(y).ok_or_else(|| call.wrong_type(1))?;
    let values = pair.zip(&base, &exponent, |x, y| Real::pow(x as f64, y));
    convert::from_f64(&values, x.dtype(), CastMode::default()).ok_or_else(|| call.wrong_type(0))
}

fn wrapping_power(base: i64, exponent: i64) -> i64 {
    let (mut result, mut square, mut left) = (1i64, base, exponent);
    while left > 0 {
        if left & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        left >>= 1;
    }
    result
}

fn fold(call: &Call<'_>, operation: Operation) -> Results {
    let mut result = call.input(0)?.clone();
    call.reserve(result.len(), result.dtype())?;
    for index in 1..call.inputs.len() {
        if index > 1 {
            // The result so far is gone over again.
            call.charge_steps(&[result.len()])?;
        }
        result = combine(call, &result, call.input(index)?, operation)?;
    }
    Ok(vec![result])
}

fn mean(call: &Call<'_>) -> Results {
    let sum = fold(call, Operation::Add)?.remove(0);
    let count = call.inputs.len();
    let (shape, data) = sum.into_parts();
    match data {
        Data::F32(values) => {
            let count = count as f32;
            one(
                shape,
                values.iter().map(|&v| (v / count).canonical()).collect(),
            )
        }
        Data::F64(values) => {
            let count = count as f64;
            one(
                shape,
                values.iter().map(|&v| (v / count).canonical()).collect(),
            )
        }
        _ => Err(call.wrong_type(0)),
    }
}

fn logic(call: &Call<'_>, function: fn(bool, bool) -> bool) -> Results {
    let pair = Pair::new(call, call.input(0)?, call.input(1)?, DType::Bool)?;
    let values = pair.zip(call.values(0)?, call.values(1)?, function);
    one(pair.shape, values)
}

#[derive(Debug, Clone, Copy)]
enum Comparison {
    Equal,
    Greater,
    Less,
    GreaterOrEqual,
    LessOrEqual,
}

impl Comparison {
    #[inline(always)]
    fn holds<T: PartialOrd>(self, x: &T, y: &T) -> bool {
        match self {
            Self::Equal => x == y,
            Self::Greater => x > y,
            Self::Less => x < y,
            Self::GreaterOrEqual => x >= y,
            Self::LessOrEqual => x <= y,
        }
    }
}

fn compare(call: &Call<'_>, comparison: Comparison) -> Results {
    let pair = Pair::new(call, call.input(0)?, call.input(1)?, DType::Bool)?;
    let values = match (pair.a.data(), pair.b.data()) {
        (Data::F32(x), Data::F32(y)) => pair.zip(x, y, |x, y| comparison.holds(&x, &y)),
        (Data::F64(x), Data::F64(y)) => pair.zip(x, y, |x, y| comparison.holds(&x, &y)),
        (Data::Bool(x), Data::Bool(y)) => pair.zip(x, y, |x, y| comparison.holds(&x, &y)),
        (Data::String(x), Data::String(y)) => {
            let x: Vec<&String> = x.iter().collect();
            let y: Vec<&String> = y.iter().collect();
            pair.zip(&x, &y, |x, y| comparison.holds(x, y))
        }
        (x, y) => both_ints!(x, y, (x, y) => pair.zip(x, y, |x, y| comparison.holds(&x, &y)),
            return Err(call.wrong_type(1))),
    };
    one(pair.shape, values)
}
