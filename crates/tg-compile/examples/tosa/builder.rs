//! Building TGX-1 programs: operands as tensors, and the few idioms that operators of TOSA are made of.

use tg_exec::IntTensor;
use tg_ir::op::{self, Axis, Relation};
use tg_ir::program::{Coding, InputSpec};
use tg_ir::weights::BIAS_MAX;
use tg_ir::{
    CompiledModel, ElementType, LinearWeights, Node, Op, Program, Requantise, Rescale, Shape,
    TensorId, View, Weights,
};

use crate::case::{Kind, Values};

/// Why TGX-1 does not admit a case.
pub(crate) type Refusal = &'static str;

/// Most axes of a tensor.
pub(crate) const RANK_MAX: usize = 3;
/// Side of the square-ish input that several operands share.
const PACKED_WIDTH: u32 = 4_096;
/// Greatest absolute value of the low half of a split operand.
const LIMB_MAX: i64 = 32_767;

/// A tensor of the program under construction, with its axes as in TOSA (at most three, outermost first).
#[derive(Debug, Clone)]
pub(crate) struct Handle {
    /// The tensor.
    pub id: TensorId,
    /// Its axes as the case states them.
    pub axes: Vec<u32>,
}

/// A program under construction.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    nodes: Vec<Node>,
    layers: Vec<LinearWeights>,
    kinds: Vec<ElementType>,
    shapes: Vec<Shape>,
    input: Vec<i32>,
}

/// A model, the input that stands for the operands, and the tensor that is the result.
#[derive(Debug)]
pub(crate) struct Built {
    /// The program and its weights.
    pub model: CompiledModel,
    /// Its input.
    pub input: IntTensor,
}

/// The shape of a tensor with these axes: missing outer axes have length 1.
pub(crate) fn shape_of(axes: &[u32]) -> Result<Shape, Refusal> {
    if axes.len() > RANK_MAX {
        return Err("more than three axes");
    }
    let mut sides = [1; RANK_MAX];
    sides[RANK_MAX - axes.len()..].copy_from_slice(axes);
    let shape = Shape::new(sides[0], sides[1], sides[2]);
    if shape.is_valid() {
        Ok(shape)
    } else {
        Err("an axis beyond 2^16 elements")
    }
}

/// The axis of a tensor of `rank` axes.
pub(crate) fn axis_of(rank: usize, axis: i64) -> Result<Axis, Refusal> {
    let axis = usize::try_from(axis).map_err(|_| "a negative axis")?;
    match (RANK_MAX + axis).checked_sub(rank) {
        Some(0) => Ok(Axis::Rows),
        Some(1) => Ok(Axis::Columns),
        Some(2) => Ok(Axis::Channels),
        _ => Err("more than three axes"),
    }
}

/// How the elements of an operand enter the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry {
    /// As they are.
    Plain(ElementType),
    /// As `high * factor + low`, both i16.
    Split(i64),
}

fn entry(operand: &Values, alike: &[&Values]) -> Result<Entry, Refusal> {
    let alike = || alike.iter().filter(|other| other.kind == operand.kind);
    let greatest = alike()
        .map(|values| values.magnitude())
        .fold(operand.magnitude(), i64::max);
    Ok(match operand.kind {
        Kind::Bool | Kind::I8 => Entry::Plain(ElementType::I8),
        _ if greatest <= LIMB_MAX => Entry::Plain(ElementType::I16),
        _ => {
            let factor = greatest / LIMB_MAX + 1;
            if factor > LIMB_MAX || factor * LIMB_MAX + LIMB_MAX > tg_ir::FIELD_BOUND {
                return Err("32-bit values beyond the field bound");
            }
            Entry::Split(factor)
        }
    })
}

impl Builder {
    /// The operands as tensors of the program. Operands of one TOSA type get one type.
    pub(crate) fn operands(&mut self, operands: &[&Values]) -> Result<Vec<Handle>, Refusal> {
        let entries: Vec<Entry> = operands
            .iter()
            .map(|operand| entry(operand, operands))
            .collect::<Result<_, _>>()?;
        if let ([operand], [Entry::Plain(kind)]) = (operands, &entries[..]) {
            let narrow = |&x: &i64| i32::try_from(x).expect("16 bits");
            self.input = operand.elements.iter().map(narrow).collect();
            let shape = shape_of(&operand.shape)?;
            self.start(shape, *kind);
            return Ok(vec![Handle {
                id: TensorId::INPUT,
                axes: operand.shape.clone(),
            }]);
        }
        let mut places = Vec::new();
        let mut all = Vec::new();
        for (operand, entry) in operands.iter().zip(&entries) {
            places.push(all.len());
            match entry {
                Entry::Plain(_) => all.extend(&operand.elements),
                Entry::Split(factor) => {
                    all.extend(operand.elements.iter().map(|x| x.div_euclid(*factor)));
                    all.extend(operand.elements.iter().map(|x| x.rem_euclid(*factor)));
                }
            }
        }
        let rows = all.len().div_ceil(PACKED_WIDTH as usize);
        all.resize(rows * PACKED_WIDTH as usize, 0);
        let bytes = entries
            .iter()
            .all(|entry| *entry == Entry::Plain(ElementType::I8));
        let kind = if bytes {
            ElementType::I8
        } else {
            ElementType::I16
        };
        let narrow = |x: i64| i32::try_from(x).expect("16 bits");
        self.input = all.into_iter().map(narrow).collect();
        let height = u32::try_from(rows).map_err(|_| "operands beyond 2^26 elements")?;
        self.start(Shape::new(height, PACKED_WIDTH, 1), kind);
        let unpacked = operands.iter().zip(entries).zip(places);
        unpacked
            .map(|((operand, entry), place)| self.unpack(operand, entry, place))
            .collect()
    }

    fn start(&mut self, shape: Shape, kind: ElementType) {
        self.shapes = vec![shape];
        self.kinds = vec![kind];
    }

    fn unpack(&mut self, operand: &Values, entry: Entry, place: usize) -> Result<Handle, Refusal> {
        let shape = shape_of(&operand.shape)?;
        let count = shape.elements();
        let at = |place: usize| {
            let offset = u32::try_from(place).map_err(|_| "operands beyond 2^26 elements")?;
            let size = u32::try_from(count).map_err(|_| "operands beyond 2^26 elements")?;
            Ok::<_, Refusal>(View::new(offset, &[(size, 1)]))
        };
        let id = match entry {
            Entry::Plain(kind) => {
                let part = self.view(TensorId::INPUT, shape, at(place)?);
                if kind == self.kind(part) {
                    part
                } else {
                    self.identity(part, ElementType::I8, [-128, 127])
                }
            }
            Entry::Split(factor) => {
                let high = self.view(TensorId::INPUT, shape, at(place)?);
                let low = self.view(TensorId::INPUT, shape, at(place + count)?);
                let factor = i32::try_from(factor).expect("15 bits");
                self.add(&[(high, factor), (low, 1)], 0)
            }
        };
        Ok(Handle {
            id,
            axes: operand.shape.clone(),
        })
    }

    /// Type of a tensor.
    pub(crate) fn kind(&self, tensor: TensorId) -> ElementType {
        self.kinds[tensor.index()]
    }

    /// Shape of a tensor.
    pub(crate) fn shape(&self, tensor: TensorId) -> Shape {
        self.shapes[tensor.index()]
    }

    /// Adds a node.
    pub(crate) fn node(&mut self, op: Op, shape: Shape, kind: ElementType) -> TensorId {
        let name = format!("{}{}", op.name(), self.nodes.len());
        self.nodes.push(Node {
            name,
            op,
            shape,
            scale: 1.0,
        });
        self.shapes.push(shape);
        self.kinds.push(kind);
        TensorId::of_node(self.nodes.len() - 1)
    }

    /// Adds a node with weights.
    pub(crate) fn weighted(
        &mut self,
        op: Op,
        shape: Shape,
        kind: ElementType,
        weights: Vec<i8>,
        bias: Vec<i32>,
    ) -> TensorId {
        self.layers.push(LinearWeights { weights, bias });
        self.node(op, shape, kind)
    }

    /// A weighted sum and a constant.
    pub(crate) fn add(&mut self, terms: &[(TensorId, i32)], bias: i32) -> TensorId {
        let op = Op::Add(op::Add {
            inputs: terms.iter().map(|term| term.0).collect(),
            multipliers: terms.iter().map(|term| term.1).collect(),
            bias,
        });
        self.node(op, self.shape(terms[0].0), ElementType::I32)
    }

    /// A part or rearrangement of a tensor.
    pub(crate) fn view(&mut self, input: TensorId, shape: Shape, view: View) -> TensorId {
        let kind = self.kind(input);
        self.node(Op::View(op::Unary { input, how: view }), shape, kind)
    }

    /// The same values as activations, clamped.
    pub(crate) fn identity(
        &mut self,
        input: TensorId,
        output: ElementType,
        clamp: [i16; 2],
    ) -> TensorId {
        let one = Rescale::new(4, 2).expect("a multiplier and shift within their ranges");
        self.requantise(input, vec![one], vec![0], 0, clamp, output)
    }

    /// A requantisation without table.
    pub(crate) fn requantise(
        &mut self,
        input: TensorId,
        pairs: Vec<Rescale>,
        channel_pairs: Vec<u8>,
        zero: i16,
        clamp: [i16; 2],
        output: ElementType,
    ) -> TensorId {
        let reach = 1_000_000_000;
        let how = Requantise {
            pairs,
            channel_pairs,
            zero,
            range: [-reach, reach],
            clamp,
            table: None,
            output,
        };
        self.node(
            Op::Requantise(op::Unary { input, how }),
            self.shape(input),
            output,
        )
    }

    /// 1 where an i8 tensor is 0, else 0.
    pub(crate) fn not(&mut self, input: TensorId) -> TensorId {
        let zeros = self.parameter_like(input, 0);
        let op = Op::Compare(op::Compare {
            inputs: [input, zeros],
            relation: Relation::Equal,
        });
        self.node(op, self.shape(input), ElementType::I8)
    }

    /// A tensor of one value, of the shape of another.
    fn parameter_like(&mut self, other: TensorId, value: i8) -> TensorId {
        let shape = self.shape(other);
        let weights = vec![value; shape.elements()];
        self.weighted(
            Op::Parameter(op::Parameter),
            shape,
            ElementType::I8,
            weights,
            Vec::new(),
        )
    }

    /// A tensor of one value, of the shape and type of another.
    pub(crate) fn zeros_like(&mut self, other: TensorId) -> TensorId {
        let zeros = self.parameter_like(other, 0);
        match self.kind(other) {
            ElementType::I8 => zeros,
            ElementType::I16 => self.identity(zeros, ElementType::I16, [0, 0]),
            ElementType::I32 => self.add(&[(zeros, 1)], 0),
        }
    }

    /// A tensor repeated along its axes of length 1 to the axes of the result.
    pub(crate) fn broadcast(&mut self, handle: &Handle, to: &[u32]) -> Result<TensorId, Refusal> {
        if handle.axes == to {
            return Ok(handle.id);
        }
        let mut axes = vec![1; to.len().saturating_sub(handle.axes.len())];
        axes.extend(&handle.axes);
        let mut stride = 1;
        let mut steps = vec![(1, 0); to.len()];
        for index in (0..to.len()).rev() {
            steps[index] = (to[index], if axes[index] == 1 { 0 } else { stride });
            stride *= i32::try_from(axes[index]).map_err(|_| "an axis beyond 2^16 elements")?;
        }
        Ok(self.view(handle.id, shape_of(to)?, View::new(0, &steps)))
    }

    /// The finished model.
    pub(crate) fn finish(self) -> Result<Built, Refusal> {
        let too_great = |bias: &i32| bias.unsigned_abs() > BIAS_MAX.unsigned_abs();
        if self
            .layers
            .iter()
            .any(|layer| layer.bias.iter().any(too_great))
        {
            return Err("biases beyond 24 bits");
        }
        let weights = Weights {
            layers: self.layers,
        };
        let input = IntTensor::of(self.kinds[0], &self.input);
        let program = Program {
            name: "tosa".to_owned(),
            input: InputSpec {
                coding: Coding::Scaled(self.kinds[0]),
                ..InputSpec::scaled(self.shapes[0], 1.0)
            },
            nodes: self.nodes,
            outputs: Vec::new(),
            ties: Vec::new(),
            signature: None,
            tokenizer: None,
            weights_root: weights.root(),
        };
        Ok(Built {
            model: CompiledModel { program, weights },
            input,
        })
    }
}
