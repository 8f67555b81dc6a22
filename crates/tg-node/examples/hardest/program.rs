//! Programs that are cheap to state, as an attacker would register them: what a list of genes stands for.

use tg_ir::forest::{Branch, Child, Forest};
use tg_ir::op::{self, Extreme, Norm, Ranked, Reduction, Relation, Softmax};
use tg_ir::{
    Axis, Coding, ElementType, InputSpec, LinearWeights, Node, Op, Program, Requantise, Rescale,
    Shape, TensorId, Tie, View, Weights, Window,
};

/// Kind and number of some nodes, their size, and which tensors they read. The first gene is the input's.
pub(crate) type Gene = [u8; 4];

/// Kinds of nodes that a gene may stand for.
const KINDS: u8 = 25;
/// Most nodes of one gene.
const REPEATS: [usize; 8] = [1, 2, 4, 16, 64, 256, 1_024, 4_000];
/// Most weights that a program is given: those of larger ones are not made.
pub(crate) const WEIGHTS_MADE_MAX: usize = 1 << 21;

/// Numbers from a seed (splitmix64).
#[derive(Debug, Clone)]
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) const fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// Nodes one after the other.
struct Draft {
    nodes: Vec<Node>,
    /// Shape and type of every tensor.
    known: Vec<(Shape, ElementType)>,
    at: TensorId,
    shape: Shape,
    kind: ElementType,
    ties: bool,
}

impl Draft {
    fn push(&mut self, op: Op, shape: Shape, kind: ElementType) {
        self.nodes.push(Node {
            name: String::new(),
            op,
            shape,
            scale: 1.0,
        });
        self.known.push((shape, kind));
        self.at = TensorId::of_node(self.nodes.len() - 1);
        (self.shape, self.kind) = (shape, kind);
    }

    /// An earlier tensor of the same shape and type, if there is one.
    fn like(&self, extra: u8) -> TensorId {
        let last = self.at.index().saturating_sub(usize::from(extra >> 3));
        let alike = |place: &usize| self.known[*place] == (self.shape, self.kind);
        let place = (0..=last).rev().take(64).find(alike);
        place.map_or(self.at, |place| TensorId(place as u32))
    }

    /// To activations, by a short table, a long one, or shifts.
    fn narrow(&mut self, size: u8, extra: u8) {
        let pairs = 1 + usize::from(size % 16);
        let table = (size & 1 == 1).then(|| vec![i16::from(size % 3); 4_096]);
        let wide = size & 2 == 2;
        let clamp = match (&table, wide) {
            (Some(_), _) => [-2_048, 2_047],
            (None, true) => [-32_767, 32_767],
            (None, false) => [-128, 127],
        };
        let output = if wide {
            ElementType::I16
        } else {
            ElementType::I8
        };
        let shift = |pair: usize| {
            let (multiplier, least) = match extra >> 6 {
                0 => (1 << 14, 20),
                1 => (32_767, 16),
                2 => (1 + 257 * pair as u32, 12),
                _ => (32_767 - pair as u32, 24),
            };
            Rescale::new(multiplier, (least + pair as u32).min(46)).unwrap()
        };
        let reach = 1i32 << [26, 16, 20, 29][usize::from(extra >> 4) % 4];
        let how = Requantise {
            pairs: (0..pairs).map(shift).collect(),
            channel_pairs: (0..self.shape.channels.min(1 << 16))
                .map(|at| (at as usize % pairs) as u8)
                .collect(),
            zero: 0,
            range: [-reach, reach],
            clamp,
            table,
            output,
        };
        let op = Op::Requantise(op::Unary {
            input: self.at,
            how,
        });
        self.push(op, self.shape, output);
    }

    fn activations(&mut self, size: u8) {
        if self.kind == ElementType::I32 {
            self.narrow(size & 2, 0);
        }
    }

    fn side(size: u8) -> u32 {
        1 << (u32::from(size) % 11)
    }

    fn view(&mut self, size: u8) {
        let side = Self::side(size);
        let shape = Shape::new(side, 1, Self::side(size / 11));
        let view = View::new(0, &[(side, 0), (shape.channels, 0)]);
        let elements = self.shape.elements() as u32;
        let view = match size & 3 {
            0 if elements > 3 => View::new(0, &[(3, 0), (elements, 1)]),
            1 => View::new(elements - 1, &[(elements, -1)]),
            _ => view,
        };
        let shape = match view.elements() {
            Some(all) if all == shape.elements() as u64 => shape,
            Some(all) if all <= 1 << 16 => Shape::new(1, 1, all as u32),
            _ => return,
        };
        let op = Op::View(op::Unary {
            input: self.at,
            how: view,
        });
        self.push(op, shape, self.kind);
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each gene")]
    fn one(&mut self, [kind, _, size, extra]: Gene) {
        let (input, shape, own) = (self.at, self.shape, self.kind);
        let wide = ElementType::I32;
        match kind % KINDS {
            0 => {
                self.activations(size);
                let shape = Shape::vector(Self::side(size));
                self.push(Op::Dense(op::Dense { input: self.at }), shape, wide);
            }
            1 => {
                self.activations(size);
                let side = [1, 1, 3, 5, 7, 16, 32, 64][usize::from(extra >> 5)];
                let mut window = Window::new([side; 2], [1; 2], [side / 2; 4]);
                if extra & 16 == 16 {
                    window.stride = [2; 2];
                }
                let Some([height, width]) = window.output(shape) else {
                    return;
                };
                let shape = Shape::new(height, width, Self::side(size));
                self.push(Op::conv(self.at, window), shape, wide);
            }
            2 => self.narrow(size, extra),
            3 | 4 => {
                let give = if kind % KINDS == 3 {
                    Ranked::Values
                } else {
                    Ranked::Channels
                };
                let channels = shape.channels.min(1 + u32::from(size) % 32);
                let shape = shape.with_axis(Axis::Channels, channels);
                let kind = if give == Ranked::Values { own } else { wide };
                self.push(Op::TopK(op::TopK { input, give }), shape, kind);
            }
            5 => {
                let how = Softmax {
                    rescale: Rescale::new(1 << 14, u32::from(size) % 30 + 10).unwrap(),
                    table: (0..4_096)
                        .map(|at| if at == 0 { 100 } else { u16::from(size) })
                        .collect(),
                    causal: (extra & 16 == 16).then_some(u32::from(extra >> 5)),
                };
                self.push(
                    Op::Softmax(op::Unary { input, how }),
                    shape,
                    ElementType::I16,
                );
            }
            6 => {
                self.activations(size);
                let how = Norm {
                    centred: size & 1 == 1,
                    epsilon: 1,
                    precision: 2,
                    fraction: 10,
                };
                let op = Op::Norm(op::Unary {
                    input: self.at,
                    how,
                });
                self.push(op, shape, ElementType::I16);
            }
            7 => {
                self.activations(size);
                let side = 1 + u32::from(size) % 4;
                let mut window = Window::new([side; 2], [1; 2], [side / 2; 4]);
                window.dilation = [1 + u32::from(size) % 3; 2];
                if let Some([height, width]) = window.output(shape) {
                    let op = Op::MaxPool(op::MaxPool {
                        input: self.at,
                        window,
                    });
                    self.push(op, Shape::new(height, width, shape.channels), self.kind);
                }
            }
            8 => {
                self.activations(size);
                let side = 1 + u32::from(size) % 64;
                let window = Window::new([side; 2], [1; 2], [side / 2; 4]);
                if let Some([height, width]) = window.output(shape) {
                    let op = Op::WindowSum(op::WindowSum {
                        input: self.at,
                        window,
                    });
                    self.push(op, Shape::new(height, width, shape.channels), wide);
                }
            }
            9 => self.view(size),
            10 => {
                let count = 1 + u32::from(size);
                let axis = [Axis::Channels, Axis::Rows, Axis::Columns][usize::from(extra >> 4) % 3];
                let count = count.min((1 << 16) / shape.axis(axis)).clamp(1, 256);
                let mut inputs = vec![input; count as usize];
                inputs[0] = self.like(extra);
                let op = Op::Concat(op::Concat { inputs, axis });
                let shape = shape.with_axis(axis, shape.axis(axis) * count);
                self.push(op, shape, own);
            }
            11 => {
                let op = Op::Add(op::Add {
                    inputs: vec![self.like(extra); 1 + usize::from(size) % 8],
                    multipliers: vec![1; 1 + usize::from(size) % 8],
                    bias: 0,
                });
                self.push(op, shape, wide);
            }
            12 => {
                self.activations(size);
                let inputs = [self.at; 2];
                self.push(Op::Mul(op::Mul { inputs }), shape, wide);
            }
            13 => {
                let axis = [Axis::Rows, Axis::Columns, Axis::Channels][usize::from(size) % 3];
                let reduction = Reduction::Greatest;
                let op = Op::Reduce(op::Reduce {
                    input,
                    reduction,
                    axis,
                });
                self.push(op, shape.with_axis(axis, 1), own);
            }
            14 => {
                let indices = (0..Self::side(size)).map(|at| at * 7 % shape.channels);
                let op = Op::Gather(op::Gather {
                    input,
                    axis: Axis::Channels,
                    indices: indices.collect(),
                });
                self.push(op, shape.with_axis(Axis::Channels, Self::side(size)), own);
            }
            15 => {
                let op = Op::Pad(op::Pad {
                    input,
                    before: [u32::from(size), 0, 0],
                    after: [0, 0, u32::from(size)],
                    value: 0,
                });
                let shape = Shape::new(
                    shape.height + u32::from(size),
                    shape.width,
                    shape.channels + u32::from(size),
                );
                self.push(op, shape, own);
            }
            16 => {
                self.activations(size);
                let branches = 1 << (size % 12);
                let forest = forest(branches, 1 + usize::from(size) % 5);
                if shape.pixels() == 1 {
                    let outputs = Shape::vector(forest.outputs() as u32);
                    let op = Op::Trees(op::Trees {
                        input: self.at,
                        forest,
                    });
                    self.push(op, outputs, wide);
                }
            }
            17 => {
                let op = Op::Compare(op::Compare {
                    inputs: [input, self.like(extra)],
                    relation: [Relation::Equal, Relation::Greater][usize::from(size) % 2],
                });
                self.push(op, shape, ElementType::I8);
            }
            18 => {
                let inputs = [input, self.like(extra)];
                let which = Extreme::Greater;
                self.push(Op::Extremum(op::Extremum { inputs, which }), shape, own);
            }
            19 => {
                let condition = self.like(extra);
                if own == ElementType::I8 {
                    let inputs = [input, self.like(0)];
                    self.push(Op::Select(op::Select { condition, inputs }), shape, own);
                }
            }
            20 => {
                let shape = shape.with_axis(Axis::Channels, 1);
                self.push(Op::ArgMax(op::ArgMax { input }), shape, wide);
            }
            21 => {
                self.activations(size);
                // A tensor with itself, transposed: rows against rows.
                let shape = Shape::new(self.shape.height, self.shape.width, self.shape.width);
                let (inputs, transposed) = ([self.at; 2], true);
                self.push(Op::MatMul(op::MatMul { inputs, transposed }), shape, wide);
            }
            22 => {
                self.activations(size);
                let (shape, before) = (self.shape, self.at);
                self.push(Op::Parameter(op::Parameter), shape, ElementType::I8);
                let inputs = [before, self.at];
                self.push(Op::Mul(op::Mul { inputs }), shape, wide);
            }
            23 => {
                let rows = 1 << (extra % 17);
                if shape.channels != 1 {
                    let shape = shape.with_axis(Axis::Channels, 1);
                    self.push(Op::ArgMax(op::ArgMax { input }), shape, wide);
                }
                let shape = shape.with_axis(Axis::Channels, Self::side(size));
                let input = self.at;
                self.push(Op::Embed(op::Embed { input, rows }), shape, ElementType::I8);
            }
            _ => {
                // The same weights once more.
                self.activations(size);
                self.ties = true;
                let shape = Shape::vector(Self::side(size));
                self.push(Op::Dense(op::Dense { input: self.at }), shape, wide);
            }
        }
    }
}

/// Chains of branches, one tree.
fn forest(branches: u32, outputs: usize) -> Forest {
    let branch = |at: u32| Branch {
        feature: 0,
        threshold: at as i16,
        below: Child::Leaf(0),
        above: if at + 1 < branches {
            Child::Branch(at + 1)
        } else {
            Child::Leaf(0)
        },
    };
    Forest {
        roots: vec![Child::Branch(0)],
        branches: (0..branches).map(branch).collect(),
        leaves: vec![1; outputs],
        bias: vec![0; outputs],
    }
}

/// The program that some genes stand for, with weights if they are few. It may be refused.
pub(crate) fn program(genes: &[Gene]) -> (Program, Option<Weights>) {
    let [coding, channels, side, width] = genes[0];
    let side = 1 << (side % 10);
    let width = if width & 1 == 1 { 1 } else { side };
    let mut shape = Shape::new(side, width, 1 + u32::from(channels) % 64);
    let mut input = InputSpec::scaled(shape, 1.0);
    let kind = match coding % 8 {
        0 => {
            shape.channels = 1;
            input = InputSpec::scaled(shape, 1.0);
            input.coding = Coding::Tokens(1 << (u32::from(coding) / 8 % 21));
            ElementType::I32
        }
        1 => {
            let thresholds = 1 << (u32::from(coding) / 8 % 15);
            let list: Vec<f32> = (0..thresholds).map(|at| at as f32).collect();
            input.coding = Coding::Ranks(vec![list; shape.channels as usize]);
            ElementType::I16
        }
        2 => {
            input.coding = Coding::Scaled(ElementType::I16);
            ElementType::I16
        }
        _ => {
            input.coding = Coding::Scaled(ElementType::I8);
            ElementType::I8
        }
    };
    let mut draft = Draft {
        nodes: Vec::new(),
        known: vec![(shape, kind)],
        at: TensorId::INPUT,
        shape,
        kind,
        ties: false,
    };
    for gene in &genes[1..] {
        for _ in 0..REPEATS[usize::from(gene[1]) % REPEATS.len()] {
            if draft.nodes.len() < tg_ir::program::NODES_MAX - 4 {
                draft.one(*gene);
            }
        }
    }
    draft.narrow(0, 0);
    let mut program = Program {
        name: String::new(),
        input,
        nodes: draft.nodes,
        outputs: Vec::new(),
        ties: Vec::new(),
        signature: None,
        tokenizer: None,
        weights_root: Weights { layers: Vec::new() }.root(),
    };
    if draft.ties {
        program.ties = ties(&program);
    }
    let weights = weights(&program);
    if let Some(weights) = &weights {
        program.weights_root = weights.root();
    }
    (program, weights)
}

/// Every node with weights is tied to the first of the same axes.
fn ties(program: &Program) -> Vec<Tie> {
    let mut owners = std::collections::BTreeMap::new();
    let mut ties = Vec::new();
    for node in 0..program.nodes.len() {
        if let Some(axes) = program.weight_axes(node) {
            let node = node as u32;
            let to = *owners.entry(axes).or_insert(node);
            if to != node {
                ties.push(Tie { node, to });
            }
        }
    }
    ties
}

fn weights(program: &Program) -> Option<Weights> {
    let owner = |node: usize| program.weights_owner(node) == node;
    let nodes = (0..program.nodes.len()).filter(|&node| program.nodes[node].op.has_weights());
    let mut all = 0usize;
    let mut layers = Vec::new();
    for node in nodes {
        let described = &program.nodes[node];
        let weights = if owner(node) {
            program.weights_of(node)
        } else {
            0
        };
        let biases = if described.op.has_bias() {
            described.shape.channels as usize
        } else {
            0
        };
        all = all.checked_add(weights)?.checked_add(biases)?;
        if all > WEIGHTS_MADE_MAX {
            return None;
        }
        layers.push(LinearWeights {
            weights: (0..weights).map(|at| (at % 7) as i8 - 3).collect(),
            bias: vec![1; biases],
        });
    }
    Some(Weights { layers })
}

/// Genes with some changed at random.
pub(crate) fn changed(genes: &[Gene], numbers: &mut Numbers) -> Vec<Gene> {
    let mut genes = genes.to_vec();
    for _ in 0..=numbers.below(3) {
        let random = numbers.next().to_le_bytes();
        let gene = [random[0], random[1], random[2], random[5]];
        let place = numbers.below(genes.len() as u64) as usize;
        match numbers.below(5) {
            0 if genes.len() < 12 => genes.insert(place + 1, gene),
            1 if genes.len() > 2 => drop(genes.remove(place)),
            2 => genes[place] = gene,
            3 => {
                // One step up or down: a limit is approached from below.
                let byte = &mut genes[place][usize::from(random[3]) % 4];
                *byte = if random[4] & 1 == 0 {
                    byte.wrapping_add(1)
                } else {
                    byte.wrapping_sub(1)
                };
            }
            _ => genes[place][usize::from(random[3]) % 4] = random[4],
        }
    }
    genes
}

/// New genes.
pub(crate) fn drawn(numbers: &mut Numbers) -> Vec<Gene> {
    (0..3 + numbers.below(7))
        .map(|_| {
            let random = numbers.next().to_le_bytes();
            [random[0], random[1], random[2], random[3]]
        })
        .collect()
}
