//! `tensorgrid device --check`: whether GPUs compute what the CPU computes, as a report that can be kept.

use super::device::{processor, way};
use super::execution::{reasons, refused};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tg_console::outcome::{Exit, Failure, Outcome, json, line};
use tg_cuda::{CheckReport, CudaError, DeviceChoice, FamilyResult, check_device, probe};
use tg_exec::kernels::SimdLevel;

/// A report and the circumstances that the library does not know.
struct Checked {
    report: CheckReport,
    /// Seconds since 1970 at the start.
    at: u64,
    /// How long it took, compiling the kernels included.
    seconds: f64,
    /// `CUDA_VISIBLE_DEVICES`, if it is set.
    visible: Option<String>,
    /// Version of the driver's part in the kernel, where the system tells.
    module: Option<String>,
    /// What the CPU is.
    processor: String,
}

/// Checks the GPU that is named, or every one that can be used.
///
/// # Errors
/// If there is no such GPU, or a bit differs.
pub fn run(choice: DeviceChoice, as_json: bool) -> Outcome {
    let mut documents = Vec::new();
    let mut faults = Vec::new();
    for ordinal in ordinals(choice)? {
        let checked = check(ordinal)?;
        if as_json {
            documents.push(checked.document());
        } else {
            for text in checked.lines() {
                line(text)?;
            }
        }
        let report = checked.report;
        if let Some(fault) = report.fault().cloned() {
            let (device, fault) = (Box::new(report.device), Box::new(fault));
            faults.push(CudaError::Refused { device, fault });
        }
    }
    if as_json {
        json(&documents.into())?;
    }
    if faults.is_empty() {
        return Ok(());
    }
    let text = reasons(&faults);
    Err(Failure::new(Exit::Failed, anyhow::anyhow!(text)))
}

fn ordinals(choice: DeviceChoice) -> Result<Vec<usize>, Failure> {
    match choice {
        DeviceChoice::Cuda(ordinal) => Ok(vec![ordinal]),
        DeviceChoice::Cpu => {
            let text = "the CPU is what devices are compared with: name a GPU, such as cuda:0";
            Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)))
        }
        DeviceChoice::Auto => {
            let found = probe();
            let ordinals: Vec<usize> = found.usable().map(|device| device.ordinal).collect();
            match found.missing.into_iter().next() {
                // The first is what the others may follow from.
                Some(missing) => Err(refused(missing.into())),
                None => Ok(ordinals),
            }
        }
    }
}

fn check(ordinal: usize) -> Result<Checked, Failure> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let start = Instant::now();
    let report = check_device(ordinal).map_err(refused)?;
    let module = std::fs::read_to_string("/proc/driver/nvidia/version").ok();
    Ok(Checked {
        report,
        at: since.unwrap_or_default().as_secs(),
        seconds: start.elapsed().as_secs_f64(),
        visible: std::env::var("CUDA_VISIBLE_DEVICES").ok(),
        module: module.as_deref().and_then(module_version),
        processor: processor(),
    })
}

impl Checked {
    /// The report as text: one word, then what it is, on each line.
    fn lines(&self) -> Vec<String> {
        let report = &self.report;
        let device = &report.device;
        let [major, minor] = device.capability;
        let free = report.free_bytes.map_or_else(
            || "what is free is not known".to_owned(),
            |bytes| format!("{} MiB free", bytes >> 20),
        );
        let visible = self.visible.as_ref().map_or_else(
            || "CUDA_VISIBLE_DEVICES is not set".to_owned(),
            |list| format!("CUDA_VISIBLE_DEVICES={list}"),
        );
        let module = self.module.as_deref().unwrap_or("version not known");
        let version = |[major, minor]: [u32; 2]| format!("{major}.{minor}");
        let head = [
            ("check", format!("tensorgrid {}", env!("CARGO_PKG_VERSION"))),
            ("date", utc(self.at)),
            ("device", format!("cuda:{} {}", device.ordinal, device.name)),
            ("uuid", format!("{} ({visible})", device.uuid)),
            (
                "capability",
                format!(
                    "{major}.{minor}, {} multiprocessors, {}",
                    device.multiprocessors,
                    way(device)
                ),
            ),
            (
                "memory",
                format!("{} MiB, {free}", device.memory_bytes >> 20),
            ),
            (
                "driver",
                format!("{module}, CUDA {}", version(report.driver)),
            ),
            (
                "compiler",
                format!("NVRTC {} for {}", version(report.compiler), report.target),
            ),
            ("kernels", format!("BLAKE3 {}", report.kernels)),
            (
                "reference",
                format!("tg-exec on {} ({})", self.processor, SimdLevel::best()),
            ),
        ];
        let head = head.into_iter();
        let mut lines: Vec<String> = head
            .map(|(word, text)| format!("{word:<11}{text}"))
            .collect();
        lines.extend(report.families.iter().map(of_family));
        let [mut programs, mut elements] = [0; 2];
        for family in &report.families {
            programs += family.programs;
            elements += family.elements;
        }
        let verdict = match report.fault() {
            None => "equal".to_owned(),
            Some(fault) => format!("REFUSED for {}", fault.operator),
        };
        lines.push(format!(
            "result     {verdict}: {} families, {programs} programs, {elements} elements, {:.1} s",
            report.families.len(),
            self.seconds
        ));
        lines
    }

    /// The report as JSON.
    fn document(&self) -> serde_json::Value {
        let report = &self.report;
        let device = &report.device;
        let version = |[major, minor]: [u32; 2]| format!("{major}.{minor}");
        let families: Vec<_> = (report.families.iter())
            .map(|family| {
                serde_json::json!({
                    "family": family.name, "operators": family.operators, "programs": family.programs,
                    "elements": family.elements,
                    "fault": family.fault.as_ref().map(|fault| serde_json::json!({
                        "operator": fault.operator, "seed": fault.seed, "what": fault.kind.to_string(),
                    })),
                })
            })
            .collect();
        serde_json::json!({
            "version": env!("CARGO_PKG_VERSION"), "date": utc(self.at), "seconds": self.seconds,
            "ordinal": device.ordinal, "name": device.name, "uuid": device.uuid,
            "cuda_visible_devices": self.visible, "compute_capability": version(device.capability),
            "multiprocessors": device.multiprocessors, "memory_bytes": device.memory_bytes,
            "free_bytes": report.free_bytes, "driver": self.module, "cuda_driver": version(report.driver),
            "nvrtc": version(report.compiler), "target": report.target.to_string(),
            "kernels": report.kernels.to_string(), "processor": self.processor,
            "level": SimdLevel::best().name(), "families": families, "equal": report.fault().is_none(),
        })
    }
}

/// A family's line.
fn of_family(family: &FamilyResult) -> String {
    let operators: Vec<&str> = family.operators.iter().copied().collect();
    let name = family.name;
    match &family.fault {
        None => format!(
            "equal      {name}: {} programs, {} elements ({})",
            family.programs,
            family.elements,
            operators.join(" ")
        ),
        Some(fault) => format!(
            "UNEQUAL    {name}: {} in program {}: {}",
            fault.operator, fault.seed, fault.kind
        ),
    }
}

/// The version in the text of the driver's part in the kernel: the first word of numbers with dots.
fn module_version(text: &str) -> Option<String> {
    let mut words = text.lines().next()?.split_whitespace();
    let is_version = |word: &&str| {
        word.contains('.') && (word.split('.')).all(|part| part.parse::<u32>().is_ok())
    };
    words.find(is_version).map(ToOwned::to_owned)
}

/// A time in seconds since 1970 as date and time of day in UTC (RFC 3339).
fn utc(seconds: u64) -> String {
    let (mut days, time) = (seconds / 86_400, seconds % 86_400);
    let mut year = 1970;
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let [hour, minute, second] = [time / 3_600, time / 60 % 60, time % 60];
    let day = days + 1;
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use std::collections::BTreeSet;
    use tg_cuda::{DeviceInfo, Fault, FaultKind, Target};
    use tg_types::Digest;

    #[test]
    fn times_are_written_in_utc() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_767_225_599), "2025-12-31T23:59:59Z");
        assert_eq!(utc(4_107_542_400), "2100-03-01T00:00:00Z");
    }

    #[test]
    fn the_drivers_version_is_found_in_its_text() {
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19";
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release";
        assert_eq!(module_version(closed).unwrap(), "535.104.05");
        assert_eq!(module_version(open).unwrap(), "550.54.15");
        assert_eq!(module_version("nothing"), None);
    }

    fn family(name: &'static str, operator: &'static str, fault: Option<Fault>) -> FamilyResult {
        FamilyResult {
            name,
            operators: BTreeSet::from([operator]),
            programs: 40,
            elements: 1_234,
            kernels: BTreeSet::new(),
            fault,
        }
    }

    fn checked(families: Vec<FamilyResult>) -> Checked {
        Checked {
            report: CheckReport {
                device: DeviceInfo {
                    ordinal: 1,
                    name: "NVIDIA Example".to_owned(),
                    uuid: "00112233-4455".to_owned(),
                    memory_bytes: 8 << 30,
                    capability: [9, 0],
                    multiprocessors: 20,
                },
                free_bytes: Some(7 << 30),
                driver: [12, 4],
                compiler: [12, 9],
                target: Target::Cubin(90),
                kernels: Digest::default(),
                families,
            },
            at: 951_782_400,
            seconds: 2.5,
            visible: None,
            module: Some("550.54.15".to_owned()),
            processor: "a processor".to_owned(),
        }
    }

    #[test]
    fn a_report_says_what_ran_where_and_when() {
        let passed = checked(vec![family("convolutions", "Conv", None)]);
        let lines = passed.lines();
        let expected = [
            "date       2000-02-29T00:00:00Z",
            "device     cuda:1 NVIDIA Example",
            "uuid       00112233-4455 (CUDA_VISIBLE_DEVICES is not set)",
            "capability 9.0, 20 multiprocessors, tensor cores",
            "memory     8192 MiB, 7168 MiB free",
            "driver     550.54.15, CUDA 12.4",
            "compiler   NVRTC 12.9 for sm_90",
            "equal      convolutions: 40 programs, 1234 elements (Conv)",
            "result     equal: 1 families, 40 programs, 1234 elements, 2.5 s",
        ];
        for line in expected {
            assert!(
                lines.iter().any(|other| other == line),
                "{line}: {lines:#?}"
            );
        }
        assert_eq!(passed.document()["equal"], true);
    }

    #[test]
    fn a_report_names_the_operator_of_a_fault() {
        let fault = Fault {
            family: "softmax",
            operator: "Softmax",
            seed: 3,
            kind: FaultKind::Unequal {
                element: 7,
                expected: 6,
                got: 5,
            },
        };
        let failed = checked(vec![
            family("convolutions", "Conv", None),
            family("softmax", "Softmax", Some(fault.clone())),
        ]);
        let lines = failed.lines();
        let words = "UNEQUAL    softmax: Softmax in program 3: element 7 is 5, and 6 on the CPU";
        assert!(lines.iter().any(|line| line == words), "{lines:#?}");
        let result = lines.last().unwrap();
        assert!(
            result.starts_with("result     REFUSED for Softmax: "),
            "{result}"
        );
        let document = failed.document();
        assert_eq!(document["equal"], false);
        assert_eq!(document["families"][1]["fault"]["operator"], "Softmax");
        // What a provider says that was to work on it, and how it ends.
        let (device, fault) = (Box::new(failed.report.device), Box::new(fault));
        let failure = refused(CudaError::Refused { device, fault });
        assert_eq!(failure.exit, Exit::Failed);
        let text = failure.error.to_string();
        assert!(
            text.contains("failed the check") && text.contains("Softmax"),
            "{text}"
        );
    }
}
