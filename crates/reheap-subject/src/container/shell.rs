//! Reads the commands of a shell script, as far as that shows what it does to one variable.
//!
//! It is no shell: what a condition or a substitution comes to, only a run shows. A full parser would build trees that
//! nobody needs here, and recurse as deep as a hostile image says; this reads words from the front to the end.

use std::iter::Peekable;
use std::str::Chars;

/// A command with its words as they are written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) words: Vec<String>,
    pub(super) when: When,
    /// Whether the script ends with it, if it is executed.
    pub(super) is_last: bool,
}

/// When a command is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    Always,
    Perhaps,
    /// When a test has found that this variable is empty.
    Without(&'static str),
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    /// The end of a command, or of a case.
    End,
    And,
    Or,
    Pipe,
    Open,
    Close,
}

impl When {
    /// When both are true.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Always, when) | (when, Self::Always) => when,
            (Self::Without(name), _) | (_, Self::Without(name)) => Self::Without(name),
            (Self::Perhaps, Self::Perhaps) => Self::Perhaps,
        }
    }
}

/// What a command is part of.
#[derive(Debug, Clone, Copy)]
struct Block {
    kind: Kind,
    /// When that is executed which this is a part of.
    around: When,
    when: When,
    is_in_subshell: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A condition, a loop, a function.
    Group,
    Case,
    Subshell,
}

/// The commands of a script, but for those in a subshell, which change nothing outside of it. `variable` is the one whose
/// tests are understood.
pub(super) fn commands(text: &str, variable: &'static str) -> Vec<Command> {
    let mut reader = Reader {
        tokens: Tokens {
            characters: text.chars().peekable(),
            documents: Vec::new(),
        },
        variable,
        blocks: Vec::new(),
        words: Vec::new(),
        after: None,
        commands: Vec::new(),
        last: None,
    };
    reader.read();
    reader.commands
}

struct Reader<'a> {
    tokens: Tokens<'a>,
    variable: &'static str,
    blocks: Vec<Block>,
    words: Vec<String>,
    /// `&&` or `||` in front of the command.
    after: Option<(Token, When)>,
    commands: Vec<Command>,
    /// What the command before was, if it stood in the open.
    last: Option<bool>,
}

impl Reader<'_> {
    fn read(&mut self) {
        while let Some(token) = self.tokens.next() {
            match token {
                Token::Word(word) => self.word(word),
                Token::End | Token::Pipe => {
                    self.end();
                    self.after = None;
                }
                Token::And | Token::Or => {
                    self.end();
                    let when = if token == Token::And {
                        self.tested()
                    } else {
                        When::Perhaps
                    };
                    self.after = Some((token, when));
                }
                Token::Open => self.open(),
                Token::Close => match self.blocks.last().map(|block| block.kind) {
                    Some(Kind::Subshell) => {
                        self.end();
                        self.blocks.pop();
                    }
                    // What came before was a pattern.
                    Some(Kind::Case) => self.words.clear(),
                    _ => self.end(),
                },
            }
        }
        self.end();
        if let (Some(true), Some(last)) = (self.last, self.commands.last_mut()) {
            last.is_last = true;
        }
    }

    fn word(&mut self, word: String) {
        if let ([function, _], "{") = (self.words.as_slice(), word.as_str())
            && function == "function"
        {
            self.words.clear();
        }
        if !self.words.is_empty() {
            self.words.push(word);
            return;
        }
        match word.as_str() {
            "if" | "while" | "until" | "{" => self.begin(Kind::Group),
            "then" => {
                let tested = self.tested();
                self.set_block(tested);
            }
            "else" | "elif" => self.set_block(When::Perhaps),
            "do" | "!" | "time" => {}
            "fi" | "done" | "esac" | "}" => {
                self.blocks.pop();
                self.last = None;
            }
            "for" | "select" => {
                self.begin(Kind::Group);
                self.words.push(word);
            }
            "case" => {
                self.begin(Kind::Case);
                self.words.push(word);
            }
            _ => self.words.push(word),
        }
    }

    fn set_block(&mut self, when: When) {
        if let Some(block) = self.blocks.last_mut() {
            block.when = when;
        }
    }

    fn begin(&mut self, kind: Kind) {
        let outer = self.blocks.last();
        self.blocks.push(Block {
            kind,
            around: outer.map_or(When::Always, |outer| outer.around.and(outer.when)),
            when: When::Perhaps,
            is_in_subshell: kind == Kind::Subshell
                || outer.is_some_and(|outer| outer.is_in_subshell),
        });
    }

    /// The beginning of a subshell, or of a function: `name()`.
    fn open(&mut self) {
        if !self.words.is_empty() && self.tokens.characters.peek() == Some(&')') {
            self.tokens.characters.next();
            self.words.clear();
            return;
        }
        self.end();
        self.begin(Kind::Subshell);
    }

    /// When what comes after the last command is executed, which may be a test such as `[ -z "$LD_PRELOAD" ]`.
    fn tested(&self) -> When {
        let words = self.commands.last().map(|command| &command.words[..]);
        match words {
            Some([test, option, word, ..])
                if ["[", "[[", "test"].contains(&test.as_str())
                    && option == "-z"
                    && word.contains(self.variable) =>
            {
                When::Without(self.variable)
            }
            _ => When::Perhaps,
        }
    }

    /// Keeps a command, if there is one.
    fn end(&mut self) {
        let words = std::mem::take(&mut self.words);
        let block = self.blocks.last();
        if words.is_empty() || block.is_some_and(|block| block.is_in_subshell) {
            return;
        }
        let around = block.map_or(When::Always, |block| block.around.and(block.when));
        let (after_or, after) = match &self.after {
            Some((token, when)) => (*token == Token::Or, *when),
            None => (false, When::Always),
        };
        self.last = Some(block.is_none() && !after_or);
        self.commands.push(Command {
            words,
            when: around.and(after),
            is_last: false,
        });
    }
}

/// Words and operators; comments, redirections and here-documents are left out.
struct Tokens<'a> {
    characters: Peekable<Chars<'a>>,
    /// The ends of the here-documents that begin on the next line.
    documents: Vec<String>,
}

impl Iterator for Tokens<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        loop {
            let token = match *self.characters.peek()? {
                ' ' | '\t' | '\r' => {
                    self.characters.next();
                    continue;
                }
                '#' => {
                    while self.characters.next_if(|&c| c != '\n').is_some() {}
                    continue;
                }
                '<' | '>' => match self.redirection() {
                    Some(word) => Token::Word(word),
                    None => continue,
                },
                '\n' => {
                    self.characters.next();
                    self.skip_documents();
                    Token::End
                }
                ';' => {
                    while self.characters.next_if(|&c| c == ';' || c == '&').is_some() {}
                    Token::End
                }
                '&' => {
                    self.characters.next();
                    match self.characters.peek() {
                        Some('&') => self.operator(Token::And),
                        Some('>') => continue,
                        _ => Token::End,
                    }
                }
                '|' => {
                    self.characters.next();
                    match self.characters.peek() {
                        Some('|') => self.operator(Token::Or),
                        Some('&') => self.operator(Token::Pipe),
                        _ => Token::Pipe,
                    }
                }
                '(' => self.operator(Token::Open),
                ')' => self.operator(Token::Close),
                _ => {
                    let word = self.word();
                    let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
                    match (word.is_empty(), self.characters.peek()) {
                        // A line that goes on, or the number of a file.
                        (true, _) => continue,
                        (_, Some('<' | '>')) if is_number => continue,
                        _ => Token::Word(word),
                    }
                }
            };
            return Some(token);
        }
    }
}

impl Tokens<'_> {
    fn operator(&mut self, token: Token) -> Token {
        self.characters.next();
        token
    }

    /// A word as it is written.
    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(c) = self.characters.next_if(|&c| !" \t\r\n;&|()<>".contains(c)) {
            match c {
                '\\' => match self.characters.next() {
                    Some('\n') | None => {}
                    Some(escaped) => word.extend([c, escaped]),
                },
                '\'' | '`' => {
                    word.push(c);
                    self.copy_until(c, &mut word);
                }
                '"' => {
                    word.push(c);
                    self.quoted(&mut word);
                }
                _ => {
                    word.push(c);
                    self.substitution(c, &mut word);
                }
            }
        }
        word
    }

    fn copy_until(&mut self, end: char, word: &mut String) {
        for c in self.characters.by_ref() {
            word.push(c);
            if c == end {
                break;
            }
        }
    }

    fn quoted(&mut self, word: &mut String) {
        while let Some(c) = self.characters.next() {
            word.push(c);
            match c {
                '"' => break,
                '\\' => word.extend(self.characters.next()),
                _ => self.substitution(c, word),
            }
        }
    }

    /// `$(…)` and `${…}`, whose beginning was read.
    fn substitution(&mut self, dollar: char, word: &mut String) {
        let (open, close) = match self.characters.peek() {
            Some('(') if dollar == '$' => ('(', ')'),
            Some('{') if dollar == '$' => ('{', '}'),
            _ => return,
        };
        let mut depth = 0;
        while let Some(c) = self.characters.next() {
            word.push(c);
            match c {
                '\\' => word.extend(self.characters.next()),
                '\'' if open == '(' => self.copy_until(c, word),
                _ if c == open => depth += 1,
                _ if c == close => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }

    /// A redirection with its file, or the word that is the output of a command: `<(…)`.
    fn redirection(&mut self) -> Option<String> {
        let mut operator = String::new();
        while let Some(c) = self.characters.next_if(|&c| "<>&|".contains(c)) {
            operator.push(c);
        }
        if self.characters.peek() == Some(&'(') {
            let mut word = operator;
            self.substitution('$', &mut word);
            return Some(word);
        }
        if operator == "<<" {
            self.characters.next_if_eq(&'-');
        }
        while self.characters.next_if(|c| " \t".contains(*c)).is_some() {}
        let word = self.word();
        if operator == "<<" {
            self.documents.push(word.replace(['\'', '"', '\\'], ""));
        }
        None
    }

    fn skip_documents(&mut self) {
        for end in std::mem::take(&mut self.documents) {
            while self.characters.peek().is_some() {
                let mut line = String::new();
                while let Some(c) = self.characters.next_if(|&c| c != '\n') {
                    line.push(c);
                }
                self.characters.next();
                if line.trim_start_matches('\t') == end {
                    break;
                }
            }
        }
    }
}

/// Expansions in each other; nobody has more.
const EXPANSIONS_MAX: usize = 8;

/// A word without its quotes, and with the values of its variables. `None` if only a run shows these.
pub(super) fn expanded(word: &str, value: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    expanded_within(word, value, EXPANSIONS_MAX)
}

fn expanded_within(
    word: &str,
    value: &dyn Fn(&str) -> Option<String>,
    depth: usize,
) -> Option<String> {
    let mut text = String::new();
    let mut rest = word.chars();
    let mut is_quoted = false;
    while let Some(c) = rest.next() {
        match c {
            '"' => is_quoted = !is_quoted,
            '\'' if !is_quoted => {
                let (literal, after) = rest.as_str().split_once('\'')?;
                text.push_str(literal);
                rest = after.chars();
            }
            '\\' => match rest.next()? {
                escaped if !is_quoted || "$`\"\\".contains(escaped) => text.push(escaped),
                other => text.extend(['\\', other]),
            },
            '`' => return None,
            '$' => {
                let (expansion, after) = expansion(rest.as_str(), value, depth)?;
                text.push_str(&expansion);
                rest = after.chars();
            }
            _ => text.push(c),
        }
    }
    Some(text)
}

/// What `$` and the beginning of this text stand for, and the rest of the text.
fn expansion<'a>(
    text: &'a str,
    value: &dyn Fn(&str) -> Option<String>,
    depth: usize,
) -> Option<(String, &'a str)> {
    let name_of = |text: &'a str| {
        let is_of_name = |c: char| c == '_' || c.is_ascii_alphanumeric();
        text.split_at(text.find(|c| !is_of_name(c)).unwrap_or(text.len()))
    };
    let Some(inner) = text.strip_prefix('{') else {
        let (name, rest) = name_of(text);
        let is_variable = name.starts_with(|c: char| !c.is_ascii_digit());
        return Some((value(name).filter(|_| is_variable)?, rest));
    };
    let mut open = 1;
    let end = inner.find(|c| {
        open += i32::from(c == '{') - i32::from(c == '}');
        open == 0
    })?;
    let (inner, rest) = (&inner[..end], &inner[end + 1..]);
    let (name, operation) = name_of(inner);
    let value_of_name = value(name)?;
    let word = |word| expanded_within(word, value, depth.checked_sub(1)?);
    let is_empty = value_of_name.is_empty();
    let operation = operation.strip_prefix(':').unwrap_or(operation);
    let expansion = match operation.chars().next() {
        None => value_of_name,
        Some('-' | '=') if !is_empty => value_of_name,
        Some('+') if is_empty => String::new(),
        Some('-' | '=' | '+') => word(&operation[1..])?,
        Some(_) => return None,
    };
    Some((expansion, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Each command in a line, with a mark: `!` the last one, `?` under a condition, `0` without the variable.
    fn read(text: &str) -> String {
        let shown = |command: &Command| {
            let mark = match (command.is_last, command.when) {
                (true, _) => "! ",
                (false, When::Always) => "",
                (false, When::Perhaps) => "? ",
                (false, When::Without(_)) => "0 ",
            };
            format!("{mark}{}", command.words.join(" "))
        };
        let commands = commands(text, "X");
        commands.iter().map(shown).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn commands_are_found_with_what_they_depend_on() {
        for (text, expected) in [
            ("a 'b;c' # d\ne;f&g", "a 'b;c'\ne\nf\n! g"),
            ("a && b\nc || d\n", "a\n? b\nc\n? d"),
            ("cd /x && exec a", "cd /x\n! exec a"),
            ("if a; then b; else c; fi; d", "? a\n? b\n? c\n! d"),
            (
                "if [ -z \"$X\" ]; then a; else b; fi",
                "? [ -z \"$X\" ]\n0 a\n? b",
            ),
            ("[ -z \"${X+x}\" ] && a\nb", "[ -z \"${X+x}\" ]\n0 a\n! b"),
            ("f() { a; }\nfunction g { b; }\nc", "? a\n? b\n! c"),
            (
                "case $1 in a|b) c;; (d) e;; esac\nf",
                "? case $1 in a\n? c\n? e\n! f",
            ),
            ("for i in a b; do c; done", "? for i in a b\n? c"),
            ("(a; b)\nc $(d; e) <(f)", "! c $(d; e) <(f)"),
            ("a >b 2>&1 <<E | c\nunset X\nE\nd &>e", "a\nc\n! d"),
            ("a \\\n b", "! a b"),
            ("a <<-'E'\n\tb\n\tE\nc", "a\n! c"),
            ("\"a b\"c `d;e`", "! \"a b\"c `d;e`"),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn words_get_the_values_that_are_known() {
        let value = |name: &str| match name {
            "X" => Some("1".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        for (word, expected) in [
            ("a'$X'\"b$X\"\\$", Some("a$Xb1$")),
            ("/y.so${X:+:$X}", Some("/y.so:1")),
            ("/y.so${EMPTY:+:$EMPTY}", Some("/y.so")),
            ("${EMPTY:-'a b'}${X-b}", Some("a b1")),
            ("$Y", None),
            ("$1", None),
            ("$(a)", None),
            ("`a`", None),
            ("${X%1}", None),
            ("${X", None),
        ] {
            assert_eq!(expanded(word, &value).as_deref(), expected, "{word}");
        }
        let deep = "${X:+".repeat(10_000) + &"}".repeat(10_000);
        assert_eq!(expanded(&deep, &value), None);
    }

    /// Each of these would take minutes if the time grew with the square.
    #[test]
    fn a_hostile_script_takes_no_longer_than_its_length() {
        for piece in [
            "{ a\n",
            "if a; then b\n",
            "(",
            "case a in b) ",
            "a <<E\n",
            "$(",
            "${X:+",
        ] {
            let text = piece.repeat((1 << 20) / piece.len());
            for command in commands(&text, "X") {
                for word in &command.words {
                    let _ = expanded(word, &|_| Some(String::new()));
                }
            }
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "[a ;&|<>(){}'\"`$\\\\\n#-]{0,60}") {
            for command in commands(&text, "X") {
                for word in &command.words {
                    let _ = expanded(word, &|_| Some(String::new()));
                }
            }
        }
    }
}
