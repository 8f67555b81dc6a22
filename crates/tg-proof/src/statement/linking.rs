//! What two proofs share, by what their statements name: model ids, digests of bytes, commitments of tensors.

use crate::statement::file::{Statement, Visibility};
use tg_ir::{ElementType, Program};
use tg_types::Digest;

/// What two proofs are to share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shared {
    /// Program and weights.
    Model,
    /// The inputs.
    Input,
    /// The outputs.
    Output,
    /// The outputs of the first are the inputs of the second.
    Chain,
}

/// Why two proofs are not shown to share something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unlinked {
    /// Two model ids.
    #[error("the proofs are about two models")]
    Models,
    /// One of the tensors is hidden.
    #[error("a tensor that is hidden can be compared with none")]
    Hidden,
    /// One has a mode for each of its parts.
    #[error("a tensor whose parts have modes of their own is not compared")]
    Parts,
    /// One is public and the other committed.
    #[error("one tensor is public and the other committed: without the salt nothing follows")]
    Modes,
    /// Other bytes.
    #[error("the tensors differ")]
    Tensors,
    /// Other commitments.
    #[error("the commitments differ: two tensors, or one under two salts")]
    Commitments,
    /// Tensors of two numbers of inputs or outputs.
    #[error("one proof is about {first} inputs and the other about {second}")]
    Batches {
        /// Of the first proof.
        first: u32,
        /// Of the second.
        second: u32,
    },
    /// Equal bytes of elements of two types.
    #[error("the tensors have elements of two types")]
    Types,
}

/// A statement that was verified, with types and elements of its tensors.
#[derive(Debug, Clone)]
pub struct Verified<'a> {
    statement: &'a Statement,
    input: Vec<(ElementType, usize)>,
    output: Vec<(ElementType, usize)>,
}

impl<'a> Verified<'a> {
    /// A statement about a program, of a proof that [`crate::verify()`] accepted: nothing follows from others.
    #[must_use]
    pub fn new(program: &Program, statement: &'a Statement) -> Self {
        Self {
            statement,
            input: vec![(program.input.element_type(), program.input.shape.elements())],
            output: program
                .outputs()
                .into_iter()
                .map(|id| (program.element_type(id), program.shape(id).elements()))
                .collect(),
        }
    }

    fn input(&self) -> (&[(ElementType, usize)], Digest) {
        (&self.input, self.statement.input)
    }

    fn output(&self) -> (&[(ElementType, usize)], Digest) {
        (&self.output, self.statement.output)
    }
}

/// The digest by which both statements name what they share.
///
/// # Errors
/// Why they do not, or are not shown to.
pub fn shared(
    first: &Verified<'_>,
    second: &Verified<'_>,
    what: Shared,
) -> Result<Digest, Unlinked> {
    let (one, two) = (first.statement.modes(), second.statement.modes());
    let [left, right] = match what {
        Shared::Model if first.statement.model == second.statement.model => {
            return Ok(Digest::new(*first.statement.model.as_bytes()));
        }
        Shared::Model => return Err(Unlinked::Models),
        Shared::Input => [(one.input, first.input()), (two.input, second.input())],
        Shared::Output => [(one.output, first.output()), (two.output, second.output())],
        Shared::Chain => [(one.output, first.output()), (two.input, second.input())],
    };
    // Stops: equal bytes that are two tensors of three elements for one proof, and three of two for the other.
    let [own, other] = [first, second].map(|verified| verified.statement.batch);
    if own != other {
        return Err(Unlinked::Batches {
            first: own,
            second: other,
        });
    }
    match (left.0, right.0) {
        (Visibility::Hidden, _) | (_, Visibility::Hidden) => return Err(Unlinked::Hidden),
        // Stops: equal digests of what is shown beside parts that are hidden, or of which two programs make two things.
        (Visibility::Each(_), _) | (_, Visibility::Each(_)) => return Err(Unlinked::Parts),
        (left, right) if left != right => return Err(Unlinked::Modes),
        _ => {}
    }
    let (mode, (left, digest), (right, other)) = (left.0, left.1, right.1);
    match mode {
        _ if digest == other && left == right => Ok(digest),
        // Stops: equal bytes of another type, which are another tensor.
        _ if digest == other => Err(Unlinked::Types),
        Visibility::Committed => Err(Unlinked::Commitments),
        _ => Err(Unlinked::Tensors),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::file::Modes;
    use tg_types::ModelId;

    const ONE: Digest = Digest::new([1; 32]);
    const TWO: Digest = Digest::new([2; 32]);

    fn statement(zk: Option<Modes>, input: Digest, output: Digest) -> Statement {
        Statement {
            model: ModelId::new([9; 32]),
            job: tg_types::JobId::default(),
            provider: tg_types::Address::default(),
            batch: 1,
            input,
            output,
            zk,
        }
    }

    fn of(statement: &Statement, input: ElementType, output: ElementType) -> Verified<'_> {
        Verified {
            statement,
            input: vec![(input, 3)],
            output: vec![(output, 3)],
        }
    }

    #[test]
    fn tensors_are_shared_by_equal_digests_of_one_kind() {
        use ElementType::{I8, I32};
        use Visibility::{Committed, Hidden, Public};
        let modes = |input, output| Some(Modes { input, output });
        let clear = statement(None, ONE, TWO);
        let committed = statement(modes(Committed, Committed), ONE, TWO);
        let next = statement(modes(Committed, Hidden), TWO, Digest::default());
        let masked = statement(modes(Public, Public), ONE, ONE);
        let bytes = |own| of(own, I8, I8);
        let check = |first, second, what| shared(&bytes(first), &bytes(second), what);
        assert_eq!(check(&clear, &masked, Shared::Input), Ok(ONE));
        assert_eq!(
            check(&clear, &masked, Shared::Output),
            Err(Unlinked::Tensors)
        );
        assert_eq!(check(&masked, &masked, Shared::Chain), Ok(ONE));
        assert_eq!(
            check(&clear, &committed, Shared::Input),
            Err(Unlinked::Modes)
        );
        assert_eq!(check(&committed, &committed, Shared::Output), Ok(TWO));
        assert_eq!(check(&committed, &next, Shared::Chain), Ok(TWO));
        assert_eq!(
            check(&committed, &next, Shared::Input),
            Err(Unlinked::Commitments)
        );
        assert_eq!(
            check(&committed, &next, Shared::Output),
            Err(Unlinked::Hidden)
        );
        assert_eq!(check(&next, &next, Shared::Output), Err(Unlinked::Hidden));
        let model = Digest::new([9; 32]);
        assert_eq!(check(&clear, &next, Shared::Model), Ok(model));
        let mut other = clear;
        other.model = ModelId::new([8; 32]);
        assert_eq!(check(&clear, &other, Shared::Model), Err(Unlinked::Models));
        let mut more = masked;
        more.batch = 3;
        for what in [Shared::Input, Shared::Output, Shared::Chain] {
            let batches = Unlinked::Batches {
                first: 1,
                second: 3,
            };
            assert_eq!(check(&masked, &more, what), Err(batches));
            assert_eq!(check(&more, &more, what), Ok(ONE));
        }
        assert_eq!(check(&masked, &more, Shared::Model), Ok(model));
        let wide = of(&masked, I8, I32);
        let chained = shared(&wide, &bytes(&masked), Shared::Chain);
        assert_eq!(chained, Err(Unlinked::Types));
    }
}
