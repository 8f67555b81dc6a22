//! Accelerators by SkyPilot's names: `H100`, `A100-80GB:8`, `V100:0.5`, `80GB+`, `nvidia:24GB+:2`.

use tg_types::GpuModel;
use tg_types::resources::GPUS_MAX;

use super::nearest::nearest;
use super::problem::{JobPlace, JobProblem};
use super::yaml::shown;

/// GPUs that a machine is to have, all alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuWish {
    /// The models that will do.
    pub models: Vec<GpuModel>,
    /// How many.
    pub count: u8,
    /// The share of one, in thousandths, if less than one is enough.
    pub share: Option<u16>,
}

/// Why accelerators are not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoGpu {
    /// They are written wrongly.
    Wrong(JobProblem),
    /// No machine of this grid can say that it has them: the problem if nothing else will do.
    Absent(JobProblem),
}

/// What SkyPilot calls a GPU that the grid knows, first as SkyPilot's catalogue has it; its memory in GB.
const KNOWN: [(GpuModel, u32, &[&str]); 11] = [
    (GpuModel::T4, 16, &["T4"]),
    (GpuModel::P100, 16, &["P100"]),
    (GpuModel::V100, 16, &["V100", "V100-16GB"]),
    (GpuModel::A10, 24, &["A10"]),
    (GpuModel::L4, 24, &["L4"]),
    (GpuModel::Rtx3090, 24, &["RTX3090"]),
    (GpuModel::Rtx4090, 24, &["RTX4090"]),
    (GpuModel::A100M40, 40, &["A100", "A100-40", "A100-40GB"]),
    (
        GpuModel::A100M80,
        80,
        &["A100-80GB", "A100-80", "A100-80GB-SXM"],
    ),
    (GpuModel::H100, 80, &["H100", "H100-80GB", "H100-SXM"]),
    (GpuModel::H200, 141, &["H200", "H200-SXM"]),
];

/// Accelerators of clouds that the grid has no name for.
const ABSENT: &[&str] = &[
    "K80",
    "M4000",
    "M60",
    "P4",
    "P4000",
    "P40",
    "P6000",
    "V100-32GB",
    "A10G",
    "A16",
    "A2",
    "A30",
    "A40",
    "A4000",
    "A5000",
    "A6000",
    "A800",
    "B100",
    "B200",
    "B300",
    "GB200",
    "GB300",
    "GH200",
    "GV100",
    "H20",
    "H800",
    "H100-MEGA",
    "H100-NVL",
    "L20",
    "L40",
    "L40S",
    "RTX2080",
    "RTX2080Ti",
    "RTX3060",
    "RTX3070",
    "RTX3080",
    "RTX3090Ti",
    "RTX4080",
    "RTX5080",
    "RTX5090",
    "RTX6000",
    "RTX6000-Ada",
    "RTXPRO6000",
    "Titan",
    "TitanV",
    "TitanXp",
    "MI100",
    "MI200",
    "MI210",
    "MI25",
    "MI250",
    "MI300",
    "MI300X",
    "MI350X",
    "MI355X",
    "MI325X",
    "MI50",
    "Radeon",
    "Gaudi",
    "Gaudi2",
    "Gaudi3",
    "Trainium",
    "Trainium2",
    "Inferentia",
    "Inferentia2",
];

/// A name without how its parts are joined, in small letters.
fn simple(name: &str) -> String {
    let letters = name.chars().filter(|it| it.is_ascii_alphanumeric());
    letters.collect::<String>().to_ascii_lowercase()
}

/// The GPUs of a text.
///
/// # Errors
/// If it is written wrongly, or names what the grid does not have.
pub(crate) fn gpus(text: &str, place: JobPlace) -> Result<GpuWish, NoGpu> {
    let parts: Vec<&str> = text.split(':').map(str::trim).collect();
    let (models, count) = match parts.as_slice() {
        [maker, memory, count] if is_memory(memory) => {
            (by_memory(memory, Some(maker), place)?, *count)
        }
        [memory, count] if is_memory(memory) => (by_memory(memory, None, place)?, *count),
        [maker, memory] if is_memory(memory) => (by_memory(memory, Some(maker), place)?, "1"),
        [memory] if is_memory(memory) => (by_memory(memory, None, place)?, "1"),
        [name, count] => (by_name(name, place)?, *count),
        [name] => (by_name(name, place)?, "1"),
        _ => {
            let text = format!("`{}` is not an accelerator with a count", shown(text));
            return Err(NoGpu::Wrong(JobProblem::new(
                place,
                text,
                "as H100 or A100:8",
            )));
        }
    };
    let (count, share) = counted(count, place).map_err(NoGpu::Wrong)?;
    Ok(GpuWish {
        models,
        count,
        share,
    })
}

/// A count: whole, or a part of one.
fn counted(text: &str, place: JobPlace) -> Result<(u8, Option<u16>), JobProblem> {
    let wrong = |hint: String| {
        let text = format!("`{}` is no count of GPUs of a machine", shown(text));
        JobProblem::new(place, text, hint)
    };
    let usual = || wrong(format!("1 to {GPUS_MAX}, or a part of one as 0.5"));
    let number: f64 = text.parse().map_err(|_| usual())?;
    if number > f64::from(GPUS_MAX) {
        let hint = format!(
            "a machine of the grid has {GPUS_MAX} GPUs at most; `num_nodes` asks for several machines"
        );
        return Err(wrong(hint));
    }
    let milli = (number * 1_000.0).round();
    if number < 1.0 && (1.0..1_000.0).contains(&milli) {
        return Ok((1, Some(milli as u16)));
    }
    let is_whole = number >= 1.0 && number.fract() == 0.0;
    is_whole.then_some((number as u8, None)).ok_or_else(usual)
}

fn is_memory(text: &str) -> bool {
    memory_gb(text).is_some()
}

/// `80GB` or `80GB+`: gigabytes, and whether more will do.
fn memory_gb(text: &str) -> Option<(u32, bool)> {
    let plain = text.strip_suffix('+').unwrap_or(text);
    let letters = plain.find(|it: char| !it.is_ascii_digit())?;
    let (digits, unit) = plain.split_at(letters);
    let number: u32 = digits.parse().ok()?;
    let gigabytes = match unit.to_ascii_lowercase().as_str() {
        "mb" => number / 1_024,
        "gb" => number,
        "tb" => number.checked_mul(1_024)?,
        _ => return None,
    };
    Some((gigabytes, plain.len() < text.len()))
}

fn by_memory(text: &str, maker: Option<&str>, place: JobPlace) -> Result<Vec<GpuModel>, NoGpu> {
    if let Some(maker) = maker.filter(|maker| !maker.eq_ignore_ascii_case("nvidia")) {
        let text = format!("the grid has no GPUs of `{}`", shown(maker));
        let hint = "they are NVIDIA's: leave the maker out";
        return Err(NoGpu::Absent(JobProblem::new(place, text, hint)));
    }
    let (least, or_more) = memory_gb(text).unwrap_or((0, true));
    let fits = |has: u32| has == least || or_more && has > least;
    let known = KNOWN.iter().filter(|(_, memory, _)| fits(*memory));
    let models: Vec<GpuModel> = known.map(|(model, ..)| *model).collect();
    if models.is_empty() {
        let text = format!("the grid knows no GPU with {}", shown(text));
        let hint = "they have 16, 24, 40, 80 and 141 GB; `24GB+` takes larger ones too";
        return Err(NoGpu::Absent(JobProblem::new(place, text, hint)));
    }
    Ok(models)
}

fn by_name(name: &str, place: JobPlace) -> Result<Vec<GpuModel>, NoGpu> {
    let wanted = simple(name);
    let known = KNOWN
        .iter()
        .find(|(_, _, names)| names.iter().any(|it| simple(it) == wanted));
    if let Some((model, ..)) = known {
        return Ok(vec![*model]);
    }
    let all: Vec<&str> = KNOWN.iter().map(|(_, _, names)| names[0]).collect();
    let listed = format!("it knows {}", all.join(", "));
    let is_absent = wanted.starts_with("tpu") || ABSENT.iter().any(|it| simple(it) == wanted);
    if is_absent {
        let text = format!("the grid does not know the accelerator `{}`", shown(name));
        return Err(NoGpu::Absent(JobProblem::new(place, text, listed)));
    }
    let text = format!("there is no accelerator `{}`", shown(name));
    let hint = match nearest(
        name,
        KNOWN.iter().flat_map(|(_, _, names)| names.iter().copied()),
    ) {
        Some(near) => format!("did you mean `{near}`? The grid has {}", all.join(", ")),
        None => listed,
    };
    Err(NoGpu::Wrong(JobProblem::new(place, text, hint)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<GpuWish, NoGpu> {
        gpus(text, JobPlace::default())
    }

    #[test]
    fn accelerators_are_read_as_skypilot_reads_them() {
        let check = |text: &str, models: &[GpuModel], count: u8, share: Option<u16>| {
            let wish = GpuWish {
                models: models.to_vec(),
                count,
                share,
            };
            assert_eq!(read(text), Ok(wish), "{text}");
        };
        check("H100", &[GpuModel::H100], 1, None);
        check("a100-80gb:8", &[GpuModel::A100M80], 8, None);
        check("A100:4.0", &[GpuModel::A100M40], 4, None);
        check("V100:0.5", &[GpuModel::V100], 1, Some(500));
        check("rtx 4090", &[GpuModel::Rtx4090], 1, None);
        let large = [GpuModel::A100M80, GpuModel::H100, GpuModel::H200];
        check("80GB+", &large, 1, None);
        check("nvidia:80gb:2", &large[..2], 2, None);
        check("141GB:8", &[GpuModel::H200], 8, None);
    }

    #[test]
    fn what_the_grid_lacks_is_told_from_what_is_misspelt() {
        for text in ["L40S", "tpu-v5e-8", "MI300X:8", "amd:192GB+", "192GB+"] {
            assert!(matches!(read(text), Err(NoGpu::Absent(_))), "{text}");
        }
        for text in [
            "H10O", "A100:0", "A100:9", "A100:x", "A100:1.5", "a:b:c:d", "", "A100:nan", "A100:-1",
        ] {
            assert!(matches!(read(text), Err(NoGpu::Wrong(_))), "{text}");
        }
        let Err(NoGpu::Wrong(problem)) = read("H1OO") else {
            panic!("taken");
        };
        assert!(problem.hint.contains("`H100`"), "{problem:?}");
    }
}
