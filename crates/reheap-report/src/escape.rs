//! Names and commands come from whoever measured; a report shows them and obeys none of them.
//!
//! Control characters become their pictures first: an escape sequence in a variant's name would otherwise reach the
//! terminal, and most of them may not stand in HTML at all.

use std::fmt::{self, Write as _};

/// The text with the pictures of control characters in their place (`ESC` is `␛`), and of those that turn the
/// direction of writing.
pub(crate) fn visible(text: &str) -> String {
    text.chars().map(picture).collect()
}

fn picture(character: char) -> char {
    match character {
        '\u{0}'..='\u{1f}' => char::from_u32(0x2400 + u32::from(character)).unwrap_or('\u{fffd}'),
        '\u{7f}' => '\u{2421}',
        '\u{80}'..='\u{9f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}'
        | '\u{fffe}'
        | '\u{ffff}' => '\u{fffd}',
        other => other,
    }
}

/// The text for an element or a quoted attribute of HTML.
pub(crate) fn html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars().map(picture) {
        match character {
            '<' | '>' | '&' | '"' | '\'' => {
                write!(escaped, "&#{};", u32::from(character)).expect("a string takes all");
            }
            other => escaped.push(other),
        }
    }
    escaped
}

/// [`html`] for the template engine (`askama.toml`).
#[derive(Clone, Copy)]
pub(crate) struct Page;

impl askama::filters::Escaper for Page {
    fn write_escaped_str<W: fmt::Write>(&self, mut to: W, text: &str) -> fmt::Result {
        to.write_str(&html(text))
    }
}

/// The words as a shell reads them back: quoted where needed.
pub(crate) fn shell(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
    words.join(" ")
}

/// One word as a shell reads it back.
pub(crate) fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// The text as the address of a file within a page: `data:` and all but letters and digits in percent.
pub(crate) fn data_url(media_type: &str, text: &str) -> String {
    let mut url = format!("data:{media_type};charset=utf-8,");
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            url.push(char::from(byte));
        } else {
            write!(url, "%{byte:02X}").expect("a string takes all");
        }
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_not_sent() {
        assert_eq!(visible("a\u{1b}[31mb\n\u{7f}"), "a␛[31mb␊␡");
        assert_eq!(visible("a\u{202e}b"), "a\u{fffd}b");
    }

    #[test]
    fn nothing_in_a_text_is_markup() {
        assert_eq!(
            html(r#"<b a="1">&'"#),
            "&#60;b a=&#34;1&#34;&#62;&#38;&#39;"
        );
    }

    #[test]
    fn a_shell_reads_back_the_words_it_was_given() {
        let words = ["a-b", "", "it's", "$HOME *"].map(str::to_owned);
        assert_eq!(shell(&words), r"a-b '' 'it'\''s' '$HOME *'");
    }

    #[test]
    fn a_data_url_has_no_character_that_ends_an_attribute() {
        assert_eq!(
            data_url("text/plain", "a\"<é"),
            "data:text/plain;charset=utf-8,a%22%3C%C3%A9"
        );
    }
}
