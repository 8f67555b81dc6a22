//! Programs as an attacker writes them: every one gets a verdict, from its own checks and from the plan of its proofs.

use tg_ir::forest::{Branch, Child};
use tg_ir::op::{self, Extreme, Norm, Ranked, Reduction, Relation, Softmax};
use tg_ir::{
    Axis, Coding, ElementType, Forest, InputPort, InputSpec, Node, Op, OutputPort, Program,
    ProgramError, Requantise, Rescale, Shape, Signature, TensorId, Tie, View, Weights, Window,
};
use tg_proof::plan::Plan;
use tg_proof::trace::{TRACE_FILE_VERSION, TraceFile};
use tg_proof::{Modes, PartModes, PlanError, VerifierCost, Visibility};
use tg_types::codec::{Decode, DecodeError, Encode};

/// SplitMix64.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let a = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let b = (a ^ (a >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        b ^ (b >> 31)
    }

    fn below(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// A number of 32 bits, mostly an end of some range.
    fn extreme(&mut self) -> u32 {
        let ends = [0, 1, 2, 3, 5, 63, 64, 127, 255, 4_095, 32_767, 65_535];
        let wide = [65_536, 1 << 20, 1 << 26, i32::MAX as u32, 1 << 31, u32::MAX];
        match self.below(8) {
            0 => self.pick(&wide),
            1 => self.next() as u32,
            _ => self.pick(&ends),
        }
    }

    fn small(&mut self) -> u32 {
        self.pick(&[1, 1, 1, 2, 2, 3, 4, 7, 16, 64])
    }

    fn shape(&mut self) -> Shape {
        let axes = [0; 3].map(|_: u32| match self.below(12) {
            0 => self.extreme(),
            _ => self.small(),
        });
        Shape::new(axes[0], axes[1], axes[2])
    }
}

fn node(op: Op, shape: Shape) -> Node {
    Node {
        name: op.name().to_owned(),
        op,
        shape,
        scale: 1.0,
    }
}

struct Author {
    numbers: Numbers,
    program: Program,
}

impl Author {
    fn new(seed: u64) -> Self {
        let mut numbers = Numbers(seed);
        let mut input = InputSpec::scaled(numbers.shape(), 1.0);
        input.coding = match numbers.below(6) {
            0 => Coding::Tokens(numbers.extreme()),
            1 => Coding::Ranks(vec![vec![0.0, 1.0]; input.shape.channels.min(9) as usize]),
            2 => Coding::Scaled(ElementType::I16),
            4 => Coding::PerChannel(vec![0.5; input.shape.channels.min(9) as usize]),
            3 if numbers.below(5) == 0 => Coding::Scaled(ElementType::I32),
            _ => Coding::Scaled(ElementType::I8),
        };
        let program = Program {
            name: String::new(),
            input,
            nodes: Vec::new(),
            outputs: Vec::new(),
            ties: Vec::new(),
            signature: None,
            tokenizer: None,
            weights_root: Weights { layers: Vec::new() }.root(),
        };
        Self { numbers, program }
    }

    /// An earlier tensor, mostly a late one, seldom one that is none.
    fn tensor(&mut self) -> TensorId {
        let nodes = self.program.nodes.len();
        match self.numbers.below(40) {
            0 => TensorId(self.numbers.extreme()),
            1..10 => TensorId(self.numbers.below(nodes + 1) as u32),
            _ => TensorId(nodes as u32),
        }
    }

    fn shape_of(&self, tensor: TensorId) -> Shape {
        if tensor.index() > self.program.nodes.len() {
            return self.program.input.shape;
        }
        self.program.shape(tensor)
    }

    fn window(&mut self) -> Window {
        let mut side = |chance: usize| match self.numbers.below(chance) {
            0 => self.numbers.extreme(),
            _ => self.numbers.small(),
        };
        let mut window = Window::new([side(9), side(9)], [side(9), side(9)], [0; 4]);
        window.dilation = [side(9), side(9)];
        if side(2) == 1 {
            window.pads = [0; 4].map(|_: u32| side(9).saturating_sub(1));
        }
        window
    }

    fn requantise(&mut self, channels: u32) -> Requantise {
        let numbers = &mut self.numbers;
        let pairs = (0..=numbers.below(3)).map(|_| {
            let (m, s) = (
                numbers.pick(&[1, 4, 16_384, 20_001, 32_767]),
                numbers.pick(&[2, 3, 15, 24, 26, 46]),
            );
            Rescale::new(m, s).expect("in range")
        });
        let pairs: Vec<Rescale> = pairs.collect();
        let ends = [i16::MIN, -32_767, -128, -1, 0, 1, 127, 128, 32_767];
        let (a, b) = (numbers.pick(&ends), numbers.pick(&ends));
        let clamp = [a.min(b), a.max(b)];
        let reach = numbers.pick(&[0, 1, 300, 100_000, 1_000_000_000, 1_065_353_216, i32::MAX]);
        let span = usize::from(clamp[1].abs_diff(clamp[0])) + 1;
        let table = (numbers.below(4) == 0 && span <= 4_096).then(|| {
            let entry = |_| numbers.pick(&ends);
            (0..span).map(entry).collect()
        });
        let each = numbers.below(2) == 0 && channels <= 65_536;
        let count = pairs.len();
        Requantise {
            pairs,
            channel_pairs: (0..if each { channels } else { 1 })
                .map(|channel| (channel as usize % count) as u8)
                .collect(),
            zero: numbers.pick(&ends),
            range: [-reach, reach],
            clamp,
            table,
            output: numbers.pick(&[ElementType::I8, ElementType::I16, ElementType::I16]),
        }
    }

    fn view(&mut self, elements: usize) -> (View, Shape) {
        let numbers = &mut self.numbers;
        let mut axes = Vec::new();
        let mut rest = elements as u32;
        for _ in 0..numbers.below(4) {
            let size = numbers.pick(&[1, 2, 3, 4, 8]);
            let stride = match numbers.below(6) {
                0 => numbers.extreme().cast_signed(),
                1 => 0,
                _ => numbers.pick(&[1, 2, 3, 4, -1, 12]),
            };
            axes.push((size, stride));
            rest = (rest / size).max(1);
        }
        axes.push((numbers.pick(&[rest, 1, 2]), 1));
        let offset = if numbers.below(9) == 0 {
            numbers.extreme()
        } else {
            0
        };
        let view = View::new(offset, &axes);
        let count = view.elements().unwrap_or(0).min(u64::from(u32::MAX)) as u32;
        let channels = axes.last().map_or(1, |axis| axis.0).max(1);
        (view, Shape::new(1, count / channels, channels))
    }

    fn forest(&mut self) -> Forest {
        let numbers = &mut self.numbers;
        let branches = numbers.below(4) as u32;
        let mut child = |from: u32| match numbers.below(2) {
            0 if from < branches => Child::Branch(from),
            _ => Child::Leaf(numbers.below(3) as u32),
        };
        let all = (0..branches).map(|index| (child(index + 1), child(index + 2)));
        let all: Vec<(Child, Child)> = all.collect();
        let roots = vec![child(0), child(0)];
        let branch = |(below, above)| Branch {
            feature: 0,
            threshold: numbers.pick(&[i16::MIN, -1, 0, i16::MAX]),
            below,
            above,
        };
        Forest {
            branches: all.into_iter().map(branch).collect(),
            roots,
            leaves: (0..3).map(|_| numbers.extreme().cast_signed()).collect(),
            bias: vec![numbers.extreme().cast_signed()],
        }
    }

    fn axis(&mut self) -> Axis {
        self.numbers
            .pick(&[Axis::Rows, Axis::Columns, Axis::Channels])
    }

    #[expect(clippy::too_many_lines, reason = "one case per operator")]
    fn proposal(&mut self) -> Node {
        let input = self.tensor();
        let shape = self.shape_of(input);
        let other = self.tensor();
        let windowed = |window: &Window, channels: u32| {
            let [height, width] = window.output(shape).unwrap_or([0, 1]);
            Shape::new(height, width, channels)
        };
        match self.numbers.below(23) {
            0 => {
                let (window, outputs) = (self.window(), self.numbers.small());
                let groups = self.numbers.pick(&[0, 1, 1, 1, 2, shape.channels]);
                let zero = self.numbers.pick(&[0, 0, -128, i16::MAX, i16::MIN]);
                let out = if window.is_valid() {
                    windowed(&window, outputs * groups.clamp(1, 64))
                } else {
                    shape
                };
                let op = Op::Conv(op::Conv {
                    input,
                    window,
                    groups,
                    zero,
                });
                node(op, out)
            }
            1 => node(
                Op::Dense(op::Dense { input }),
                Shape::vector(self.numbers.extreme()),
            ),
            2 => {
                let transposed = self.numbers.below(2) == 0;
                let columns = if transposed {
                    self.shape_of(other).width
                } else {
                    self.shape_of(other).channels
                };
                let inputs = [input, other];
                let out = Shape::new(shape.height, shape.width, columns);
                node(Op::MatMul(op::MatMul { inputs, transposed }), out)
            }
            3 => node(Op::Parameter(op::Parameter), self.numbers.shape()),
            4 => {
                let rows = self.numbers.extreme();
                let out = shape.with_axis(Axis::Channels, self.numbers.small());
                node(Op::Embed(op::Embed { input, rows }), out)
            }
            5 => {
                let window = self.window();
                let out = if window.is_valid() {
                    windowed(&window, shape.channels)
                } else {
                    shape
                };
                let pool = self.numbers.below(2) == 0;
                let op = if pool {
                    Op::MaxPool(op::MaxPool { input, window })
                } else {
                    Op::WindowSum(op::WindowSum { input, window })
                };
                node(op, out)
            }
            6..10 => {
                let count = self.numbers.pick(&[1, 2, 8, 8, 9]);
                let factor = |_| {
                    self.numbers
                        .pick(&[1, -1, 32_767, -32_767, 32_768, 0, i32::MIN])
                };
                let multipliers: Vec<i32> = match count {
                    8 => vec![32_767; 8],
                    _ => (0..count).map(factor).collect(),
                };
                let bias = self.numbers.pick(&[0, 0, 7, i32::MIN, i32::MAX]);
                let op = Op::Add(op::Add {
                    inputs: vec![input; count],
                    multipliers,
                    bias,
                });
                node(op, shape)
            }
            10 => node(
                Op::Mul(op::Mul {
                    inputs: [input, other],
                }),
                shape,
            ),
            11 | 12 => {
                let how = self.requantise(shape.channels);
                node(Op::Requantise(op::Unary { input, how }), shape)
            }
            13 => {
                let which = self.numbers.pick(&[Extreme::Greater, Extreme::Lesser]);
                let inputs = [input, other];
                node(Op::Extremum(op::Extremum { inputs, which }), shape)
            }
            14 => {
                let relations = [Relation::Equal, Relation::Greater, Relation::GreaterOrEqual];
                let relation = self.numbers.pick(&relations);
                let inputs = [input, other];
                node(Op::Compare(op::Compare { inputs, relation }), shape)
            }
            15 => {
                let (condition, inputs) = (other, [input, input]);
                node(Op::Select(op::Select { condition, inputs }), shape)
            }
            16 => {
                let all = [Reduction::Sum, Reduction::Greatest, Reduction::Least];
                let (reduction, axis) = (self.numbers.pick(&all), self.axis());
                if self.numbers.below(4) == 0 {
                    let op = Op::RunningSum(op::RunningSum { input, axis });
                    return node(op, shape);
                }
                let op = Op::Reduce(op::Reduce {
                    input,
                    reduction,
                    axis,
                });
                node(op, shape.with_axis(axis, 1))
            }
            17 => {
                let give = self.numbers.pick(&[Ranked::Values, Ranked::Channels]);
                let count = self.numbers.pick(&[1, shape.channels, u32::MAX]);
                let out = shape.with_axis(Axis::Channels, count);
                node(Op::TopK(op::TopK { input, give }), out)
            }
            18 => {
                let causal = self.numbers.below(2) == 0;
                let how = Softmax {
                    rescale: Rescale::new(self.numbers.pick(&[1, 32_767]), 2).expect("in range"),
                    table: vec![self.numbers.pick(&[0, 1, 32_767, u16::MAX]); 3],
                    causal: causal.then(|| self.numbers.extreme()),
                };
                node(Op::Softmax(op::Unary { input, how }), shape)
            }
            19 => {
                let how = Norm {
                    centred: self.numbers.below(2) == 0,
                    epsilon: self.numbers.pick(&[0, 1, 1 << 40, u64::MAX]),
                    precision: self.numbers.pick(&[0, 3, 12, 13, 255]),
                    fraction: self.numbers.pick(&[0, 9, 12, 14, 15, 255]),
                };
                node(Op::Norm(op::Unary { input, how }), shape)
            }
            20 => {
                let (view, out) = self.view(shape.elements());
                node(Op::View(op::Unary { input, how: view }), out)
            }
            21 => {
                let axis = self.axis();
                if self.numbers.below(2) == 0 {
                    let length = shape.axis(axis);
                    let index = |_| self.numbers.pick(&[0, length - 1, length, 0, 0]);
                    let indices: Vec<u32> = (0..3).map(index).collect();
                    let op = Op::Gather(op::Gather {
                        input,
                        axis,
                        indices,
                    });
                    return node(op, shape.with_axis(axis, 3));
                }
                let length = shape.axis(axis).wrapping_mul(2);
                let inputs = vec![input; 2];
                node(
                    Op::Concat(op::Concat { inputs, axis }),
                    shape.with_axis(axis, length),
                )
            }
            _ => {
                if self.numbers.below(2) == 0 {
                    let forest = self.forest();
                    return node(Op::Trees(op::Trees { input, forest }), Shape::vector(1));
                }
                let before = [0; 3].map(|_: u32| self.numbers.pick(&[0, 0, 1, 65_535, u32::MAX]));
                let value = self.numbers.pick(&[0, -128, 127, i16::MIN]);
                let out = Shape::new(
                    shape.height.wrapping_add(before[0]),
                    shape.width.wrapping_add(before[1]),
                    shape.channels.wrapping_add(before[2]),
                );
                let op = Op::Pad(op::Pad {
                    input,
                    before,
                    after: [0; 3],
                    value,
                });
                node(op, out)
            }
        }
    }

    /// Ties to the first node that may be tied to, for some nodes; now and then any tie.
    fn tie(&mut self) {
        let nodes = self.program.nodes.len() as u32;
        for node in 0..nodes {
            if self.numbers.below(60) == 0 {
                let to = self.numbers.extreme();
                self.program.ties.push(Tie { node, to });
            }
            let wanted = self.numbers.below(3) == 0;
            for to in 0..if wanted { node } else { 0 } {
                self.program.ties.push(Tie { node, to });
                if !matches!(self.program.validate(), Err(ProgramError::BadTie { .. })) {
                    break;
                }
                self.program.ties.pop();
            }
        }
    }

    /// Nodes that are well formed but for one in twenty.
    fn write(mut self) -> Program {
        if self.program.input.shape.is_valid() {
            for _ in 0..self.numbers.below(14) {
                let keep = self.numbers.below(20) == 0;
                let node = self.proposal();
                self.program.nodes.push(node);
                let bounds = matches!(
                    self.program.validate(),
                    Ok(()) | Err(ProgramError::Bound(_))
                );
                let shape = self.program.nodes.last().map(|node| node.shape);
                if !(bounds || keep && shape.is_some_and(|shape| shape.is_valid())) {
                    self.program.nodes.pop();
                }
            }
            self.tie();
            self.give();
        }
        self.program
    }

    /// Several outputs, for some programs: 2 to 16 tensors, the last one among them but for one in ten.
    fn give(&mut self) {
        let last = self.program.last();
        if self.numbers.below(3) > 0 {
            return;
        }
        let count = self.numbers.pick(&[2, 2, 3, 5, 16, 17]);
        let mut outputs: Vec<TensorId> = (0..count).map(|_| self.tensor()).collect();
        if self.numbers.below(10) > 0 {
            let place = self.numbers.below(count);
            outputs[place] = last;
        }
        self.program.outputs = outputs;
    }
}

/// No attribute makes a check overflow, and no program that is valid makes a plan panic.
#[test]
fn hostile_programs_get_a_verdict() {
    let (mut valid, mut planned, mut hidden, mut tied, mut several) = (0, 0, 0, 0, 0);
    let mut listed = 0;
    for seed in 0..40_000 {
        let program = Author::new(seed).write();
        let read = Program::from_bytes(&program.to_bytes());
        if let Ok(read) = &read {
            assert_eq!(read, &program);
        }
        if program.validate().is_err() {
            continue;
        }
        valid += 1;
        tied += usize::from(!program.ties.is_empty());
        let batch = [1, 1, 3, 1_024][seed as usize % 4];
        let own = program
            .check()
            .is_ok_and(|program| Plan::batched(program, batch).is_ok());
        planned += usize::from(own);
        several += usize::from(own && program.outputs.len() > 1);
        let modes = Modes {
            input: Visibility::Committed,
            output: Visibility::Hidden,
        };
        hidden += usize::from(
            program
                .check()
                .is_ok_and(|program| Plan::hidden(program, batch.min(3), modes).is_ok()),
        );
        listed += usize::from(own && has_lists(&program, seed));
    }
    assert!(
        valid >= 8_000 && planned >= 1_000 && hidden >= 500 && tied > 0 && several >= 100,
        "{valid} {planned} {hidden} {tied} {several}"
    );
    assert!(listed >= 100, "{listed}");
}

/// Whether a program has a plan in which each of its inputs and outputs has a mode, under a signature that claims inputs of
/// hostile shapes.
fn has_lists(program: &Program, seed: u64) -> bool {
    let mut numbers = Numbers(seed);
    let mut program = program.clone();
    let total = program.input.shape.elements() as u32;
    let mut left = total;
    let mut inputs: Vec<Vec<u32>> = Vec::new();
    for _ in 0..numbers.pick(&[1, 2, 2, 3, 16]) {
        let length = numbers.pick(&[0, 1, left / 2, left, total, u32::MAX]);
        left = left.saturating_sub(length);
        let shapes: [&[u32]; 3] = [&[length], &[1, length], &[length, 0, u32::MAX]];
        inputs.push(numbers.pick(&shapes).to_vec());
    }
    let port = |(place, shape): (usize, Vec<u32>)| InputPort {
        name: format!("x{place}"),
        shape,
    };
    let count = inputs.len();
    let outputs = program.outputs();
    let given = |(place, output): (usize, &TensorId)| OutputPort {
        name: format!("y{place}"),
        scale: 1.0,
        zero: 0,
        shape: vec![program.shape(*output).elements() as u32],
        order: vec![0],
        labels: Vec::new(),
    };
    let given = outputs.iter().enumerate().map(given).collect();
    program.signature = Some(Signature {
        inputs: inputs.into_iter().enumerate().map(port).collect(),
        outputs: given,
    });
    let all = [
        Visibility::Public,
        Visibility::Committed,
        Visibility::Hidden,
    ];
    let mut list = |count: usize| {
        let modes: Vec<Visibility> = (0..count).map(|_| numbers.pick(&all)).collect();
        PartModes::new(&modes).map_or(Visibility::Public, Visibility::Each)
    };
    let modes = Modes {
        input: list(count),
        output: list(outputs.len()),
    };
    let parts = matches!(modes.input, Visibility::Each(_));
    let planned = program.check().ok();
    let planned = planned.map(|program| Plan::hidden(program, 1, modes));
    parts && planned.is_some_and(|planned| planned.is_ok())
}

/// Sums of sums, whose reach is more than 64 bits before any bound is compared.
#[test]
fn scores_of_any_reach_are_refused() {
    let shape = Shape::new(1, 1, 2);
    for sums in 1..9 {
        let add = |index: u32| {
            Op::Add(op::Add {
                inputs: vec![TensorId(index); 8],
                multipliers: vec![32_767; 8],
                bias: i32::MAX,
            })
        };
        let mut nodes: Vec<Node> = (0..sums).map(|index| node(add(index), shape)).collect();
        let how = Softmax {
            rescale: Rescale::new(1, 2).expect("in range"),
            table: vec![1],
            causal: None,
        };
        let input = TensorId(sums);
        nodes.push(node(Op::Softmax(op::Unary { input, how }), shape));
        let program = Program {
            name: String::new(),
            input: InputSpec::scaled(shape, 1.0),
            nodes,
            outputs: Vec::new(),
            ties: Vec::new(),
            signature: None,
            tokenizer: None,
            weights_root: Weights { layers: Vec::new() }.root(),
        };
        let refused = program.validate();
        let score = matches!(
            refused,
            Err(ProgramError::BadAttribute {
                attribute: "range of scores",
                ..
            })
        );
        assert!(score, "{sums}: {refused:?}");
    }
}

/// A trace file of another version is said to be that, and one of this version is read on.
#[test]
fn versions_of_trace_files_are_told_apart() {
    let of = |magic: &[u8; 4], version: u16| {
        let bytes = [magic.as_slice(), &version.to_le_bytes()].concat();
        match TraceFile::from_bytes(&bytes) {
            Err(DecodeError::Invalid { field, .. }) => field,
            Err(_) => "cut",
            Ok(_) => "read",
        }
    };
    assert_eq!(of(b"TGX\0", TRACE_FILE_VERSION), "cut");
    assert_eq!(of(b"TGX\0", TRACE_FILE_VERSION + 1), "trace file version");
    assert_eq!(of(b"TGY\0", TRACE_FILE_VERSION), "trace magic");
}

/// A program is named as too costly by the node that makes it so: the last one, if that is its output's bytes.
#[test]
fn what_is_too_large_is_named_by_its_node() {
    let shapes = [Shape::new(1, 1 << 10, 600), Shape::new(1, 600, 1 << 10)];
    let node = |index: u32| Node {
        name: String::new(),
        scale: 1.0,
        op: Op::View(op::Unary {
            input: TensorId(index),
            how: View::transpose(
                if index == 0 {
                    &[1 << 10, 600]
                } else {
                    &[600, 1 << 10]
                },
                &[1, 0],
            ),
        }),
        shape: shapes[(index as usize + 1) % 2],
    };
    let program = Program {
        name: String::new(),
        input: InputSpec::scaled(shapes[0], 1.0),
        nodes: vec![node(0), node(1)],
        outputs: Vec::new(),
        ties: Vec::new(),
        signature: None,
        tokenizer: None,
        weights_root: Weights { layers: Vec::new() }.root(),
    };
    let refused = VerifierCost::of(&program);
    assert!(
        matches!(refused, Err(PlanError::TooCostly { node: 1, .. })),
        "{refused:?}"
    );
}
