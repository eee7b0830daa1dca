//! Tables in Markdown whose columns are aligned, so that they can be read in a terminal as they are.

/// A table: the first column holds names, the others numbers.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<const COLUMNS: usize>(header: [&str; COLUMNS]) -> Table {
        Table::with_header(header.map(str::to_owned).to_vec())
    }

    /// A table whose number of columns depends on what was measured.
    pub(crate) fn with_header(header: Vec<String>) -> Table {
        Table { rows: vec![header] }
    }

    /// Adds a row, which must have as many cells as the header.
    pub(crate) fn row<const COLUMNS: usize>(&mut self, cells: [String; COLUMNS]) {
        self.push(cells.to_vec());
    }

    /// Adds a row, which must have as many cells as the header.
    pub(crate) fn push(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.rows[0].len(), "the cells of {cells:?}");
        self.rows.push(cells);
    }

    /// The table as text, with a line feed at the end.
    pub(crate) fn render(&self) -> String {
        let columns = self.rows[0].len();
        let width = |column: usize| {
            self.rows
                .iter()
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or(0)
                .max(3)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            let cells = row
                .iter()
                .zip(&widths)
                .enumerate()
                .map(|(column, (cell, &width))| match column {
                    0 => format!("{cell:<width$}"),
                    _ => format!("{cell:>width$}"),
                });
            text += &format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "));
            if number == 0 {
                let rules = widths
                    .iter()
                    .enumerate()
                    .map(|(column, &width)| match column {
                        0 => "-".repeat(width),
                        _ => format!("{}:", "-".repeat(width - 1)),
                    });
                text += &format!("| {} |\n", rules.collect::<Vec<_>>().join(" | "));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_left_and_numbers_right() {
        let mut table = Table::new(["variant", "wall s"]);
        table.row(["musl".to_owned(), "1.25 ± 0.01".to_owned()]);
        let expected =
            "| variant |      wall s |\n| ------- | ----------: |\n| musl    | 1.25 ± 0.01 |\n";
        assert_eq!(table.render(), expected);
    }
}
