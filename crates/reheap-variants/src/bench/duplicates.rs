//! Finds what the user named twice: an output, a value of a sweep, a variant.

/// The first value that appears twice.
pub(crate) fn first_duplicate<T: PartialEq>(values: impl Iterator<Item = T> + Clone) -> Option<T> {
    let mut places = values.clone().enumerate();
    let is_there_before =
        |(place, value): &(usize, T)| values.clone().take(*place).any(|earlier| earlier == *value);
    places.find(is_there_before).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_of_two_equal_values_is_found() {
        assert_eq!(first_duplicate([1, 2, 3].iter()), None);
        assert_eq!(first_duplicate([1, 2, 1, 2].iter()), Some(&1));
    }
}
