//! `resources`: the machines that will do, each an alternative.

use std::rc::Rc;

use super::accelerators::{GpuWish, NoGpu, gpus};
use super::fields::{BlockFields, JobFlag};
use super::problem::{Findings, JobPlace, JobProblem};
use super::scalar::PlainScalar;
use super::tables::{CANDIDATE, RESOURCES};
use super::yaml::{JobEntry, JobNode, JobValue, shown};

/// Most alternatives of a job: each is asked for its price.
pub const ALTERNATIVES_MAX: usize = 16;

/// A machine that will do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MachineWish {
    /// Where it is asked for.
    pub place: JobPlace,
    /// Its GPUs.
    pub gpu: Option<GpuWish>,
    /// Its processor in thousandths of a core.
    pub cpu_milli: Option<u32>,
    /// Its memory in MiB.
    pub memory_mib: Option<u32>,
    /// Its disk in GiB.
    pub disk_gib: Option<u32>,
    /// Whether it may be taken away.
    pub spot: Option<bool>,
}

impl MachineWish {
    /// The flags that ask for it.
    pub fn flags(&self) -> Vec<JobFlag> {
        let mut flags = Vec::new();
        let mut add = |field: &'static str, flag: &'static str, value: String| {
            flags.push(JobFlag {
                place: self.place,
                field,
                flag,
                word: format!("--{flag}={value}"),
            });
        };
        if let Some(gpu) = &self.gpu {
            match gpu.share {
                Some(share) => add("accelerators", "gpu-share", share.to_string()),
                None => add("accelerators", "gpus", gpu.count.to_string()),
            }
            let names: Vec<&str> = gpu.models.iter().map(|it| it.as_str()).collect();
            add("accelerators", "gpu-model", names.join(","));
        }
        if let Some(cpu) = self.cpu_milli {
            add("cpus", "cpu-milli", cpu.to_string());
        }
        if let Some(memory) = self.memory_mib {
            add("memory", "memory", memory.to_string());
        }
        if let Some(disk) = self.disk_gib {
            add("disk_size", "disk", disk.to_string());
        }
        if self.spot == Some(true) {
            add("use_spot", "tier", "spot".to_owned());
        }
        flags
    }

    /// Whether two differ only by the models of their GPUs.
    fn is_like(&self, other: &Self) -> bool {
        let without = |wish: &Self| {
            let mut wish = wish.clone();
            wish.place = JobPlace::default();
            if let Some(gpu) = &mut wish.gpu {
                gpu.models = Vec::new();
            }
            wish
        };
        without(self) == without(other)
    }
}

/// The machines that will do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineWishes {
    /// The alternatives; one at least.
    pub alternatives: Vec<MachineWish>,
    /// Whether the first that is offered is taken, rather than the cheapest.
    pub ordered: bool,
}

/// Reads `resources`; what differs only by its GPU models is one alternative.
pub fn machines(node: Option<&JobNode>, findings: &mut Findings) -> MachineWishes {
    let Some(node) = node else {
        return MachineWishes {
            alternatives: vec![MachineWish::default()],
            ordered: false,
        };
    };
    let fields = RESOURCES.walk_node(node, findings);
    let (any_of, ordered) = (fields.entry("any_of"), fields.entry("ordered"));
    if let (Some(_), Some(second)) = (any_of, ordered) {
        let text = "`any_of` and `ordered` are both there";
        findings.problem(JobProblem::new(second.place, text, "keep one of them"));
    }
    let base: Vec<&JobEntry> = match &node.value {
        JobValue::Map(entries) => entries
            .iter()
            .filter(|entry| !matches!(entry.key.as_str(), "any_of" | "ordered"))
            .collect(),
        _ => Vec::new(),
    };
    let listed = any_of.or(ordered);
    let mut read = Alternatives::default();
    match listed.map(|entry| &entry.node.value) {
        Some(JobValue::List(items)) if !items.is_empty() => {
            refuse_two_orders(&fields, any_of.is_some(), findings);
            for item in items {
                read.candidate(&base, item, findings);
            }
        }
        Some(_) => {
            let place = listed.map(|entry| entry.place).unwrap_or_default();
            let text = "here is no list of alternatives";
            findings.problem(JobProblem::new(place, text, "as `- accelerators: H100`"));
        }
        None => read.machine(&fields, node.place, findings),
    }
    let is_listed = |name: &str| {
        let value = fields.get(name).map(|node| &node.value);
        matches!(value, Some(JobValue::List(items)) if items.len() > 1)
    };
    let ordered =
        ordered.is_some() || any_of.is_none() && (is_listed("accelerators") || is_listed("gpus"));
    read.into_wishes(ordered, node.place, findings)
}

/// What SkyPilot refuses: alternatives with an order inside alternatives without one, and the other way round.
fn refuse_two_orders(fields: &BlockFields<'_>, is_any: bool, findings: &mut Findings) {
    let entry = fields.entry("accelerators").or(fields.entry("gpus"));
    let Some(entry) = entry else {
        return;
    };
    let count = match &entry.node.value {
        JobValue::List(items) => items.len(),
        JobValue::Map(entries) if !is_any => entries.len(),
        _ => 1,
    };
    if count > 1 {
        let text = "several accelerators are named beside alternatives";
        let hint = "name the accelerators in each alternative";
        findings.problem(JobProblem::new(entry.place, text, hint));
    }
}

/// Alternatives while they are read.
#[derive(Default)]
struct Alternatives {
    wishes: Vec<MachineWish>,
    /// What no machine of the grid has.
    absent: Vec<JobProblem>,
}

impl Alternatives {
    /// An alternative: its own fields, and those beside `any_of` that it does not have.
    fn candidate(&mut self, base: &[&JobEntry], item: &Rc<JobNode>, findings: &mut Findings) {
        let JobValue::Map(own) = &item.value else {
            let text = format!("an alternative is {}, not a mapping", item.kind());
            findings.problem(JobProblem::new(
                item.place,
                text,
                "as `- accelerators: H100`",
            ));
            return;
        };
        let canonical = |key: &str| if key == "gpus" { "accelerators" } else { key }.to_owned();
        let is_own = |entry: &JobEntry| {
            own.iter()
                .any(|it| canonical(&it.key) == canonical(&entry.key))
        };
        let inherited = base.iter().copied().filter(|entry| !is_own(entry));
        let fields = CANDIDATE.walk(own.iter().chain(inherited), findings);
        self.machine(&fields, item.place, findings);
    }

    /// The machine, or with several accelerators the machines, of some fields.
    fn machine(&mut self, fields: &BlockFields<'_>, place: JobPlace, findings: &mut Findings) {
        let spot = fields.one("use_spot", findings);
        let mut wish = MachineWish {
            place,
            gpu: None,
            cpu_milli: quantity(fields, "cpus", findings, cpu_milli),
            memory_mib: quantity(fields, "memory", findings, |text| in_mib(text, true)),
            disk_gib: quantity(fields, "disk_size", findings, |text| {
                in_mib(text, false).map(|mib| mib.div_ceil(1_024))
            }),
            spot: spot.map(|it| it == "true"),
        };
        let (named, other) = (fields.entry("accelerators"), fields.entry("gpus"));
        if let (Some(_), Some(other)) = (named, other) {
            let text = "`gpus` and `accelerators` are the same, and both are there";
            findings.problem(JobProblem::new(other.place, text, "keep one of them"));
        }
        let Some(entry) = named.or(other) else {
            self.wishes.push(wish);
            return;
        };
        for (text, place) in accelerator_texts(&entry.node, findings) {
            match gpus(&text, place) {
                Ok(gpu) => {
                    wish.gpu = Some(gpu);
                    wish.place = place;
                    self.wishes.push(wish.clone());
                }
                Err(NoGpu::Wrong(problem)) => findings.problem(problem),
                Err(NoGpu::Absent(problem)) => self.absent.push(problem),
            }
        }
    }

    /// The alternatives that some machine may have, those that differ only by GPU models in one.
    fn into_wishes(self, ordered: bool, place: JobPlace, findings: &mut Findings) -> MachineWishes {
        for problem in self.absent {
            if self.wishes.is_empty() {
                findings.problem(problem);
            } else {
                let text = format!("{}: this alternative is left out", problem.text);
                findings.note(problem.place, text);
            }
        }
        let mut alternatives: Vec<MachineWish> = Vec::new();
        for wish in self.wishes {
            match alternatives
                .iter_mut()
                .find(|it| !ordered && it.is_like(&wish))
            {
                Some(like) => add_models(like, &wish),
                None => alternatives.push(wish),
            }
        }
        if alternatives.len() > ALTERNATIVES_MAX {
            let text = format!(
                "there are {} alternatives, {ALTERNATIVES_MAX} at most are asked for their prices",
                alternatives.len()
            );
            findings.problem(JobProblem::new(place, text, "name fewer"));
        }
        if alternatives.is_empty() {
            alternatives.push(MachineWish::default());
        }
        MachineWishes {
            alternatives,
            ordered,
        }
    }
}

fn add_models(like: &mut MachineWish, wish: &MachineWish) {
    let (Some(known), Some(added)) = (&mut like.gpu, &wish.gpu) else {
        return;
    };
    for model in &added.models {
        if !known.models.contains(model) {
            known.models.push(*model);
        }
    }
    known.models.sort_by_key(|model| model.tag());
}

/// The accelerators of a field, each as a text.
fn accelerator_texts(node: &JobNode, findings: &mut Findings) -> Vec<(String, JobPlace)> {
    let wrong = |node: &JobNode| {
        let text = format!("an accelerator is {}, not text", node.kind());
        JobProblem::new(node.place, text, "as H100 or A100:8")
    };
    let mut texts = Vec::new();
    match &node.value {
        JobValue::Scalar(_, text) => texts.push((text.clone(), node.place)),
        JobValue::List(items) => {
            for item in items {
                match &item.value {
                    JobValue::Scalar(_, text) => texts.push((text.clone(), item.place)),
                    _ => findings.problem(wrong(item)),
                }
            }
        }
        JobValue::Map(entries) => {
            for entry in entries {
                match &entry.node.value {
                    JobValue::Scalar(PlainScalar::Null, _) => {
                        texts.push((entry.key.clone(), entry.place));
                    }
                    JobValue::Scalar(PlainScalar::Integer(_) | PlainScalar::Real(_), count) => {
                        texts.push((format!("{}:{count}", entry.key), entry.place));
                    }
                    _ => {
                        let text = format!(
                            "the count of `{}` is {}",
                            shown(&entry.key),
                            entry.node.kind()
                        );
                        findings.problem(JobProblem::new(entry.node.place, text, "as `A100: 8`"));
                    }
                }
            }
        }
    }
    if texts.is_empty() {
        let text = "no accelerator is named";
        findings.problem(JobProblem::new(
            node.place,
            text,
            "as H100, or leave it out",
        ));
    }
    texts
}

/// A quantity of a field.
fn quantity(
    fields: &BlockFields<'_>,
    name: &'static str,
    findings: &mut Findings,
    read: impl Fn(&str) -> Option<u32>,
) -> Option<u32> {
    let entry = fields.entry(name)?;
    let JobValue::Scalar(PlainScalar::Integer(_) | PlainScalar::Real(_) | PlainScalar::Text, text) =
        &entry.node.value
    else {
        let text = format!("`{name}` is {}, not a number", entry.node.kind());
        findings.problem(JobProblem::new(entry.node.place, text, hint_of(name)));
        return None;
    };
    let found = read(text);
    if found.is_none() {
        let text = format!("`{}` is no number for `{name}`", shown(text));
        findings.problem(JobProblem::new(entry.node.place, text, hint_of(name)));
    }
    found
}

fn hint_of(name: &str) -> &'static str {
    match name {
        "cpus" => "cores, as 4, 4+ or 0.5",
        "memory" => "GiB, as 16, 16+ or 16GB+",
        _ => "GiB, as 100 or 100GB",
    }
}

/// Cores in thousandths: 4 and 4+ are the same, since a machine may always have more.
fn cpu_milli(text: &str) -> Option<u32> {
    let number = positive(text.strip_suffix('+').unwrap_or(text))?;
    whole(number * 1_000.0)
}

/// A size in MiB, rounded up; without a unit it is in GiB.
fn in_mib(text: &str, may_be_more: bool) -> Option<u32> {
    let plain = match text.strip_suffix('+') {
        Some(plain) if may_be_more => plain,
        Some(_) => return None,
        None => text,
    };
    let unit_at = plain.find(|it: char| it.is_ascii_alphabetic());
    let (digits, unit) = plain.split_at(unit_at.unwrap_or(plain.len()));
    let mib = match unit.to_ascii_lowercase().as_str() {
        "kb" | "ki" | "kib" => 1.0 / 1_024.0,
        "mb" | "mi" | "mib" => 1.0,
        "" | "gb" | "gi" | "gib" => 1_024.0,
        "tb" | "ti" | "tib" => 1_024.0 * 1_024.0,
        "pb" | "pi" | "pib" => 1_024.0 * 1_024.0 * 1_024.0,
        _ => return None,
    };
    whole(positive(digits.trim_end())? * mib)
}

fn positive(text: &str) -> Option<f64> {
    let is_number = text
        .chars()
        .all(|it| it.is_ascii_digit() || it == '.' || it == '_');
    let number: f64 = text.replace('_', "").parse().ok()?;
    (is_number && number > 0.0).then_some(number)
}

/// Rounded up, if it fits.
fn whole(number: f64) -> Option<u32> {
    let number = number.ceil();
    (number >= 1.0 && number <= f64::from(u32::MAX)).then_some(number as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_skypilot_reads_them() {
        assert_eq!(cpu_milli("4"), Some(4_000));
        assert_eq!(cpu_milli("4+"), Some(4_000));
        assert_eq!(cpu_milli("0.5"), Some(500));
        for text in ["", "+", "-1", "0", "4x", "nan", "inf", "1e9", "99999999"] {
            assert_eq!(cpu_milli(text), None, "{text}");
        }
        assert_eq!(in_mib("16", true), Some(16_384));
        assert_eq!(in_mib("16+", true), Some(16_384));
        assert_eq!(in_mib("16GB+", true), Some(16_384));
        assert_eq!(in_mib("512MB", true), Some(512));
        assert_eq!(in_mib("1.5", true), Some(1_536));
        assert_eq!(in_mib("1TB", false), Some(1_048_576));
        for text in ["3x", "16 parsecs", "GB", "100+"] {
            assert_eq!(in_mib(text, false), None, "{text}");
        }
    }
}
