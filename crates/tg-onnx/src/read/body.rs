//! Nodes, functions and subgraphs.

use super::error::{ReadError, ReadLimits, domain, opsets};
use super::tensor::Source;
use crate::proto::{
    AttributeProto, Dimension, FunctionProto, GraphProto, NodeProto, TensorProto, ValueInfoProto,
};
use std::collections::BTreeMap;
use tg_float::graph::{Attribute, Dim, Graph, Input, Node, Subgraph, ValueId};
use tg_float::tensor::{DType, Data, FloatTensor};

/// The key of a function: domain, name, overload.
type Key = (String, String, String);
/// Attributes a function was called with.
type Bound = BTreeMap<String, Attribute>;

/// Reads graphs into scopes.
pub(super) struct Reader<'a> {
    functions: BTreeMap<Key, &'a FunctionProto>,
    source: Source<'a>,
    limits: ReadLimits,
    nodes: usize,
    scopes: Vec<Scope>,
    depth: usize,
}

/// A graph under construction and what its names mean.
#[derive(Default)]
struct Scope {
    graph: Graph,
    names: BTreeMap<String, Option<ValueId>>,
    /// Values of the enclosing scope, and what they are called here.
    captured: Vec<(ValueId, ValueId)>,
    /// A function's body sees nothing of what is around its call.
    closed: bool,
    opsets: BTreeMap<String, i64>,
}

/// Where a message is about.
struct Site {
    node: String,
    op: String,
}

impl Site {
    fn of(proto: &NodeProto) -> Self {
        let first = proto.output.iter().find(|name| !name.is_empty());
        let node = if proto.name.is_empty() {
            first.cloned().unwrap_or_default()
        } else {
            proto.name.clone()
        };
        Self {
            node,
            op: proto.op_type.clone(),
        }
    }

    fn problem(&self, problem: &'static str) -> ReadError {
        ReadError::Node {
            node: self.node.clone(),
            op: self.op.clone(),
            problem,
        }
    }

    fn unknown(&self, value: &str) -> ReadError {
        ReadError::Unknown {
            node: self.node.clone(),
            op: self.op.clone(),
            value: value.to_owned(),
        }
    }
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        functions: &'a [FunctionProto],
        source: Source<'a>,
        limits: ReadLimits,
    ) -> Self {
        let key = |function: &FunctionProto| {
            (
                domain(&function.domain),
                function.name.clone(),
                function.overload.clone(),
            )
        };
        Self {
            functions: functions.iter().map(|f| (key(f), f)).collect(),
            source,
            limits,
            nodes: 0,
            scopes: Vec::new(),
            depth: 0,
        }
    }

    /// Reads the whole graph.
    pub(super) fn read(
        mut self,
        proto: &GraphProto,
        opsets: BTreeMap<String, i64>,
    ) -> Result<Graph, ReadError> {
        self.scopes.push(Scope {
            opsets: opsets.clone(),
            ..Scope::default()
        });
        self.graph(proto, &Bound::new())?;
        let mut graph = self.scopes.pop().map(|s| s.graph).unwrap_or_default();
        graph.opsets = opsets;
        Ok(graph)
    }

    fn scope(&mut self) -> &mut Scope {
        self.scopes.last_mut().expect("reading has an open scope")
    }

    /// Fills the innermost scope with a graph.
    fn graph(&mut self, proto: &GraphProto, bound: &Bound) -> Result<(), ReadError> {
        if !proto.sparse_initializer.is_empty() {
            return Err(ReadError::Sparse);
        }
        self.scope().graph.name.clone_from(&proto.name);
        for tensor in &proto.initializer {
            let value = self.tensor(&tensor.name, tensor)?;
            self.define_constant(&tensor.name, value)?;
        }
        for input in &proto.input {
            // An initialiser with the name of an input is its default; the input is not asked for.
            if !self.scope().names.contains_key(&input.name) {
                self.input(input)?;
            }
        }
        for node in &proto.node {
            self.node(node, bound)?;
        }
        for output in &proto.output {
            let level = self.scopes.len() - 1;
            let value = self.lookup(level, &output.name).flatten();
            let value = value.ok_or_else(|| ReadError::Output(output.name.clone()))?;
            self.scope().graph.outputs.push(value);
        }
        Ok(())
    }

    fn tensor(&mut self, name: &str, proto: &TensorProto) -> Result<FloatTensor, ReadError> {
        self.source
            .read(proto)
            .map_err(|problem| ReadError::Tensor {
                name: name.to_owned(),
                problem,
            })
    }

    /// Takes memory of what a node holds, before it is copied, from that of constants.
    fn take(&mut self, site: &Site, attribute: &str, bytes: usize) -> Result<(), ReadError> {
        self.source
            .take(bytes)
            .map_err(|problem| ReadError::Tensor {
                name: format!("{}.{attribute}", site.node),
                problem,
            })
    }

    fn define_constant(&mut self, name: &str, tensor: FloatTensor) -> Result<(), ReadError> {
        let scope = self.scope();
        if scope.names.contains_key(name) {
            return Err(ReadError::Twice {
                node: name.to_owned(),
                op: "initializer".to_owned(),
                value: name.to_owned(),
            });
        }
        let value = scope.graph.constant(name, tensor);
        scope.names.insert(name.to_owned(), Some(value));
        Ok(())
    }

    fn input(&mut self, proto: &ValueInfoProto) -> Result<(), ReadError> {
        let nested = self.scopes.len() > 1;
        let (dtype, shape) = input_type(proto, nested)?;
        let scope = self.scope();
        let value = scope.graph.fresh(proto.name.clone());
        scope.names.insert(proto.name.clone(), Some(value));
        scope.graph.inputs.push(Input {
            value,
            name: proto.name.clone(),
            dtype,
            shape,
        });
        Ok(())
    }

    /// What a name means at a level: `None` if nothing, `Some(None)` for an input left out of a function's call.
    fn lookup(&mut self, level: usize, name: &str) -> Option<Option<ValueId>> {
        if let Some(&value) = self.scopes[level].names.get(name) {
            return Some(value);
        }
        if level == 0 || self.scopes[level].closed {
            return None;
        }
        let Some(outer) = self.lookup(level - 1, name)? else {
            return Some(None);
        };
        let scope = &mut self.scopes[level];
        let inner = scope.graph.fresh(name);
        scope.names.insert(name.to_owned(), Some(inner));
        scope.captured.push((outer, inner));
        Some(Some(inner))
    }

    fn node(&mut self, proto: &NodeProto, bound: &Bound) -> Result<(), ReadError> {
        let site = Site::of(proto);
        self.nodes += 1;
        if self.nodes > self.limits.nodes {
            return Err(ReadError::TooManyNodes(self.limits.nodes));
        }
        // A function's body is written out at every call: what its nodes hold is counted each time.
        let names = proto
            .output
            .iter()
            .chain([&proto.name, &proto.op_type, &proto.domain]);
        let held = names.fold(0usize, |sum, name| sum.saturating_add(name.len()));
        let places = proto.input.len().saturating_add(proto.output.len());
        self.take(
            &site,
            "",
            held.saturating_add(places.saturating_mul(PLACE_BYTES)),
        )?;
        let level = self.scopes.len() - 1;
        let mut inputs = Vec::with_capacity(proto.input.len());
        for name in &proto.input {
            inputs.push(match name.as_str() {
                "" => None,
                name => self.lookup(level, name).ok_or_else(|| site.unknown(name))?,
            });
        }
        let mut attributes = Bound::new();
        for attribute in &proto.attribute {
            if let Some(value) = self.attribute(attribute, bound, &site, &mut inputs)? {
                attributes.insert(attribute.name.clone(), value);
            }
        }
        let domain = domain(&proto.domain);
        let key = (domain, proto.op_type.clone(), proto.overload.clone());
        if let Some(function) = self.functions.get(&key).copied() {
            return self.call(function, proto, &site, &inputs, attributes);
        }
        let (domain, ..) = key;
        let version = self.scope().opsets.get(&domain).copied().unwrap_or(1);
        let mut node = Node {
            name: site.node.clone(),
            domain,
            op: site.op.clone(),
            version,
            attributes,
            inputs,
            outputs: Vec::with_capacity(proto.output.len()),
        };
        if node.is("Constant") {
            let tensor = constant(&node).ok_or_else(|| site.problem("holds no tensor"))?;
            let name = proto.output.first().cloned().unwrap_or_default();
            return self.define_constant(&name, tensor);
        }
        for name in &proto.output {
            let output = self.define(name, &site)?;
            node.outputs.push(output);
        }
        self.scope().graph.append(node);
        Ok(())
    }

    fn define(&mut self, name: &str, site: &Site) -> Result<Option<ValueId>, ReadError> {
        if name.is_empty() {
            return Ok(None);
        }
        let scope = self.scope();
        if scope.names.contains_key(name) {
            return Err(ReadError::Twice {
                node: site.node.clone(),
                op: site.op.clone(),
                value: name.to_owned(),
            });
        }
        let value = scope.graph.fresh(name);
        scope.names.insert(name.to_owned(), Some(value));
        Ok(Some(value))
    }

    /// Writes a function's body out where it is called.
    fn call(
        &mut self,
        function: &FunctionProto,
        proto: &NodeProto,
        site: &Site,
        inputs: &[Option<ValueId>],
        mut bound: Bound,
    ) -> Result<(), ReadError> {
        self.enter(site)?;
        for default in &function.attribute_proto {
            if !bound.contains_key(&default.name)
                && let Some(value) =
                    self.attribute(default, &Bound::new(), site, &mut Vec::new())?
            {
                bound.insert(default.name.clone(), value);
            }
        }
        let formal = function.input.iter().enumerate();
        let names = formal
            .map(|(index, name)| (name.clone(), inputs.get(index).copied().flatten()))
            .collect();
        let scope = self.scope();
        let outer_names = std::mem::replace(&mut scope.names, names);
        let outer_closed = std::mem::replace(&mut scope.closed, true);
        let mut inner_opsets = opsets(&function.opset_import);
        if inner_opsets.is_empty() {
            inner_opsets.clone_from(&scope.opsets);
        }
        let outer_opsets = std::mem::replace(&mut scope.opsets, inner_opsets);
        for node in &function.node {
            self.node(node, &bound)?;
        }
        let scope = self.scope();
        scope.opsets = outer_opsets;
        scope.closed = outer_closed;
        let inner_names = std::mem::replace(&mut scope.names, outer_names);
        for (formal, actual) in function.output.iter().zip(&proto.output) {
            if actual.is_empty() {
                continue;
            }
            let value = inner_names.get(formal).copied().flatten();
            let value = value.ok_or_else(|| ReadError::Output(formal.clone()))?;
            if scope.names.insert(actual.clone(), Some(value)).is_some() {
                return Err(site.problem("gives a name that is given before"));
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn enter(&mut self, site: &Site) -> Result<(), ReadError> {
        self.depth += 1;
        if self.depth > self.limits.depth {
            return Err(ReadError::Depth {
                node: site.node.clone(),
                op: site.op.clone(),
                limit: self.limits.depth,
            });
        }
        Ok(())
    }

    /// An attribute's value; `None` for one that refers to an attribute its function was called without.
    fn attribute(
        &mut self,
        proto: &AttributeProto,
        bound: &Bound,
        site: &Site,
        inputs: &mut Vec<Option<ValueId>>,
    ) -> Result<Option<Attribute>, ReadError> {
        if !proto.ref_attr_name.is_empty() {
            let value = bound.get(&proto.ref_attr_name);
            if matches!(value, Some(Attribute::Graph(_))) {
                return Err(site.problem("passes a subgraph through a function"));
            }
            self.take(site, &proto.name, value.map_or(0, list_bytes))?;
            return Ok(value.cloned());
        }
        let name = || format!("{}.{}", site.node, proto.name);
        let texts = proto.strings.iter().map(Vec::len);
        let lists = [
            proto.s.len(),
            proto.floats.len().saturating_mul(4),
            proto.ints.len().saturating_mul(8),
            texts.fold(0, |sum, length| sum.saturating_add(length + PLACE_BYTES)),
        ];
        let bytes = lists.into_iter().fold(0, usize::saturating_add);
        self.take(site, &proto.name, bytes)?;
        Ok(Some(match attribute_type(proto) {
            1 => Attribute::Float(proto.f),
            2 => Attribute::Int(proto.i),
            3 => Attribute::Text(proto.s.clone()),
            4 => match &proto.t {
                Some(tensor) => Attribute::Tensor(self.tensor(&name(), tensor)?),
                None => return Err(site.problem("has a tensor attribute without a tensor")),
            },
            5 => match &proto.g {
                Some(graph) => {
                    Attribute::Graph(Box::new(self.subgraph(graph, bound, site, inputs)?))
                }
                None => return Err(site.problem("has a graph attribute without a graph")),
            },
            6 => Attribute::Floats(proto.floats.clone()),
            7 => Attribute::Ints(proto.ints.clone()),
            8 => Attribute::Texts(proto.strings.clone()),
            9 => {
                let mut tensors = Vec::with_capacity(proto.tensors.len());
                for tensor in &proto.tensors {
                    tensors.push(self.tensor(&name(), tensor)?);
                }
                Attribute::Tensors(tensors)
            }
            other => Attribute::Other(other),
        }))
    }

    fn subgraph(
        &mut self,
        proto: &GraphProto,
        bound: &Bound,
        site: &Site,
        inputs: &mut Vec<Option<ValueId>>,
    ) -> Result<Subgraph, ReadError> {
        self.enter(site)?;
        let opsets = self.scope().opsets.clone();
        self.scopes.push(Scope {
            opsets,
            ..Scope::default()
        });
        self.graph(proto, bound)?;
        self.depth -= 1;
        let Scope {
            mut graph,
            captured,
            ..
        } = self.scopes.pop().unwrap_or_default();
        let mut captures = Vec::with_capacity(captured.len());
        for (outer, inner) in captured {
            captures.push(inputs.len());
            inputs.push(Some(outer));
            graph.inputs.push(Input {
                value: inner,
                name: graph.name_of(inner).to_owned(),
                dtype: None,
                shape: None,
            });
        }
        Ok(Subgraph { graph, captures })
    }
}

/// Memory of one name or text beside its bytes, about.
const PLACE_BYTES: usize = 24;

/// Bytes of an attribute's text or list; those of tensors are shared when it is copied.
fn list_bytes(attribute: &Attribute) -> usize {
    match attribute {
        Attribute::Text(text) => text.len(),
        Attribute::Floats(list) => list.len().saturating_mul(4),
        Attribute::Ints(list) => list.len().saturating_mul(8),
        Attribute::Texts(list) => list.iter().fold(0, |sum, text| {
            text.len().saturating_add(PLACE_BYTES).saturating_add(sum)
        }),
        Attribute::Tensors(list) => list.len().saturating_mul(PLACE_BYTES),
        Attribute::Float(_)
        | Attribute::Int(_)
        | Attribute::Tensor(_)
        | Attribute::Graph(_)
        | Attribute::Other(_) => 0,
    }
}

/// The attribute's type; files older than the field are read by what is set.
fn attribute_type(proto: &AttributeProto) -> i32 {
    if proto.r#type != 0 {
        return proto.r#type;
    }
    let set = [
        (4, proto.t.is_some()),
        (5, proto.g.is_some()),
        (6, !proto.floats.is_empty()),
        (7, !proto.ints.is_empty()),
        (8, !proto.strings.is_empty()),
        (3, !proto.s.is_empty()),
        (1, proto.f != 0.0),
    ];
    set.iter()
        .find(|(_, set)| *set)
        .map_or(2, |(kind, _)| *kind)
}

/// The tensor of a `Constant` node.
fn constant(node: &Node) -> Option<FloatTensor> {
    let (name, attribute) = node.attributes.iter().next()?;
    let text = |bytes: &Vec<u8>| String::from_utf8(bytes.clone()).ok();
    Some(match (name.as_str(), attribute) {
        ("value", Attribute::Tensor(tensor)) => tensor.clone(),
        ("value_float", Attribute::Float(value)) => FloatTensor::scalar(*value),
        ("value_int", Attribute::Int(value)) => FloatTensor::scalar(*value),
        ("value_string", Attribute::Text(value)) => FloatTensor::scalar(text(value)?),
        ("value_floats", Attribute::Floats(values)) => FloatTensor::vector(values.clone()),
        ("value_ints", Attribute::Ints(values)) => FloatTensor::vector(values.clone()),
        ("value_strings", Attribute::Texts(values)) => {
            let texts: Option<Vec<String>> = values.iter().map(text).collect();
            let texts = texts?;
            FloatTensor::new(vec![texts.len()], Data::String(texts)).ok()?
        }
        _ => return None,
    })
}

type Declared = (Option<DType>, Option<Vec<Dim>>);

fn input_type(proto: &ValueInfoProto, nested: bool) -> Result<Declared, ReadError> {
    let problem = |problem| ReadError::Input {
        name: proto.name.clone(),
        problem,
    };
    let tensor = proto
        .r#type
        .as_ref()
        .and_then(|kind| kind.tensor_type.as_ref());
    let Some(tensor) = tensor else {
        if nested && proto.r#type.is_none() {
            return Ok((None, None));
        }
        return Err(problem("is not a dense tensor"));
    };
    let dtype = DType::from_onnx(tensor.elem_type.into());
    if dtype.is_none() && !nested {
        return Err(problem("has an element type that is not read"));
    }
    let Some(shape) = &tensor.shape else {
        return Ok((dtype, None));
    };
    let mut axes = Vec::with_capacity(shape.dim.len());
    for dimension in &shape.dim {
        axes.push(match &dimension.value {
            Some(Dimension::Value(size)) => match usize::try_from(*size) {
                Ok(size) => Dim::Known(size),
                Err(_) => return Err(problem("has a negative axis")),
            },
            Some(Dimension::Parameter(symbol)) if !symbol.is_empty() => Dim::Named(symbol.clone()),
            _ => Dim::Unknown,
        });
    }
    Ok((dtype, Some(axes)))
}
