//! Public models (`.tgv`): the program, the commitment to its weights, and the registration proof.

use crate::algebra::field::E;
use crate::argument::commitment::{CommitmentError, WeightCommitment};
use crate::argument::hiding::{Anchor, Strength};
use crate::plan::PlanError;
use crate::plan::modes::Modes;
use crate::plan::parts::{Part, Parts};
pub use crate::plan::shape::{ProofShape, WeightsShape};
use crate::plan::{Plan, SectionSize};
use crate::statement::file::{ProofFile, Statement};
use crate::verify::Registered;
use crate::verify::composed::{self, Secured};
use crate::verify::facts::Facts;
use crate::verify::messages;
use crate::verify::private;
use crate::verify::private::PrivateShape;
use crate::verify::registration;
use crate::verify::registration::RegistrationError;
use crate::verify::zk::ZkShape;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tg_ir::{Program, Weights};
use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};
use tg_types::{Digest, ModelId, ProgramId, domain::Domain};

/// Why a public model is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublicModelError {
    /// Not the canonical encoding of a public model.
    #[error("the public model cannot be read")]
    Decode(#[from] DecodeError),
    /// Its program cannot be proved.
    #[error("the public model's program is refused")]
    Plan(#[from] PlanError),
}

/// Version of the file format.
pub const PUBLIC_MODEL_VERSION: u16 = 3;
/// Version of the format of a model with private weights.
pub const PRIVATE_MODEL_VERSION: u16 = 4;
/// Most bytes of a registration proof.
pub const REGISTRATION_MAX: usize = 4 << 20;
/// Most bytes of an encoded weight commitment: a root, and four elements per weighted node.
pub const COMMITMENT_MAX: usize = 1 << 19;

/// Most bytes, as declared, of a shape beside that of one input which is kept for the next proof of its kind: what takes
/// longer to derive is derived again, so that a model that is kept holds one large shape at most.
const KEPT_MAX: u64 = 4 << 20;

/// The last shape beside that of one input in the clear.
#[derive(Debug)]
enum Other {
    Batch(usize, Arc<ProofShape>),
    Zk((usize, Modes), Arc<ZkShape>),
}

/// A public model, ready to verify.
#[derive(Debug)]
pub struct PublicModel {
    program: Program,
    program_id: ProgramId,
    id: ModelId,
    /// The commitment to the weights, if there are some.
    commitment: Option<WeightCommitment>,
    anchor_point: Vec<E>,
    /// What is derived for the weights if they are private.
    private: Option<Arc<PrivateShape>>,
    registration: Vec<u8>,
    /// The verdict on the registration, once it was asked for.
    registered: OnceLock<Result<(), RegistrationError>>,
    shape: Arc<ProofShape>,
    /// Where witnesses are cut.
    section_size: SectionSize,
    /// The shape that was asked for last beside this one, if it is small.
    other: Mutex<Option<Other>>,
}

impl PublicModel {
    /// Puts a public model together: with a commitment if its program has weights, and without one if it has none.
    ///
    /// # Errors
    /// If the program cannot be proved or the commitment is not one of its weights.
    pub fn new(
        program: Program,
        commitment: impl Into<Option<WeightCommitment>>,
        proof: Vec<u8>,
    ) -> Result<Self, PlanError> {
        let (shape, commitment) = (
            ProofShape::new(program.check().map_err(PlanError::from)?)?,
            commitment.into(),
        );
        let program_id = program.id();
        let anchor_point = match (&shape.weights, &commitment) {
            (Some(weights), Some(own)) => {
                let tables = registration::weight_tables(&shape.plan.weights);
                let mut columns = own.anchor.iter().zip(&tables);
                if own.anchor.len() != tables.len()
                    || columns.any(|(columns, table)| columns.len() != table.columns)
                {
                    return Err(CommitmentError::Anchor.into());
                }
                registration::anchor_point(program_id, &weights.scheme, &own.root, &tables).1
            }
            // One program, one id: what names weights that it does not have is another program, which nobody can hold.
            (None, None) if program.weights_root == Weights::default().root() => Vec::new(),
            // Stops: a root of weights that are not there, which would give one program many ids; weights that nothing
            // binds; a program without weights that names some.
            _ => return Err(CommitmentError::Weights.into()),
        };
        let ids = (program_id, model_id(program_id, commitment.as_ref()));
        Self::of(
            program,
            ids,
            (commitment, anchor_point),
            (shape, None, proof),
        )
    }

    /// Puts a public model with private weights together, for a number of proofs.
    ///
    /// # Errors
    /// If the program cannot be proved or the commitment is not one of private weights.
    pub fn with_private_weights(
        program: Program,
        commitment: WeightCommitment,
        proofs: usize,
        proof: Vec<u8>,
    ) -> Result<Self, PlanError> {
        let shape = ProofShape::new(program.check().map_err(PlanError::from)?)?;
        if shape.weights.is_none() {
            return Err(CommitmentError::Weights.into());
        }
        let private = PrivateShape::new(&shape.plan, proofs)?;
        if commitment.anchor.len() != 1 || commitment.anchor[0].len() != 1 {
            return Err(CommitmentError::Anchor.into());
        }
        let program_id = program.id();
        let id = private_model_id(program_id, &commitment, proofs);
        let (_, anchor_point) = private.anchor_point(program_id, &commitment.root);
        let (ids, private) = ((program_id, id), Some(Arc::new(private)));
        Self::of(
            program,
            ids,
            (Some(commitment), anchor_point),
            (shape, private, proof),
        )
    }

    fn of(
        program: Program,
        (program_id, id): (ProgramId, ModelId),
        (commitment, anchor_point): (Option<WeightCommitment>, Vec<E>),
        (shape, private, registration): (ProofShape, Option<Arc<PrivateShape>>, Vec<u8>),
    ) -> Result<Self, PlanError> {
        let model = Self {
            program,
            program_id,
            id,
            commitment,
            anchor_point,
            private,
            registration,
            registered: OnceLock::new(),
            shape: Arc::new(shape),
            section_size: SectionSize::default(),
            other: Mutex::new(None),
        };
        model.check_security()?;
        Ok(model)
    }

    /// The same model with sections of another size, see [`SectionSize::forced`].
    ///
    /// # Errors
    /// If the program cannot be proved with such sections.
    pub fn with_sections(mut self, size: SectionSize) -> Result<Self, PlanError> {
        self.shape = Arc::new(ProofShape::sectioned(self.program.check()?, 1, size)?);
        self.section_size = size;
        self.other = Mutex::new(None);
        self.check_security()?;
        Ok(self)
    }

    /// Reads a `.tgv` file. The registration proof is not checked yet.
    ///
    /// # Errors
    /// If the bytes are not canonical or the program cannot be proved.
    pub fn decode(bytes: &[u8]) -> Result<Self, PublicModelError> {
        let mut reader = Reader::new(bytes);
        let (version, program) = head(&mut reader)?;
        let proofs = match version {
            PRIVATE_MODEL_VERSION => Some(reader.u32()? as usize),
            _ => None,
        };
        // No bytes: there are no weights.
        let own = reader.bytes("weight commitment", COMMITMENT_MAX)?;
        let commitment: Option<WeightCommitment> = messages::decode(own);
        let invalid = DecodeError::Invalid {
            field: "weight commitment",
            value: 0,
        };
        if commitment.is_none() && !own.is_empty() {
            return Err(invalid.into());
        }
        let registration = reader
            .bytes("registration proof", REGISTRATION_MAX)?
            .to_vec();
        reader.finish()?;
        Ok(match proofs {
            None => Self::new(program, commitment, registration)?,
            Some(proofs) => {
                let own = commitment.ok_or(invalid)?;
                Self::with_private_weights(program, own, proofs, registration)?
            }
        })
    }

    /// Reads the program of a `.tgv` file alone: whether it is valid, can be proved and is registered is not looked at.
    ///
    /// # Errors
    /// If the bytes up to the program's end are not canonical.
    pub fn decode_program(bytes: &[u8]) -> Result<Program, DecodeError> {
        head(&mut Reader::new(bytes)).map(|(_, program)| program)
    }

    /// The `.tgv` file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.raw(b"TGV\0");
        if let Some(private) = &self.private {
            writer.u16(PRIVATE_MODEL_VERSION);
            self.program.encode(&mut writer);
            writer.u32(private.proofs as u32);
        } else {
            writer.u16(PUBLIC_MODEL_VERSION);
            self.program.encode(&mut writer);
        }
        writer.bytes(&encoded(self.commitment.as_ref()));
        writer.bytes(&self.registration);
        writer.into_bytes()
    }

    /// Checks that every committed weight is in its declared range, once: the verdict is kept.
    ///
    /// Without this a proof means nothing, so [`crate::verify()`] asks for it too.
    ///
    /// # Errors
    /// The part that fails.
    pub fn verify_registration(&self) -> Result<(), RegistrationError> {
        *self.registered.get_or_init(|| match &self.private {
            None => {
                let tables = registration::weight_tables(&self.plan().weights);
                let committed = self.weights().zip(self.commitment.as_ref());
                registration::verify(self.program_id, &tables, committed, &self.registration)
            }
            Some(private) => {
                let named = (self.program_id, self.commitment.as_ref());
                private::verify(named, private, &self.registration)
            }
        })
    }

    /// The shape of proofs about a batch of inputs.
    ///
    /// # Errors
    /// If such proofs cost too much or fall short of the security level.
    pub fn shape_of(&self, batch: usize) -> Result<Arc<ProofShape>, PlanError> {
        if batch == 1 {
            return Ok(Arc::clone(&self.shape));
        }
        if let Some(Other::Batch(known, shape)) = &*self.other()
            && *known == batch
        {
            return Ok(Arc::clone(shape));
        }
        // Dropped first: two large shapes are never held beside the first.
        *self.other() = None;
        let shape = Arc::new(ProofShape::sectioned(
            self.program.check()?,
            batch,
            self.section_size,
        )?);
        composed::check_shape(&self.secured(), &shape)?;
        if shape.plan.cost.memory() <= KEPT_MAX {
            *self.other() = Some(Other::Batch(batch, Arc::clone(&shape)));
        }
        Ok(shape)
    }

    fn other(&self) -> MutexGuard<'_, Option<Other>> {
        // A poisoned lock holds a whole value all the same.
        self.other.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The shape of proofs in zero knowledge about a batch of inputs.
    ///
    /// # Errors
    /// If such proofs cost too much, fall short of the security level, or cannot commit a tensor of this size.
    pub fn zk_shape_of(&self, batch: usize, modes: Modes) -> Result<Arc<ZkShape>, PlanError> {
        let of = (batch, modes);
        if let Some(Other::Zk(known, shape)) = &*self.other()
            && *known == of
        {
            return Ok(Arc::clone(shape));
        }
        *self.other() = None;
        let shape = match &self.private {
            None => ZkShape::new(self.program.check()?, batch, modes)?,
            Some(private) => {
                let program = self.program.check()?;
                ZkShape::private(program, batch, modes, &private.kept, Strength::FULL)?
            }
        };
        let shape = Arc::new(shape);
        composed::check_zk(&self.secured(), &shape)?;
        if shape.plan.cost.memory() <= KEPT_MAX {
            *self.other() = Some(Other::Zk(of, Arc::clone(&shape)));
        }
        Ok(shape)
    }

    /// BLAKE3 of program id and weight commitment.
    #[must_use]
    pub const fn id(&self) -> ModelId {
        self.id
    }

    /// The program's id.
    #[must_use]
    pub const fn program_id(&self) -> ProgramId {
        self.program_id
    }

    /// The program.
    #[must_use]
    pub const fn program(&self) -> &Program {
        &self.program
    }

    /// What running the model and proving it in clear takes.
    #[must_use]
    pub fn facts(&self) -> Facts {
        Facts::of(&self.program, &self.shape)
    }

    /// Most bytes that the model and what is derived from it take: the shape of one input, and a small one beside it.
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.registration.len() as u64 + self.shape.plan.cost.memory() + KEPT_MAX
    }

    /// The commitment to the weights, if there are some.
    #[must_use]
    pub const fn weights_commitment(&self) -> Option<&WeightCommitment> {
        self.commitment.as_ref()
    }

    /// The parts of proofs with a plan, as their transcripts absorb them.
    pub(crate) const fn parts(&self, plan: &Plan) -> Parts {
        Parts {
            weights: Part::of(self.commitment.is_some()),
            witness: Part::of(plan.looks_up()),
        }
    }

    /// The parts that a proof in zero knowledge sends: of private weights there is no opening beside the hiding ones.
    #[must_use]
    pub fn sent(&self, plan: &Plan) -> Parts {
        let parts = self.parts(plan);
        match &self.private {
            None => parts,
            Some(_) => Parts {
                weights: Part::Absent,
                ..parts
            },
        }
    }

    /// The root of a proof's (first) witness commitment; nothing if it commits nothing or is no proof about this model.
    #[must_use]
    pub fn witness_root(&self, file: &ProofFile) -> Option<Digest> {
        let Statement { batch, zk, .. } = file.statement;
        let parts = match zk {
            Some(modes) => self
                .zk_shape_of(batch as usize, modes)
                .ok()
                .map(|shape| self.sent(&shape.plan))?,
            None => self.parts(&self.shape_of(batch as usize).ok()?.plan),
        };
        file.witness_root(parts)
    }

    /// The encoded registration proof, checked or not.
    #[must_use]
    pub fn registration(&self) -> &[u8] {
        &self.registration
    }

    /// What is derived for the weights if they are private: nobody learns anything of them from registration and proofs.
    #[must_use]
    pub fn private_weights(&self) -> Option<&PrivateShape> {
        self.private.as_deref()
    }

    /// The anchor of private weights.
    pub(crate) fn private_anchor(&self) -> Option<Anchor> {
        self.private.as_ref()?;
        Some(Anchor {
            point: self.anchor_point.clone(),
            value: *self.commitment.as_ref()?.anchor.first()?.first()?,
        })
    }

    /// Refuses a model whose proofs or registration fall short of the level that is required.
    fn check_security(&self) -> Result<(), PlanError> {
        let secured = self.secured();
        if self.private.is_none() {
            composed::check_shape(&secured, &self.shape)?;
        }
        composed::check_registration(&secured)
    }

    /// What the errors of its proofs and of its registration depend on.
    pub(crate) fn secured(&self) -> Secured<'_> {
        Secured {
            program: &self.program,
            plan: &self.shape.plan,
            weights: self.shape.weights.as_ref(),
            anchor_vars: self.anchor_point.len(),
            private: self.private.as_deref(),
        }
    }

    /// The weights as the registration has them, if there are some.
    pub(crate) fn registered(&self) -> Option<Registered<'_>> {
        Some(Registered {
            shape: self.shape.weights.as_ref()?,
            commitment: self.commitment.as_ref()?,
            anchored_at: &self.anchor_point,
            plan: &self.shape.plan,
        })
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.shape.plan
    }

    /// How the weights are committed, if there are some.
    pub(crate) fn weights(&self) -> Option<&WeightsShape> {
        self.shape.weights.as_ref()
    }

    pub(crate) fn shape(&self) -> &ProofShape {
        &self.shape
    }
}

/// What a `.tgv` file begins with: its version and the program.
fn head(reader: &mut Reader<'_>) -> Result<(u16, Program), DecodeError> {
    let magic = reader.array::<4>()?;
    if &magic != b"TGV\0" {
        return Err(DecodeError::Invalid {
            field: "public model magic",
            value: u64::from(u32::from_le_bytes(magic)),
        });
    }
    let version = reader.u16()?;
    if ![PUBLIC_MODEL_VERSION, PRIVATE_MODEL_VERSION].contains(&version) {
        return Err(DecodeError::Invalid {
            field: "public model version",
            value: u64::from(version),
        });
    }
    Ok((version, Program::decode(reader)?))
}

/// A weight commitment as bytes; none without weights.
fn encoded(commitment: Option<&WeightCommitment>) -> Vec<u8> {
    commitment.map(messages::encode).unwrap_or_default()
}

/// The id of a model: BLAKE3 of its program id and its weight commitment, which without weights is the length 0 alone.
#[must_use]
pub fn model_id(program: ProgramId, commitment: Option<&WeightCommitment>) -> ModelId {
    let mut writer = Writer::new();
    program.encode(&mut writer);
    writer.bytes(&encoded(commitment));
    ModelId::new(*Digest::of(Domain::Model, &writer.into_bytes()).as_bytes())
}

/// The id of a model with private weights: BLAKE3 of its program id, its weight commitment and the number of proofs.
#[must_use]
pub fn private_model_id(
    program: ProgramId,
    commitment: &WeightCommitment,
    proofs: usize,
) -> ModelId {
    let mut writer = Writer::new();
    program.encode(&mut writer);
    writer.bytes(&messages::encode(commitment));
    writer.u32(u32::try_from(proofs).unwrap_or(u32::MAX));
    ModelId::new(*Digest::of(Domain::Model, &writer.into_bytes()).as_bytes())
}
