//! Programs that are cheap to state and as dear to look at as a search finds: what an attacker would register.
//!
//! A program is a list of genes, each a kind of node, a number of nodes, and a size. The search changes genes at random and
//! keeps what costs more: seconds to decode, or bytes that a plan declares. Everything follows from a seed.
#![allow(clippy::disallowed_methods, reason = "a search that measures")]

use std::time::{Duration, Instant};
use tg_ir::forest::{Branch, Child, Forest};
use tg_ir::op::{self, Norm, Ranked, Reduction, Softmax};
use tg_ir::{
    Axis, Coding, ElementType, InputSpec, Node, Op, Program, Requantise, Rescale, Shape, TensorId,
    View, Weights, Window,
};
use tg_proof::model::ProofShape;
use tg_proof::{Modes, security, zk::ZkShape};

/// Kind, number and size of some nodes.
pub(crate) type Gene = [u8; 3];

/// Kinds of nodes that a gene may stand for.
const KINDS: u8 = 18;
/// Most nodes of one gene.
const REPEATS: [usize; 8] = [1, 2, 4, 16, 64, 256, 1_024, 4_000];

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

    const fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// Nodes one after the other.
struct Draft {
    nodes: Vec<Node>,
    at: TensorId,
    shape: Shape,
    kind: ElementType,
}

impl Draft {
    fn push(&mut self, op: Op, shape: Shape, kind: ElementType) {
        self.nodes.push(Node {
            name: String::new(),
            op,
            shape,
            scale: 1.0,
        });
        self.at = TensorId::of_node(self.nodes.len() - 1);
        (self.shape, self.kind) = (shape, kind);
    }

    /// To activations, by a short table, a long one, or shifts.
    fn narrow(&mut self, size: u8) {
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
        let shift = |pair: usize| Rescale::new(1 << 14, (20 + pair as u32).min(46)).unwrap();
        let how = Requantise {
            pairs: (0..pairs).map(shift).collect(),
            channel_pairs: vec![0],
            zero: 0,
            range: [-(1 << 26), 1 << 26],
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
            self.narrow(size & 2);
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
    fn one(&mut self, [kind, _, size]: Gene) {
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
                let window = Window::new([1; 2], [1; 2], [0; 4]);
                let shape = shape.with_axis(Axis::Channels, Self::side(size));
                self.push(Op::conv(self.at, window), shape, wide);
            }
            2 => self.narrow(size),
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
                    rescale: Rescale::new(1 << 14, u32::from(size) % 30 + 1).unwrap(),
                    table: (0..4_096)
                        .map(|at| if at == 0 { 100 } else { u16::from(size) })
                        .collect(),
                    causal: None,
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
                let count = (1 + u32::from(size)).min((1 << 16) / shape.channels).max(1);
                let op = Op::Concat(op::Concat {
                    inputs: vec![input; count as usize],
                    axis: Axis::Channels,
                });
                let shape = shape.with_axis(Axis::Channels, shape.channels * count);
                self.push(op, shape, own);
            }
            11 => {
                let op = Op::Add(op::Add {
                    inputs: vec![input; 1 + usize::from(size) % 8],
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
            _ => {
                let op = Op::Compare(op::Compare {
                    inputs: [input; 2],
                    relation: tg_ir::op::Relation::Equal,
                });
                self.push(op, shape, ElementType::I8);
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

/// The program that some genes stand for. It may be refused.
pub(crate) fn program(genes: &[Gene]) -> Program {
    let side = 1 << (genes[0][2] % 10);
    let shape = Shape::new(side, side, 1 + u32::from(genes[0][1]) % 64);
    let mut draft = Draft {
        nodes: Vec::new(),
        at: TensorId::INPUT,
        shape,
        kind: ElementType::I8,
    };
    for gene in &genes[1..] {
        for _ in 0..REPEATS[usize::from(gene[1]) % REPEATS.len()] {
            if draft.nodes.len() < tg_ir::program::NODES_MAX - 2 {
                draft.one(*gene);
            }
        }
    }
    draft.narrow(0);
    let mut input = InputSpec::scaled(shape, 1.0);
    input.coding = Coding::Scaled(ElementType::I8);
    Program {
        name: String::new(),
        input,
        nodes: draft.nodes,
        outputs: Vec::new(),
        ties: Vec::new(),
        signature: None,
        tokenizer: None,
        weights_root: Weights { layers: Vec::new() }.root(),
    }
}

/// What a program costs whoever looks at it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    /// To find out whether it is admitted, with all that is derived from it.
    pub(crate) time: Duration,
    /// What its plan declares, if it is admitted.
    pub(crate) declared: u64,
}

/// Derives all that a validator derives from a program.
pub(crate) fn cost(program: &Program) -> Cost {
    let start = Instant::now();
    let mut declared = 0;
    let checked = program.check();
    let shape = checked.map(|program| (program, ProofShape::new(program)));
    if let Ok((program, Ok(shape))) = shape {
        declared = shape.plan.cost.memory();
        let _ = ZkShape::new(program, 1, Modes::HIDDEN_INPUT);
        let _ = tg_proof::Facts::of(&program, &shape);
        let _ = security::LEVEL;
    }
    Cost {
        time: start.elapsed(),
        declared,
    }
}

/// Genes with some changed at random.
pub(crate) fn changed(genes: &[Gene], numbers: &mut Numbers) -> Vec<Gene> {
    let mut genes = genes.to_vec();
    for _ in 0..=numbers.below(3) {
        let random = numbers.next().to_le_bytes();
        let gene = [random[0], random[1], random[2]];
        let place = numbers.below(genes.len() as u64) as usize;
        match numbers.below(4) {
            0 if genes.len() < 12 => genes.insert(place + 1, gene),
            1 if genes.len() > 2 => drop(genes.remove(place)),
            2 => genes[place] = gene,
            _ => genes[place][usize::from(random[3]) % 3] = random[4],
        }
    }
    genes
}

/// Searches for some time from a seed; gives the dearest found and what it costs.
pub(crate) fn search(
    seed: u64,
    time: Duration,
    measure: &dyn Fn(&Program) -> Cost,
) -> (Vec<Gene>, Cost) {
    let mut numbers = Numbers(seed);
    let (start, fitness) = (Instant::now(), |cost: Cost| {
        cost.time.as_secs_f64() + cost.declared as f64 / f64::from(1 << 28)
    });
    let mut best: Option<(Vec<Gene>, Cost)> = None;
    while start.elapsed() < time {
        let genes = match &best {
            Some((genes, _)) if numbers.below(8) > 0 => changed(genes, &mut numbers),
            _ => (0..4 + numbers.below(6))
                .map(|_| {
                    let random = numbers.next().to_le_bytes();
                    [random[0], random[1], random[2]]
                })
                .collect(),
        };
        let found = measure(&program(&genes));
        if best
            .as_ref()
            .is_none_or(|(_, known)| fitness(found) > fitness(*known))
        {
            best = Some((genes, found));
        }
    }
    best.unwrap()
}

/// A search of a few seconds finds nothing that costs more than is admitted. (`cargo run --release -p tg-node --example
/// hardest -- SECONDS` searches longer, and measures memory too.)
#[test]
fn a_short_search_finds_no_program_that_costs_more_than_is_declared() {
    for seed in 1..4 {
        let (genes, cost) = search(seed, Duration::from_secs(1), &cost);
        assert!(cost.declared <= tg_proof::cost::MEMORY_MAX, "{genes:?}");
        // Without optimisation, on a machine with other work.
        assert!(cost.time < Duration::from_secs(20), "{genes:?}: {cost:?}");
    }
}
