//! Commands in shell scripts, in Dockerfiles, and in the YAML of workflows.
//!
//! Not a shell: just as much of one as finds the words of a command, in whatever they are embedded. A quote never reaches
//! beyond its line, because YAML and comments are full of apostrophes.

/// A command, or a line of something else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Command {
    /// Its words, without quotes.
    pub(crate) words: Vec<String>,
    /// Where it begins, in bytes.
    pub(crate) at: usize,
}

impl Command {
    /// The word at that place, or nothing.
    pub(crate) fn word(&self, index: usize) -> &str {
        self.words.get(index).map_or("", String::as_str)
    }
}

/// All commands of a text. Words that were quoted and have spaces are also read as commands: `sh -c "…"`, but not what is
/// only printed.
pub(crate) fn commands(text: &str) -> Vec<Command> {
    let mut reader = Reader {
        commands: Vec::new(),
        words: Vec::new(),
        at: 0,
    };
    let mut start = 0;
    for line in logical_lines(text) {
        reader.line(&line.text, line.at);
        start = line.at;
    }
    reader.end_command(start);
    reader.commands
}

/// A line with those that continue it.
struct Line {
    text: String,
    at: usize,
}

/// Lines, joined where one ends with a backslash. Comments between joined lines are dropped, as Docker does.
fn logical_lines(text: &str) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut is_continued = false;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let content = line.trim_end();
        let is_comment = content.trim_start().starts_with('#');
        let (content, continues) = match content.strip_suffix('\\') {
            Some(rest) if !is_comment => (rest, true),
            _ => (content, is_continued && is_comment),
        };
        match lines.last_mut() {
            Some(last) if is_continued && is_comment => _ = last,
            Some(last) if is_continued => {
                last.text.push(' ');
                last.text.push_str(content);
            }
            _ if is_comment => {}
            _ => lines.push(Line {
                text: content.to_owned(),
                at,
            }),
        }
        is_continued = continues;
        at += line.len();
    }
    lines
}

struct Reader {
    commands: Vec<Command>,
    words: Vec<String>,
    at: usize,
}

impl Reader {
    fn line(&mut self, line: &str, at: usize) {
        self.at = at;
        let mut word = String::new();
        let mut is_word = false;
        let mut characters = line.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                '\'' | '"' => {
                    is_word = true;
                    match quoted(&mut characters, character) {
                        Some(inside) => word.push_str(&inside),
                        None => word.push(character),
                    }
                }
                '\\' => {
                    is_word = true;
                    word.extend(characters.next());
                }
                '#' if !is_word => break,
                ';' | '&' | '|' | '(' | ')' | '`' => {
                    self.end_word(&mut word, &mut is_word);
                    self.end_command(at);
                }
                // Braces are words of the shell, and a part of `${name}`.
                '{' | '}'
                    if !is_word && characters.peek().is_none_or(|next| next.is_whitespace()) =>
                {
                    self.end_command(at);
                }
                _ if character.is_whitespace() => self.end_word(&mut word, &mut is_word),
                _ => {
                    is_word = true;
                    word.push(character);
                }
            }
        }
        self.end_word(&mut word, &mut is_word);
        self.end_command(at);
    }

    fn end_word(&mut self, word: &mut String, is_word: &mut bool) {
        if std::mem::take(is_word) {
            self.words.push(std::mem::take(word));
        }
    }

    fn end_command(&mut self, at: usize) {
        let words = std::mem::take(&mut self.words);
        if words.is_empty() {
            return;
        }
        let is_printed = words.iter().any(|word| word == "echo" || word == "printf");
        let is_written = words.iter().any(|word| word.contains('>'));
        let scripts: Vec<String> = words
            .iter()
            .filter(|word| word.contains(char::is_whitespace))
            .filter(|_| !is_printed || is_written)
            .cloned()
            .collect();
        self.commands.push(Command { words, at });
        for script in scripts {
            let inside = commands_of_one_line(&script, at);
            self.commands.extend(inside);
        }
    }
}

/// The commands in a quoted word. Quotes in it were taken off, so it cannot contain itself.
fn commands_of_one_line(text: &str, at: usize) -> Vec<Command> {
    let parts = text.split([';', '&', '|', '\n', '(', ')']);
    let commands = parts.map(|part| Command {
        words: part.split_whitespace().map(str::to_owned).collect(),
        at,
    });
    commands
        .filter(|command| !command.words.is_empty())
        .collect()
}

/// What is before the closing quote; nothing is taken if there is none.
fn quoted(
    characters: &mut std::iter::Peekable<std::str::Chars<'_>>,
    quote: char,
) -> Option<String> {
    let mut ahead = characters.clone();
    let mut inside = String::new();
    while let Some(character) = ahead.next() {
        if character == quote {
            *characters = ahead;
            return Some(inside);
        }
        match character {
            '\\' if quote == '"' => inside.extend(ahead.next()),
            _ => inside.push(character),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        commands(text)
            .iter()
            .map(|command| command.words.join("|"))
            .collect()
    }

    #[test]
    fn commands_are_found_wherever_they_are_embedded() {
        assert_eq!(
            words(
                "RUN apt-get update \\\n # about\n    && apt-get install -y \\\n  libjemalloc2\n"
            ),
            ["RUN|apt-get|update", "apt-get|install|-y|libjemalloc2"]
        );
        assert_eq!(
            words("- run: ar d 'a b.a' # it's\n"),
            ["-|run:|ar|d|a b.a", "a|b.a"]
        );
        assert_eq!(
            words("# don't\nit's x\nfor p in $(find / -name libc.a); do\n"),
            ["it's|x", "for|p|in|$", "find|/|-name|libc.a", "do"]
        );
        assert_eq!(words("{ echo ${A}; } | ar -M"), ["echo|${A}", "ar|-M"]);
        assert_eq!(words("a\\"), ["a"]);
        assert_eq!(words("echo \"ar d libc.a x\""), ["echo|ar d libc.a x"]);
        let written = words("echo \"export A=1 B=2\" >> ~/.profile");
        assert_eq!(written[1], "export|A=1|B=2");
    }
}
