//! A flame graph: call stacks from the outermost function downwards, each as wide as what was allocated below it.
//!
//! The boxes are elements of the page with places in percent, so that they fit any width, can be searched by the
//! browser, and need no script. A script only makes them clickable.

use crate::escape::html;
use crate::profile::folded::By;
use crate::profile::number::grouped;
use crate::profile::sites::{Stacks, place};
use reheap_bench::figures::{bytes, percent};
use reheap_profile::profile::Frame;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A box narrower than this part of the graph is left out.
const NARROWEST: f64 = 0.0005;
/// Functions deeper than this are left out.
const DEEPEST: usize = 80;
/// What is left when a graph's boxes take this many bytes is left out. A page has two graphs.
const BYTES_MAX: usize = 2_000_000;
/// Names in boxes narrower than this could not be read.
const NAMED: f64 = 0.02;
/// Longer names are cut.
const LETTERS_MAX: usize = 160;
/// The height of a box with the gap below it, in pixels.
const ROW: usize = 19;
/// So many colours are in the style sheet.
const COLOURS: u32 = 6;

/// A graph, ready for the page.
pub(crate) struct Flame {
    pub(crate) title: &'static str,
    /// What all of it is.
    pub(crate) said: String,
    pub(crate) height: usize,
    /// The boxes as HTML.
    pub(crate) boxes: String,
}

/// A function that was called from its parent, and all that was allocated below.
struct Node<'a> {
    frame: Option<&'a Frame>,
    figure: f64,
    children: BTreeMap<(&'a str, Option<&'a str>), usize>,
}

impl Flame {
    /// None if nothing was allocated.
    pub(crate) fn of(stacks: &Stacks<'_>, by: By) -> Option<Flame> {
        let nodes = tree(stacks, by);
        let all = nodes[0].figure;
        if !(all > 0.0 && all.is_finite()) {
            return None;
        }
        let mut graph = Graph {
            nodes: &nodes,
            by,
            all,
            boxes: String::new(),
            left_out: 0,
            rows: 0,
        };
        graph.draw();
        let left_out = match graph.left_out {
            0 => String::new(),
            1 => " One function, with what it called, is left out: its box would be too narrow or too deep.".to_owned(),
            count => format!(
                " {} functions, with what they called, are left out: their boxes would be too narrow or too deep.",
                grouped(count)
            ),
        };
        Some(Flame {
            title: match by {
                By::Bytes => "By bytes",
                By::Blocks => "By blocks",
            },
            said: format!("About {} in all.{left_out}", said(by, all)),
            height: graph.rows * ROW,
            boxes: graph.boxes,
        })
    }
}

fn said(by: By, figure: f64) -> String {
    match by {
        By::Bytes => bytes(figure),
        By::Blocks => crate::profile::histogram::blocks(figure.round() as u64),
    }
}

/// The stacks, merged from the outermost function on; the first node is above all of them.
fn tree<'a>(stacks: &Stacks<'a>, by: By) -> Vec<Node<'a>> {
    let node = |frame| Node {
        frame,
        figure: 0.0,
        children: BTreeMap::new(),
    };
    let mut nodes = vec![node(None)];
    for stack in &stacks.stacks {
        let figure = by.of(stack);
        nodes[0].figure += figure;
        let mut at = 0;
        for place in stack.frames.iter().rev() {
            let frame = stacks.frame(*place);
            let key = (frame.function.as_str(), frame.module.as_deref());
            let next = nodes.len();
            at = *nodes[at].children.entry(key).or_insert(next);
            if at == next {
                nodes.push(node(Some(frame)));
            }
            nodes[at].figure += figure;
        }
    }
    nodes
}

/// A graph while it is drawn.
struct Graph<'n, 'a> {
    nodes: &'n [Node<'a>],
    by: By,
    all: f64,
    boxes: String,
    left_out: u64,
    rows: usize,
}

impl Graph<'_, '_> {
    /// Row by row, so that what is left out for want of room is the deepest.
    fn draw(&mut self) {
        let mut row = vec![(0, 0.0)];
        let mut depth = 0;
        while !row.is_empty() {
            let mut next = Vec::new();
            for (at, left) in row {
                let width = self.nodes[at].figure / self.all;
                if width < NARROWEST || depth >= DEEPEST || self.boxes.len() >= BYTES_MAX {
                    self.left_out += 1;
                    continue;
                }
                self.draw_box(at, left, depth);
                let mut children: Vec<usize> = self.nodes[at].children.values().copied().collect();
                children.sort_by(|one, other| {
                    let figure = |at: &usize| self.nodes[*at].figure;
                    figure(other).total_cmp(&figure(one))
                });
                let mut left = left;
                for child in children {
                    next.push((child, left));
                    left += self.nodes[child].figure / self.all;
                }
            }
            row = next;
            depth += 1;
        }
    }

    fn draw_box(&mut self, at: usize, left: f64, depth: usize) {
        let node = &self.nodes[at];
        let width = node.figure / self.all;
        let (name, below, colour) = match node.frame {
            None => ("all".to_owned(), String::new(), "root".to_owned()),
            Some(frame) => {
                let below = place(frame).map_or_else(String::new, |place| format!("\n{place}"));
                let colour = format!("f{}", colour(frame));
                (cut(&frame.function), cut(&below), colour)
            }
        };
        let text = if width >= NAMED {
            html(&name)
        } else {
            String::new()
        };
        let figure = said(self.by, node.figure);
        // The line break is the attribute's own: `html` would show it as a picture.
        let title = format!(
            "{}&#10;{}&#10;{}, {}",
            html(&name),
            html(below.trim_start_matches('\n')),
            html(&figure),
            html(&percent(width))
        )
        .replace("&#10;&#10;", "&#10;");
        writeln!(
            self.boxes,
            r#"<div class="{colour}" style="left:{:.3}%;width:{:.3}%;top:{}px" title="{title}">{text}</div>"#,
            left * 100.0,
            width * 100.0,
            depth * ROW,
        )
        .expect("a string takes all");
        self.rows = self.rows.max(depth + 1);
    }
}

/// The colour of a box. All functions of one crate or namespace have the same.
fn colour(frame: &Frame) -> u32 {
    let name = frame.function.trim_start_matches('<');
    let part = name.split("::").next().unwrap_or(name);
    let sum = part.bytes().fold(0u32, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u32::from(byte))
    });
    sum % COLOURS
}

fn cut(name: &str) -> String {
    match name.char_indices().nth(LETTERS_MAX) {
        None => name.to_owned(),
        Some((end, _)) => format!("{}…", &name[..end]),
    }
}
