//! What is run: the two networks that `cargo xtask compare-ort` builds with random weights, in both tiers. Nothing is downloaded but Python's
//! packages, and nothing is made twice.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use crate::network::load::Orderer;
use crate::process;
use crate::python::{self, Missing, Python};

/// A model that is registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DisputedModel {
    /// What the table calls it.
    pub(crate) name: &'static str,
    /// Its tier, as the table has it.
    pub(crate) tier: &'static str,
    /// Its name on the grid.
    pub(crate) registered: String,
    /// What is ordered of it.
    pub(crate) input: PathBuf,
    /// Whether it has an attention.
    pub(crate) has_attention: bool,
    /// Whether it takes jobs of mode `sync`: a model of integers whose nodes give more than 14 MiB does not, unless a run of it is short.
    pub(crate) takes_sync: bool,
    /// What `model add` is given.
    files: Vec<String>,
}

/// The networks: file, name, whether there is an attention.
const NETWORKS: [(&str, &str, bool); 2] = [
    ("resnet18", "ResNet-18, 224x224", false),
    ("transformer", "transformer, 6 layers, 128 x 384", true),
];

/// Makes the files, or finds those of an earlier run. Nothing if there is no Python to make them with.
///
/// # Errors
/// If they cannot be made.
pub(crate) fn prepare(
    root: &Path,
    binary: &Path,
    missing: Missing,
) -> Result<Option<Vec<DisputedModel>>> {
    let folder = root.join("target/dispute-models");
    fs::create_dir_all(&folder)?;
    let file = |name: &str, end: &str| folder.join(format!("{name}.{end}"));
    let is_there = |end: &str| NETWORKS.iter().all(|it| file(it.0, end).is_file());
    if !is_there("onnx") || !is_there("x.npy") {
        let python = Python::prepare(root, "compare-ort");
        let Some(python) = python::or_skip(python, "the test of disputes", missing)? else {
            return Ok(None);
        };
        python.script(
            "compare_ort.py",
            &[OsStr::new("--graphs"), folder.as_os_str()],
        )?;
    }
    let mut models = Vec::new();
    for (short, name, has_attention) in NETWORKS {
        let [onnx, input, tgm, tgv] = ["onnx", "x.npy", "tgm", "tgv"].map(|end| file(short, end));
        if !tgm.is_file() || !tgv.is_file() {
            let mut compile = Command::new(binary);
            compile.args(["model", "compile", "--precision", "8", "--calibrate"]);
            compile.args([&input, &onnx]).arg("--output").arg(&tgm);
            compile.arg("--public-out").arg(&tgv).stdout(Stdio::null());
            process::run(&mut compile, "a model does not compile")?;
        }
        let text = |path: &Path| path.to_str().map(str::to_owned).context("a path of text");
        for (tier, files) in [
            ("TGX-1", vec![text(&tgm)?, text(&tgv)?]),
            ("TGF-1", vec![text(&onnx)?, "--tier".into(), "tgf1".into()]),
        ] {
            models.push(DisputedModel {
                name,
                tier,
                registered: format!("{short}-{}", tier.replace('-', "").to_lowercase()),
                input: input.clone(),
                has_attention,
                takes_sync: (short, tier) != ("transformer", "TGX-1"),
                files,
            });
        }
    }
    Ok(Some(models))
}

impl DisputedModel {
    /// Registers it, and waits until it can be ordered.
    ///
    /// # Errors
    /// If validators refuse it.
    pub(crate) fn register(&self, owner: &Orderer) -> Result<()> {
        let mut words = vec!["model", "add"];
        words.extend(self.files.iter().map(String::as_str));
        words.extend(["--name", &self.registered, "--json"]);
        owner.ask(&words).map(|_| ())
    }
}
