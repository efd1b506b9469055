//! Tables of columns with a fixed width, so that a row can be printed when it is known.

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    name: &'static str,
    width: usize,
    is_text: bool,
}

impl Column {
    /// Returns a column of numbers, which end below each other.
    #[must_use]
    pub const fn numbers(name: &'static str, width: usize) -> Self {
        Self {
            name,
            width,
            is_text: false,
        }
    }

    /// Returns a column of text, which begins below each other.
    #[must_use]
    pub const fn text(name: &'static str, width: usize) -> Self {
        Self {
            name,
            width,
            is_text: true,
        }
    }

    fn cell(self, text: &str) -> String {
        let width = self.width;
        match self.is_text {
            true => format!("{text:<width$}"),
            false => format!("{text:>width$}"),
        }
    }
}

/// A table, as its columns.
#[derive(Clone, Debug)]
pub struct Table<'a>(pub &'a [Column]);

impl Table<'_> {
    /// Returns the names of the columns.
    #[must_use]
    pub fn head(&self) -> String {
        self.row(self.0.iter().map(|column| column.name))
    }

    /// Returns the line between the names and the rows.
    #[must_use]
    pub fn rule(&self) -> String {
        let rules: Vec<String> = (self.0.iter().map(|column| "─".repeat(column.width))).collect();
        self.row(&rules)
    }

    /// Returns a row; a cell behind the last column is text.
    #[must_use]
    pub fn row<S: AsRef<str>>(&self, cells: impl IntoIterator<Item = S>) -> String {
        let columns = self.0.iter().copied().chain([Column::text("", 0)]);
        let cells = columns.zip(cells);
        let line: String = cells
            .map(|(column, cell)| format!("  {}", column.cell(cell.as_ref())))
            .collect();
        line.trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stand_below_the_names_of_their_columns() {
        let columns = [Column::text("name", 6), Column::numbers("µs", 5)];
        let table = Table(&columns);
        assert_eq!(table.head(), "  name       µs");
        assert_eq!(table.rule(), "  ──────  ─────");
        assert_eq!(table.row(["shm", "0.21"]), "  shm      0.21");
        assert_eq!(table.row(["shm", "0.21", "!"]), "  shm      0.21  !");
        assert_eq!(table.row(["shm"]), "  shm");
    }
}
