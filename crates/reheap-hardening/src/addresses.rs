//! Takes addresses out of messages: they differ from run to run, and the rest tells whether two messages are the same.

/// The line without addresses and other long hexadecimal numbers, each of which becomes `…`.
pub(crate) fn without_addresses(line: &str) -> String {
    let line = line.trim();
    let mut message = String::new();
    for word in line.split_inclusive(|character: char| !character.is_ascii_alphanumeric()) {
        let bare = word.trim_end_matches(|character: char| !character.is_ascii_alphanumeric());
        let is_long = bare.len() >= 6 && bare.chars().any(|character| character.is_ascii_digit());
        let digits = bare.strip_prefix("0x");
        let is_address = digits.is_some() || is_long;
        let digits = digits.unwrap_or(bare);
        if is_address && digits.chars().all(|digit| digit.is_ascii_hexdigit()) {
            message.push_str(&word.replacen(bare, "…", 1))
        } else {
            message.push_str(word)
        }
    }
    message
}
