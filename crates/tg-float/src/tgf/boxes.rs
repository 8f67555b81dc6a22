//! `NonMaxSuppression`.

use super::call::{Call, Results, one};
use super::error::OpError;
use super::meter::product;
use crate::tensor::DType;

/// A box by its corners.
#[derive(Debug, Clone, Copy)]
struct Rectangle {
    low: [f32; 2],
    high: [f32; 2],
}

impl Rectangle {
    fn new(values: &[f32], centred: bool) -> Self {
        let [a, b, c, d] = [values[0], values[1], values[2], values[3]];
        if centred {
            Self {
                low: [a - c / 2.0, b - d / 2.0],
                high: [a + c / 2.0, b + d / 2.0],
            }
        } else {
            Self {
                low: [a.min(c), b.min(d)],
                high: [a.max(c), b.max(d)],
            }
        }
    }

    fn area(self) -> f32 {
        (self.high[0] - self.low[0]) * (self.high[1] - self.low[1])
    }

    /// Area of the intersection by that of the union.
    fn overlap(self, other: Self) -> f32 {
        let side = |axis: usize| {
            (self.high[axis].min(other.high[axis]) - self.low[axis].max(other.low[axis])).max(0.0)
        };
        let common = side(0) * side(1);
        let union = self.area() + other.area() - common;
        if union <= 0.0 { 0.0 } else { common / union }
    }
}

/// Steps of comparing two boxes.
const OVERLAP_STEPS: usize = 8;

/// Per batch and class, the boxes of highest score that do not overlap better ones; ties take the lowest index.
pub(super) fn non_max_suppression(call: &Call<'_>) -> Results {
    let (boxes, scores) = (call.values::<f32>(0)?, call.values::<f32>(1)?);
    let (&[batches, count, 4], &[batches_too, classes, count_too]) =
        (call.input(0)?.shape(), call.input(1)?.shape())
    else {
        return Err(OpError::invalid("boxes or scores have a wrong shape"));
    };
    if batches != batches_too || count != count_too {
        return Err(OpError::invalid("boxes and scores do not fit together"));
    }
    let limit = call.optional_integer(2)?.unwrap_or(0);
    let limit = usize::try_from(limit).unwrap_or(0);
    let first = |index: usize| -> Result<Option<f32>, OpError> {
        Ok(call
            .optional_floats(index)?
            .and_then(|values| values.first().copied()))
    };
    let overlap_max = first(3)?.unwrap_or(0.0);
    let score_min = first(4)?;
    let centred = call.flag("center_point_box", false)?;
    let most = product(&[batches, classes, count.min(limit)]);
    call.reserve(usize::try_from(most).unwrap_or(usize::MAX), DType::F64)?;
    let mut chosen = Vec::new();
    for batch in 0..batches {
        let rectangle =
            |index: usize| Rectangle::new(&boxes[(batch * count + index) * 4..][..4], centred);
        for class in 0..classes {
            let scores = &scores[(batch * classes + class) * count..][..count];
            call.charge_steps(&[count, super::meter::sort_depth(count)])?;
            let mut order: Vec<usize> = (0..count)
                .filter(|&i| score_min.is_none_or(|least| scores[i] > least))
                .collect();
            order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
            let mut kept: Vec<usize> = Vec::new();
            for index in order {
                if kept.len() >= limit {
                    break;
                }
                call.charge_steps(&[kept.len(), OVERLAP_STEPS])?;
                let clear =
                    |&other: &usize| rectangle(index).overlap(rectangle(other)) <= overlap_max;
                if kept.iter().all(clear) {
                    kept.push(index);
                    chosen.extend([batch as i64, class as i64, index as i64]);
                }
            }
        }
    }
    call.reserve(chosen.len(), DType::I64)?;
    one(vec![chosen.len() / 3, 3], chosen)
}
