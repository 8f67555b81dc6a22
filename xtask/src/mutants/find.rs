//! Mutants of a source: each changes one function in one place.

use std::ops::Range;

use anyhow::{Context, Result};
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// One change of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutant {
    /// The function, with the type it belongs to.
    pub function: String,
    /// Hash of the function's signature and body, without blanks, comments and attributes.
    pub hash: u64,
    /// Which mutant of the function.
    pub number: usize,
    /// What is changed, in words.
    pub change: String,
    pub(super) edit: Edit,
    /// Bytes of the function's `const`, which goes where a mutant is built in: what is chosen at run time is not constant.
    pub(super) constant: Option<Range<usize>>,
}

/// How a mutant is written into its source, in bytes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Edit {
    /// A value is returned at the start of a body, which begins here.
    Return { at: usize, value: &'static str },
    /// Another operator between two operands.
    Binary {
        whole: Range<usize>,
        left: Range<usize>,
        right: Range<usize>,
        operator: &'static str,
        is_assignment: bool,
    },
    /// The operand without its operator.
    Unary {
        whole: Range<usize>,
        operand: Range<usize>,
    },
    /// A guard of a match that is always, or never, true.
    Guard {
        whole: Range<usize>,
        value: &'static str,
    },
}

impl Edit {
    /// What it replaces; empty where it only adds.
    pub(super) fn whole(&self) -> Range<usize> {
        match self {
            Self::Return { at, .. } => *at..*at,
            Self::Binary { whole, .. } | Self::Unary { whole, .. } | Self::Guard { whole, .. } => {
                whole.clone()
            }
        }
    }
}

/// The mutants of a source, in its order. What is for tests alone has none, nor has what macros are given.
///
/// # Errors
/// If it is no Rust.
pub fn mutants_of(text: &str) -> Result<Vec<Mutant>> {
    let file = syn::parse_file(text).context("the source cannot be parsed")?;
    let mut finder = MutantFinder::default();
    finder.visit_file(&file);
    Ok(finder.found)
}

#[derive(Default)]
struct MutantFinder {
    found: Vec<Mutant>,
    /// The types whose methods are visited.
    owners: Vec<String>,
    function: Option<FunctionSite>,
}

struct FunctionSite {
    name: String,
    hash: u64,
    count: usize,
    constant: Option<Range<usize>>,
}

fn bytes(of: &impl Spanned) -> Range<usize> {
    of.span().byte_range()
}

/// FNV-1a over tokens.
fn hash_of(parts: &[&dyn ToTokens]) -> u64 {
    let texts = parts.iter().map(|part| part.to_token_stream().to_string());
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    texts.fold(0xcbf2_9ce4_8422_2325, |hash, text| {
        text.bytes().fold(hash, mix)
    })
}

/// Whether attributes say that something is built for tests alone, or is a test.
fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        let tokens = attribute.meta.to_token_stream().to_string();
        path.is_ident("test") || (path.is_ident("cfg") && tokens.contains("test"))
    })
}

impl MutantFinder {
    fn push(&mut self, change: String, edit: Edit) {
        if let Some(site) = &mut self.function {
            self.found.push(Mutant {
                function: site.name.clone(),
                hash: site.hash,
                number: site.count,
                change,
                edit,
                constant: site.constant.clone(),
            });
            site.count += 1;
        }
    }

    /// A function with a body.
    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let is_shown = signature.ident == "fmt";
        if signature.unsafety.is_some() || is_shown || block.stmts.is_empty() {
            return;
        }
        let owner = self.owners.last().map(|it| format!("{it}::"));
        let site = FunctionSite {
            name: format!("{}{}", owner.unwrap_or_default(), signature.ident),
            hash: hash_of(&[&signature, &block]),
            count: 0,
            constant: signature.constness.as_ref().map(bytes),
        };
        let outer = self.function.replace(site);
        let body = block.to_token_stream().to_string();
        for value in values_of(&signature.output) {
            if body.trim_matches(['{', '}', ' ']) != *value {
                let change = match *value {
                    "" => "returns at once".to_owned(),
                    value => format!("returns {value}"),
                };
                let at = bytes(&block.brace_token.span.open()).end;
                self.push(change, Edit::Return { at, value });
            }
        }
        visit::visit_block(self, block);
        self.function = outer;
    }
}

impl<'ast> Visit<'ast> for MutantFinder {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if !is_for_tests(&item.attrs) {
            let own = item.self_ty.to_token_stream().to_string();
            let end = own.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
            self.owners.push(own[..end.unwrap_or(own.len())].to_owned());
            visit::visit_item_impl(self, item);
            self.owners.pop();
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_for_tests(&item.attrs) {
            self.function(&item.sig, &item.block);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_for_tests(&item.attrs) {
            self.function(&item.sig, &item.block);
        }
    }

    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        let ends = [&*binary.left, &*binary.right];
        let has_let = ends.iter().any(|end| matches!(end, syn::Expr::Let(_)));
        if !has_let && !holds_let(&binary.left) {
            for (operator, is_assignment) in others(&binary.op) {
                let before = binary.op.to_token_stream().to_string();
                let line = binary.op.span().start().line;
                let change = format!("`{before}` becomes `{operator}`, line {line}");
                let edit = Edit::Binary {
                    whole: bytes(binary),
                    left: bytes(&*binary.left),
                    right: bytes(&*binary.right),
                    operator,
                    is_assignment,
                };
                self.push(change, edit);
            }
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        let is_literal = matches!(&*unary.expr, syn::Expr::Lit(_));
        if matches!(unary.op, syn::UnOp::Not(_) | syn::UnOp::Neg(_)) && !is_literal {
            let operator = unary.op.to_token_stream();
            let line = unary.op.span().start().line;
            let edit = Edit::Unary {
                whole: bytes(unary),
                operand: bytes(&*unary.expr),
            };
            self.push(format!("no `{operator}`, line {line}"), edit);
        }
        visit::visit_expr_unary(self, unary);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if let Some((_, guard)) = &arm.guard
            && !holds_let(guard)
        {
            let line = guard.span().start().line;
            for value in ["true", "false"] {
                let whole = bytes(&**guard);
                let edit = Edit::Guard { whole, value };
                self.push(format!("the guard is {value}, line {line}"), edit);
            }
        }
        visit::visit_arm(self, arm);
    }

    // Nothing is chosen at run time in what follows.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_item_trait(&mut self, _: &'ast syn::ItemTrait) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }
}

/// Whether an expression is a chain that binds names.
fn holds_let(expression: &syn::Expr) -> bool {
    match expression {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(binary) => holds_let(&binary.left) || holds_let(&binary.right),
        _ => false,
    }
}

/// What a function may return instead of what it computes.
fn values_of(output: &syn::ReturnType) -> &'static [&'static str] {
    let syn::ReturnType::Type(_, kind) = output else {
        return &[""];
    };
    value_of_type(&kind.to_token_stream().to_string().replace(' ', ""))
}

fn value_of_type(name: &str) -> &'static [&'static str] {
    const INTEGERS: [&str; 12] = [
        "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize",
    ];
    match name {
        "bool" => &["true", "false"],
        "String" => &["String::new()"],
        "&str" | "&'staticstr" => &["\"\""],
        "!" | "Self" => &[],
        name if INTEGERS.contains(&name) => &["0", "1"],
        name if name.starts_with("Option<") => &["None"],
        name if name.starts_with("Result<()") => &["Ok(())"],
        name if name.starts_with("Result<bool") => &["Ok(true)", "Ok(false)"],
        name if name.starts_with("Result<Option<") => &["Ok(None)"],
        name if name.starts_with("Result<") => &["Ok(Default::default())"],
        name if name.starts_with("Vec<") => &["Vec::new()"],
        name if name.starts_with(|letter: char| letter.is_ascii_uppercase()) => {
            &["Default::default()"]
        }
        _ => &[],
    }
}

/// The operators that take another one's place, and whether they assign.
fn others(operator: &syn::BinOp) -> Vec<(&'static str, bool)> {
    use syn::BinOp as Op;
    let (others, is_assignment): (&[&'static str], bool) = match operator {
        Op::Add(_) => (&["-", "*"], false),
        Op::Sub(_) | Op::Div(_) => (&["+", "*"], false),
        Op::Mul(_) => (&["+", "/"], false),
        Op::Rem(_) => (&["/"], false),
        Op::And(_) => (&["||"], false),
        Op::Or(_) => (&["&&"], false),
        Op::BitXor(_) => (&["|", "&"], false),
        Op::BitAnd(_) => (&["|"], false),
        Op::BitOr(_) => (&["&"], false),
        Op::Shl(_) => (&[">>"], false),
        Op::Shr(_) => (&["<<"], false),
        Op::Eq(_) => (&["!="], false),
        Op::Ne(_) => (&["=="], false),
        Op::Lt(_) => (&["<=", ">"], false),
        Op::Le(_) => (&["<", ">"], false),
        Op::Ge(_) => (&[">", "<"], false),
        Op::Gt(_) => (&[">=", "<"], false),
        Op::AddAssign(_) => (&["-="], true),
        Op::SubAssign(_) | Op::MulAssign(_) => (&["+="], true),
        Op::BitOrAssign(_) => (&["&="], true),
        Op::BitAndAssign(_) => (&["|="], true),
        _ => (&[], false),
    };
    others.iter().map(|it| (*it, is_assignment)).collect()
}
