//! Numbers as people read them.

/// A count with its thousands apart: `12,345,678`.
pub(crate) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_told_apart() {
        let counts = [0, 12, 999, 1000, 12_345, 1_234_567].map(grouped);
        assert_eq!(counts, ["0", "12", "999", "1,000", "12,345", "1,234,567"]);
    }
}
