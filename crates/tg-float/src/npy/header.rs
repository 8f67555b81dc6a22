//! The header of a numpy file (`.npy`, format versions 1 to 3).

/// Most bytes of a header.
const HEADER_MAX: usize = 1 << 16;
/// Most axes.
const AXES_MAX: usize = 8;

/// What is wrong with a numpy file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NpyProblem {
    /// It does not start as a numpy file does.
    #[error("it does not start with the numpy magic and a version from 1 to 3")]
    Magic,
    /// The header does not name element type, order and shape.
    #[error("its header does not name 'descr', 'fortran_order' and 'shape' as numpy writes them")]
    Header,
    /// An element type that is not read.
    #[error("its elements are `{0}`; save it as float32 ('<f4'), int32 ('<i4') or uint8 ('|u1')")]
    ElementType(String),
    /// Column-major order.
    #[error("it is in Fortran order; save np.ascontiguousarray(array)")]
    FortranOrder,
    /// More or fewer data than the shape says.
    #[error("its shape {shape:?} needs {expected} bytes of data, it has {got}")]
    Length {
        /// The stated shape.
        shape: Vec<usize>,
        /// Bytes needed.
        expected: usize,
        /// Bytes there.
        got: usize,
    },
}

/// A numpy array as it lies in its file: C order.
#[derive(Debug)]
pub struct Raw<'a> {
    /// The element type as numpy writes it, such as `<f4`.
    pub descr: &'a str,
    /// The axes.
    pub shape: Vec<usize>,
    /// The elements' bytes; not yet checked against the shape.
    pub data: &'a [u8],
}

impl Raw<'_> {
    /// Checks that there are as many bytes as the shape needs of elements of `width` bytes.
    ///
    /// # Errors
    /// [`NpyProblem::Length`].
    pub fn check_length(&self, width: usize) -> Result<(), NpyProblem> {
        let mut axes = self.shape.iter();
        let expected = axes
            .try_fold(width, |product, &axis| product.checked_mul(axis))
            .unwrap_or(usize::MAX);
        if expected == self.data.len() {
            return Ok(());
        }
        Err(NpyProblem::Length {
            shape: self.shape.clone(),
            expected,
            got: self.data.len(),
        })
    }
}

/// The header and the data of a numpy file.
///
/// # Errors
/// If it is no numpy file of version 1 to 3, or in column-major order.
pub fn raw(bytes: &[u8]) -> Result<Raw<'_>, NpyProblem> {
    let rest = bytes.strip_prefix(b"\x93NUMPY").ok_or(NpyProblem::Magic)?;
    let (&[major, _minor], rest) = rest.split_first_chunk().ok_or(NpyProblem::Magic)?;
    let (length, rest) = match major {
        1 => {
            let (length, rest) = rest.split_first_chunk().ok_or(NpyProblem::Header)?;
            (usize::from(u16::from_le_bytes(*length)), rest)
        }
        2 | 3 => {
            let (length, rest) = rest.split_first_chunk().ok_or(NpyProblem::Header)?;
            (u32::from_le_bytes(*length) as usize, rest)
        }
        _ => return Err(NpyProblem::Magic),
    };
    if length > HEADER_MAX {
        return Err(NpyProblem::Header);
    }
    let (header, data) = rest.split_at_checked(length).ok_or(NpyProblem::Header)?;
    let header = std::str::from_utf8(header).map_err(|_| NpyProblem::Header)?;
    let fields = Fields::parse(header).ok_or(NpyProblem::Header)?;
    if fields.fortran_order {
        return Err(NpyProblem::FortranOrder);
    }
    let Fields { descr, shape, .. } = fields;
    Ok(Raw { descr, shape, data })
}

/// The three fields of a header: a Python dictionary as numpy writes it.
struct Fields<'a> {
    descr: &'a str,
    fortran_order: bool,
    shape: Vec<usize>,
}

impl<'a> Fields<'a> {
    fn parse(header: &'a str) -> Option<Self> {
        let mut rest = header.trim().strip_prefix('{')?;
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        loop {
            rest = rest.trim_start_matches([' ', ',']);
            if let Some(end) = rest.strip_prefix('}') {
                let complete = end.trim().is_empty();
                return complete.then_some(Self {
                    descr: descr?,
                    fortran_order: fortran_order?,
                    shape: shape?,
                });
            }
            let (key, after) = quoted(rest)?;
            rest = after.trim_start().strip_prefix(':')?.trim_start();
            match key {
                "descr" => {
                    let (value, after) = quoted(rest)?;
                    (descr, rest) = (Some(value), after);
                }
                "fortran_order" => {
                    let no = rest.strip_prefix("False");
                    fortran_order = Some(no.is_none());
                    rest = no.or_else(|| rest.strip_prefix("True"))?;
                }
                "shape" => {
                    let (inside, after) = rest.strip_prefix('(')?.split_once(')')?;
                    (shape, rest) = (Some(axes(inside)?), after);
                }
                _ => return None,
            }
        }
    }
}

fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|c| ['\'', '"'].contains(c))?;
    text[1..].split_once(quote)
}

fn axes(inside: &str) -> Option<Vec<usize>> {
    let parts = inside.split(',').map(str::trim).filter(|p| !p.is_empty());
    let axes: Option<Vec<usize>> = parts.map(|part| part.parse().ok()).collect();
    axes.filter(|axes| axes.len() <= AXES_MAX)
}
