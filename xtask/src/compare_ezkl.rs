//! `cargo xtask compare-ezkl`: one inference of the shipped MLP proved by us and by EZKL, on the same machine, one after
//! the other.
//!
//! Ours is `tensorgrid bench prove --json`; theirs `xtask/python/compare_ezkl.py`. Both prove that an output is the
//! model's answer. What else they do differs (ours keeps the weights from the verifier, theirs the input, after a trusted
//! set-up), so that ratios speak of cost alone. Processor time counts: wall time on a shared machine says little.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::python::{self, Missing, Python};

/// The model both prove, its file, and the elements of its input.
const MODEL: (&str, &str, &str) = ("mlp-digits", "models/mlp-digits.onnx", "64");

/// How many times less processor time a proof of ours may take, at least.
const PROVE_WANTED: f64 = 300.0;

/// What one side spends.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Cost {
    /// Processor milliseconds before the first proof, for this model.
    set_up_cpu_ms: f64,
    /// Processor milliseconds of a proof, execution included.
    prove_cpu_ms: f64,
    prove_wall_ms: f64,
    verify_cpu_ms: f64,
    /// What a prover keeps per model.
    key_bytes: f64,
    proof_bytes: f64,
    /// Peak resident set while proving.
    peak_mib: f64,
}

/// Runs both sides and prints the comparison.
///
/// # Errors
/// If our benchmark fails, Python or EZKL are missing and that is a failure, or a proof of ours is not
/// `PROVE_WANTED` times cheaper.
pub fn run(root: &Path, missing: Missing) -> Result<()> {
    let prepared = Python::prepare(root, "compare-ezkl");
    let Some(python) = python::or_skip(prepared, "the comparison with EZKL", missing)? else {
        return Ok(());
    };
    let ours = our_cost(&benchmark(root)?)?;
    let folder = root.join("target/compare-ezkl");
    let (_, model, elements) = MODEL;
    let (model, folder) = (root.join(model), folder.as_os_str());
    let arguments = [model.as_os_str(), elements.as_ref(), folder];
    let theirs = their_cost(&python.output("compare_ezkl.py", &arguments)?)?;
    print(&ours, &theirs);
    let ratio = theirs.prove_cpu_ms / ours.prove_cpu_ms;
    ensure!(
        ratio >= PROVE_WANTED,
        "a proof takes {ratio:.0} times less processor time than EZKL's; it should be {PROVE_WANTED} times"
    );
    Ok(())
}

fn benchmark(root: &Path) -> Result<String> {
    let output = Command::new("cargo")
        .args(["run", "--quiet", "--release", "--package", "tensorgrid"])
        .args(["--", "bench", "prove", "--json"])
        .current_dir(root)
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("`cargo` cannot be started")?;
    ensure!(
        output.status.success(),
        "`tensorgrid bench prove --json` failed"
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn our_cost(text: &str) -> Result<Cost> {
    let rows: Value = serde_json::from_str(text).context("the benchmark's JSON cannot be read")?;
    let rows = rows.as_array().context("the benchmark prints no list")?;
    let row = rows
        .iter()
        .find(|row| row["model"] == MODEL.0)
        .with_context(|| format!("`{}` was not measured", MODEL.0))?;
    let number = |path: &str| {
        row.pointer(path)
            .and_then(Value::as_f64)
            .with_context(|| format!("the benchmark states no `{path}`"))
    };
    Ok(Cost {
        set_up_cpu_ms: number("/registration_ms")?,
        prove_cpu_ms: number("/prove/cpu_ms")?,
        prove_wall_ms: number("/prove/wall_ms")?,
        verify_cpu_ms: number("/verify/cpu_ms")?,
        key_bytes: number("/public_model_bytes")?,
        proof_bytes: number("/proof_bytes")?,
        peak_mib: number("/peak_mib")?,
    })
}

/// Reads rows `step, cpu ms, wall ms, peak MiB, bytes`; other lines are passed over.
fn their_cost(text: &str) -> Result<Cost> {
    let step = |name: &str| -> Result<[f64; 4]> {
        let row = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('\t'))
            .with_context(|| format!("EZKL's step `{name}` was not measured"))?;
        let numbers: Vec<f64> = row
            .split('\t')
            .map(str::parse)
            .collect::<Result<_, _>>()
            .with_context(|| format!("EZKL's step `{name}`: `{row}` are not numbers"))?;
        numbers
            .try_into()
            .ok()
            .with_context(|| format!("EZKL's step `{name}` has other columns"))
    };
    let [settings, reference, keys] = [
        step("settings")?,
        step("reference string")?,
        step("set-up")?,
    ];
    let (witness, prove, verify) = (step("witness")?, step("prove")?, step("verify")?);
    Ok(Cost {
        set_up_cpu_ms: settings[0] + reference[0] + keys[0],
        prove_cpu_ms: witness[0] + prove[0],
        prove_wall_ms: witness[1] + prove[1],
        verify_cpu_ms: verify[0],
        key_bytes: keys[3],
        proof_bytes: prove[3],
        peak_mib: prove[2],
    })
}

#[expect(clippy::print_stdout, reason = "this is a command line tool")]
fn print(ours: &Cost, theirs: &Cost) {
    type Row = (&'static str, fn(&Cost) -> f64);
    let rows: [Row; 7] = [
        ("once per model, cpu ms", |cost| cost.set_up_cpu_ms),
        ("prove, cpu ms", |cost| cost.prove_cpu_ms),
        ("prove, wall ms", |cost| cost.prove_wall_ms),
        ("verify, cpu ms", |cost| cost.verify_cpu_ms),
        ("kept per model, kB", |cost| cost.key_bytes / 1e3),
        ("proof, kB", |cost| cost.proof_bytes / 1e3),
        ("peak while proving, MiB", |cost| cost.peak_mib),
    ];
    println!(
        "{:24} {:>12} {:>12} {:>10}   one inference of {}",
        "", "TensorGrid", "EZKL", "x", MODEL.0
    );
    for (name, value) in rows {
        let (our, their) = (value(ours), value(theirs));
        println!("{name:24} {our:12.2} {their:12.2} {:10.2}", their / our);
    }
    println!(
        "EZKL: private input, fixed weights, KZG with a reference string made here (its making is in `once`), and it \
         hides the input; TensorGrid: private weights, no trusted set-up, zk: false; its kept bytes are the public \
         model with its registration, beside the weights."
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    const THEIRS: &str = "a warning\nsettings\t300\t200\t30\t81813\nreference string\t10000\t9000\t25\t4194564\n\
        set-up\t5000\t2600\t217\t138479371\nwitness\t20\t15\t22\t11690\nprove\t6700\t3500\t325\t3072\n\
        verify\t37\t28\t41\t66823\n";

    #[test]
    fn steps_are_summed_into_costs() {
        let cost = their_cost(THEIRS).expect("all steps are there");
        let expected = Cost {
            set_up_cpu_ms: 15_300.0,
            prove_cpu_ms: 6_720.0,
            prove_wall_ms: 3_515.0,
            verify_cpu_ms: 37.0,
            key_bytes: 138_479_371.0,
            proof_bytes: 3_072.0,
            peak_mib: 325.0,
        };
        assert_eq!(cost, expected);
        for missing in ["settings", "set-up", "witness", "prove", "verify"] {
            let without = THEIRS.replace(&format!("{missing}\t"), "other\t");
            let error = their_cost(&without).expect_err("a step is missing");
            assert!(error.to_string().contains(missing), "{error:#}");
        }
        assert!(their_cost(&THEIRS.replace("6700", "fast")).is_err());
        assert!(their_cost(&THEIRS.replace("\t3072", "")).is_err());
    }

    #[test]
    fn our_row_is_found_by_its_model() {
        let row = r#"{"model": "mlp-digits", "registration_ms": 4.0, "public_model_bytes": 32000, "proof_bytes": 39000,
            "prove": {"cpu_ms": 4.5, "wall_ms": 5.0}, "verify": {"cpu_ms": 1.3, "wall_ms": 1.3}, "peak_mib": 13.0}"#;
        let cost = our_cost(&format!("[{{\"model\": \"lenet-digits\"}}, {row}]")).expect("the row");
        assert_eq!((cost.prove_cpu_ms, cost.proof_bytes), (4.5, 39_000.0));
        for bad in ["", "{}", "[]", "[{\"model\": \"mlp-digits\"}]"] {
            assert!(our_cost(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_script_names_every_step() {
        let path = crate::root().join("xtask/python/compare_ezkl.py");
        let script = std::fs::read_to_string(path).expect("the script is there");
        for line in THEIRS.lines().skip(1) {
            let step = line.split('\t').next().unwrap_or_default();
            assert!(script.contains(&format!("(\"{step}\", ")), "{step}");
        }
    }
}
