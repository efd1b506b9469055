//! Objects by number.

/// Objects that are found by a number, which is free again when the object is gone.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<Option<T>>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    /// Adds an object under the lowest free number.
    pub(crate) fn insert(&mut self, object: T) -> u32 {
        let free = self.entries.iter().position(Option::is_none);
        let place = free.unwrap_or(self.entries.len());
        if place == self.entries.len() {
            self.entries.push(None);
        }
        self.entries[place] = Some(object);
        place as u32
    }

    /// Returns the object with this number.
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        self.entries.get(number as usize)?.as_ref()
    }

    /// Returns the object with this number, to change it.
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.entries.get_mut(number as usize)?.as_mut()
    }

    /// Removes the object with this number.
    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        self.entries.get_mut(number as usize)?.take()
    }

    /// Returns all objects with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let entries = self.entries.iter().zip(0..);
        entries.filter_map(|(entry, number)| Some((number, entry.as_ref()?)))
    }

    /// Returns the numbers of the objects that satisfy a condition.
    pub(crate) fn numbers(&self, condition: impl Fn(&T) -> bool) -> Vec<u32> {
        let found = self.iter().filter(|(_, object)| condition(object));
        found.map(|(number, _)| number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_number_is_used() {
        let mut slab = Slab::default();
        assert_eq!(["a", "b", "c"].map(|object| slab.insert(object)), [0, 1, 2]);
        assert_eq!(slab.remove(1), Some("b"));
        assert_eq!(slab.get(1), None);
        assert_eq!(slab.remove(1), None);
        assert_eq!(slab.insert("d"), 1);
        assert_eq!(slab.numbers(|object| *object != "a"), [1, 2]);
    }
}
