//! Rotary positions: the angle of each pair of channels at each position, by the rules that configurations name.

use crate::blocks::ModelWriter;
use crate::config::PretrainedConfig;
use crate::error::PretrainedError;
use serde_json::json;
use tg_float::ValueId;

/// Most numbers of a table of rotations.
const ROTATIONS_MAX: usize = 1 << 26;

/// The cosines and sines of the positions of an input: `[positions, channels of a head]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rotations {
    pub(crate) cosines: ValueId,
    pub(crate) sines: ValueId,
}

/// The table of rotations, cut to the positions of `ids`.
pub(crate) fn rotations(
    model: &mut ModelWriter<'_>,
    ids: ValueId,
    each: usize,
) -> Result<Rotations, PretrainedError> {
    let config = model.config;
    let places = config.size("max_position_embeddings")?;
    if places.saturating_mul(each) > ROTATIONS_MAX {
        let taken = format!("at most {} positions are taken", ROTATIONS_MAX / each);
        return Err(config.refuse("max_position_embeddings", taken));
    }
    let (steps, factor) = frequencies(config, each)?;
    let angles = (0..places).flat_map(|place| {
        let own = steps.iter().map(move |&step| place as f32 * step);
        own.clone().chain(own)
    });
    let angles: Vec<f32> = angles.collect();
    let shape = [places, each];
    // In the library's order: angles in single precision, then cosine and sine of them.
    let of = |turn: fn(f64) -> f64| -> Vec<f32> {
        let turned = angles
            .iter()
            .map(|&angle| turn(f64::from(angle)) as f32 * factor);
        turned.collect()
    };
    let cosines = model.writer.floats("cosines", &shape, of(f64::cos));
    let sines = model.writer.floats("sines", &shape, of(f64::sin));
    Ok(Rotations {
        cosines: model.writer.rows_of_positions(cosines, ids, 0),
        sines: model.writer.rows_of_positions(sines, ids, 0),
    })
}

/// The angle of each pair of channels from a position to the next, and what cosines and sines are multiplied by.
fn frequencies(config: &PretrainedConfig, each: usize) -> Result<(Vec<f32>, f32), PretrainedError> {
    let scaling = match config.object("rope_parameters")? {
        Some(parameters) => parameters,
        None => config
            .object("rope_scaling")?
            .unwrap_or_else(|| PretrainedConfig::new(serde_json::Map::new())),
    };
    let base = scaling.number("rope_theta", config.number("rope_theta", 10_000.0)?)?;
    if base <= 0.0 {
        return Err(config.refuse("rope_theta", "a number above 0 is taken"));
    }
    for holder in [config, &scaling] {
        holder.only("partial_rotary_factor", &json!(1.0))?;
    }
    // In the library's order and precision: a power, rounded, of which the reciprocal is taken.
    let share = |pair: usize| (2 * pair) as f32 / each as f32;
    let step = |pair: usize| 1.0 / (base.powf(f64::from(share(pair))) as f32);
    let steps = (0..each / 2).map(step);
    let kind = scaling.text("rope_type", scaling.text("type", "default")?)?;
    let steps: Vec<f32> = match kind {
        "default" => steps.collect(),
        "linear" => {
            let factor = scaling.number("factor", 1.0)? as f32;
            steps.map(|step| step / factor).collect()
        }
        "llama3" => steps
            .map(|step| stretched(&scaling, step))
            .collect::<Result<_, _>>()?,
        "yarn" => return yarn(config, &scaling, (each, base)),
        _ => {
            return Err(scaling.refuse("rope_type", "default, linear, llama3 and yarn are taken"));
        }
    };
    Ok((steps, 1.0))
}

/// Llama 3's step of long waves: slower by `factor`, with a passage between the two.
fn stretched(scaling: &PretrainedConfig, step: f32) -> Result<f32, PretrainedError> {
    let number = |field: &str, default: f64| -> Result<f32, PretrainedError> {
        Ok(scaling.number(field, default)? as f32)
    };
    let factor: f32 = number("factor", 8.0)?;
    let low = number("low_freq_factor", 1.0)?;
    let high = number("high_freq_factor", 4.0)?;
    let before = number("original_max_position_embeddings", 8_192.0)?;
    let length = std::f32::consts::TAU / step;
    Ok(if length < before / high {
        step
    } else if length > before / low {
        step / factor
    } else {
        let share = (before / length - low) / (high - low);
        (1.0 - share) * step / factor + share * step
    })
}

/// YaRN: long waves are slower by `factor`, short ones stay, with a ramp between the two; cosines and sines are longer.
fn yarn(
    config: &PretrainedConfig,
    scaling: &PretrainedConfig,
    (each, base): (usize, f64),
) -> Result<(Vec<f32>, f32), PretrainedError> {
    let places = config.size("max_position_embeddings")?;
    let before = scaling
        .optional_size("original_max_position_embeddings")?
        .unwrap_or(places) as f64;
    let factor = scaling.number("factor", places as f64 / before)?;
    if factor <= 0.0 {
        return Err(scaling.refuse("factor", "a number above 0 is taken"));
    }
    let or = |field: &str, default: f64| -> Result<f64, PretrainedError> {
        let number = scaling.number(field, default)?;
        Ok(if number == 0.0 { default } else { number })
    };
    // The pair of channels that turns so many times within the original positions.
    let pair = |turns: f64| {
        let turned = before / (turns * std::f64::consts::TAU);
        each as f64 * turned.ln() / (2.0 * base.ln())
    };
    let mut ends = [pair(or("beta_fast", 32.0)?), pair(or("beta_slow", 1.0)?)];
    if scaling.flag("truncate", true)? {
        ends = [ends[0].floor(), ends[1].ceil()];
    }
    let low = ends[0].max(0.0);
    let mut high = ends[1].min(each as f64 - 1.0);
    if low == high {
        high += 0.001;
    }
    let step = |pair: usize| {
        let wave = base.powf(f64::from((2 * pair) as f32 / each as f32)) as f32;
        let share = ((pair as f32 - low as f32) / (high - low) as f32).clamp(0.0, 1.0);
        let [short, long] = [1.0 / wave, 1.0 / (factor as f32 * wave)];
        let stays = 1.0 - share;
        long * (1.0 - stays) + short * stays
    };
    Ok((
        (0..each / 2).map(step).collect(),
        lengthening(scaling, factor)?,
    ))
}

/// What YaRN multiplies cosines and sines by.
fn lengthening(scaling: &PretrainedConfig, factor: f64) -> Result<f32, PretrainedError> {
    let of = |share: f64| {
        if factor <= 1.0 {
            1.0
        } else {
            0.1 * share * factor.ln() + 1.0
        }
    };
    let [own, all] = [
        scaling.number("mscale", 0.0)?,
        scaling.number("mscale_all_dim", 0.0)?,
    ];
    let from_shares = if own != 0.0 && all != 0.0 {
        of(own) / of(all)
    } else {
        of(1.0)
    };
    Ok(scaling.number("attention_factor", from_shares)? as f32)
}
