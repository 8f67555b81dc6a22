//! The columns of a committed input or output.

use super::cell::{Cell, at, cell};
use tg_exec::IntTensor;
use tg_ir::{Program, TensorId};
use tg_proof::plan::{Plan, StatementTable, WitnessTable};

/// The columns of one chunk: the cells of every element, zeros where none is. Those of salts are put in later.
pub(super) fn columns(
    program: &Program,
    plan: &Plan,
    table: &WitnessTable,
    tensors: &[IntTensor],
) -> Vec<Vec<Cell>> {
    let mut columns = vec![vec![0; 1 << table.chunk.column_vars()]; table.columns];
    let table_of = StatementTable::of_number(table.node - program.nodes.len());
    let (own, id) = match table_of {
        StatementTable::Input => (plan.input.as_ref(), TensorId::INPUT),
        StatementTable::Output(index) => {
            let own = plan.outputs.get(index).and_then(Option::as_ref);
            (own, program.outputs()[index])
        }
        StatementTable::Salts => return columns,
    };
    let own = own.expect("a tensor with columns is planned");
    let tensor = &tensors[id.index()];
    for row in 0..table.chunk.rows() {
        let Some(element) = table.layout.element_at(table.chunk.start + row) else {
            continue;
        };
        let channel = element % table.layout.channels;
        let cells = own.coding.cells(channel, at(tensor, element));
        for (column, value) in columns.iter_mut().zip(cells) {
            column[row] = cell(value);
        }
    }
    columns
}
