//! Masking: what a proof in zero knowledge hides, and what its statement shows.

use tg_exec::IntTensor;
use tg_ir::{ElementType, Program};
use tg_proof::ajtai::{self, TensorCommitment};
use tg_proof::plan::TensorCoding;
use tg_proof::verify::ShownPart;
use tg_proof::{Modes, PartModes, Visibility};
use tg_types::Digest;
use tg_types::codec::Encode;

/// How a proof hides.
#[derive(Clone, Copy)]
pub struct Masking {
    /// The prover's randomness: 32 bytes that nobody else knows and that are used once. Who knows them sees through the
    /// proof; two proofs with one seed may show what differs between their inputs.
    pub seed: [u8; 32],
    /// What the statement shows of input and output.
    pub modes: Modes,
    /// The salts of the commitments of input and outputs, if the statement names them (inputs of the file have hashes of the
    /// first, several outputs of the second): who knows one can tell whether the commitment is of a tensor.
    pub salts: [[u8; 32]; 2],
}

impl Masking {
    /// Modes without commitments.
    #[must_use]
    pub const fn new(seed: [u8; 32], modes: Modes) -> Self {
        let salts = [[0; 32]; 2];
        Self { seed, modes, salts }
    }
}

impl Masking {
    /// What the statement shows of the inputs, then of each output, of a batch of executions.
    pub(crate) fn shows(&self, program: &Program, executions: &[&[IntTensor]]) -> Vec<Shows> {
        let of = |mode, coding, tensor: usize, salt: &[u8; 32]| {
            let tensors: Vec<&IntTensor> = executions.iter().map(|own| &own[tensor]).collect();
            Shows::of(mode, &coding, &tensors, salt)
        };
        let [input, output] = &self.salts;
        let coding = TensorCoding::of_input(program);
        let mut shows = vec![match self.modes.input {
            Visibility::Each(modes) => {
                Shows::Parts(parts_of(program, modes, &coding, (executions, input)))
            }
            mode => of(mode, coding, 0, input),
        }];
        let outputs = program.outputs();
        let modes = self.modes.output.of_parts(outputs.len());
        for (index, (tensor, mode)) in outputs.into_iter().zip(modes).enumerate() {
            let coding = TensorCoding::of_output(program, tensor);
            let salt = salt_of(output, index);
            shows.push(of(mode, coding, tensor.index(), &salt));
        }
        shows
    }
}

/// What is shown of each input of the file, in its order.
fn parts_of(
    program: &Program,
    modes: PartModes,
    coding: &TensorCoding,
    (executions, salt): (&[&[IntTensor]], &[u8; 32]),
) -> Vec<Shows> {
    let signature = program.signature.as_ref();
    // A program without such inputs has no plan for these modes.
    let places = signature.and_then(|own| own.input_places(program.input.shape));
    let places = places.unwrap_or_default();
    let rest = tg_ir::unnamed_places(&places, program.input.shape).len() * executions.len();
    let each = modes.iter().zip(places).enumerate();
    let one = |(index, (mode, places)): (usize, (Visibility, Vec<usize>))| {
        let of_execution = |tensors: &&[IntTensor]| {
            let all = tensors[0].widened();
            let own: Vec<i32> = places.iter().map(|&place| all[place]).collect();
            IntTensor::of(coding.kind(), &own)
        };
        let own: Vec<IntTensor> = executions.iter().map(of_execution).collect();
        let own: Vec<&IntTensor> = own.iter().collect();
        Shows::of(mode, coding, &own, &salt_of(salt, index))
    };
    let rest = (rest > 0).then_some(Shows::Zeros(rest));
    each.map(one).chain(rest).collect()
}

/// Whether every element of no input is 0, as a statement with modes of inputs says.
pub(crate) fn unnamed_are_zero(program: &Program, tensors: &[IntTensor]) -> bool {
    let signature = program.signature.as_ref();
    let Some(places) = signature.and_then(|own| own.input_places(program.input.shape)) else {
        return true;
    };
    let mut rest = tg_ir::unnamed_places(&places, program.input.shape).into_iter();
    rest.all(|place| tensors[0].value(place) == 0)
}

/// The salt of an output's commitment: the first has the one that is given, others have hashes of it, or outputs of equal
/// elements had equal commitments.
fn salt_of(salt: &[u8; 32], index: usize) -> [u8; 32] {
    let Ok(index @ 1..) = u32::try_from(index) else {
        return *salt;
    };
    let mut bytes = salt.to_vec();
    bytes.extend(index.to_le_bytes());
    *Digest::of_blob(&bytes).as_bytes()
}

/// What a file has of the input and of all outputs of so many executions, and what the statement names each by.
pub(crate) fn files(shows: &[Shows], executions: usize) -> [(Vec<u8>, Digest); 2] {
    let (input, outputs) = shows.split_first().expect("an input is shown or not");
    let all = |one: fn(&Shows) -> bool| outputs.iter().all(one);
    let mut bytes = Vec::new();
    if all(|own| matches!(own, Shows::Nothing)) {
        return [input.bytes(), (bytes, Digest::default())];
    }
    if all(|own| matches!(own, Shows::Bytes(_))) {
        // The outputs of one execution after the other.
        for execution in 0..executions {
            for output in outputs {
                let (all, _) = output.bytes();
                let each = all.len() / executions;
                bytes.extend_from_slice(&all[execution * each..][..each]);
            }
        }
    } else {
        outputs.iter().for_each(|own| bytes.extend(own.bytes().0));
    }
    let digest = Digest::of_blob(&bytes);
    [input.bytes(), (bytes, digest)]
}

impl std::fmt::Debug for Masking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Masking")
            .field("modes", &self.modes)
            .finish_non_exhaustive()
    }
}

/// What a statement shows of a tensor: its bytes, its commitment with what hides it, or nothing.
pub(crate) enum Shows {
    Bytes(Vec<u8>),
    Commitment(Box<TensorCommitment>, Vec<u8>),
    Nothing,
    /// Each of its inputs of the file, then the elements of none.
    Parts(Vec<Self>),
    /// So many elements, which are 0.
    Zeros(usize),
}

impl Shows {
    /// Of one tensor per input of a batch.
    pub(crate) fn of(
        mode: Visibility,
        coding: &TensorCoding,
        tensors: &[&IntTensor],
        salt: &[u8; 32],
    ) -> Self {
        let kind = coding.kind();
        match mode {
            Visibility::Public => Self::Bytes(
                tensors
                    .iter()
                    .flat_map(|tensor| tensor.to_bytes())
                    .collect(),
            ),
            // Parts are shown each by itself.
            Visibility::Hidden | Visibility::Each(_) => Self::Nothing,
            Visibility::Committed => {
                let values: Vec<i32> = tensors.iter().flat_map(|t| t.widened()).collect();
                let digits = ajtai::digits(kind, &values);
                let blinding = ajtai::blinding(kind, &digits, salt);
                let commitment = ajtai::commit(kind, &digits, &blinding);
                Self::Commitment(Box::new(commitment), blinding)
            }
        }
    }

    /// What the file has of it, and what the statement names that by.
    pub(crate) fn bytes(&self) -> (Vec<u8>, Digest) {
        let bytes = match self {
            Self::Bytes(bytes) => bytes.clone(),
            Self::Commitment(commitment, _) => commitment.to_bytes(),
            Self::Nothing | Self::Zeros(_) => return (Vec::new(), Digest::default()),
            Self::Parts(parts) => parts.iter().flat_map(|part| part.bytes().0).collect(),
        };
        let digest = Digest::of_blob(&bytes);
        (bytes, digest)
    }

    /// What a verifier is shown of the parts that are not hidden.
    pub(crate) fn parts(&self, kind: ElementType) -> Vec<ShownPart> {
        let Self::Parts(parts) = self else {
            return Vec::new();
        };
        let shown = |part: &Self| match part {
            Self::Bytes(bytes) => {
                let tensor = IntTensor::from_bytes(kind, bytes)?;
                Some(ShownPart::Public(tensor.widened()))
            }
            Self::Commitment(commitment, _) => Some(ShownPart::Committed(*commitment.clone())),
            Self::Zeros(count) => Some(ShownPart::Public(vec![0; *count])),
            Self::Nothing | Self::Parts(_) => None,
        };
        parts.iter().filter_map(shown).collect()
    }

    pub(crate) fn commitment(&self) -> Option<&TensorCommitment> {
        match self {
            Self::Commitment(commitment, _) => Some(commitment),
            _ => None,
        }
    }
}

/// The bytes that hide committed tensors, in the order of their columns.
pub(crate) fn salts(shows: &[Shows]) -> Vec<Vec<u8>> {
    let own = |shown: &Shows| match shown {
        Shows::Parts(parts) => parts.iter().filter_map(salt).collect(),
        shown => Vec::from_iter(salt(shown)),
    };
    shows.iter().flat_map(own).collect()
}

pub(crate) fn salt(shown: &Shows) -> Option<Vec<u8>> {
    match shown {
        Shows::Commitment(_, blinding) => Some(blinding.clone()),
        _ => None,
    }
}
