//! What hidden weights cost: `private [NAME]...`, proofs with public and with private weights side by side.
//! `private --keep FOLDER` writes a public model with private weights and a proof about it, for the tests of the format.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a tool")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use tg_compile::suite::{Architecture, random_input};
use tg_proof::private::PROOFS_DEFAULT;
use tg_proof::{ExpectedStatement, ProofFile, PublicModel, security, verify};
use tg_prover::{
    Masking, Modes, OpeningError, Openings, ProveRequest, ProvingModel, Secret, prove,
};

/// Proofs of each kind.
const RUNS: u8 = 9;

/// Counts without a file.
struct Counted(AtomicUsize);

impl Openings for Counted {
    fn begin(&self, _: tg_types::ProgramId, _: usize) -> Result<(), OpeningError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Median milliseconds of proving and of verifying, and the greatest proof.
fn measure(public: &PublicModel, mut prove: impl FnMut(u8) -> ProofFile) -> String {
    let (mut proving, mut verifying, mut bytes) = (Vec::new(), Vec::new(), 0);
    for run in 0..=RUNS {
        let start = Instant::now();
        let file = prove(run);
        proving.push(start.elapsed().as_secs_f64() * 1e3);
        let start = Instant::now();
        verify(public, &file, &ExpectedStatement::default()).unwrap();
        verifying.push(start.elapsed().as_secs_f64() * 1e3);
        bytes = bytes.max(file.proof.len());
    }
    for times in [&mut proving, &mut verifying] {
        // The first warms caches.
        times.remove(0);
        times.sort_by(f64::total_cmp);
    }
    let middle = usize::from(RUNS / 2);
    let bits = security::report_zk(public, 1, Modes::HIDDEN_INPUT)
        .unwrap()
        .bits;
    format!(
        "prove {:.1} ms, verify {:.1} ms, {bytes} bytes, {bits:.1} bits",
        proving[middle], verifying[middle]
    )
}

/// Writes a public model and a proof.
fn keep(folder: &std::path::Path) {
    use tg_types::codec::Encode;
    let (compiled, _) = Architecture::Mlp.model(1);
    let input = random_input(&compiled.program, 1);
    let secret = Secret {
        program: compiled.program.id(),
        seed: [1; 32],
        proofs: 1,
    };
    let openings = Counted(AtomicUsize::new(0));
    let model = ProvingModel::private(compiled, &secret).unwrap();
    let public = model.register_private(&openings, [2; 32]).unwrap();
    let masking = Masking::new([3; 32], Modes::HIDDEN_INPUT);
    let request = ProveRequest::of(vec![input])
        .masked(&masking)
        .counted_by(&openings);
    let (file, _) = prove(&model, request, &mut |_| {}).unwrap();
    std::fs::write(folder.join("private.tgv"), public.encode()).unwrap();
    std::fs::write(folder.join("private.proof"), file.to_bytes()).unwrap();
}

fn main() {
    let names: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, folder] = names.as_slice()
        && flag == "--keep"
    {
        return keep(folder.as_ref());
    }
    for architecture in Architecture::ALL {
        if !names.iter().any(|name| name == architecture.name()) {
            continue;
        }
        let (compiled, _) = architecture.model(1);
        let input = random_input(&compiled.program, 1);
        let masking = |run| Masking::new([run; 32], Modes::HIDDEN_INPUT);

        let model = ProvingModel::new(compiled.clone()).unwrap();
        let public = model.register().unwrap();
        let shown = measure(&public, |run| {
            let masking = masking(run);
            let request = ProveRequest::of(vec![input.clone()]).masked(&masking);
            prove(&model, request, &mut |_| {}).unwrap().0
        });
        println!("{}: public weights: {shown}", architecture.name());

        let secret = Secret {
            program: compiled.program.id(),
            seed: [1; 32],
            proofs: u32::try_from(PROOFS_DEFAULT).unwrap(),
        };
        let openings = Counted(AtomicUsize::new(0));
        let start = Instant::now();
        let model = ProvingModel::private(compiled, &secret).unwrap();
        let committing = start.elapsed();
        let start = Instant::now();
        let public = model.register_private(&openings, [1; 32]).unwrap();
        let registering = start.elapsed();
        let start = Instant::now();
        public.verify_registration().unwrap();
        let verifying = start.elapsed();
        let shown = measure(&public, |run| {
            let masking = masking(run);
            let request = ProveRequest::of(vec![input.clone()]).masked(&masking);
            prove(&model, request.counted_by(&openings), &mut |_| {})
                .unwrap()
                .0
        });
        let private = public.private_weights().unwrap();
        println!(
            "  private: {shown}; 2^{} cells, {} rows shown, {} proofs; commit {committing:.1?}, register \
             {registering:.1?}, verify it {verifying:.1?}, {} bytes",
            private.kept.stack().vars,
            private.kept.rows_shown(),
            private.capacity(),
            public.registration().len(),
        );
    }
}
