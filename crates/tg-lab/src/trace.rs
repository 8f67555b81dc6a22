//! The trace format of the public GPU-sharing experiments: machines and arrivals in, placements out.
//!
//! ```text
//! machines    sn,cpu_milli,memory_mib,gpu,model
//! arrivals    name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec[,..,creation_time,deletion_time,..]
//! placements  pod,node,gpus            gpus are device numbers joined by '-'; a refused job has no node
//! ```
//! Columns are found by their names in the first line. Texts are read as bounded, untrusted input.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use tg_types::GpuModel;

use tg_market::cluster::{
    Allocation, Gpu, Interconnect, ModelSet, Needs, NodeSpec, Request, RequestError, Sharing,
    WHOLE_GPU,
};

/// Longest text that is read.
pub const TEXT_BYTES_MAX: usize = 1 << 28;

/// Most lines of one text.
pub const LINES_MAX: usize = 1 << 22;

/// Most GPU models: as many as the ledger names.
pub const MODELS_MAX: usize = GpuModel::ALL.len();

/// Longest name.
const NAME_BYTES_MAX: usize = 128;

/// A machine of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceNode {
    /// Its name.
    pub name: String,
    /// What it has.
    pub spec: NodeSpec,
    /// Its line among the machines, from 0.
    pub position: u32,
}

/// A job of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceJob {
    /// Its name.
    pub name: String,
    /// What it needs.
    pub request: Request,
    /// Second of its arrival, where the trace says.
    pub arrival_s: u64,
    /// Seconds it runs, where the trace says.
    pub duration_s: u64,
}

/// Machines, in the order of their names, and jobs in the order of arrival.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// Machines by name: the order of the file does not matter to who uses them.
    pub nodes: Vec<TraceNode>,
    /// Jobs as they arrive.
    pub jobs: Vec<TraceJob>,
}

/// Why a trace cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// More bytes or lines than are read.
    #[error("the text is larger than {TEXT_BYTES_MAX} bytes or {LINES_MAX} lines")]
    TooLarge,
    /// The first line lacks a column.
    #[error("the first line has no column {0}")]
    NoColumn(&'static str),
    /// A line lacks a field.
    #[error("line {line} has no {column}")]
    NoField {
        /// Line from 1.
        line: usize,
        /// Column.
        column: &'static str,
    },
    /// A field is no number in range.
    #[error("line {line}: {column} is no number in range")]
    NoNumber {
        /// Line from 1.
        line: usize,
        /// Column.
        column: &'static str,
    },
    /// A name is empty, too long, or used before.
    #[error("line {line}: the name is empty, too long or used twice")]
    BadName {
        /// Line from 1.
        line: usize,
    },
    /// A job cannot be asked for.
    #[error("line {line} asks for what no machine can have")]
    BadRequest {
        /// Line from 1.
        line: usize,
        /// Why.
        #[source]
        source: RequestError,
    },
    /// More GPU models than are told apart.
    #[error("more than {MODELS_MAX} gpu models")]
    TooManyModels,
}

impl Trace {
    /// Reads a trace.
    ///
    /// # Errors
    /// If a text is too large, or a line is not what its header says.
    pub fn parse(nodes: &str, arrivals: &str) -> Result<Self, TraceError> {
        let (nodes, models) = parse_nodes(nodes)?;
        let jobs = parse_jobs(arrivals, &models)?;
        Ok(Self { nodes, jobs })
    }

    /// The machines' properties, in order.
    #[must_use]
    pub fn specs(&self) -> Vec<NodeSpec> {
        self.nodes.iter().map(|node| node.spec).collect()
    }

    /// The jobs' requests, in order.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.jobs.iter().map(|job| job.request).collect()
    }

    /// Position of each machine in the file.
    #[must_use]
    pub fn positions(&self) -> Vec<u32> {
        self.nodes.iter().map(|node| node.position).collect()
    }

    /// The trace with every machine `copies` times and the whole list of arrivals repeated as
    /// often.
    #[must_use]
    pub fn cloned(&self, copies: u32) -> Self {
        let mut nodes = Vec::new();
        let mut jobs = Vec::new();
        for copy in 0..copies {
            for node in &self.nodes {
                let mut node = node.clone();
                let _ = write!(node.name, "+{copy}");
                node.position += copy * self.nodes.len() as u32;
                nodes.push(node);
            }
        }
        for copy in 0..copies {
            for job in &self.jobs {
                let mut job = job.clone();
                let _ = write!(job.name, "+{copy}");
                jobs.push(job);
            }
        }
        Self { nodes, jobs }
    }
}

/// Writes placements in the order of the jobs.
#[must_use]
pub fn write_placements(trace: &Trace, placements: &[Option<Allocation>]) -> String {
    let mut text = String::from("pod,node,gpus\n");
    for (job, placement) in trace.jobs.iter().zip(placements) {
        let _ = write!(text, "{},", job.name);
        if let Some(allocation) = placement {
            text.push_str(&trace.nodes[allocation.node().0 as usize].name);
            text.push(',');
            for (index, device) in allocation.devices().enumerate() {
                let dash = if index > 0 { "-" } else { "" };
                let _ = write!(text, "{dash}{device}");
            }
        } else {
            text.push(',');
        }
        text.push('\n');
    }
    text
}

/// Rows of a text by column name.
struct Rows<'a> {
    columns: Vec<(&'static str, Option<usize>)>,
    lines: std::iter::Enumerate<std::str::Lines<'a>>,
}

struct Row<'a> {
    line: usize,
    fields: Vec<&'a str>,
}

impl<'a> Rows<'a> {
    fn new(
        text: &'a str,
        needed: &[&'static str],
        optional: &[&'static str],
    ) -> Result<Self, TraceError> {
        if text.len() > TEXT_BYTES_MAX || text.lines().count() > LINES_MAX {
            return Err(TraceError::TooLarge);
        }
        let mut lines = text.lines().enumerate();
        let header: Vec<&str> = lines
            .next()
            .map(|(_, line)| line.split(',').collect())
            .unwrap_or_default();
        let mut columns = Vec::new();
        for name in needed.iter().chain(optional) {
            let position = header.iter().position(|it| it.trim() == *name);
            if position.is_none() && needed.contains(name) {
                return Err(TraceError::NoColumn(name));
            }
            columns.push((*name, position));
        }
        Ok(Self { columns, lines })
    }

    fn next_row(&mut self) -> Option<Row<'a>> {
        let (index, text) = self.lines.by_ref().find(|(_, it)| !it.trim().is_empty())?;
        Some(Row {
            line: index + 1,
            fields: text.split(',').collect(),
        })
    }

    /// The field of `column`; empty if the column is optional and not there.
    fn field(&self, row: &Row<'a>, column: &'static str) -> Result<&'a str, TraceError> {
        let position = self
            .columns
            .iter()
            .find_map(|(name, position)| (*name == column).then_some(*position));
        match position.flatten() {
            None => Ok(""),
            Some(position) => {
                row.fields
                    .get(position)
                    .map(|field| field.trim())
                    .ok_or(TraceError::NoField {
                        line: row.line,
                        column,
                    })
            }
        }
    }

    fn number(&self, row: &Row<'a>, column: &'static str, max: u64) -> Result<u64, TraceError> {
        let field = self.field(row, column)?;
        if field.is_empty() {
            return Ok(0);
        }
        // Some lists write whole numbers with a fraction of zeros.
        let whole = field.split_once('.').map_or(field, |(whole, fraction)| {
            if fraction.bytes().all(|it| it == b'0') {
                whole
            } else {
                field
            }
        });
        whole
            .parse::<u64>()
            .ok()
            .filter(|it| *it <= max)
            .ok_or(TraceError::NoNumber {
                line: row.line,
                column,
            })
    }
}

fn checked_name(field: &str, line: usize) -> Result<String, TraceError> {
    if field.is_empty() || field.len() > NAME_BYTES_MAX {
        return Err(TraceError::BadName { line });
    }
    Ok(field.to_owned())
}

type Models = BTreeMap<String, u8>;

fn parse_nodes(text: &str) -> Result<(Vec<TraceNode>, Models), TraceError> {
    const COLUMNS: [&str; 5] = ["sn", "cpu_milli", "memory_mib", "gpu", "model"];
    let mut rows = Rows::new(text, &COLUMNS, &[])?;
    let mut raw = Vec::new();
    let mut names = BTreeSet::new();
    let mut models = Models::new();
    while let Some(row) = rows.next_row() {
        let name = checked_name(rows.field(&row, "sn")?, row.line)?;
        if !names.insert(name.clone()) {
            return Err(TraceError::BadName { line: row.line });
        }
        let model = rows.field(&row, "model")?.to_owned();
        models.insert(model.clone(), 0);
        let cpu_milli = rows.number(&row, "cpu_milli", u64::from(u32::MAX))? as u32;
        let memory_mib = rows.number(&row, "memory_mib", u64::from(u32::MAX))? as u32;
        let gpus = rows.number(&row, "gpu", tg_market::cluster::GPUS_PER_NODE_MAX as u64)? as u8;
        raw.push((name, model, cpu_milli, memory_mib, gpus));
    }
    if models.len() > MODELS_MAX {
        return Err(TraceError::TooManyModels);
    }
    for (index, model) in models.values_mut().enumerate() {
        *model = index as u8;
    }
    let nodes = raw.into_iter().enumerate();
    let mut nodes: Vec<TraceNode> = nodes
        .map(
            |(position, (name, model, cpu_milli, memory_mib, gpu_count))| TraceNode {
                name,
                spec: NodeSpec {
                    cpu_milli,
                    memory_mib,
                    disk_gib: 0,
                    gpu_count,
                    gpu: Gpu {
                        model: models[&model],
                        memory_mib: 0,
                        capability: 0,
                        tensor_cores: false,
                        interconnect: Interconnect::Pcie,
                        sharing: Sharing::TimeSlice,
                    },
                    region: 0,
                    coordinate: [0, 0],
                },
                position: position as u32,
            },
        )
        .collect();
    nodes.sort_by(|left, right| left.name.cmp(&right.name));
    Ok((nodes, models))
}

fn parse_jobs(text: &str, models: &Models) -> Result<Vec<TraceJob>, TraceError> {
    const NEEDED: [&str; 5] = ["name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"];
    const OPTIONAL: [&str; 3] = ["gpu_spec", "creation_time", "deletion_time"];
    let mut rows = Rows::new(text, &NEEDED, &OPTIONAL)?;
    let mut jobs = Vec::new();
    while let Some(row) = rows.next_row() {
        let name = checked_name(rows.field(&row, "name")?, row.line)?;
        let cpu_milli = rows.number(&row, "cpu_milli", u64::from(u32::MAX))? as u32;
        let memory_mib = rows.number(&row, "memory_mib", u64::from(u32::MAX))? as u32;
        let gpus = rows.number(&row, "num_gpu", u64::from(u8::MAX))? as u8;
        let milli = rows.number(&row, "gpu_milli", u64::from(u16::MAX))? as u16;
        let milli = if gpus == 0 { 0 } else { milli.min(WHOLE_GPU) };
        let spec = rows.field(&row, "gpu_spec")?;
        let needs = Needs {
            models: models_of(if gpus == 0 { "" } else { spec }, models),
            ..Needs::NONE
        };
        let request = Request::new(cpu_milli, memory_mib, gpus, milli)
            .map_err(|source| TraceError::BadRequest {
                line: row.line,
                source,
            })?
            .with_needs(needs);
        let arrival_s = rows.number(&row, "creation_time", u64::MAX)?;
        let end_s = rows.number(&row, "deletion_time", u64::MAX)?;
        jobs.push(TraceJob {
            name,
            request,
            arrival_s,
            duration_s: end_s.saturating_sub(arrival_s),
        });
    }
    Ok(jobs)
}

fn models_of(spec: &str, models: &Models) -> ModelSet {
    if spec.is_empty() {
        return ModelSet::ANY;
    }
    spec.split('|')
        .filter_map(|name| models.get(name))
        .fold(ModelSet::NONE, |set, model| set.with(*model))
}
