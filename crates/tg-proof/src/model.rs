//! Public models (`.tgv`): the program, the commitment to its weights, and the registration proof.

use crate::commitment::{
    self, CommitmentError, Pcs, Role, WeightCommitment, opening_protocol, scheme, stack_vars,
};
use crate::error::{PlanError, PublicModelError, RegistrationError};
use crate::facts::Facts;
use crate::field::E;
use crate::file::{Modes, PROOF_FILE_MAX};
use crate::hiding::{Anchor, Strength};
use crate::layout::log2_ceil;
use crate::messages;
use crate::plan::{Plan, SectionSize, WeightUses};
use crate::private::PrivateShape;
use crate::zk::ZkShape;
use crate::{registration, security, size};
use p3_sumcheck::OpeningProtocol;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tg_ir::Program;
use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};
use tg_types::{Digest, ModelId, ProgramId, domain::Domain};

/// Version of the file format.
pub const PUBLIC_MODEL_VERSION: u16 = 3;
/// Version of the format of a model with private weights.
pub const PRIVATE_MODEL_VERSION: u16 = 4;
/// Most bytes of a registration proof.
pub const REGISTRATION_MAX: usize = 4 << 20;
/// Most bytes of an encoded weight commitment: a root, and four elements per weighted node.
pub const COMMITMENT_MAX: usize = 1 << 19;

/// Points at which each weight table is opened by an inference if one node reads it, and by the registration.
const INFERENCE_BATCHES: usize = 2;
pub(crate) const REGISTRATION_BATCHES: usize = 3;

/// What both sides derive from a program: the plan and the commitment schemes.
#[derive(Debug)]
pub struct ProofShape {
    /// The plan.
    pub plan: Plan,
    /// Scheme and opening schedule of each section of the witness.
    pub sections: Vec<(Pcs, OpeningProtocol)>,
    /// Scheme of the weights, for inferences and for the registration.
    pub weights_scheme: Pcs,
    /// Scheme and opening schedule of the pushforwards, if they are committed.
    pub pushforwards: Option<(Pcs, OpeningProtocol)>,
    /// Opening schedule of the weights in an inference.
    pub weights_protocol: OpeningProtocol,
    /// Opening schedule of the weights in the registration.
    pub registration_protocol: OpeningProtocol,
}

impl ProofShape {
    /// Derives it for one input.
    ///
    /// # Errors
    /// If the program cannot be proved.
    pub fn new(program: &Program) -> Result<Self, PlanError> {
        Self::batched(program, 1)
    }

    /// Derives it for a batch of inputs. What concerns the weights does not depend on the batch.
    ///
    /// # Errors
    /// If the program cannot be proved for so many inputs at once.
    pub fn batched(program: &Program, batch: usize) -> Result<Self, PlanError> {
        Self::sectioned(program, batch, SectionSize::default())
    }

    /// The same with sections of another size.
    ///
    /// # Errors
    /// If the program cannot be proved for so many inputs at once.
    pub fn sectioned(
        program: &Program,
        batch: usize,
        size: SectionSize,
    ) -> Result<Self, PlanError> {
        let plan = Plan::sectioned(program, batch, size)?;
        if plan.weights.is_empty() || plan.witness.is_empty() {
            let last = program.nodes.len() - 1;
            return Err(PlanError::unprovable(
                program,
                last,
                "the program has no weights or no requantisation",
            ));
        }
        let weight_tables = plan.weight_tables(REGISTRATION_BATCHES, WeightUses::Once);
        let registration_protocol = opening_protocol(&weight_tables);
        let inference_tables = plan.weight_tables(INFERENCE_BATCHES, WeightUses::Each);
        let weights_protocol = opening_protocol(&inference_tables);
        let pushforwards = plan.pushforwards.as_ref().map(|layout| {
            let tables = layout.tables();
            let (vars, protocol) = (stack_vars(&tables), opening_protocol(&tables));
            let scheme = scheme(Role::Pushforwards, vars, claims(&tables))?;
            Ok::<_, CommitmentError>((scheme, protocol))
        });
        let shape = Self {
            pushforwards: pushforwards.transpose()?,
            sections: section_schemes(&plan)?,
            weights_scheme: scheme(
                Role::Weights,
                stack_vars(&weight_tables),
                claims(&weight_tables).max(claims(&inference_tables)),
            )?,
            plan,
            weights_protocol,
            registration_protocol,
        };
        shape.check_size(program)?;
        Ok(shape)
    }

    /// Refuses a program whose proofs no file holds: nobody could check them, and a validator would hold their shape.
    fn check_size(&self, program: &Program) -> Result<(), PlanError> {
        let (cost, limit) = (size::proof_file(program, self), PROOF_FILE_MAX as u64);
        if cost <= limit {
            return Ok(());
        }
        let node = program.nodes.len() - 1;
        Err(PlanError::TooCostly {
            node,
            name: program.nodes[node].name.clone(),
            what: "bytes of a proof",
            cost,
            limit,
        })
    }
}

/// The schemes of the witness. The errors of several openings add up: each has as many bits more.
fn section_schemes(plan: &Plan) -> Result<Vec<(Pcs, OpeningProtocol)>, CommitmentError> {
    let role = if plan.is_anchored() {
        Role::Section(log2_ceil(plan.sections.len()))
    } else {
        Role::Witness
    };
    let of = |section| {
        let tables = plan.section_tables(section);
        let scheme = scheme(role, stack_vars(&tables), claims(&tables))?;
        Ok((scheme, opening_protocol(&tables)))
    };
    plan.sections.iter().map(of).collect()
}

fn claims(tables: &[commitment::CommittedTable]) -> usize {
    tables
        .iter()
        .map(|table| table.batches.iter().map(Vec::len).sum::<usize>())
        .sum()
}

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
    commitment: WeightCommitment,
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
    /// Puts a public model together.
    ///
    /// # Errors
    /// If the program cannot be proved or the commitment is not one of its weights.
    pub fn new(
        program: Program,
        commitment: WeightCommitment,
        proof: Vec<u8>,
    ) -> Result<Self, PlanError> {
        let shape = ProofShape::new(&program)?;
        let program_id = program.id();
        let id = model_id(program_id, &commitment);
        let tables = registration::weight_tables(&shape.plan);
        let anchored = commitment.anchor.len() == tables.len()
            && commitment
                .anchor
                .iter()
                .zip(&tables)
                .all(|(columns, table)| columns.len() == table.columns);
        if !anchored {
            return Err(CommitmentError::Anchor.into());
        }
        let scheme = &shape.weights_scheme;
        let (_, anchor_point) =
            registration::anchor_point(program_id, scheme, &commitment.root, &tables);
        let ids = (program_id, id);
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
        let shape = ProofShape::new(&program)?;
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
            (commitment, anchor_point),
            (shape, private, proof),
        )
    }

    fn of(
        program: Program,
        (program_id, id): (ProgramId, ModelId),
        (commitment, anchor_point): (WeightCommitment, Vec<E>),
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
        security::check(&model)?;
        Ok(model)
    }

    /// The same model with sections of another size, see [`SectionSize::forced`].
    ///
    /// # Errors
    /// If the program cannot be proved with such sections.
    pub fn with_sections(mut self, size: SectionSize) -> Result<Self, PlanError> {
        self.shape = Arc::new(ProofShape::sectioned(&self.program, 1, size)?);
        self.section_size = size;
        self.other = Mutex::new(None);
        security::check(&self)?;
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
        let commitment = messages::decode(reader.bytes("weight commitment", COMMITMENT_MAX)?)
            .ok_or(DecodeError::Invalid {
                field: "weight commitment",
                value: 0,
            })?;
        let registration = reader
            .bytes("registration proof", REGISTRATION_MAX)?
            .to_vec();
        reader.finish()?;
        Ok(match proofs {
            None => Self::new(program, commitment, registration)?,
            Some(proofs) => Self::with_private_weights(program, commitment, proofs, registration)?,
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
        writer.bytes(&messages::encode(&self.commitment));
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
            None => crate::registration::verify(self),
            Some(private) => crate::private::verify(self, private),
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
            &self.program,
            batch,
            self.section_size,
        )?);
        security::check_shape(self, &shape)?;
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
            None => ZkShape::new(&self.program, batch, modes)?,
            Some(private) => {
                let kept = (&private.kept, Strength::FULL);
                ZkShape::private(&self.program, batch, modes, kept)?
            }
        };
        let shape = Arc::new(shape);
        security::check_zk(self, &shape)?;
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

    /// The commitment to the weights.
    #[must_use]
    pub const fn weights_commitment(&self) -> &WeightCommitment {
        &self.commitment
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
            value: *self.commitment.anchor.first()?.first()?,
        })
    }

    pub(crate) fn anchor_point(&self) -> &[E] {
        &self.anchor_point
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.shape.plan
    }

    pub(crate) fn weights_scheme(&self) -> &Pcs {
        &self.shape.weights_scheme
    }

    pub(crate) fn shape(&self) -> &ProofShape {
        &self.shape
    }

    pub(crate) fn weights_protocol(&self) -> &OpeningProtocol {
        &self.shape.weights_protocol
    }

    pub(crate) fn registration_protocol(&self) -> &OpeningProtocol {
        &self.shape.registration_protocol
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

/// The id of a model: BLAKE3 of its program id and its weight commitment.
#[must_use]
pub fn model_id(program: ProgramId, commitment: &WeightCommitment) -> ModelId {
    let mut writer = Writer::new();
    program.encode(&mut writer);
    writer.bytes(&messages::encode(commitment));
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
