//! What is derived of programs' proofs, in figures that were looked at once: work, memory, bytes, costs, errors. Whatever changes one of
//! them changes what orders cost, or what a proof is worth, and is seen here.

use super::models::Case;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use tg_exec::sample::Numbers;
use tg_ir::op::Norm;
use tg_proof::plan::NormShape;
use tg_proof::security::{self, SecurityReport};
use tg_proof::{Facts, Modes, VerifierCost, Visibility, size};

/// How many terms, the sum of their bits, and the levels that their sum comes to by both theorems of folds.
fn errors(report: Option<SecurityReport>) -> String {
    let Some(report) = report else {
        return "none".to_owned();
    };
    let count = report.terms.len();
    let sum: f64 = report.terms.iter().map(|term| term.bits).sum();
    let before: f64 = report.terms.iter().map(|term| term.bits_before).sum();
    format!(
        "{count} terms, in all {sum:.3} and {before:.3} bits, together {:.3} and {:.3}",
        report.bits, report.bits_before
    )
}

fn figures(name: &str, case: &Case) -> String {
    let (program, public) = (&case.model.model.program, &case.public);
    let mut text = format!("{name}\n");
    let mut line = |label: &str, value: String| writeln!(text, "  {label}: {value}").unwrap();
    line(
        "facts",
        format!("{:?}", Facts::of(program, &case.model.shape)),
    );
    line("plan", format!("{:?}", case.model.shape.plan.cost));
    line(
        "file",
        size::proof_file(program, &case.model.shape).to_string(),
    );
    for batch in [1, 3] {
        line(
            "cost",
            format!("{batch}: {:?}", VerifierCost::batched(program, batch)),
        );
        line(
            "errors",
            format!("{batch}: {}", errors(security::report_batch(public, batch))),
        );
        let hidden = Modes {
            input: Visibility::Hidden,
            output: Visibility::Committed,
        };
        let report = security::report_zk(public, batch, hidden);
        line("hidden", format!("{batch}: {}", errors(report)));
    }
    line(
        "registration",
        errors(security::registration_report(public)),
    );
    text
}

/// Normalisations of every size: what each comes to, or why it is not proved.
fn norms() -> String {
    let mut numbers = Numbers::new(5);
    let mut below = |count: u64| numbers.next() % count;
    let mut sums = BTreeMap::<String, [u64; 6]>::new();
    for _ in 0..100_000 {
        let sizes = [below(20), below(8), below(12)];
        let how = Norm {
            centred: below(2) == 1,
            epsilon: below(1 << (4 * sizes[1])),
            precision: below(16).try_into().unwrap(),
            fraction: below(16).try_into().unwrap(),
        };
        let channels = 1 + below(2 << sizes[2]);
        let magnitude = 1 + below(2 << sizes[0]);
        let shape = NormShape::new(
            how,
            channels.try_into().unwrap(),
            magnitude.try_into().unwrap(),
        );
        let (name, figures) = match shape {
            Err(why) => (why.to_owned(), [1, channels, magnitude, 0, 0, 0]),
            Ok(shape) => {
                let NormShape {
                    root,
                    sum,
                    squares,
                    output,
                    places,
                    ..
                } = shape;
                let widths = [root, sum, squares, output].map(u64::from);
                let [root, sum, squares, output] = widths;
                (
                    "proved".to_owned(),
                    [1, root, sum, squares, output, places as u64],
                )
            }
        };
        let all = sums.entry(name).or_default();
        all.iter_mut()
            .zip(figures)
            .for_each(|(all, one)| *all += one);
    }
    format!("norms: {sums:?}\n")
}

#[test]
fn what_is_derived_of_proofs_is_as_it_was() {
    let mut text = String::new();
    for (name, case) in [
        ("everything", super::models::case()),
        ("linear", super::linear::linear()),
        ("sections", super::sections::sectioned()),
        ("pushforwards", super::pushforwards::committed()),
    ] {
        text.push_str(&figures(name, case));
    }
    for (name, _, built) in super::forms::forms() {
        text.push_str(&figures(name, &Case::of_tensor(built)));
    }
    text.push_str(&norms());
    if std::env::var_os("TENSORGRID_REGENERATE").is_some() {
        std::fs::write(
            concat!(env!("CARGO_MANIFEST_DIR"), "/src/tests/figures.txt"),
            &text,
        )
        .unwrap();
    }
    assert_eq!(text, include_str!("figures.txt"), "{text}");
}
