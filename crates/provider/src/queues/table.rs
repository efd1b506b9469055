//! The work that a device has, by numbers that go stale: an end that is told twice, or too late, finds nothing.

/// Names work until its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WorkId(u64);

impl WorkId {
    /// Makes the number of work of what came back from a device; any value is allowed.
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// Returns the number as it is given to a device.
    pub const fn raw(self) -> u64 {
        self.0
    }

    const fn new(place: usize, generation: u32) -> Self {
        Self(place as u64 | (generation as u64) << 32)
    }

    const fn place(self) -> usize {
        (self.0 & u32::MAX as u64) as usize
    }

    const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// The table: places keep their rows until they are taken out.
#[derive(Debug)]
pub(super) struct WorkTable<T> {
    rows: Vec<Row<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Row<T> {
    generation: u32,
    held: Option<T>,
}

impl<T> WorkTable<T> {
    pub(super) const fn new() -> Self {
        Self {
            rows: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Returns how many rows are taken.
    pub(super) const fn len(&self) -> usize {
        self.rows.len() - self.free.len()
    }

    /// Keeps a row and returns its number.
    pub(super) fn insert(&mut self, row: T) -> WorkId {
        let place = self.free.pop().map_or(self.rows.len(), |at| at as usize);
        if place == self.rows.len() {
            self.rows.push(Row {
                generation: 0,
                held: None,
            });
        }
        let taken = &mut self.rows[place];
        taken.held = Some(row);
        WorkId::new(place, taken.generation)
    }

    /// Takes a row out, if its number is not stale.
    pub(super) fn remove(&mut self, id: WorkId) -> Option<T> {
        let row = self.rows.get_mut(id.place())?;
        if row.generation != id.generation() {
            return None;
        }
        let held = row.held.take()?;
        row.generation = row.generation.wrapping_add(1);
        self.free.push(id.place() as u32);
        Some(held)
    }

    /// Finds the first row that is wanted.
    pub(super) fn find(&self, wanted: impl Fn(&T) -> bool) -> Option<WorkId> {
        self.rows.iter().enumerate().find_map(|(place, row)| {
            let held = row.held.as_ref()?;
            wanted(held).then(|| WorkId::new(place, row.generation))
        })
    }

    /// Forgets all rows; their numbers are stale.
    pub(super) fn clear(&mut self) {
        self.free.clear();
        for (place, row) in self.rows.iter_mut().enumerate() {
            if row.held.take().is_some() {
                row.generation = row.generation.wrapping_add(1);
            }
            self.free.push(place as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_finds_its_row_once() {
        let mut table = WorkTable::new();
        let (a, b) = (table.insert('a'), table.insert('b'));
        assert_eq!((table.remove(a), table.remove(a)), (Some('a'), None));
        let c = table.insert('c');
        assert_eq!((c.place(), table.len()), (a.place(), 2));
        assert_ne!(c, a);
        assert_eq!((table.remove(a), table.remove(b)), (None, Some('b')));
        assert_eq!(table.find(|&row| row == 'c'), Some(c));
        assert_eq!(table.find(|&row| row == 'b'), None);
        table.clear();
        assert_eq!((table.len(), table.remove(c)), (0, None));
        assert_eq!(table.remove(WorkId::from_raw(u64::MAX)), None);
    }
}
